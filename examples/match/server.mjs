/** Tug of war: a match server that knows both players by their tickets (docs/developers/tickets.md). */

import { createServer } from "node:http"
import { randomBytes } from "node:crypto"

const { GAMED_URL, GAMED_PAGE_URL, GAMED_MATCH_SECRET, MATCH_PORT } = process.env
if (!GAMED_URL || !GAMED_PAGE_URL || !GAMED_MATCH_SECRET) {
  console.error('Run this by: gamed dev --static examples --static clients/js --script "node examples/match/server.mjs"')
  process.exit(2)
}
const PORT = Number(MATCH_PORT ?? 8083)
const ORIGINS = ["127.0.0.1", "localhost"].map((name) => `http://${name}:${new URL(GAMED_PAGE_URL).port}`)
const LENGTH = 10 // pulls to either side
const NONCE_MS = 30_000
const MOST_NONCES = 1000 // anyone can request them; a flood must not discard those of players who are about to join
const MOST_BYTES = 8192

// --- Who is connecting? ----------------------------------------------------------------------------------------------

/** The nonces that no ticket has come back for yet, and when they end. @type {Map<string, number>} */
const nonces = new Map()

/** Return a nonce for one connection; null while as many as this server stores are waiting for tickets. */
function newNonce() {
  for (const [nonce, ends] of nonces) if (ends < Date.now()) nonces.delete(nonce)
  if (nonces.size >= MOST_NONCES) return null
  const nonce = randomBytes(24).toString("base64url")
  nonces.set(nonce, Date.now() + NONCE_MS)
  return nonce
}

/**
 * Return id and name of the player of a ticket; null for any other text. gamed checks all of the ticket but the nonce,
 * which this server has chosen, and accepts once.
 * @param {string} ticket @param {string} nonce
 */
async function playerOf(ticket, nonce) {
  const ends = nonces.get(nonce)
  nonces.delete(nonce)
  if (ends === undefined || ends < Date.now()) return null
  const answer = await fetch(`${GAMED_URL}/auth/tickets/introspect`, {
    method: "POST",
    headers: { Authorization: `Bearer ${GAMED_MATCH_SECRET}` },
    body: new URLSearchParams({ token: ticket }),
    redirect: "error",
    signal: AbortSignal.timeout(10_000),
  })
  if (!answer.ok) throw new Error(`gamed answers ${answer.status}`)
  const claims = await answer.json()
  if (!claims.active || claims.nonce !== nonce) return null
  return { id: claims.sub, name: claims.name ?? "Somebody without a name" }
}

// --- The match -------------------------------------------------------------------------------------------------------

/** @typedef {{ id: string, name: string, key: string, response: import("node:http").ServerResponse }} Seat */
/** @type {(Seat | null)[]} */
const seats = [null, null]
let rope = 0 // from -LENGTH, the first player's side, to LENGTH
/** @type {string | null} */
let winner = null

/** Send the match to both players: each line of the response is one state. */
function tellAll() {
  const names = seats.map((seat) => seat?.name ?? null)
  seats.forEach((seat, you) => seat?.response.write(`${JSON.stringify({ names, rope, winner, you })}\n`))
}

/** @param {{ id: string, name: string }} player @param {import("node:http").ServerResponse} response */
function join(player, response) {
  if (!response.socket || response.socket.destroyed) return true // the browser left while gamed was asked
  const free = seats.indexOf(null)
  if (free < 0 || seats.some((seat) => seat?.id === player.id)) return false
  const key = randomBytes(24).toString("base64url")
  seats[free] = { ...player, key, response }
  ;[rope, winner] = [0, null]
  console.log(`${player.name} joins as player ${free + 1}.`)
  response.writeHead(200, { "Content-Type": "application/x-ndjson", "Cache-Control": "no-store" })
  response.write(`${JSON.stringify({ key })}\n`)
  response.on("close", () => {
    seats[free] = null
    console.log(`${player.name} leaves.`)
    tellAll()
  })
  tellAll()
  return true
}

/** Pull the rope, or begin again after the end. @param {number} side */
function pull(side) {
  if (seats.includes(null)) return
  if (winner) [rope, winner] = [0, null]
  else rope += side === 0 ? -1 : 1
  if (Math.abs(rope) >= LENGTH) winner = /** @type {Seat} */ (seats[side]).name
  tellAll()
}

// --- Requests --------------------------------------------------------------------------------------------------------

/** @param {import("node:http").IncomingMessage} request @returns {Promise<any>} */
async function bodyOf(request) {
  let text = ""
  for await (const part of request) if ((text += part).length > MOST_BYTES) throw new SyntaxError("too long")
  return JSON.parse(text)
}

/** @param {import("node:http").IncomingMessage} request @param {import("node:http").ServerResponse} response */
async function answer(request, response) {
  const { origin, authorization } = request.headers
  if (!origin || !ORIGINS.includes(origin)) return void response.writeHead(403).end()
  response.setHeader("Access-Control-Allow-Origin", origin)
  response.setHeader("Access-Control-Allow-Headers", "authorization, content-type")
  if (request.method === "OPTIONS") return void response.writeHead(204).end()
  if (request.method !== "POST") return void response.writeHead(405).end()
  if (request.url === "/nonce") {
    const nonce = newNonce()
    if (!nonce) return void response.writeHead(503, { "Retry-After": "30" }).end()
    return void response.end(JSON.stringify({ nonce }))
  }
  if (request.url === "/join") {
    const { ticket, nonce } = await bodyOf(request)
    const player = await playerOf(String(ticket), String(nonce))
    if (!player) return void response.writeHead(401).end()
    if (!join(player, response)) response.writeHead(409).end()
    return
  }
  const side = seats.findIndex((seat) => seat && authorization === `Bearer ${seat.key}`)
  if (request.url !== "/pull" || side < 0) return void response.writeHead(404).end()
  pull(side)
  response.writeHead(204).end()
}

createServer((request, response) => {
  answer(request, response).catch((error) => {
    if (!(error instanceof SyntaxError)) console.error(`No answer: ${error.message}`)
    if (!response.headersSent) response.writeHead(error instanceof SyntaxError ? 400 : 502).end()
  })
}).listen(PORT, "127.0.0.1", () => console.log(`Open ${GAMED_PAGE_URL}match/?port=${PORT} in two browsers.`))
