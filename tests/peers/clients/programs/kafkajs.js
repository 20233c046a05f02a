// kafkajs: every task of the matrix.

const fs = require('node:fs')
const { Kafka, CompressionTypes, ConfigResourceTypes, logLevel } = require('kafkajs')
const { config, check, run, logins, Absent } = require('./report.cjs')

const { prefix, count } = config
const client = (servers, extra = {}) =>
  new Kafka({ clientId: 'matrix', brokers: [servers], logLevel: logLevel.WARN, ...extra })
const plain = client(config.servers.plain)

async function produce(topic, compression, kafka = plain, number = count) {
  const producer = kafka.producer()
  await producer.connect()
  const messages = Array.from({ length: number }, (_, i) => ({
    key: `k${i}`, value: `${i}`, partition: 0, headers: { h: 'v' },
  }))
  await producer.send({ topic, compression, messages })
  await producer.disconnect()
}

async function consume(topic, number, groupId) {
  const consumer = plain.consumer({ groupId })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  let taken = 0
  const last = {}
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error))
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        last[partition] = Number(message.offset) + 1
        if (++taken === number) resolve()
      },
    })
  })
  const offsets = Object.entries(last).map(([partition, offset]) => ({
    topic, partition: Number(partition), offset: `${offset}`,
  }))
  await consumer.commitOffsets(offsets)
  await consumer.disconnect()
}

async function transaction() {
  const producer = plain.producer({ transactionalId: `${prefix}-x`, idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  for (let i = 0; i < 3; i++) {
    const open = await producer.transaction()
    await open.send({ topic: `${prefix}-transaction`, messages: [{ value: `${i}` }] })
    await (i === 1 ? open.abort() : open.commit())
  }
  await producer.disconnect()
}

function login([, servers, tls, mechanism]) {
  const sasl = { mechanism: mechanism.toLowerCase(), username: config.user, password: config.password }
  const ssl = tls ? { ca: [fs.readFileSync(config.ca)] } : false
  return produce(`${prefix}-login`, CompressionTypes.None, client(servers, { sasl, ssl }), 1)
}

const admin = (call) => async () => {
  const connected = plain.admin()
  await connected.connect()
  try {
    await call(connected)
  } finally {
    await connected.disconnect()
  }
}

const absent = (codec) => async () => {
  throw new Absent(`${codec} needs a plug-in`)
}

run({
  none: () => produce(`${prefix}-none`, CompressionTypes.None),
  gzip: () => produce(`${prefix}-gzip`, CompressionTypes.GZIP),
  snappy: absent('snappy'),
  lz4: absent('lz4'),
  zstd: absent('zstd'),
  log_append_time: async () => {
    await produce(`${prefix}-log_append_time`, CompressionTypes.None)
    await consume(`${prefix}-log_append_time`, count, `${prefix}-lat`)
  },
  group: () => consume(`${prefix}-group`, 40, `${prefix}-g`),
  transaction,
  ...Object.fromEntries(logins.map((each) => [each[0], () => login(each)])),
  topics: admin(async (connected) => {
    const [made, gone] = [`${prefix}-made`, `${prefix}-gone`]
    await connected.createTopics({ topics: [{ topic: made, numPartitions: 3 }, { topic: gone, numPartitions: 1 }] })
    const topics = await connected.listTopics()
    check(topics.includes(made) && topics.includes(gone), `topics: ${topics}`)
    await connected.createPartitions({ topicPartitions: [{ topic: made, count: 4 }] })
    await connected.deleteTopics({ topics: [gone] })
  }),
  configs: admin(async (connected) => {
    const resource = { type: ConfigResourceTypes.TOPIC, name: `${prefix}-none` }
    const configEntries = [{ name: 'retention.ms', value: '123456789' }]
    await connected.alterConfigs({ resources: [{ ...resource, configEntries }] })
    const { resources } = await connected.describeConfigs({ resources: [resource] })
    const kept = resources[0].configEntries.find((entry) => entry.configName === 'retention.ms').configValue
    check(kept === '123456789', `retention.ms=${kept}`)
  }),
  groups: admin(async (connected) => {
    const { groups } = await connected.listGroups()
    check(groups.some((group) => group.groupId === `${prefix}-g`), 'list')
    await connected.describeGroups([`${prefix}-g`])
    await connected.deleteGroups([`${prefix}-lat`])
  }),
  times: admin(async (connected) => {
    const offsets = await connected.fetchTopicOffsetsByTimestamp(`${prefix}-group`, config.base_ms + 10_000)
    const { offset } = offsets.find((each) => each.partition === 0)
    check(offset === '5', `offset ${offset}`)
  }),
})
