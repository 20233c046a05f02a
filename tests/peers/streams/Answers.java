import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Reads a case, "= topology", and its records, "topic key value milliseconds header", with tabs between and "\" for
 * null; prints "=", and what is in r: the key in base64, value, milliseconds, header.
 */
public final class Answers {
    private static final String NULL = "\\";

    private Answers() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String topology = null;
        List<String[]> records = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.startsWith("= ")) {
                answer(topology, records, out);
                topology = line.substring(2);
                records.clear();
            } else {
                records.add(line.split("\t", -1));
            }
        }
        answer(topology, records, out);
        out.flush();
    }

    private static void answer(String topology, List<String[]> records, PrintStream out) throws Exception {
        if (topology == null) {
            return;
        }
        StreamsBuilder builder = new StreamsBuilder();
        Topologies.build(topology, builder);
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "answers");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:0");
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG,
                org.apache.kafka.streams.state.BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("answers").toString());
        properties.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 0L);
        properties.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), properties, Instant.EPOCH)) {
            StringSerializer text = new StringSerializer();
            for (String[] record : records) {
                RecordHeaders headers = new RecordHeaders();
                headers.add("from", record[4].getBytes(StandardCharsets.UTF_8));
                driver.createInputTopic(record[0], text, text).pipeInput(new TestRecord<>(
                        unescaped(record[1]), unescaped(record[2]), headers, Long.parseLong(record[3])));
            }
            out.println("=");
            TestOutputTopic<byte[], String> results =
                    driver.createOutputTopic("r", new ByteArrayDeserializer(), new StringDeserializer());
            for (TestRecord<byte[], String> result : results.readRecordsToList()) {
                String key = result.key() == null ? NULL : Base64.getEncoder().encodeToString(result.key());
                Header header = result.headers().lastHeader("from");
                String from = header == null ? NULL : new String(header.value(), StandardCharsets.UTF_8);
                String value = result.value() == null ? NULL : result.value();
                out.println(String.join("\t", key, value, String.valueOf(result.timestamp()), from));
            }
        }
    }

    private static String unescaped(String field) {
        return field.equals(NULL) ? null : field;
    }
}
