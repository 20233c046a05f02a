package odradek.ksqldb;

import io.confluent.ksql.api.client.AcksPublisher;
import io.confluent.ksql.api.client.Client;
import io.confluent.ksql.api.client.ClientOptions;
import io.confluent.ksql.api.client.InsertAck;
import io.confluent.ksql.api.client.InsertsPublisher;
import io.confluent.ksql.api.client.KsqlArray;
import io.confluent.ksql.api.client.KsqlObject;
import io.confluent.ksql.api.client.Row;
import io.confluent.ksql.api.client.StreamedQueryResult;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.reactivestreams.Subscriber;
import org.reactivestreams.Subscription;

/**
 * Calls every method of ksqlDB's client, and prints a line for each: its name, a tab, what it returned or how it failed.
 *
 * <p>Arguments: host and port of the server; a folder with a file lines.txt for a connector.
 */
public final class ClientTour {
    private static final Map<String, Object> EARLIEST = Map.of("auto.offset.reset", "earliest");
    private static final int WAIT_S = 60;

    private interface Step {
        Object run() throws Exception;
    }

    private final Client client;
    private final String folder;

    private ClientTour(Client client, String folder) {
        this.client = client;
        this.folder = folder;
    }

    public static void main(String[] args) {
        ClientOptions options = ClientOptions.create().setHost(args[0]).setPort(Integer.parseInt(args[1]));
        try (Client client = Client.create(options)) {
            ClientTour tour = new ClientTour(client, args[2]);
            tour.statements();
            tour.rows();
            tour.queries();
            tour.lists();
            tour.assertions();
            tour.connectors();
            tour.requests();
            tour.ends();
        }
        System.exit(0);
    }

    private static void step(String name, Step step) {
        String shown;
        try {
            shown = String.valueOf(step.run());
        } catch (ExecutionException error) {
            shown = "failed: " + error.getCause().getMessage();
        } catch (Exception error) {
            shown = "failed: " + error;
        }
        System.out.println(name + "\t" + shown.replaceAll("\\s+", " "));
    }

    private Object statement(String sql) throws Exception {
        return client.executeStatement(sql, EARLIEST).get(WAIT_S, TimeUnit.SECONDS).queryId().orElse("done");
    }

    private void statements() {
        step("serverInfo", () -> {
            var info = client.serverInfo().get(WAIT_S, TimeUnit.SECONDS);
            return info.getKafkaClusterId() + " " + info.getKsqlServiceId();
        });
        String columns = "id VARCHAR KEY, n INT, many BIGINT, price DECIMAL(6, 2), ok BOOLEAN, far DOUBLE, "
            + "tags ARRAY<VARCHAR>, place STRUCT<X INT>, byName MAP<VARCHAR, INT>, day DATE, raw BYTES";
        String with = " WITH (kafka_topic = 'orders', value_format = 'json', partitions = 1);";
        step("create", () -> statement("CREATE STREAM orders (" + columns + ")" + with));
        step("create again", () -> statement("CREATE STREAM orders (" + columns + ")" + with));
        step("create if not exists", () -> statement("CREATE STREAM IF NOT EXISTS orders (" + columns + ")" + with));
        step("create as", () ->
            statement("CREATE TABLE counts AS SELECT id, COUNT(*) AS c FROM orders GROUP BY id EMIT CHANGES;"));
        step("not a statement", () -> statement("LIST STREAMS;"));
        step("wrong", () -> statement("CREATE STREAM x AS SELECT nope FROM orders EMIT CHANGES;"));
        step("define", () -> {
            client.define("what", "counts");
            return client.describeSource("${what}").get(WAIT_S, TimeUnit.SECONDS).name() + client.getVariables();
        });
        client.undefine("what");
    }

    private static KsqlObject order(String id, int n) {
        return new KsqlObject().put("id", id).put("n", n).put("many", 1L << 40).put("price", new BigDecimal("12.50"))
            .put("ok", true).put("far", 1.5).put("tags", new KsqlArray().add("a").add("b"))
            .put("place", new KsqlObject().put("X", n)).put("byName", new KsqlObject().put("k", n))
            .put("day", "2026-01-02").put("raw", new byte[] {1, 2});
    }

