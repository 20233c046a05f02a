import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import software.amazon.event.ruler.Machine;

/** Reads [pattern, event] a line; prints true, false, or null where the pattern is refused. */
public class Matcher {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode pair = mapper.readTree(line);
            System.out.println(answer(pair.get(0).asText(), pair.get(1).asText()));
        }
    }

    private static String answer(String pattern, String event) {
        Machine machine = new Machine();
        try {
            machine.addRule("rule", pattern);
        } catch (Exception error) {
            return "null";
        }
        try {
            return String.valueOf(!machine.rulesForJSONEvent(event).isEmpty());
        } catch (Exception error) {
            return "null";
        }
    }
}
