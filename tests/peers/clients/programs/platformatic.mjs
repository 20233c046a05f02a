// @platformatic/kafka: every task of the matrix.

import { readFileSync } from 'node:fs'
import {
  Admin, ConfigResourceTypes, Consumer, IncrementalAlterConfigOperationTypes, Producer, stringSerializers,
} from '@platformatic/kafka'
import report from './report.cjs'

const { config, check, run, logins } = report
const { prefix, count } = config
const plain = { clientId: 'matrix', bootstrapBrokers: [config.servers.plain] }

async function produce(topic, compression, options = plain, number = count) {
  const producer = new Producer({ ...options, serializers: stringSerializers })
  try {
    const messages = Array.from({ length: number }, (_, i) => ({
      topic, key: `k${i}`, value: `${i}`, partition: 0, headers: { h: 'v' },
    }))
    await producer.send({ messages, compression })
  } finally {
    await producer.close()
  }
}

async function consume(topic, number, groupId) {
  const consumer = new Consumer({ ...plain, groupId })
  const stream = await consumer.consume({ topics: [topic], mode: 'earliest', autocommit: false })
  let taken = 0
  for await (const message of stream) {
    await message.commit()
    if (++taken === number) break
  }
  check(taken === number, `${taken} of ${number} records`)
  await consumer.close(true)
}

async function transaction() {
  const producer = new Producer({
    ...plain, transactionalId: `${prefix}-x`, idempotent: true, serializers: stringSerializers,
  })
  for (let i = 0; i < 3; i++) {
    const open = await producer.beginTransaction()
    await open.send({ messages: [{ topic: `${prefix}-transaction`, value: `${i}` }] })
    await (i === 1 ? open.abort() : open.commit())
  }
  await producer.close()
}

function login([, servers, tls, mechanism]) {
  const options = {
    clientId: 'matrix',
    bootstrapBrokers: [servers],
    sasl: { mechanism, username: config.user, password: config.password },
    ...(tls ? { tls: { ca: [readFileSync(config.ca)] } } : {}),
  }
  return produce(`${prefix}-login`, 'none', options, 1)
}

const admin = (call) => async () => {
  const connected = new Admin(plain)
  try {
    await call(connected)
  } finally {
    await connected.close()
  }
}

run({
  ...Object.fromEntries(
    ['none', 'gzip', 'snappy', 'lz4', 'zstd'].map((codec) => [codec, () => produce(`${prefix}-${codec}`, codec)]),
  ),
  log_append_time: async () => {
    await produce(`${prefix}-log_append_time`, 'none')
    await consume(`${prefix}-log_append_time`, count, `${prefix}-lat`)
  },
  group: () => consume(`${prefix}-group`, 40, `${prefix}-g`),
  transaction,
  ...Object.fromEntries(logins.map((each) => [each[0], () => login(each)])),
  topics: admin(async (connected) => {
    const [made, gone] = [`${prefix}-made`, `${prefix}-gone`]
    await connected.createTopics({ topics: [made], partitions: 3, replicas: 1 })
    await connected.createTopics({ topics: [gone], partitions: 1, replicas: 1 })
    const topics = await connected.listTopics()
    check(topics.includes(made) && topics.includes(gone), `topics: ${topics}`)
    await connected.createPartitions({ topics: [{ name: made, count: 4, assignments: [] }] })
    await connected.deleteTopics({ topics: [gone] })
  }),
  configs: admin(async (connected) => {
    const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: `${prefix}-none` }
    const set = {
      name: 'retention.ms', configOperation: IncrementalAlterConfigOperationTypes.SET, value: '123456789',
    }
    await connected.incrementalAlterConfigs({ resources: [{ ...resource, configs: [set] }] })
    const [described] = await connected.describeConfigs({ resources: [resource] })
    const kept = described.configs.find((entry) => entry.name === 'retention.ms').value
    check(kept === '123456789', `retention.ms=${kept}`)
  }),
  groups: admin(async (connected) => {
    const groups = await connected.listGroups()
    check(groups.has(`${prefix}-g`), 'list')
    await connected.describeGroups({ groups: [`${prefix}-g`] })
    await connected.deleteGroups({ groups: [`${prefix}-lat`] })
  }),
  times: admin(async (connected) => {
    const partitions = [{ partitionIndex: 0, timestamp: BigInt(config.base_ms + 10_000) }]
    const [listed] = await connected.listOffsets({ topics: [{ name: `${prefix}-group`, partitions }] })
    check(listed.partitions[0].offset === 5n, `offset ${listed.partitions[0].offset}`)
  }),
})