    private void rows() {
        step("insertInto", () -> client.insertInto("orders", order("a", 1)).get(WAIT_S, TimeUnit.SECONDS));
        step("insertInto nothing", () -> client.insertInto("nothing", order("a", 1)).get(WAIT_S, TimeUnit.SECONDS));
        step("insertInto wrong", () ->
            client.insertInto("orders", new KsqlObject().put("zip", 1)).get(WAIT_S, TimeUnit.SECONDS));
        step("streamInserts", () -> {
            InsertsPublisher inserts = new InsertsPublisher();
            AcksPublisher acks = client.streamInserts("orders", inserts).get(WAIT_S, TimeUnit.SECONDS);
            Seen<InsertAck> seen = new Seen<>();
            acks.subscribe(seen);
            inserts.accept(order("b", 2));
            Object first = seen.items.poll(WAIT_S, TimeUnit.SECONDS).seqNum();
            inserts.accept(order("b", 3));
            inserts.complete();
            return first + " " + seen.items.poll(WAIT_S, TimeUnit.SECONDS).seqNum() + " " + seen.end();
        });
    }

    private void queries() {
        step("executeQuery", () -> {
            for (int turn = 0; turn < WAIT_S; turn++) {
                var result = client.executeQuery("SELECT * FROM counts WHERE id = 'b';");
                List<Row> rows = result.get(WAIT_S, TimeUnit.SECONDS);
                if (!rows.isEmpty() && rows.get(0).getLong("C") == 2) {
                    return rows.get(0).columnNames() + " " + rows.get(0).columnTypes() + " " + rows.get(0).values();
                }
                Thread.sleep(500);
            }
            return "not there";
        });
        step("executeQuery none", () ->
            client.executeQuery("SELECT * FROM counts WHERE id = 'zz';").get(WAIT_S, TimeUnit.SECONDS));
        step("executeQuery push", () -> {
            String sql = "SELECT * FROM orders EMIT CHANGES LIMIT 1;";
            Row row = client.executeQuery(sql, EARLIEST).get(WAIT_S, TimeUnit.SECONDS).get(0);
            return row.columnTypes() + " " + row.values() + " " + row.getDecimal("PRICE") + " " + row.getBytes("RAW")[1];
        });
        step("executeQuery wrong", () ->
            client.executeQuery("SELECT nope FROM orders;").get(WAIT_S, TimeUnit.SECONDS));
        step("streamQuery", () -> {
            StreamedQueryResult result =
                client.streamQuery("SELECT id, n FROM orders EMIT CHANGES;", EARLIEST).get(WAIT_S, TimeUnit.SECONDS);
            Seen<Row> seen = new Seen<>();
            result.subscribe(seen);
            List<Object> shown = new ArrayList<>();
            for (int number = 0; number < 3; number++) {
                shown.add(seen.items.poll(WAIT_S, TimeUnit.SECONDS).values());
            }
            client.terminatePushQuery(result.queryID()).get(WAIT_S, TimeUnit.SECONDS);
            return shown + " " + seen.end() + " " + result.isComplete();
        });
        step("streamQuery of nothing yet", () -> {
            StreamedQueryResult result =
                client.streamQuery("SELECT id, n FROM orders EMIT CHANGES;").get(WAIT_S, TimeUnit.SECONDS);
            client.terminatePushQuery(result.queryID()).get(WAIT_S, TimeUnit.SECONDS);
            return result.columnNames() + " " + (result.poll(Duration.ofSeconds(WAIT_S)) == null);
        });
        step("terminatePushQuery unknown", () -> client.terminatePushQuery("no").get(WAIT_S, TimeUnit.SECONDS));
    }

    private void lists() {
        step("listStreams", () -> client.listStreams().get(WAIT_S, TimeUnit.SECONDS));
        step("listTables", () -> client.listTables().get(WAIT_S, TimeUnit.SECONDS));
        step("listTopics", () -> client.listTopics().get(WAIT_S, TimeUnit.SECONDS));
        step("listQueries", () -> client.listQueries().get(WAIT_S, TimeUnit.SECONDS).get(0).getId());
        step("describeSource", () -> {
            var found = client.describeSource("orders").get(WAIT_S, TimeUnit.SECONDS);
            return found.type() + " " + found.fields() + " " + found.readQueries().size() + " " + found.keyFormat();
        });
        step("describeSource unknown", () -> client.describeSource("nothing").get(WAIT_S, TimeUnit.SECONDS));
    }

    private void assertions() {
        step("assertTopic", () -> client.assertTopic("orders", true).get(WAIT_S, TimeUnit.SECONDS));
        step("assertTopic partitions", () -> client.assertTopic("orders", Map.of("partitions", 7), true,
            Duration.ofSeconds(1)).get(WAIT_S, TimeUnit.SECONDS));
        step("assertTopic not", () ->
            client.assertTopic("nothing", false, Duration.ofSeconds(3)).get(WAIT_S, TimeUnit.SECONDS));
        step("assertSchema", () ->
            client.assertSchema("orders-value", true, Duration.ofSeconds(1)).get(WAIT_S, TimeUnit.SECONDS));
        step("assertSchema not", () ->
            client.assertSchema("orders-value", 3, false, Duration.ofSeconds(1)).get(WAIT_S, TimeUnit.SECONDS));
    }

