import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Initializer;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Merger;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.Stores;

/**
 * The statements of topologies.py in Kafka Streams, by name. Topics a and b are streams, t and u tables; a value is a
 * text and a number with a comma between, as DELIMITED has it. All write into r.
 */
final class Topologies {
    private static final Map<String, Function<StreamsBuilder, KStream<?, String>>> ALL = new LinkedHashMap<>();

    private Topologies() {}

    static void build(String name, StreamsBuilder builder) {
        KStream<?, String> result = ALL.get(name).apply(builder);
        if (name.contains("session")) {
            write(result, WindowedSerdes.sessionWindowedSerdeFrom(String.class));
        } else if (name.startsWith("tumbling") || name.startsWith("hopping")) {
            write(result, WindowedSerdes.timeWindowedSerdeFrom(String.class, 10_000L));
        } else {
            write(result, Serdes.String());
        }
    }

    @SuppressWarnings("unchecked")
    private static <K> void write(KStream<?, String> result, org.apache.kafka.common.serialization.Serde<K> keys) {
        ((KStream<K, String>) result).to("r", Produced.with(keys, Serdes.String()));
    }

    private static String text(String value) {
        return value.split(",", -1)[0];
    }

    private static int number(String value) {
        return Integer.parseInt(value.split(",", -1)[1]);
    }

    private static String of(Object... parts) {
        StringBuilder joined = new StringBuilder();
        for (int i = 0; i < parts.length; i++) {
            joined.append(i == 0 ? "" : ",").append(parts[i] == null ? "" : parts[i]);
        }
        return joined.toString();
    }

    private static String textOrNull(String value) {
        return value == null ? null : text(value);
    }

    private static Duration seconds(double number) {
        return Duration.ofMillis((long) (number * 1000));
    }

    // --- aggregates, whose state is the value that is written

    private record Aggregate(Initializer<String> initial, Aggregator<String, String, String> add, Merger<String,
            String> merge) {}

    private static final Aggregate COUNT =
            new Aggregate(() -> "0", (k, v, n) -> of(Long.parseLong(n) + 1), (k, a,
                    b) -> of(Long.parseLong(a) + Long.parseLong(b)));
    private static final Aggregate SUM = new Aggregate(
            () -> "0", (k, v, n) -> of(Long.parseLong(n) + number(v)), (k, a,
                    b) -> of(Long.parseLong(a) + Long.parseLong(b)));
    private static final Aggregate LIST = new Aggregate(
            () -> "", (k, v, all) -> (all.isEmpty() ? "" : all + "|") + text(v),
            (k, a, b) -> a.isEmpty() ? b : b.isEmpty() ? a : a + "|" + b);
    private static final Aggregate LATEST = new Aggregate(() -> "", (k, v, n) -> text(v), (k, a, b) -> b);
    private static final Aggregate EARLIEST =
            new Aggregate(() -> "", (k, v, n) -> n.isEmpty() ? text(v) : n, (k, a, b) -> a.isEmpty() ? b : a);
    private static final Aggregate BOUNDS = new Aggregate(
            () -> "",
            (k, v, n) -> n.isEmpty() ? of(number(v), number(v)) : of(
                    Math.min(Integer.parseInt(text(n)), number(v)), Math.max(number(n), number(v))),
            (k, a, b) -> a);

    private static KGroupedStream<String, String> byKey(StreamsBuilder builder) {
        return builder.<String, String>stream("a").filter((k, v) -> v != null).groupByKey();
    }

    private static KGroupedStream<String, String> byText(StreamsBuilder builder) {
        KStream<String, String> a = builder.stream("a");
        return a.filter((k, v) -> v != null).groupBy((k, v) -> text(v));
    }

    private static void windows(String name, TimeWindows windows, Aggregate aggregate, boolean isFinal) {
        windows(name, windows, aggregate, isFinal, UnaryOperator.identity());
    }

