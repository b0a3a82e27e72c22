// npm oauth2-mock-server: it redirects every browser back at once, as the same person.
// One argument, JSON: port, issuer. Prints "ready" when it listens.
import { OAuth2Server } from 'oauth2-mock-server'

const options = JSON.parse(process.argv[2])
const server = new OAuth2Server()
await server.issuer.keys.generate('RS256')
await server.start(options.port, '127.0.0.1')
server.issuer.url = options.issuer
console.log('ready')
