/** The page of tug of war: signs in at gamed, and brings a ticket to the match server. */

import { GamedClient, GamedError } from "../gamed.mjs"
import { Dialog } from "../gamed_dialog.mjs"

const AUDIENCE = "match.example"
const LENGTH = 10
const MATCH = `http://127.0.0.1:${Number(new URLSearchParams(location.search).get("port") ?? 8083)}`

/** @param {string} id @returns {any} */
const element = (id) => document.getElementById(id)
let key = ""
/** @type {GamedClient} */
let client

/** @param {string} path @param {object} [body] */
function send(path, body) {
  const headers = key ? { Authorization: `Bearer ${key}` } : { "Content-Type": "application/json" }
  return fetch(`${MATCH}${path}`, { method: "POST", headers, body: JSON.stringify(body ?? {}), cache: "no-store" })
}

/** Show who the match server knows, and where the rope is. @param {any} state */
function show({ names, rope, winner, you }) {
  names.forEach((/** @type {string | null} */ name, /** @type {number} */ side) => {
    element(`player-${side}`).textContent = `${name ?? "waiting"}${side === you ? " (you)" : ""}`
  })
  element("rope").value = rope + LENGTH
  element("state").textContent = winner
    ? `${winner} wins.`
    : names.includes(null)
      ? "Waiting for the other player."
      : `Pull! ${rope === 0 ? "The rope is in the middle." : `${names[rope < 0 ? 0 : 1]} leads by ${Math.abs(rope)}.`}`
  element("pull").textContent = winner ? "Again" : "Pull"
  element("pull").disabled = names.includes(null)
}

async function play() {
  element("problem").textContent = ""
  if (!(await client.ensureSignedIn(new Dialog()))) return
  const offered = await send("/nonce")
  if (!offered.ok) throw new Error("Too many players are joining. Try again in half a minute.")
  const { nonce } = await offered.json()
  const ticket = await client.ticket(AUDIENCE, nonce)
  const answer = await send("/join", { ticket, nonce })
  if (answer.status === 409) throw new Error("Two play already, or you play in another browser.")
  if (!answer.ok || !answer.body) throw new Error("The match server does not accept the ticket.")
  element("start").hidden = true
  element("match").hidden = false
  let text = ""
  for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
    const lines = (text + part).split("\n")
    text = lines.pop() ?? ""
    for (const state of lines.map((line) => JSON.parse(line))) {
      if (state.key) key = state.key
      else show(state)
    }
  }
  throw new Error("The match server has ended the match.")
}

/** @param {any} error */
function leave(error) {
  key = ""
  element("start").hidden = false
  element("match").hidden = true
  const known = error instanceof GamedError ? error.detail : error.message
  element("problem").textContent = error instanceof TypeError ? "The match server does not answer." : known
}

element("pull").addEventListener("click", () => send("/pull").catch(leave))
element("start").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault()
  play().catch(leave)
})
const about = await (await fetch("../gamed-dev.json", { cache: "no-store" })).json()
client = await GamedClient.open(about.server, { app: "tug-of-war" })
element("join").disabled = false
