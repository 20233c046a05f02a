/** Java's client: every task of the matrix. Compiles with kafka-clients 2.8 and every later release. */

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class ClientTasks {
    private static final int LIMIT_S = 40;
    private static String config;

    private interface Task {
        void run() throws Exception;
    }

    /** A value of the flat parts of the configuration: text or a number. */
    private static String value(String name) {
        Matcher found = Pattern.compile("\"" + name + "\": (?:\"([^\"]*)\"|(-?[0-9]+))").matcher(config);
        if (!found.find()) throw new IllegalArgumentException(name);
        return found.group(1) != null ? found.group(1) : found.group(2);
    }

    private static Properties properties(String servers) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", value(servers));
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("default.api.timeout.ms", "40000");
        return properties;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void produce(Properties properties, String topic, String codec, int count) throws Exception {
        properties.put("compression.type", codec);
        properties.put("linger.ms", "20");
        properties.put("max.block.ms", "20000");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            List<Future<?>> sent = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, 0, bytes("k" + i), bytes("" + i));
                record.headers().add("h", bytes("v"));
                sent.add(producer.send(record));
            }
            for (Future<?> future : sent) future.get(LIMIT_S, TimeUnit.SECONDS);
        }
    }

    private static List<ConsumerRecord<byte[], byte[]>> consume(String topic, int count, String group) {
        Properties properties = properties("plain");
        properties.put("group.id", group);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        List<ConsumerRecord<byte[], byte[]>> taken = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(Collections.singletonList(topic));
            long until = System.nanoTime() + LIMIT_S * 1_000_000_000L;
            while (taken.size() < count && System.nanoTime() < until) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) taken.add(record);
            }
            check(taken.size() == count, taken.size() + " of " + count + " records");
            consumer.commitSync();
        }
        return taken;
    }

    private static void check(boolean holds, String otherwise) {
        if (!holds) throw new IllegalStateException(otherwise);
    }

    private static void transaction(String prefix) throws Exception {
        Properties properties = properties("plain");
        properties.put("transactional.id", prefix + "-x");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            producer.initTransactions();
            for (int i = 0; i < 3; i++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(prefix + "-transaction", bytes("" + i))).get(LIMIT_S, TimeUnit.SECONDS);
                if (i == 1) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
    }

    private static void login(String prefix, String servers, String protocol, String mechanism) throws Exception {
        Properties properties = properties(servers);
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        properties.put("security.protocol", protocol);
        properties.put("sasl.mechanism", mechanism);
        properties.put("sasl.jaas.config", "org.apache.kafka.common.security." + module + " required username=\""
                + value("user") + "\" password=\"" + value("password") + "\";");
        if (protocol.equals("SASL_SSL")) {
            properties.put("ssl.truststore.type", "PEM");
            properties.put("ssl.truststore.location", value("ca"));
        }
        produce(properties, prefix + "-login", "none", 1);
    }

    private static void topics(Admin admin, String prefix) throws Exception {
        String made = prefix + "-made", gone = prefix + "-gone";
        admin.createTopics(List.of(new NewTopic(made, 3, (short) 1), new NewTopic(gone, 1, (short) 1))).all().get();
        Collection<String> names = admin.listTopics().names().get();
        check(names.contains(made) && names.contains(gone), "topics: " + names);
        admin.createPartitions(Map.of(made, NewPartitions.increaseTo(4))).all().get();
        admin.deleteTopics(List.of(gone)).all().get();
    }

    private static void configs(Admin admin, String prefix) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, prefix + "-none");
        ConfigEntry entry = new ConfigEntry("retention.ms", "123456789");
        admin.incrementalAlterConfigs(Map.of(topic, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all().get();
        String kept = admin.describeConfigs(List.of(topic)).all().get().get(topic).get("retention.ms").value();
        check(kept.equals("123456789"), "retention.ms=" + kept);
    }

    private static void groups(Admin admin, String prefix) throws Exception {
        String group = prefix + "-g";
        check(admin.listConsumerGroups().all().get().stream().anyMatch(each -> each.groupId().equals(group)), "list");
        check(admin.describeConsumerGroups(List.of(group)).all().get().containsKey(group), "describe");
        admin.deleteConsumerGroups(List.of(prefix + "-lat")).all().get();
    }

    private static void times(String prefix) {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties("plain"))) {
            TopicPartition place = new TopicPartition(prefix + "-group", 0);
            Map<TopicPartition, Long> asked = new HashMap<>();
            asked.put(place, Long.parseLong(value("base_ms")) + 10_000);
            long offset = consumer.offsetsForTimes(asked).get(place).offset();
            check(offset == 5, "offset " + offset);
        }
    }

    private static void attempt(String name, Task task) {
        String outcome = "ok\t";
        try {
            task.run();
        } catch (Throwable error) {
            error.printStackTrace();
            outcome = "failed\t" + String.valueOf(error).replaceAll("[\\n\\t]", " ");
        }
        System.out.println(name + "\t" + outcome);
    }

    public static void main(String[] arguments) {
        config = arguments[0];
        String prefix = value("prefix");
        int count = Integer.parseInt(value("count"));
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            attempt(codec, () -> produce(properties("plain"), prefix + "-" + codec, codec, count));
        }
        attempt("log_append_time", () -> {
            produce(properties("plain"), prefix + "-log_append_time", "none", count);
            for (ConsumerRecord<byte[], byte[]> record : consume(prefix + "-log_append_time", count, prefix + "-lat")) {
                check(record.timestampType() == TimestampType.LOG_APPEND_TIME, record.toString());
            }
        });
        attempt("group", () -> consume(prefix + "-group", 40, prefix + "-g"));
        attempt("transaction", () -> transaction(prefix));
        attempt("plain", () -> login(prefix, "sasl", "SASL_PLAINTEXT", "PLAIN"));
        attempt("scram", () -> login(prefix, "sasl", "SASL_PLAINTEXT", "SCRAM-SHA-256"));
        attempt("plain_tls", () -> login(prefix, "sasl_tls", "SASL_SSL", "PLAIN"));
        attempt("scram_tls", () -> login(prefix, "sasl_tls", "SASL_SSL", "SCRAM-SHA-512"));
        try (Admin admin = Admin.create(properties("plain"))) {
            attempt("topics", () -> topics(admin, prefix));
            attempt("configs", () -> configs(admin, prefix));
            attempt("groups", () -> groups(admin, prefix));
        }
        attempt("times", () -> times(prefix));
        System.exit(0);
    }
}
