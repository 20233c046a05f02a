package odradek;

import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * Processes the records of a topic under exactly_once_v2 with the defaults of Kafka Streams, then ends.
 *
 * <p>StreamsThroughput SERVERS APPLICATION_ID (passed|windows|final|sessions|join|near) INPUT OTHER OUTPUT STATE_DIR
 * COUNT: passes records on, counts by key and minute, at once or when the minute is over, or by session, joins the table
 * OTHER, or joins the stream OTHER within ten seconds. Prints "running", and "done" when COUNT records are processed and
 * committed.
 */
public final class StreamsThroughput {
    public static void main(String[] args) throws InterruptedException {
        long wanted = Long.parseLong(args[7]);
        AtomicLong seen = new AtomicLong();
        CountDownLatch all = new CountDownLatch(1);
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> input = builder.stream(args[3]);
        KStream<String, String> result;
        if (args[2].equals("passed")) {
            result = input;
        } else if (args[2].equals("windows")) {
            result = input.groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofDays(1)))
                .count()
                .toStream((window, count) -> window.key() + "@" + window.window().start())
                .mapValues(count -> Long.toString(count));
        } else if (args[2].equals("final")) {
            result = input.groupByKey()
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1)))
                .count()
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
                .toStream((window, count) -> window.key() + "@" + window.window().start())
                .mapValues(count -> Long.toString(count));
        } else if (args[2].equals("sessions")) {
            result = input.groupByKey()
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(30), Duration.ofDays(1)))
                .count()
                .toStream((window, count) -> window.key() + "@" + window.window().start())
                .mapValues(count -> count == null ? null : Long.toString(count));
        } else if (args[2].equals("near")) {
            KStream<String, String> other = builder.stream(args[4]);
            JoinWindows near = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofDays(1));
            result = input.join(other, (one, two) -> one + two, near);
            other.foreach((key, value) -> counted(seen, wanted, all));
        } else {
            result = input.leftJoin(builder.<String, String>table(args[4]), (value, row) -> value + row);
        }
        result.to(args[5]);
        input.foreach((key, value) -> counted(seen, wanted, all));
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("application.id", args[1]);
        config.put("state.dir", args[6]);
        config.put("processing.guarantee", "exactly_once_v2");
        config.put("num.stream.threads", "2");
        config.put("default.key.serde", Serdes.StringSerde.class);
        config.put("default.value.serde", Serdes.StringSerde.class);
        config.put("consumer.auto.offset.reset", "earliest");
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                System.out.println("running");
            }
        });
        streams.start();
        all.await();
        streams.close();
        System.out.println("done");
    }

    private static void counted(AtomicLong seen, long wanted, CountDownLatch all) {
        if (seen.incrementAndGet() == wanted) {
            all.countDown();
        }
    }
}
