// sarama: every task of the matrix.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

type scramClient struct {
	*scram.ClientConversation
	hash scram.HashGeneratorFcn
}

func (c *scramClient) Begin(user, password, authzID string) error {
	client, err := c.hash.NewClient(user, password, authzID)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}

func settings() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V2_8_0_0
	c.Producer.Return.Successes = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Metadata.Retry.Max = 2
	return c
}

func produce(topic string, codec sarama.CompressionCodec, servers string, c *sarama.Config, count int) error {
	c.Producer.Compression = codec
	producer, err := sarama.NewSyncProducer([]string{servers}, c)
	if err != nil {
		return err
	}
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, count)
	for i := range messages {
		messages[i] = &sarama.ProducerMessage{
			Topic:   topic,
			Key:     sarama.StringEncoder(fmt.Sprintf("k%d", i)),
			Value:   sarama.StringEncoder(fmt.Sprint(i)),
			Headers: []sarama.RecordHeader{{Key: []byte("h"), Value: []byte("v")}},
		}
	}
	return producer.SendMessages(messages)
}

type member struct {
	wanted int
	taken  int
	times  []time.Time
	end    context.CancelFunc
	queue  chan struct{}
}

func (m *member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.queue <- struct{}{}
			m.taken++
			m.times = append(m.times, message.Timestamp)
			s.MarkMessage(message, "")
			s.Commit()
			enough := m.taken == m.wanted
			<-m.queue
			if enough {
				m.end()
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

func consume(topic string, count int, group string) ([]time.Time, error) {
	consumer, err := sarama.NewConsumerGroup([]string{config.Servers["plain"]}, group, settings())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	ctx, end := context.WithTimeout(context.Background(), limit-5*time.Second)
	defer end()
	m := &member{wanted: count, end: end, queue: make(chan struct{}, 1)}
	for ctx.Err() == nil {
		if err := consumer.Consume(ctx, []string{topic}, m); err != nil {
			return nil, err
		}
	}
	if m.taken != count {
		return nil, fmt.Errorf("%d of %d records", m.taken, count)
	}
	return m.times, nil
}

func transaction() error {
	c := settings()
	c.Producer.Idempotent = true
	c.Net.MaxOpenRequests = 1
	c.Producer.Transaction.ID = config.Prefix + "-x"
	producer, err := sarama.NewSyncProducer([]string{config.Servers["plain"]}, c)
	if err != nil {
		return err
	}
	defer producer.Close()
	for i := 0; i < 3; i++ {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		message := &sarama.ProducerMessage{Topic: config.Prefix + "-transaction", Value: sarama.StringEncoder(fmt.Sprint(i))}
		if _, _, err := producer.SendMessage(message); err != nil {
			return err
		}
		end := producer.CommitTxn
		if i == 1 {
			end = producer.AbortTxn
		}
		if err := end(); err != nil {
			return err
		}
	}
	return nil
}

func (l login) settings() (*sarama.Config, error) {
	c := settings()
	c.Net.SASL.Enable, c.Net.SASL.User, c.Net.SASL.Password = true, config.User, config.Password
	c.Net.SASL.Mechanism = sarama.SASLMechanism(l.mechanism)
	c.Net.SASL.Version = sarama.SASLHandshakeV0 // the default of sarama before 1.44 and of programs that kept it
	c.ApiVersionsRequest = false                // as version 0 needs it
	if l.mechanism != "PLAIN" {
		c.ApiVersionsRequest = true
		c.Net.SASL.Version = sarama.SASLHandshakeV1
		c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
			if l.mechanism == "SCRAM-SHA-512" {
				return &scramClient{hash: sha512.New}
			}
			return &scramClient{hash: sha256.New}
		}
	}
	if l.protocol == "SASL_SSL" {
		authorities := x509.NewCertPool()
		pem, err := os.ReadFile(config.CA)
		if err != nil {
			return nil, err
		}
		authorities.AppendCertsFromPEM(pem)
		c.Net.TLS.Enable, c.Net.TLS.Config = true, &tls.Config{RootCAs: authorities}
	}
	return c, nil
}

func withAdmin(call func(sarama.ClusterAdmin) error) func() error {
	return func() error {
		admin, err := sarama.NewClusterAdmin([]string{config.Servers["plain"]}, settings())
		if err != nil {
			return err
		}
		defer admin.Close()
		return call(admin)
	}
}

func topics(admin sarama.ClusterAdmin) error {
	made, gone := config.Prefix+"-made", config.Prefix+"-gone"
	for name, partitions := range map[string]int32{made: 3, gone: 1} {
		if err := admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false); err != nil {
			return err
		}
	}
	if _, err := admin.ListTopics(); err != nil {
		return err
	}
	if err := admin.CreatePartitions(made, 4, nil, false); err != nil {
		return err
	}
	return admin.DeleteTopic(gone)
}

