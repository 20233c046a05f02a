"""The same questions to Apache Kafka and to the Kafka port: a differential suite.

    python -m tests.peers                       all probes; fails on a difference that differences.toml does not have,
                                                and on one that it has and that is no more
    python -m tests.peers "topics: *"           those whose names match
    python -m tests.peers --against 4.3.1       the newest Apache Kafka beside another: shows what changed between them
    python -m tests.peers --renew               writes the values of accepted differences; those that are no more go

When a new version appears: `python -m tests.peers --kafka NEW --against OLD`, then raise it in the pom of
bench/peers/apache_kafka.

It needs a JDK 17, Maven and Maven Central.

To add probes, write a module in `probes/`; it is found by itself, and its name is the family of its probes:

    from tests.peers.probe import Peer, by_name, pick, probe

    @probe
    def describe_a_name_twice(peer: Peer):          # "groups: describe a name twice" in groups.py
        group = peer.name("g")                      # no other probe has it; answers show "g-*"
        answer = peer.call("DescribeGroups", Groups=[group, group])
        return [pick(each, "ErrorCode", "GroupState") for each in answer["Groups"]]

`peer.call(api, version, **fields)` has the names of Kafka's schemas, and asks in the newest version that both brokers
advertise where none is said. `peer.connect()` opens further connections (`send`, `send_frame`, `receive`,
`is_closed`), `peer.login()` one that logged in, `peer.topic()` a topic; `peer.attempt` makes a closed connection an
answer. Whatever a probe returns is compared after `answers.normalised`; it leaves out what differs from run to run
(member ids, times). A probe that changes what others see (cluster-wide configurations, default quotas) is registered
by `@probe_alone`; it runs after all others, and puts things back. Several probes run at once: none may take more than
some seconds, and none may harm the broker.

When a probe shows a difference: is it ours? Then mend it, with a test that needs no Java. If it is wanted, put what
the run left in build/peers/unexplained.toml under a reason in differences.toml, and run `make reference`.
"""
