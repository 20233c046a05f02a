import org.codelibs.elasticsearch.runner.ElasticsearchClusterRunner;

/** A node of Elasticsearch on loopback: the folder of its data, and the port of its API. */
public final class SearchNode {
    public static void main(String[] arguments) throws Exception {
        ElasticsearchClusterRunner runner = new ElasticsearchClusterRunner();
        runner.onBuild((number, settings) -> {
            settings.put("http.port", arguments[1]);
            settings.put("transport.port", "0");
            settings.put("discovery.type", "single-node");
            settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
        });
        runner.build(ElasticsearchClusterRunner.newConfigs().basePath(arguments[0]).numOfNode(1).useLogger().clusterName("tests"));
        Thread.currentThread().join();
    }
}
