// Consume, transform, produce exactly once with sarama: each record of "in" becomes one of "out" in a transaction that
// also commits the group's offset.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/IBM/sarama"
)

const count = 20

type handler struct {
	producer sarama.AsyncProducer
	done     context.CancelFunc
	seen     int
}

func (h *handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		must(h.producer.BeginTxn())
		h.producer.Input() <- &sarama.ProducerMessage{
			Topic: "out",
			Value: sarama.StringEncoder("seen " + string(message.Value)),
		}
		must(h.producer.AddMessageToTxn(message, "ctp", nil))
		must(h.producer.CommitTxn())
		h.seen++
		if h.seen == count {
			h.done()
			return nil
		}
	}
	return nil
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	servers := []string{os.Args[1]}
	plain := sarama.NewConfig()
	plain.Version = sarama.V2_8_0_0
	plain.Producer.Return.Successes = true
	first, err := sarama.NewSyncProducer(servers, plain)
	must(err)
	for i := 0; i < count; i++ {
		_, _, err = first.SendMessage(&sarama.ProducerMessage{Topic: "in", Value: sarama.StringEncoder(fmt.Sprint(i))})
		must(err)
	}
	must(first.Close())

	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Transaction.ID = "ctp"
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewAsyncProducer(servers, config)
	must(err)
	go func() {
		for failure := range producer.Errors() {
			must(failure.Err)
		}
	}()

	reading := sarama.NewConfig()
	reading.Version = sarama.V2_8_0_0
	reading.Consumer.Offsets.Initial = sarama.OffsetOldest
	reading.Consumer.Offsets.AutoCommit.Enable = false
	group, err := sarama.NewConsumerGroup(servers, "ctp", reading)
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	work := &handler{producer: producer, done: cancel}
	for ctx.Err() == nil {
		must(group.Consume(ctx, []string{"in"}, work))
	}
	must(group.Close())
	must(producer.Close())
}
