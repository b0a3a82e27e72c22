// npm oauth2-mock-server: it sends everybody straight back, as the same person.
// One argument, JSON: port, issuer. Says "ready" when it listens.
import { OAuth2Server } from 'oauth2-mock-server'

const options = JSON.parse(process.argv[2])
const server = new OAuth2Server()
await server.issuer.keys.generate('RS256')
await server.start(options.port, '127.0.0.1')
server.issuer.url = options.issuer
console.log('ready')
