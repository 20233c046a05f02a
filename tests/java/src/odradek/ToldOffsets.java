package odradek;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes a record in a transaction, has another producer append before the commit, aborts where the commit is refused,
 * and repeats it undisturbed.
 *
 * <p>ToldOffsets SERVERS TOPIC; prints the offset that each record is told, and how each commit ends.
 */
public final class ToldOffsets {
    public static void main(String[] args) throws Exception {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", args[0],
            "key.serializer", StringSerializer.class, "value.serializer", StringSerializer.class));
        try (KafkaProducer<String, String> other = new KafkaProducer<>(config)) {
            config.put("transactional.id", "told");
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
                producer.initTransactions();
                for (String value : new String[] {"refused", "kept"}) {
                    producer.beginTransaction();
                    System.out.println("told " + producer.send(new ProducerRecord<>(args[1], value)).get().offset());
                    if (value.equals("refused")) {
                        other.send(new ProducerRecord<>(args[1], "of another")).get();
                    }
                    try {
                        producer.commitTransaction();
                        System.out.println("committed");
                    } catch (KafkaException refused) {
                        System.out.println(refused.getClass().getSimpleName());
                        producer.abortTransaction();
                    }
                }
            }
        }
    }
}
