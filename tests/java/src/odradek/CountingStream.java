package odradek;

import java.util.Arrays;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the records of each key under exactly_once_v2: of n records of a key, the output has 1 to n, each once.
 *
 * <p>CountingStream SERVERS APPLICATION_ID INPUT OUTPUT STATE_DIR OFFSETS [NAME=VALUE ...]; prints the names of its
 * states, and with application.server the hosts of the application. State is in memory and restored from the changelog,
 * so each kill asks for all of it. OFFSETS is the changelog's transaction.offsets. A key names its partition, in the input
 * and in the output, so each partition of the output has one task as its writer. With group.protocol=streams the records
 * are counted by another key, with an "x" behind the first, so that they pass through a repartition topic.
 */
public final class CountingStream {
    public static void main(String[] args) throws InterruptedException {
        Properties config = config(args);
        boolean isStreamsGroup = "streams".equals(config.get("group.protocol"));
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> input = builder.stream(args[2]);
        (isStreamsGroup ? input.selectKey((key, value) -> key + "x") : input)
            .groupByKey()
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()).withCachingDisabled())
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(args[3], Produced.streamPartitioner((topic, key, value, partitions) ->
                Optional.of(Set.of(Integer.parseInt(key.split("-")[0])))));
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        CountDownLatch dead = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            System.out.println(now.name().toLowerCase(java.util.Locale.ROOT));
            if (now == KafkaStreams.State.ERROR || now == KafkaStreams.State.NOT_RUNNING) {
                dead.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        if (config.containsKey("application.server")) {
            Thread hosts = new Thread(() -> printHosts(streams), "hosts");
            hosts.setDaemon(true);
            hosts.start();
        }
        dead.await();
    }

    /** Prints "hosts" and the addresses at which the application's state is, whenever they change. */
    private static void printHosts(KafkaStreams streams) {
        String last = "";
        try {
            while (true) {
                String now = streams.metadataForAllStreamsClients().stream()
                    .map(each -> each.host() + ":" + each.port())
                    .sorted()
                    .collect(Collectors.joining(" "));
                if (!now.equals(last)) {
                    System.out.println("hosts " + now);
                    last = now;
                }
                Thread.sleep(200);
            }
        } catch (IllegalStateException | InterruptedException closing) {
            System.out.println("hosts");
        }
    }

    private static Properties config(String[] args) {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("application.id", args[1]);
        config.put("state.dir", args[4]);
        config.put("processing.guarantee", "exactly_once_v2");
        config.put("default.key.serde", Serdes.StringSerde.class);
        config.put("default.value.serde", Serdes.StringSerde.class);
        config.put("num.stream.threads", "2");
        config.put("consumer.auto.offset.reset", "earliest");
        config.put("producer.transaction.timeout.ms", "5000");
        config.put("topic.transaction.offsets", args[5]);
        for (String pair : Arrays.asList(args).subList(6, args.length)) {
            String[] parts = pair.split("=", 2);
            config.put(parts[0], parts[1]);
        }
        if (!config.containsKey("group.protocol")) { // a streams group has its timeouts from the service
            // A killed instance is missed, and its open transaction ended, within seconds.
            config.put("consumer.session.timeout.ms", "6000");
            config.put("consumer.heartbeat.interval.ms", "1000");
        }
        return config;
    }
}
