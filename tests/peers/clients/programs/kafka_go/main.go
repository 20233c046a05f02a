// kafka-go: every task of the matrix.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

func within() context.Context {
	ctx, _ := context.WithTimeout(context.Background(), limit) //nolint: the program ends soon
	return ctx
}

func address(servers string) net.Addr { return kafka.TCP(servers) }

func client() *kafka.Client {
	return &kafka.Client{Addr: address(config.Servers["plain"]), Timeout: limit}
}

func produce(topic string, codec kafka.Compression, servers string, transport *kafka.Transport, count int) error {
	writer := &kafka.Writer{
		Addr: address(servers), Topic: topic, RequiredAcks: kafka.RequireAll, Compression: codec,
		BatchTimeout: 20 * time.Millisecond, MaxAttempts: 3,
	}
	if transport != nil {
		writer.Transport = transport
	}
	defer writer.Close()
	messages := make([]kafka.Message, count)
	for i := range messages {
		messages[i] = kafka.Message{
			Key: []byte(fmt.Sprintf("k%d", i)), Value: []byte(fmt.Sprint(i)),
			Headers: []kafka.Header{{Key: "h", Value: []byte("v")}},
		}
	}
	return writer.WriteMessages(within(), messages...)
}

func consume(topic string, count int, group string) ([]kafka.Message, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{config.Servers["plain"]}, Topic: topic, GroupID: group, MaxWait: 500 * time.Millisecond,
		StartOffset: kafka.FirstOffset,
	})
	defer reader.Close()
	ctx := within()
	var taken []kafka.Message
	for len(taken) < count {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			return nil, err
		}
		taken = append(taken, message)
	}
	return taken, reader.CommitMessages(ctx, taken...)
}

func (l login) transport() (*kafka.Transport, error) {
	var mechanism sasl.Mechanism = plain.Mechanism{Username: config.User, Password: config.Password}
	var err error
	switch l.mechanism {
	case "SCRAM-SHA-256":
		mechanism, err = scram.Mechanism(scram.SHA256, config.User, config.Password)
	case "SCRAM-SHA-512":
		mechanism, err = scram.Mechanism(scram.SHA512, config.User, config.Password)
	}
	transport := &kafka.Transport{SASL: mechanism}
	if l.protocol == "SASL_SSL" {
		authorities := x509.NewCertPool()
		pem, failed := os.ReadFile(config.CA)
		if failed != nil {
			return nil, failed
		}
		authorities.AppendCertsFromPEM(pem)
		transport.TLS = &tls.Config{RootCAs: authorities}
	}
	return transport, err
}

func firstOf(errors map[string]error) error {
	for _, err := range errors {
		if err != nil {
			return err
		}
	}
	return nil
}

func topics() error {
	made, gone := config.Prefix+"-made", config.Prefix+"-gone"
	created, err := client().CreateTopics(within(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: made, NumPartitions: 3, ReplicationFactor: 1}, {Topic: gone, NumPartitions: 1, ReplicationFactor: 1},
	}})
	if err == nil {
		err = firstOf(created.Errors)
	}
	if err != nil {
		return err
	}
	grown, err := client().CreatePartitions(within(), &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: made, Count: 4}},
	})
	if err == nil {
		err = firstOf(grown.Errors)
	}
	if err != nil {
		return err
	}
	deleted, err := client().DeleteTopics(within(), &kafka.DeleteTopicsRequest{Topics: []string{gone}})
	if err == nil {
		err = firstOf(deleted.Errors)
	}
	return err
}

func configs() error {
	topic, retention := config.Prefix+"-none", "123456789"
	_, err := client().IncrementalAlterConfigs(within(), &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{{
				Name: "retention.ms", Value: retention, ConfigOperation: kafka.ConfigOperationSet,
			}},
		}},
	})
	if err != nil {
		return err
	}
	described, err := client().DescribeConfigs(within(), &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"},
		}},
	})
	if err != nil {
		return err
	}
	if kept := described.Resources[0].ConfigEntries[0].ConfigValue; kept != retention {
		return fmt.Errorf("retention.ms=%s", kept)
	}
	return nil
}

func groups() error {
	listed, err := client().ListGroups(within(), &kafka.ListGroupsRequest{})
	if err != nil {
		return err
	}
	isListed := false
	for _, group := range listed.Groups {
		isListed = isListed || group.GroupID == config.Prefix+"-g"
	}
	if !isListed {
		return fmt.Errorf("groups: %v", listed.Groups)
	}
	described, err := client().DescribeGroups(within(), &kafka.DescribeGroupsRequest{GroupIDs: []string{config.Prefix + "-g"}})
	if err != nil || described.Groups[0].Error != nil {
		return fmt.Errorf("%v %v", err, described)
	}
	deleted, err := client().DeleteGroups(within(), &kafka.DeleteGroupsRequest{GroupIDs: []string{config.Prefix + "-lat"}})
	if err == nil {
		err = firstOf(deleted.Errors)
	}
	return err
}

func times() error {
	topic := config.Prefix + "-group"
	at := time.UnixMilli(config.BaseMs + 10_000)
	listed, err := client().ListOffsets(within(), &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{topic: {kafka.TimeOffsetOf(0, at)}},
	})
	if err != nil {
		return err
	}
	for offset := range listed.Topics[topic][0].Offsets {
		if offset == 5 {
			return nil
		}
	}
	return fmt.Errorf("offsets %v", listed.Topics[topic])
}

func main() {
	readConfig()
	tasks := []task{}
	for name, codec := range map[string]kafka.Compression{
		"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	} {
		tasks = append(tasks, task{name, func() error {
			return produce(config.Prefix+"-"+name, codec, config.Servers["plain"], nil, config.Count)
		}})
	}
	tasks = append(tasks, task{"log_append_time", func() error {
		topic := config.Prefix + "-log_append_time"
		if err := produce(topic, 0, config.Servers["plain"], nil, config.Count); err != nil {
			return err
		}
		_, err := consume(topic, config.Count, config.Prefix+"-lat")
		return err
	}}, task{"group", func() error {
		_, err := consume(config.Prefix+"-group", 40, config.Prefix+"-g")
		return err
	}}, task{"transaction", func() error { return absent("its writer has no transactions") }})
	for _, l := range logins() {
		tasks = append(tasks, task{l.name, func() error {
			transport, err := l.transport()
			if err != nil {
				return err
			}
			return produce(config.Prefix+"-login", 0, l.servers, transport, 1)
		}})
	}
	run(append(tasks,
		task{"topics", topics}, task{"configs", configs}, task{"groups", groups}, task{"times", times},
	))
}
