// Resolves all names in E2B_DOMAIN to the address of this machine, as no resolver of it does.
import dns from 'node:dns'

const domain = '.' + process.env.E2B_DOMAIN.split(':')[0]
const lookup = dns.lookup
dns.lookup = (host, options, done) => {
  if (typeof options === 'function') [done, options] = [options, {}]
  if (!host.endsWith(domain)) return lookup(host, options, done)
  const one = { address: '127.0.0.1', family: 4 }
  process.nextTick(() => (options?.all ? done(null, [one]) : done(null, one.address, one.family)))
}
