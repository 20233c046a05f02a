// The report of a client program in JavaScript: a line for each task, `name TAB ok | absent | failed TAB why`.

const config = JSON.parse(process.argv[2])
const LIMIT_MS = 40_000

class Absent extends Error {}

function check(holds, otherwise) {
  if (!holds) throw new Error(otherwise)
}

async function run(tasks) {
  for (const [name, task] of Object.entries(tasks)) {
    if (config.tasks.length && !config.tasks.includes(name)) continue
    let outcome = 'ok\t'
    let timer
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no end within ${LIMIT_MS} ms`)), LIMIT_MS)
    })
    try {
      await Promise.race([task(), late])
    } catch (error) {
      console.error(error)
      const why = `${error.name}: ${error.message}`.replace(/[\n\t]/g, ' ').slice(0, 300)
      outcome = error instanceof Absent ? `absent\t${error.message}` : `failed\t${why}`
    } finally {
      clearTimeout(timer)
    }
    console.log(`${name}\t${outcome}`)
  }
  process.exit(0)
}

const logins = [
  ['plain', config.servers.sasl, false, 'PLAIN'],
  ['scram', config.servers.sasl, false, 'SCRAM-SHA-256'],
  ['plain_tls', config.servers.sasl_tls, true, 'PLAIN'],
  ['scram_tls', config.servers.sasl_tls, true, 'SCRAM-SHA-512'],
]

module.exports = { config, check, run, logins, Absent }
