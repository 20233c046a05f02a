package odradek;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * A source of numbered records (tests/support/clients/numbered.py): each task fills one partition of a topic, from where the
 * offset that was committed with its records says, so that a record is lost or doubled where the two are torn apart.
 *
 * <p>Configuration: topic, producer (its name), records (a task), poll.records, poll.ms; tasks.max is how many partitions.
 */
public final class NumberedSource extends SourceConnector {
    private Map<String, String> config;

    @Override
    public void start(Map<String, String> props) {
        config = props;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return NumberedTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        List<Map<String, String>> tasks = new ArrayList<>();
        for (int partition = 0; partition < maxTasks; partition++) {
            Map<String, String> task = new HashMap<>(config);
            task.put("partition", Integer.toString(partition));
            tasks.add(task);
        }
        return tasks;
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "where to")
            .define("producer", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "the name in the records")
            .define("records", ConfigDef.Type.LONG, ConfigDef.Importance.HIGH, "of each task")
            .define("poll.records", ConfigDef.Type.INT, 20, ConfigDef.Importance.LOW, "of each poll")
            .define("poll.ms", ConfigDef.Type.INT, 50, ConfigDef.Importance.LOW, "between two polls");
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> props) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public String version() {
        return "1";
    }

    /** One partition's records. */
    public static final class NumberedTask extends SourceTask {
        private Map<String, String> config;
        private int partition;
        private long next;

        @Override
        public void start(Map<String, String> props) {
            config = props;
            partition = Integer.parseInt(props.get("partition"));
            Map<String, Object> committed = context.offsetStorageReader().offset(source());
            next = committed == null ? 0 : ((Number) committed.get("next")).longValue();
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(Integer.parseInt(config.getOrDefault("poll.ms", "50")));
            List<SourceRecord> records = new ArrayList<>();
            long count = Long.parseLong(config.get("records"));
            for (int i = Integer.parseInt(config.getOrDefault("poll.records", "20")); i > 0 && next < count; i--) {
                byte[] value = (config.get("producer") + ":" + partition + ":" + next++ + ":").getBytes(StandardCharsets.US_ASCII);
                records.add(new SourceRecord(source(), Map.of("next", next), config.get("topic"), partition, null, null, Schema.BYTES_SCHEMA, value));
            }
            return records.isEmpty() ? null : records;
        }

        private Map<String, Object> source() {
            return Map.of("partition", partition);
        }

        @Override
        public void stop() {
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