func configs(admin sarama.ClusterAdmin) error {
	topic, retention := config.Prefix+"-none", "123456789"
	set := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &retention},
	}
	if err := admin.IncrementalAlterConfig(sarama.TopicResource, topic, set, false); err != nil {
		return err
	}
	entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}})
	if err != nil || len(entries) != 1 || entries[0].Value != retention {
		return fmt.Errorf("%v %v", entries, err)
	}
	return nil
}

func groups(admin sarama.ClusterAdmin) error {
	listed, err := admin.ListConsumerGroups()
	if err != nil {
		return err
	}
	if _, is := listed[config.Prefix+"-g"]; !is {
		return fmt.Errorf("groups: %v", listed)
	}
	if _, err := admin.DescribeConsumerGroups([]string{config.Prefix + "-g"}); err != nil {
		return err
	}
	return admin.DeleteConsumerGroup(config.Prefix + "-lat")
}

func times() error {
	client, err := sarama.NewClient([]string{config.Servers["plain"]}, settings())
	if err != nil {
		return err
	}
	defer client.Close()
	offset, err := client.GetOffset(config.Prefix+"-group", 0, config.BaseMs+10_000)
	if err != nil || offset != 5 {
		return fmt.Errorf("offset %d: %v", offset, err)
	}
	return nil
}

// lookupOfOwnRecords looks up what sarama itself wrote: releases up to 1.45 send a header without the largest timestamp.
func lookupOfOwnRecords() error {
	client, err := sarama.NewClient([]string{config.Servers["plain"]}, settings())
	if err != nil {
		return err
	}
	defer client.Close()
	offset, err := client.GetOffset(config.Prefix+"-none", 0, time.Now().Add(-time.Hour).UnixMilli())
	if err != nil || offset != 0 {
		return fmt.Errorf("offset %d of its own records: %v", offset, err)
	}
	return nil
}

func main() {
	readConfig()
	tasks := []task{}
	for name, codec := range map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	} {
		tasks = append(tasks, task{name, func() error {
			return produce(config.Prefix+"-"+name, codec, config.Servers["plain"], settings(), config.Count)
		}})
	}
	tasks = append(tasks, task{"log_append_time", func() error {
		topic := config.Prefix + "-log_append_time"
		began := time.Now().Add(-time.Minute)
		if err := produce(topic, sarama.CompressionNone, config.Servers["plain"], settings(), config.Count); err != nil {
			return err
		}
		taken, err := consume(topic, config.Count, config.Prefix+"-lat")
		for _, at := range taken {
			if at.Before(began) {
				return fmt.Errorf("a timestamp of %v", at)
			}
		}
		return err
	}}, task{"group", func() error {
		_, err := consume(config.Prefix+"-group", 40, config.Prefix+"-g")
		return err
	}}, task{"transaction", transaction})
	for _, l := range logins() {
		tasks = append(tasks, task{l.name, func() error {
			c, err := l.settings()
			if err != nil {
				return err
			}
			return produce(config.Prefix+"-login", sarama.CompressionNone, l.servers, c, 1)
		}})
	}
	run(append(tasks,
		task{"topics", withAdmin(topics)}, task{"configs", withAdmin(configs)}, task{"groups", withAdmin(groups)},
		task{"times", func() error {
			if err := times(); err != nil {
				return err
			}
			return lookupOfOwnRecords()
		}},
	))
}
