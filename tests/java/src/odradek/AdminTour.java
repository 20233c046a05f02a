package odradek;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Calls the methods of Java's Admin one after the other.
 *
 * <p>AdminTour SERVERS; prints a line a call: its name and what it answered, or "failed" and the exception.
 */
public final class AdminTour {
    private static final TopicPartition PLACE = new TopicPartition("tour", 0);
    private static final ConfigResource TOPIC = new ConfigResource(ConfigResource.Type.TOPIC, "tour");

    public static void main(String[] args) throws Exception {
        Map<String, Object> servers = Map.of("bootstrap.servers", args[0]);
        try (Admin admin = Admin.create(servers)) {
            topics(admin);
            records(admin, args[0]);
            groups(admin);
            transactions(admin);
            access(admin);
            call("deleteTopics", () -> admin.deleteTopics(List.of("tour", "other")).all().get());
        }
    }

    private static void topics(Admin admin) {
        List<NewTopic> created = List.of(
            new NewTopic("tour", 2, (short) 1).configs(Map.of("retention.ms", "3600000")), new NewTopic("other", 1, (short) -1));
        call("createTopics", () -> admin.createTopics(created).config("tour").get().get("retention.ms").value());
        call("listTopics", () -> admin.listTopics().names().get().containsAll(Set.of("tour", "other")));
        DescribeTopicsOptions described = new DescribeTopicsOptions().includeAuthorizedOperations(true);
        call("describeTopics", () -> admin.describeTopics(List.of("tour"), described).allTopicNames().get().get("tour")
            .partitions().stream().map(each -> each.isr().size() + "/" + each.replicas().size()).collect(Collectors.joining(" ")));
        call("describeTopics by id", () -> admin.describeTopics(TopicCollection.ofTopicIds(
            List.of(admin.describeTopics(List.of("tour")).topicNameValues().get("tour").get().topicId())))
            .allTopicIds().get().size());
        call("describeCluster", () -> admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true))
            .nodes().get().size());
        call("describeConfigs", () -> admin.describeConfigs(List.of(TOPIC)).all().get().get(TOPIC).get("retention.ms").value());
        ConfigResource broker = new ConfigResource(
            ConfigResource.Type.BROKER, admin(() -> admin.describeCluster().nodes().get()).iterator().next().idString());
        call("describeConfigs of a broker", () -> admin.describeConfigs(List.of(broker)).all().get().get(broker)
            .get("node.id").value().equals(broker.name()));
        call("incrementalAlterConfigs", () -> admin.incrementalAlterConfigs(Map.of(TOPIC, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "7200000"), AlterConfigOp.OpType.SET)))).all().get());
        call("listConfigResources", () -> !admin.listConfigResources().all().get().isEmpty());
        call("createPartitions", () -> admin.createPartitions(Map.of("tour", NewPartitions.increaseTo(3))).all().get());
        call("describeFeatures", () -> admin.describeFeatures().featureMetadata().get().finalizedFeatures()
            .get("transaction.version").maxVersionLevel());
        call("describeLogDirs", () -> admin.describeLogDirs(List.of(Integer.parseInt(broker.name()))).allDescriptions().get()
            .values().iterator().next().keySet());
    }

    private static void records(Admin admin, String servers) {
        Map<String, Object> config = Map.of("bootstrap.servers", servers, "key.serializer", StringSerializer.class,
            "value.serializer", StringSerializer.class);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            call("produce", () -> {
                long offset = -1;
                for (int i = 0; i < 5; i++) {
                    offset = producer.send(new ProducerRecord<>("tour", 0, 1_700_000_000_000L + i, null, "" + i)).get().offset();
                }
                return offset;
            });
        }
        for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(),
            OffsetSpec.forTimestamp(1_700_000_000_002L))) {
            call("listOffsets " + spec.getClass().getSimpleName(),
                () -> admin.listOffsets(Map.of(PLACE, spec)).partitionResult(PLACE).get().offset());
        }
        call("describeProducers", () -> admin.describeProducers(List.of(PLACE)).partitionResult(PLACE).get()
            .activeProducers().size());
        call("deleteRecords", () -> admin.deleteRecords(Map.of(PLACE, RecordsToDelete.beforeOffset(2))).lowWatermarks()
            .get(PLACE).get().lowWatermark());
    }

    private static void groups(Admin admin) {
        call("alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets(
            "tourists", Map.of(PLACE, new OffsetAndMetadata(3, "three"))).all().get());
        call("listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets(Map.of(
            "tourists", new ListConsumerGroupOffsetsSpec())).all().get().get("tourists").get(PLACE).offset());
        call("listGroups", () -> admin.listGroups().all().get().stream().map(each -> each.groupId()).sorted()
            .collect(Collectors.toList()));
        call("describeConsumerGroups", () -> admin.describeConsumerGroups(List.of("tourists")).all().get().get("tourists")
            .groupState());
        call("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets("tourists", Set.of(PLACE)).all().get());
        call("deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of("tourists")).all().get());
        call("alterShareGroupOffsets", () -> admin.alterShareGroupOffsets("sharers", Map.of(PLACE, 2L)).all().get());
        call("listShareGroupOffsets", () -> admin.listShareGroupOffsets(Map.of(
            "sharers", new ListShareGroupOffsetsSpec())).partitionsToOffsetAndMetadata("sharers").get().size());
        call("describeShareGroups", () -> admin.describeShareGroups(List.of("sharers")).all().get().get("sharers").groupState());
        call("deleteShareGroups", () -> admin.deleteShareGroups(List.of("sharers")).all().get());
    }

    private static void transactions(Admin admin) {
        call("fenceProducers", () -> admin.fenceProducers(List.of("tour-tx")).epochId("tour-tx").get());
        call("listTransactions", () -> admin.listTransactions().all().get().stream().map(each -> each.transactionalId())
            .collect(Collectors.toList()));
        call("describeTransactions", () -> admin.describeTransactions(List.of("tour-tx")).description("tour-tx").get().state());
    }

    private static void access(Admin admin) {
        AclBinding binding = new AclBinding(new ResourcePattern(ResourceType.TOPIC, "tour", PatternType.LITERAL),
            new AccessControlEntry("User:ada", "*", AclOperation.READ, AclPermissionType.ALLOW));
        call("createAcls", () -> admin.createAcls(List.of(binding)).all().get());
        call("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get().contains(binding));
        call("deleteAcls", () -> admin.deleteAcls(List.of(binding.toFilter())).all().get().size());
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "ada"));
        call("alterClientQuotas", () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
            List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1_000_000.0))))).all().get());
        call("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().get(entity));
        call("alterUserScramCredentials", () -> admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(
            "ada", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"))).all().get());
        call("describeUserScramCredentials", () -> admin.describeUserScramCredentials(List.of("ada")).description("ada").get()
            .credentialInfos().size());
    }

    private static void call(String name, Callable<Object> method) {
        String said;
        try {
            said = String.valueOf(method.call());
        } catch (ExecutionException error) {
            said = "failed " + error.getCause();
        } catch (Exception error) {
            said = "failed " + error;
        }
        System.out.println(String.format(Locale.ROOT, "%s: %s", name, said.replace('\n', ' ')));
    }

    private static <T> T admin(Callable<T> method) {
        try {
            return method.call();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
