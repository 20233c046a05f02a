package odradek;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Applies Kafka's own transforms, predicates and header converters: one case a line of JSON in, its outcome a line of JSON out. */
public final class TransformReference {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonConverter CONVERTER = new JsonConverter();

    public static void main(String[] arguments) throws Exception {
        java.util.TimeZone.setDefault(java.util.TimeZone.getTimeZone("UTC"));
        CONVERTER.configure(Map.of("schemas.enable", "true"), false);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        java.io.PrintStream out = new java.io.PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(outcome(JSON.readTree(line))));
        }
    }

    private static ConfigDef definitions(String name) throws Exception {
        Object plugin = Class.forName(name).getDeclaredConstructor().newInstance();
        return plugin instanceof Predicate ? ((Predicate<?>) plugin).config() : ((Transformation<?>) plugin).config();
    }

    private static JsonNode header(JsonNode given, ObjectNode result) throws Exception {
        HeaderConverter converter = (HeaderConverter) Class.forName(given.get("class").asText())
            .getDeclaredConstructor().newInstance();
        converter.configure(Map.of("converter.type", "header"));
        JsonNode data = given.get("header");
        try {
            SchemaAndValue read = converter.toConnectHeader("t", "h", data.isNull() ? null : data.binaryValue());
            result.set("value", write(read.schema(), read.value()));
            byte[] written = converter.fromConnectHeader("t", "h", read.schema(), read.value());
            return result.put("header", written);
        } catch (Exception error) {
            return result.put("refused", "record");
        }
    }

    private static JsonNode outcome(JsonNode given) throws Exception {
        ObjectNode result = JSON.createObjectNode();
        if (given.has("header")) {
            return header(given, result);
        }
        if (given.has("options")) {
            ArrayNode options = result.putArray("options");
            new java.util.TreeSet<>(definitions(given.get("class").asText()).names()).forEach(options::add);
            return result;
        }
        Map<String, String> configs = new HashMap<>();
        given.get("configs").fields().forEachRemaining(each -> configs.put(each.getKey(), each.getValue().asText()));
        Object plugin;
        try {
            plugin = Class.forName(given.get("class").asText()).getDeclaredConstructor().newInstance();
            ((org.apache.kafka.common.Configurable) plugin).configure(configs);
        } catch (Exception error) {
            return result.put("refused", "configuration");
        }
        try {
            SinkRecord record = record(given.get("record"));
            if (plugin instanceof Predicate) {
                @SuppressWarnings("unchecked")
                Predicate<SinkRecord> predicate = (Predicate<SinkRecord>) plugin;
                return result.put("test", predicate.test(record));
            }
            @SuppressWarnings("unchecked")
            Transformation<SinkRecord> transformation = (Transformation<SinkRecord>) plugin;
            SinkRecord changed = transformation.apply(record);
            return changed == null ? result.put("dropped", true) : json(changed);
        } catch (Exception error) {
            return result.put("refused", "record");
        }
    }

    private static SchemaAndValue read(JsonNode envelope) throws Exception {
        return envelope == null || envelope.isNull()
            ? SchemaAndValue.NULL : CONVERTER.toConnectData("t", JSON.writeValueAsBytes(envelope));
    }

    private static SinkRecord record(JsonNode given) throws Exception {
        SchemaAndValue key = read(given.get("key"));
        SchemaAndValue value = read(given.get("value"));
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode each : given.get("headers")) {
            headers.add(each.get("key").asText(), read(each.get("value")));
        }
        JsonNode timestamp = given.get("timestamp");
        return new SinkRecord(
            given.get("topic").asText(), given.get("partition").asInt(), key.schema(), key.value(), value.schema(),
            value.value(), given.get("offset").asLong(), timestamp.isNull() ? null : timestamp.asLong(),
            TimestampType.CREATE_TIME, headers);
    }

    private static JsonNode write(org.apache.kafka.connect.data.Schema schema, Object value) throws Exception {
        byte[] bytes = CONVERTER.fromConnectData("t", schema, value);
        return bytes == null ? null : JSON.readTree(bytes);
    }

    private static ObjectNode json(SinkRecord record) throws Exception {
        ObjectNode made = JSON.createObjectNode();
        made.put("topic", record.topic());
        made.set("key", write(record.keySchema(), record.key()));
        made.set("value", write(record.valueSchema(), record.value()));
        made.put("timestamp", record.timestamp());
        ArrayNode headers = made.putArray("headers");
        for (Header each : record.headers()) {
            ObjectNode header = headers.addObject().put("key", each.key());
            header.set("value", write(each.schema(), each.value()));
        }
        return made;
    }
}
