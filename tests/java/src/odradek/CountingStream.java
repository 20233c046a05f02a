package odradek;

import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the records of each key under exactly_once_v2: of n records of a key, the output has 1 to n, each once.
 *
 * <p>CountingStream SERVERS APPLICATION_ID INPUT OUTPUT STATE_DIR OFFSETS; prints "running" when it first is. State is in
 * memory and restored from the changelog, so each kill asks for all of it. OFFSETS is the changelog's
 * transaction.offsets. A key names its partition, in the input and in the output, so each partition of the output has
 * one task as its writer.
 */
public final class CountingStream {
    public static void main(String[] args) throws InterruptedException {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(args[2])
            .groupByKey()
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()).withCachingDisabled())
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(args[3], Produced.streamPartitioner((topic, key, value, partitions) ->
                Optional.of(Set.of(Integer.parseInt(key.split("-")[0])))));
        KafkaStreams streams = new KafkaStreams(builder.build(), config(args));
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
        dead.await();
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
        // A killed instance is missed, and its open transaction ended, within seconds.
        config.put("consumer.session.timeout.ms", "6000");
        config.put("consumer.heartbeat.interval.ms", "1000");
        config.put("producer.transaction.timeout.ms", "5000");
        config.put("topic.transaction.offsets", args[5]);
        return config;
    }
}
