// franz-go: every task of the matrix.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func within() context.Context {
	ctx, _ := context.WithTimeout(context.Background(), limit) //nolint: the program ends soon
	return ctx
}

func produce(topic string, codec kgo.CompressionCodec, count int, options ...kgo.Opt) error {
	options = append(options, kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	records := make([]*kgo.Record, count)
	for i := range records {
		records[i] = &kgo.Record{
			Topic: topic, Key: []byte(fmt.Sprintf("k%d", i)), Value: []byte(fmt.Sprint(i)),
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}},
		}
	}
	return client.ProduceSync(within(), records...).FirstErr()
}

func seeds() kgo.Opt { return kgo.SeedBrokers(config.Servers["plain"]) }

func consume(topic string, count int, group string) ([]*kgo.Record, error) {
	client, err := kgo.NewClient(seeds(), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx := within()
	var taken []*kgo.Record
	for len(taken) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		taken = append(taken, fetches.Records()...)
	}
	return taken, client.CommitRecords(ctx, taken...)
}

func transaction() error {
	client, err := kgo.NewClient(seeds(), kgo.TransactionalID(config.Prefix+"-x"))
	if err != nil {
		return err
	}
	defer client.Close()
	for i := 0; i < 3; i++ {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		record := &kgo.Record{Topic: config.Prefix + "-transaction", Value: []byte(fmt.Sprint(i))}
		if err := client.ProduceSync(within(), record).FirstErr(); err != nil {
			return err
		}
		if err := client.EndTransaction(within(), kgo.TransactionEndTry(i != 1)); err != nil {
			return err
		}
	}
	return nil
}

func (l login) options() ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.SeedBrokers(l.servers)}
	switch l.mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: config.User, Pass: config.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: config.User, Pass: config.Password}.AsSha256Mechanism()))
	default:
		options = append(options, kgo.SASL(scram.Auth{User: config.User, Pass: config.Password}.AsSha512Mechanism()))
	}
	if l.protocol == "SASL_SSL" {
		authorities := x509.NewCertPool()
		pem, err := os.ReadFile(config.CA)
		if err != nil {
			return nil, err
		}
		authorities.AppendCertsFromPEM(pem)
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: authorities}))
	}
	return options, nil
}

func withAdmin(call func(*kadm.Client) error) func() error {
	return func() error {
		client, err := kgo.NewClient(seeds())
		if err != nil {
			return err
		}
		defer client.Close()
		return call(kadm.NewClient(client))
	}
}

func topics(admin *kadm.Client) error {
	made, gone := config.Prefix+"-made", config.Prefix+"-gone"
	for name, partitions := range map[string]int32{made: 3, gone: 1} {
		if _, err := admin.CreateTopic(within(), partitions, 1, nil, name); err != nil {
			return err
		}
	}
	listed, err := admin.ListTopics(within(), made, gone)
	if err != nil || listed.Error() != nil {
		return fmt.Errorf("%v %v", err, listed.Error())
	}
	if grown, err := admin.CreatePartitions(within(), 1, made); err != nil || grown.Error() != nil {
		return fmt.Errorf("%v %v", err, grown.Error())
	}
	deleted, err := admin.DeleteTopics(within(), gone)
	if err != nil {
		return err
	}
	return deleted.Error()
}

func configs(admin *kadm.Client) error {
	topic, retention := config.Prefix+"-none", "123456789"
	set := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &retention}}
	if _, err := admin.AlterTopicConfigs(within(), set, topic); err != nil {
		return err
	}
	described, err := admin.DescribeTopicConfigs(within(), topic)
	if err != nil {
		return err
	}
	for _, entry := range described[0].Configs {
		if entry.Key == "retention.ms" && entry.MaybeValue() == retention {
			return nil
		}
	}
	return fmt.Errorf("%v", described)
}

func groups(admin *kadm.Client) error {
	listed, err := admin.ListGroups(within())
	if err != nil {
		return err
	}
	if _, is := listed[config.Prefix+"-g"]; !is {
		return fmt.Errorf("groups: %v", listed.Groups())
	}
	described, err := admin.DescribeGroups(within(), config.Prefix+"-g")
	if err != nil || described.Error() != nil {
		return fmt.Errorf("%v %v", err, described.Error())
	}
	deleted, err := admin.DeleteGroups(within(), config.Prefix+"-lat")
	if err != nil {
		return err
	}
	return deleted.Error()
}

func times(admin *kadm.Client) error {
	listed, err := admin.ListOffsetsAfterMilli(within(), config.BaseMs+10_000, config.Prefix+"-group")
	if err != nil {
		return err
	}
	if found, _ := listed.Lookup(config.Prefix+"-group", 0); found.Offset != 5 {
		return fmt.Errorf("offset %d", found.Offset)
	}
	return nil
}

func main() {
	readConfig()
	tasks := []task{}
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		tasks = append(tasks, task{name, func() error {
			return produce(config.Prefix+"-"+name, codec, config.Count, seeds())
		}})
	}
	tasks = append(tasks, task{"log_append_time", func() error {
		topic := config.Prefix + "-log_append_time"
		if err := produce(topic, kgo.NoCompression(), config.Count, seeds()); err != nil {
			return err
		}
		taken, err := consume(topic, config.Count, config.Prefix+"-lat")
		for _, record := range taken {
			if record.Attrs.TimestampType() != 1 {
				return fmt.Errorf("timestamp type %d", record.Attrs.TimestampType())
			}
		}
		return err
	}}, task{"group", func() error {
		_, err := consume(config.Prefix+"-group", 40, config.Prefix+"-g")
		return err
	}}, task{"transaction", transaction})
	for _, l := range logins() {
		tasks = append(tasks, task{l.name, func() error {
			options, err := l.options()
			if err != nil {
				return err
			}
			return produce(config.Prefix+"-login", kgo.NoCompression(), 1, options...)
		}})
	}
	run(append(tasks,
		task{"topics", withAdmin(topics)}, task{"configs", withAdmin(configs)}, task{"groups", withAdmin(groups)},
		task{"times", withAdmin(times)},
	))
}
