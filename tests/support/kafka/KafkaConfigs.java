// Prints Apache Kafka's configurations of topics, groups and brokers as JSON: the types, and of topics and groups also the
// defaults and which of some values Kafka takes. The result is tests/golden/kafka_configs.json. To make it again for a
// later Kafka, with a JDK 17 and the jars of org.apache.kafka:kafka_2.13 (mvn dependency:copy-dependencies):
//
//     java -cp 'jars/*' tests/support/kafka/KafkaConfigs.java 4.4.0 > tests/golden/kafka_configs.json

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;

public class KafkaConfigs {
    private static final String[] NUMBERS = {
        "-9223372036854775808", "-131073", "-131072", "-3", "-2", "-1", "0", "1", "2", "3", "4", "5", "9", "10", "17", "18", "22",
        "23", "99", "100", "999", "1000", "1048575", "1048576", "2147483639", "2147483640", "2147483647", "2147483648",
        "9223372036854775807", "9223372036854775808", " 1048576 ", "1_048_576", "1048576.0", "x", ""
    };
    private static final String[] RATIOS = {"-0.1", "0", "0.0", "0.25", "1", "1.0", "1.1", "1e-1", " 0.5 ", "x", ""};
    private static final String[] FLAGS = {"true", "false", "TRUE", " false ", "1", "yes", ""};
    private static final String[] TEXTS = {
        "", "x", "compact", "delete", "compact,delete", "compact, delete", "delete,delete", "shred", "none", "producer",
        "uncompressed", "gzip", "snappy", "lz4", "zstd", "ZSTD", "rar", "CreateTime", "LogAppendTime", "createtime", "*", "**", "0:1",
        "0:1,1:2", "0:1, 1:2", "0", "latest", "earliest", "LATEST", "by_duration:PT1H", "by_duration:P1DT1H1M1S",
        "by_duration:PT0.5S", "by_duration:-PT1H", "by_duration:", "by_duration:1h", "read_committed", "read_uncommitted", "serializable"
    };

    public static void main(String[] arguments) throws Exception {
        Map<String, ConfigDef> definitions = new TreeMap<>();
        definitions.put("topic", org.apache.kafka.storage.internals.log.LogConfig.configDefCopy());
        definitions.put("group", org.apache.kafka.coordinator.group.GroupConfig.CONFIG_DEF);
        definitions.put("broker", org.apache.kafka.server.config.AbstractKafkaConfig.CONFIG_DEF);
        StringBuilder out = new StringBuilder("{\n\"version\": " + quoted(arguments[0]));
        for (Map.Entry<String, ConfigDef> kind : definitions.entrySet()) {
            List<String> lines = new ArrayList<>();
            for (Map.Entry<String, ConfigDef.ConfigKey> each : new TreeMap<>(kind.getValue().configKeys()).entrySet()) {
                lines.add(quoted(each.getKey()) + ": " + described(each.getValue(), kind.getKey().equals("broker")));
            }
            out.append(",\n").append(quoted(kind.getKey())).append(": {\n").append(String.join(",\n", lines)).append("\n}");
        }
        System.out.println(out.append("\n}"));
    }

    private static String described(ConfigDef.ConfigKey key, boolean isBrief) {
        String described = "{\"type\": " + quoted(key.type.name());
        if (key.internalConfig) {
            described += ", \"internal\": true";
        }
        if (!isBrief) {
            Object value = key.defaultValue;
            boolean isNull = value == ConfigDef.NO_DEFAULT_VALUE || value == null;
            described += ", \"default\": " + (isNull ? "null" : quoted(ConfigDef.convertToString(value, key.type)));
            List<String> taken = new ArrayList<>();
            List<String> refused = new ArrayList<>();
            for (String probe : probes(key)) {
                (takes(key, probe) ? taken : refused).add(quoted(probe));
            }
            described += ",\n  \"takes\": [" + String.join(", ", taken) + "],\n  \"refuses\": [" + String.join(", ", refused) + "]";
        }
        return described + "}";
    }

    private static String[] probes(ConfigDef.ConfigKey key) {
        return switch (key.type) {
            case INT, LONG, SHORT -> NUMBERS;
            case DOUBLE -> RATIOS;
            case BOOLEAN -> FLAGS;
            default -> TEXTS;
        };
    }

    private static boolean takes(ConfigDef.ConfigKey key, String text) {
        try {
            Object value = ConfigDef.parseType(key.name, text, key.type);
            if (key.validator != null) {
                key.validator.ensureValid(key.name, value);
            }
            return true;
        } catch (ConfigException error) {
            return false;
        }
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + '"';
    }
}