    private void connectors() {
        Map<String, Object> configs = Map.of(
            "connector.class", "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "file", folder + "/lines.txt", "topic", "lines", "tasks.max", "1");
        step("createConnector", () -> client.createConnector("lines", true, configs).get(WAIT_S, TimeUnit.SECONDS));
        step("createConnector again", () ->
            client.createConnector("lines", true, configs).get(WAIT_S, TimeUnit.SECONDS));
        step("createConnector if not exists", () ->
            client.createConnector("lines", true, configs, true).get(WAIT_S, TimeUnit.SECONDS));
        step("createConnector wrong", () ->
            client.createConnector("sink", false, configs).get(WAIT_S, TimeUnit.SECONDS));
        step("listConnectors", () -> {
            var found = client.listConnectors().get(WAIT_S, TimeUnit.SECONDS).get(0);
            return found.name() + " " + found.type().getType() + " " + found.className();
        });
        step("describeConnector", () -> {
            var found = client.describeConnector("lines").get(WAIT_S, TimeUnit.SECONDS);
            return found.name() + " " + found.type().getType() + " " + found.className();
        });
        step("describeConnector unknown", () -> client.describeConnector("nothing").get(WAIT_S, TimeUnit.SECONDS));
        step("dropConnector", () -> client.dropConnector("lines").get(WAIT_S, TimeUnit.SECONDS));
        step("dropConnector again", () -> client.dropConnector("lines").get(WAIT_S, TimeUnit.SECONDS));
        step("dropConnector if exists", () -> client.dropConnector("lines", true).get(WAIT_S, TimeUnit.SECONDS));
    }

    private void requests() {
        step("buildRequest", () -> {
            var answer = client.buildRequest("POST", "/ksql").payload("ksql", "SHOW PROPERTIES;")
                .propertiesKey("streamsProperties").property("auto.offset.reset", "earliest").send()
                .get(WAIT_S, TimeUnit.SECONDS);
            return answer.status() + " " + new String(answer.body()).contains("auto.offset.reset");
        });
        step("buildRequest info", () ->
            client.buildRequest("GET", "/info").send().get(WAIT_S, TimeUnit.SECONDS).bodyAsMap().keySet());
    }

    private void ends() {
        step("pause", () -> statement("PAUSE ALL;"));
        step("resume", () -> statement("RESUME ALL;"));
        step("insert into", () -> {
            statement("CREATE STREAM copy (id VARCHAR KEY, n INT) "
                + "WITH (kafka_topic = 'copy', value_format = 'json', partitions = 1);");
            return statement("INSERT INTO copy SELECT id, n FROM orders EMIT CHANGES;");
        });
        step("alter", () -> statement("ALTER STREAM copy ADD COLUMN more VARCHAR;"));
        step("type", () -> statement("CREATE TYPE pair AS STRUCT<a INT, b INT>;"));
        step("drop type", () -> statement("DROP TYPE pair;"));
        step("drop type if exists", () -> statement("DROP TYPE IF EXISTS pair;"));
        step("terminate", () -> statement("TERMINATE ALL;"));
        step("drop", () -> statement("DROP TABLE counts DELETE TOPIC;"));
        step("drop copy", () -> statement("DROP STREAM copy DELETE TOPIC;"));
        step("drop orders", () -> statement("DROP STREAM orders DELETE TOPIC;"));
        step("drop if exists", () -> statement("DROP STREAM IF EXISTS orders;"));
    }

    /** Keeps what a publisher sends. */
    private static final class Seen<T> implements Subscriber<T> {
        final BlockingQueue<T> items = new LinkedBlockingQueue<>();
        private final CountDownLatch ended = new CountDownLatch(1);
        private volatile String how = "";

        String end() throws InterruptedException {
            return ended.await(WAIT_S, TimeUnit.SECONDS) ? how : "never ended";
        }

        @Override
        public void onSubscribe(Subscription subscription) {
            subscription.request(1_000);
        }

        @Override
        public void onNext(T item) {
            items.add(item);
        }

        @Override
        public void onError(Throwable error) {
            how = "failed: " + error.getMessage();
            ended.countDown();
        }

        @Override
        public void onComplete() {
            how = "complete";
            ended.countDown();
        }
    }
}
