// A match server in Node.js checks who is connecting (docs/developers/tickets.md).
//
//     npm install jose
//     node check-ticket.mjs https://play.example.org match.example
//
// This program reads lines with a nonce and a ticket, and writes a line of JSON for each. In your server, give each
// connection a nonce of its own, randomBytes(24).toString("base64url"), and call check() with what comes back.

import { createInterface } from "node:readline"
import { createRemoteJWKSet, jwtVerify } from "jose"

const MAX_TICKET = 4096

/**
 * Return a function that checks the tickets for one audience of one gamed server.
 * @param {string} server the address that the owner has published, never one that a player sends
 * @param {string} audience
 */
export function ticketChecker(server, audience) {
  const issuer = `${server}/auth`
  // Keys of the last hour are new enough. After an answer, unknown `kid`s make one request in 30 seconds at most. While
  // gamed does not answer, each check that finds none under way makes one: it takes 5 seconds, and blocks nothing else.
  const keys = createRemoteJWKSet(new URL(`${issuer}/keys`), { cacheMaxAge: 3_600_000, cooldownDuration: 30_000 })
  return async function check(/** @type {string} */ ticket, /** @type {string | undefined} */ nonce) {
    if (!nonce) throw new Error("no nonce") // none was sent yet: a ticket without one must not match it
    if (ticket.length > MAX_TICKET) throw new Error("too long")
    const { payload } = await jwtVerify(ticket, keys, {
      algorithms: ["EdDSA"],
      typ: "gamed-ticket+jwt", // rule 1
      issuer, // rule 2
      audience, // rule 3
      clockTolerance: 30, // rule 4
      maxTokenAge: 300, // and not one that was issued while gamed's clock was ahead
      requiredClaims: ["exp", "sub"],
    })
    if (typeof payload.aud !== "string") throw new Error("aud") // jose also accepts a list
    if (payload.nonce !== nonce) throw new Error("nonce") // rule 5
    return payload
  }
}

const [server, audience] = process.argv.slice(2)
const check = ticketChecker(server, audience)
for await (const line of createInterface({ input: process.stdin })) {
  const [ticket, nonce] = line.split(" ").reverse()
  try {
    const { sub, name } = await check(ticket, nonce)
    console.log(JSON.stringify({ player: sub, name: name ?? null }))
  } catch (error) {
    console.log(JSON.stringify({ refused: /** @type {Error} */ (error).message }))
  }
}