    private static void windows(
            String name, TimeWindows windows, Aggregate aggregate, boolean isFinal, UnaryOperator<KStream<String,
                    String>> before) {
        ALL.put(name, builder -> {
            KStream<String, String> a = before.apply(builder.<String, String>stream("a").filter((k, v) -> v != null));
            EmitStrategy emit = isFinal ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
            return a.groupByKey().windowedBy(windows).emitStrategy(emit).aggregate(aggregate.initial, aggregate.add)
                    .toStream();
        });
    }

    private static void sessions(String name, double grace, Aggregate aggregate, boolean isFinal) {
        ALL.put(name, builder -> {
            EmitStrategy emit = isFinal ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
            SessionWindows windows = SessionWindows.ofInactivityGapAndGrace(seconds(10), seconds(grace));
            return byKey(builder).windowedBy(windows).emitStrategy(emit)
                    .aggregate(aggregate.initial, aggregate.add, aggregate.merge).toStream();
        });
    }

    private static TimeWindows tumbling(double grace) {
        return TimeWindows.ofSizeAndGrace(seconds(10), seconds(grace));
    }

    private static TimeWindows hopping(double grace) {
        return tumbling(grace).advanceBy(seconds(5));
    }

    // --- joins of streams

    private static final ValueJoiner<String, String, String> TEXTS = (a, b) -> of(textOrNull(a), textOrNull(b));
    private static final ValueJoiner<String, String, String> TEXTS_REVERSED = (b, a) -> of(textOrNull(a),
            textOrNull(b));

    /** One that ksqlDB makes of WITHIN without GRACE PERIOD: it writes rows without a match at once. */
    private static JoinWindows without(double before, double after) {
        return JoinWindows.of(seconds(10)).before(seconds(before)).after(seconds(after));
    }

    private static JoinWindows within(double before, double after, double grace) {
        return JoinWindows.ofTimeDifferenceAndGrace(seconds(10), seconds(grace)).before(seconds(before))
                .after(seconds(after));
    }

    private static void joins(String name, JoinWindows windows) {
        joins(name, windows, builder -> builder.stream("a"), builder -> builder.stream("b"));
    }

    private static void joins(
            String name, JoinWindows windows, Function<StreamsBuilder, KStream<String, String>> left,
            Function<StreamsBuilder, KStream<String, String>> right) {
        ALL.put("inner " + name, builder -> left.apply(builder).join(right.apply(builder), TEXTS, windows));
        ALL.put("left " + name, builder -> left.apply(builder).leftJoin(right.apply(builder), TEXTS, windows));
        ALL.put("right " + name, builder -> right.apply(builder).leftJoin(left.apply(builder), TEXTS_REVERSED,
                windows));
        ALL.put("full " + name, builder -> left.apply(builder).outerJoin(right.apply(builder), TEXTS, windows));
    }

    private static KStream<String, String> byTextOf(StreamsBuilder builder, String topic) {
        KStream<String, String> stream = builder.stream(topic);
        return stream.filter((k, v) -> v != null).selectKey((k, v) -> text(v));
    }

    // --- aggregates over tables

    private static void regrouped(String name, UnaryOperator<KTable<String, String>> before, Aggregate aggregate,
            Aggregator<String, String, String> subtract, UnaryOperator<KTable<String, String>> after) {
        ALL.put(name, builder -> after.apply(before.apply(builder.table("t"))
                .groupBy((k, v) -> KeyValue.pair(text(v), v), Grouped.with(Serdes.String(), Serdes.String()))
                .aggregate(aggregate.initial, aggregate.add, subtract)).toStream());
    }

