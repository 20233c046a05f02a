// Consume, transform, produce exactly once with kafkajs; then a group whose committed offset is out of range.
const { Kafka, logLevel } = require('kafkajs');
const [servers] = process.argv.slice(2);
const kafka = new Kafka({ clientId: 'ctp', brokers: [servers], logLevel: logLevel.ERROR });
(async () => {
  const plain = kafka.producer();
  await plain.connect();
  await plain.send({ topic: 'in', messages: Array.from({ length: 20 }, (_, i) => ({ value: String(i) })) });
  await plain.disconnect();
  const producer = kafka.producer({ transactionalId: 'ctp', maxInFlightRequests: 1, idempotent: true });
  await producer.connect();
  const consumer = kafka.consumer({ groupId: 'ctp' });
  await consumer.connect();
  await consumer.subscribe({ topics: ['in'], fromBeginning: true });
  let seen = 0;
  await new Promise((done, fail) => consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      try {
        const transaction = await producer.transaction();
        await transaction.send({ topic: 'out', messages: [{ value: 'seen ' + message.value }] });
        const offset = String(Number(message.offset) + 1);
        await transaction.sendOffsets({
          consumerGroupId: 'ctp',
          topics: [{ topic, partitions: [{ partition, offset }] }],
        });
        await transaction.commit();
        if (++seen === 20) done();
      } catch (error) { fail(error); }
    },
  }));
  await consumer.disconnect();
  const admin = kafka.admin();
  await admin.connect();
  // out of range: the group goes on where `fromBeginning` says
  await admin.setOffsets({ groupId: 'lost', topic: 'in', partitions: [{ partition: 0, offset: '1000' }] });
  const lost = kafka.consumer({ groupId: 'lost' });
  await lost.connect();
  await lost.subscribe({ topics: ['in'], fromBeginning: true });
  let again = 0;
  await new Promise((done) => lost.run({ eachMessage: async () => { if (++again === 20) done(); } }));
  console.log('recovered', again);
  await lost.disconnect(); await admin.disconnect(); await producer.disconnect();
})().catch((error) => { console.error(error); process.exit(1); });
