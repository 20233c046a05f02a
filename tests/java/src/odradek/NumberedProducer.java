package odradek;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes numbered records (tests/support/clients/numbered.py) by Java's producer at its defaults, and prints what it was told.
 *
 * <pre>
 * NumberedProducer SERVERS TOPIC NAME PARTITIONS RECORDS SECONDS SIZE RECORDS_PER_S OUTSTANDING [property=value ...]
 * sent PARTITION COUNT            a line a partition
 * refused PARTITION SEQUENCE WHY  a line a record whose future failed
 * fatal WHY                       send itself failed: the producer can do no more
 * </pre>
 *
 * <p>OUTSTANDING is how many records may be without an answer; 0: as many as the producer's buffer holds.
 */
public final class NumberedProducer {
    private final List<String> refused = new ArrayList<>();
    private Semaphore room;

    public static void main(String[] args) {
        new NumberedProducer().run(args);
    }

    private void run(String[] args) {
        String topic = args[1];
        String name = args[2];
        int partitions = Integer.parseInt(args[3]);
        long records = Long.parseLong(args[4]);
        long endNanos = System.nanoTime() + (long) (Double.parseDouble(args[5]) * 1e9);
        int size = Integer.parseInt(args[6]);
        double perSecond = Double.parseDouble(args[7]);
        int outstanding = Integer.parseInt(args[8]);
        room = new Semaphore(outstanding > 0 ? outstanding : Integer.MAX_VALUE);
        long[] counts = new long[partitions];
        long beganNanos = System.nanoTime();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config(args))) {
            for (long number = 0; number < records && System.nanoTime() < endNanos; number++) {
                if (perSecond > 0) {
                    sleepUntil(beganNanos + (long) (number / perSecond * 1e9));
                }
                room.acquireUninterruptibly();
                int partition = (int) (number % partitions);
                send(producer, topic, partition, counts[partition]++, value(name, partition, counts[partition] - 1, size));
            }
        } catch (KafkaException error) {
            System.out.println("fatal " + oneLine(error));
        }
        for (int partition = 0; partition < partitions; partition++) {
            System.out.println("sent " + partition + " " + counts[partition]);
        }
        refused.forEach(System.out::println);
    }

    private void send(KafkaProducer<byte[], byte[]> producer, String topic, int partition, long sequence, byte[] value) {
        producer.send(
            new ProducerRecord<>(topic, partition, null, value),
            (metadata, error) -> {
                room.release();
                if (error != null) {
                    synchronized (refused) {
                        refused.add("refused " + partition + " " + sequence + " " + oneLine(error));
                    }
                }
            });
    }

    private static byte[] value(String name, int partition, long sequence, int size) {
        byte[] head = (name + ":" + partition + ":" + sequence + ":").getBytes(StandardCharsets.US_ASCII);
        byte[] value = Arrays.copyOf(head, Math.max(size, head.length));
        Arrays.fill(value, head.length, value.length, (byte) '.');
        return value;
    }

    private static Map<String, Object> config(String[] args) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", args[0]);
        config.put("key.serializer", ByteArraySerializer.class);
        config.put("value.serializer", ByteArraySerializer.class);
        for (String property : Arrays.asList(args).subList(9, args.length)) {
            config.put(property.substring(0, property.indexOf('=')), property.substring(property.indexOf('=') + 1));
        }
        return config;
    }

    private static void sleepUntil(long nanos) {
        long left = nanos - System.nanoTime();
        if (left > 0) {
            java.util.concurrent.locks.LockSupport.parkNanos(left);
        }
    }

    private static String oneLine(Throwable error) {
        return error.toString().replace('\n', ' ');
    }
}