    static {
        ALL.put("filter", b -> b.<String, String>stream("a").filter((k, v) -> v != null && number(v) > 1));
        ALL.put("projection", b -> b.<String, String>stream("a")
                .mapValues(v -> v == null ? null : of(number(v) + 1, text(v).toUpperCase())));
        ALL.put("partition by", b -> b.<String, String>stream("a").selectKey((k, v) -> textOrNull(v))
                .mapValues(v -> v == null ? null : of(number(v))));
        ALL.put("partition by null", b -> b.<String, String>stream("a").selectKey((k, v) -> null));
        ALL.put("explode", b -> b.<String, String>stream("a").filter((k, v) -> v != null)
                .flatMapValues(v -> java.util.Arrays.asList(text(v).split("-"))));
        ALL.put("insert into", b -> b.<String, String>stream("a").filter((k, v) -> v != null && number(v) > 1)
                .merge(b.<String, String>stream("b").filter((k, v) -> v != null && number(v) > 1)));

        ALL.put("stream join table", b -> b.<String, String>stream("a").join(b.table("u"), TEXTS));
        ALL.put("stream left join table", b -> b.<String, String>stream("a").leftJoin(b.table("u"), TEXTS));
        ALL.put("stream join table, rekeyed", b -> byTextOf(b, "a").join(b.table("u"), TEXTS));
        ALL.put("stream left join table, rekeyed", b -> byTextOf(b, "a").leftJoin(b.table("u"), TEXTS));
        ALL.put("stream join versions", b -> b.<String, String>stream("a").join(versions(b), TEXTS));
        ALL.put("stream left join versions", b -> b.<String, String>stream("a").leftJoin(versions(b), TEXTS));
        ALL.put("stream join two tables", b -> b.<String, String>stream("a").join(b.<String, String>table("t"), TEXTS)
                .leftJoin(b.<String, String>table("u"), (one, u) -> of(one, textOrNull(u))));
        ALL.put("stream join table, filtered", b -> b.<String, String>stream("a")
                .filter((k, v) -> v != null && number(v) > 1)
                .join(b.table("u"), TEXTS));

        ALL.put("table", b -> b.<String, String>table("t").mapValues(v -> of(text(v).toUpperCase(), number(v)))
                .toStream());
        ALL.put("table where", b -> b.<String, String>table("t").filter((k, v) -> number(v) > 1).toStream());
        ALL.put("table of a table", b -> b.<String, String>table("t").filter((k, v) -> number(v) > 1)
                .mapValues(v -> of(text(v))).toStream());
        Aggregator<String, String, String> fewer = (k, v, n) -> of(Long.parseLong(n) - 1);
        Aggregator<String, String, String> less = (k, v, n) -> of(Long.parseLong(n) - number(v));
        UnaryOperator<KTable<String, String>> same = UnaryOperator.identity();
        regrouped("table count", same, COUNT, fewer, same);
        regrouped("table sum", same, SUM, less, same);
        regrouped("table count where", t -> t.filter((k, v) -> number(v) > 1), COUNT, fewer, same);
        regrouped("table count having", same, COUNT, fewer, r -> r.filter((k, v) -> Long.parseLong(v) > 1));

        ALL.put("tables inner", b -> b.<String, String>table("t").join(b.<String, String>table("u"), TEXTS)
                .toStream());
        ALL.put("tables left", b -> b.<String, String>table("t").leftJoin(b.<String, String>table("u"), TEXTS)
                .toStream());
        ALL.put("tables right", b -> b.<String, String>table("u").leftJoin(b.<String, String>table("t"),
                TEXTS_REVERSED).toStream());
        ALL.put("tables full", b -> b.<String, String>table("t").outerJoin(b.<String, String>table("u"), TEXTS)
                .toStream());
        ALL.put("tables where", b -> b.<String, String>table("t").leftJoin(b.<String, String>table("u"), (t,
                u) -> of(text(t), textOrNull(u), number(t)))
                .filter((k, v) -> Integer.parseInt(v.split(",", -1)[2]) > 1).mapValues(v -> v.substring(0,
                        v.lastIndexOf(','))).toStream());
        ALL.put("tables inner by a foreign key", b -> b.<String, String>table("t")
                .join(b.<String, String>table("u"), v -> text(v), TEXTS).toStream());
        ALL.put("tables left by a foreign key", b -> b.<String, String>table("t")
                .leftJoin(b.<String, String>table("u"), v -> text(v), TEXTS).toStream());

        ALL.put("count", b -> byKey(b).aggregate(COUNT.initial, COUNT.add).toStream());
        ALL.put("count by text", b -> byText(b).aggregate(COUNT.initial, COUNT.add).toStream());
        ALL.put("count by two", b -> b.<String, String>stream("a").filter((k, v) -> k != null && v != null)
                .groupBy((k, v) -> of(k, text(v))).aggregate(COUNT.initial, COUNT.add).toStream());
        ALL.put("count where", b -> b.<String, String>stream("a").filter((k, v) -> v != null && number(v) > 1)
                .groupByKey().aggregate(COUNT.initial, COUNT.add).toStream());
        ALL.put("count having", b -> byKey(b).aggregate(COUNT.initial, COUNT.add)
                .filter((k, v) -> Long.parseLong(v) > 1).toStream());
        ALL.put("sum having", b -> byKey(b).aggregate(SUM.initial, SUM.add).filter((k, v) -> Long.parseLong(v) < 4)
                .toStream());
        ALL.put("sum", b -> byKey(b).aggregate(SUM.initial, SUM.add).toStream());
        ALL.put("bounds", b -> byKey(b).aggregate(BOUNDS.initial, BOUNDS.add).toStream());
        ALL.put("list", b -> byKey(b).aggregate(LIST.initial, LIST.add).toStream());
        ALL.put("latest", b -> byKey(b).aggregate(LATEST.initial, LATEST.add).toStream());
        ALL.put("earliest", b -> byKey(b).aggregate(EARLIEST.initial, EARLIEST.add).toStream());

        windows("tumbling count", tumbling(0), COUNT, false);
        windows("tumbling count, grace", tumbling(5), COUNT, false);
        windows("tumbling count, a day", tumbling(86_390), COUNT, false);
        windows("tumbling list, grace", tumbling(5), LIST, false);
        windows("tumbling sum where", tumbling(5), SUM, false, a -> a.filter((k, v) -> v != null && number(v) > 1));
        ALL.put("tumbling count by text", b -> byText(b).windowedBy(tumbling(5)).aggregate(COUNT.initial, COUNT.add)
                .toStream());
        ALL.put("tumbling count having", b -> byKey(b).windowedBy(tumbling(5)).aggregate(COUNT.initial, COUNT.add)
                .filter((k, v) -> Long.parseLong(v) > 1).toStream());
        windows("hopping count", hopping(0), COUNT, false);
        windows("hopping count, grace", hopping(5), COUNT, false);
        windows("hopping list, grace", hopping(5), LIST, false);
        sessions("session count", 0, COUNT, false);
        sessions("session count, grace", 5, COUNT, false);
        sessions("session list, grace", 5, LIST, false);
        windows("tumbling count final, grace", tumbling(5), COUNT, true);
        windows("tumbling list final, grace", tumbling(5), LIST, true);
        ALL.put("tumbling count suppressed", b -> byKey(b).windowedBy(tumbling(5))
                .aggregate(COUNT.initial, COUNT.add, Materialized.with(Serdes.String(), Serdes.String()))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream());
        windows("hopping count final, grace", hopping(5), COUNT, true);
        sessions("session count final, grace", 5, COUNT, true);

        joins("join", without(10, 10));
        joins("join, before and after", without(3, 10));
        joins("join with grace", within(10, 10, 5));
        joins("join with no grace", within(10, 10, 0));
        joins("join with grace, before and after", within(3, 10, 5));
        joins("join by text", within(10, 10, 5), b -> byTextOf(b, "a"), b -> byTextOf(b, "b"));
        ALL.put("join and count", b -> b.<String, String>stream("a").join(b.<String, String>stream("b"), TEXTS,
                within(10, 10, 5))
                .groupByKey().aggregate(COUNT.initial, COUNT.add).toStream());
        ALL.put("table join and count", b -> b.<String, String>stream("a").join(b.<String, String>table("u"), TEXTS)
                .groupByKey().aggregate(COUNT.initial, COUNT.add).toStream());
    }

    private static KTable<String, String> versions(StreamsBuilder builder) {
        return builder.table("u", Materialized.as(Stores.persistentVersionedKeyValueStore("versions",
                Duration.ofDays(1))));
    }
}
