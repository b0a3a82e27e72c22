/** Four in a row for two people in two browsers. Their game is one save of one player, which both read and write. */

// One folder up: at the root of a site `..` is the root itself, so that the client's files may be beside this one, too.
import { GamedClient, GamedError } from "../gamed.mjs"
import { Dialog } from "../gamed_dialog.mjs"
import { InUse, Sync } from "../gamed_sync.mjs"
import { COLUMNS, DISCS, ROWS, SIDES, columnsOf, fourIn, merged, moved, parsed, seated, sideOf } from "./four.mjs"

/** @import { SyncConflict } from "../gamed_sync.mjs" */
/** @import { Match } from "./four.mjs" */

const APP = "four-in-a-row"
const SLOT = APP
const TABS = 4 // the server lets four requests of a player wait for changes
const DEVICE = `Browser on ${/** @type {any} */ (navigator).userAgentData?.platform || navigator.platform}`
const TOO_LATE = "Your last move came too late: the game went on in another browser. The server keeps a copy."

// --- The save: each change is made to the newest match, and written, before the next one -----------------------------

/** @type {GamedClient | undefined} */
let client
/** @type {Sync | undefined} */
let sync
let running = new AbortController()
/** The seat with this key is this tab's, also after a reload. */
let key = ""
let match = parsed()
/** @type {Promise<unknown>} */
let turn = Promise.resolve()

/** Return what the player's account shows of the save. @param {Match} match */
const faceOf = ({ game, moves, seats }) => ({
  title: seats.map((seat, side) => seat?.name ?? SIDES[side]).join(" against "),
  place: `Game ${game}, move ${moves.length}`,
})

/**
 * Read the newest match that this browser knows, and change it. Without a network the browser keeps the change, and
 * sends it later.
 * @param {(match: Match) => Match | null} [change] returns null if the change is not possible any more
 */
function act(change) {
  turn = turn.then(async () => {
    if (!sync) return
    try {
      for (const conflict of sync.conflicts) await settle(conflict)
      match = parsed((await sync.read(SLOT))?.data)
      const next = change?.(match)
      const how = next && { contentType: "application/json", meta: faceOf(next) }
      if (how) await sync.write(SLOT, JSON.stringify(next), how)
      match = next ?? match
    } catch (error) {
      if (change || !(error instanceof GamedError)) tell("problem", wordsOf(error)) // else it has not arrived yet
    }
    draw()
  })
}

/** Two browsers changed one version: keep both changes, or the server's. @param {SyncConflict} conflict */
async function settle(conflict) {
  const [mine, theirs] = await Promise.all([conflict.mine(), conflict.theirs()])
  if (!mine || !theirs) return theirs ? conflict.keepTheirs() : conflict.keepMine() // deleted there: play on
  const [before, server] = [parsed(mine.data), parsed(theirs.data)]
  const after = merged(before, server)
  const text = JSON.stringify(after)
  if (text === JSON.stringify(server)) await conflict.keepTheirs() // the server keeps this browser's as a copy
  else await conflict.merged(text, { meta: faceOf(after) })
  const here = before.game === after.game && before.moves.every((column, at) => after.moves[at] === column)
  if (!here) tell("problem", TOO_LATE)
}

/** @param {string} server @param {boolean} asks */
async function start(server, asks) {
  tell("problem", "")
  client = await GamedClient.open(server, { app: APP, deviceName: DEVICE })
  show(asks ? await client.ensureSignedIn(new Dialog()) : client.signedIn)
  if (element("game").hidden) return
  localStorage.setItem(APP, JSON.stringify({ server, offered }))
  sync = await openTab(client)
  running = new AbortController()
  sync.run(() => act(), { signal: running.signal }).catch(leave)
  await sync.ready() // on a fresh device only the server knows whether there is a game
  act()
  const name = (await client.whoami().catch(() => undefined))?.player.name
  tell("who", name ? `${name} on ${client.origin.host}` : client.origin.host)
  if (name && !match.seats.some((seat) => seat?.name === name)) element("name").value ||= name
}

/** Open a folder that no other tab has, first the one of this tab before a reload. @param {GamedClient} client */
async function openTab(client) {
  const before = Number(sessionStorage.getItem(APP)) || 1
  for (const tab of [before, ...Array.from({ length: TABS }, (_, at) => at + 1)]) {
    try {
      const opened = await Sync.open(client, { folder: `tab-${tab}` })
      sessionStorage.setItem(APP, String(tab))
      key = localStorage.getItem(`${APP}/tab-${tab}`) ?? crypto.randomUUID()
      localStorage.setItem(`${APP}/tab-${tab}`, key)
      return opened
    } catch (error) {
      if (!(error instanceof InUse)) throw error
    }
  }
  throw new InUse("in_use", "This game is open in too many tabs. Close one, and reload this one.")
}

/** @param {any} error */
async function leave(error) {
  running.abort()
  await sync?.close()
  sync = undefined
  show(false)
  tell("problem", wordsOf(error))
}

// --- The page --------------------------------------------------------------------------------------------------------

/** @param {string} id @returns {any} */
const element = (id) => document.getElementById(id)

/** @param {string} id @param {string} text */
function tell(id, text) {
  if (element(id).textContent !== text) element(id).textContent = text // screen readers announce every change
}

/** @param {any} error */
function wordsOf(error) {
  if (error instanceof GamedError) return error.detail
  if (error) console.error(error)
  return error ? "Something went wrong in this page." : ""
}

/** @param {boolean} playing */
function show(playing) {
  element("start").hidden = playing
  for (const id of ["game", "sign-out"]) element(id).hidden = !playing
  if (!playing) tell("who", "")
}

/** @param {Match} match @returns {number} the side of this tab, or -1 */
const sideHere = ({ seats }) => seats.findIndex((seat) => seat?.key === key)

/** @param {Match} match @param {number} side */
const nameOf = ({ seats }, side) => seats[side]?.name ?? SIDES[side]

/** Return the sentence above the board. @param {Match} match @param {number[][] | undefined} four */
function sentence(match, four) {
  const { game, moves } = match
  const [next, last, here] = [sideOf(game, moves.length), sideOf(game, moves.length + 1), sideHere(match)]
  if (four) return here === last ? "You win: four in a row." : `${nameOf(match, last)}: four in a row.`
  if (moves.length === COLUMNS * ROWS) return "A draw: the board is full."
  const to = here === next ? "Your turn." : `${nameOf(match, next)} to move.`
  if (moves.length === 0 || here === last) return to
  return `${nameOf(match, last)} chose column ${moves[moves.length - 1] + 1}. ${to}`
}

/** Return where the last change is. @param {Sync} sync */
function placeOf(sync) {
  const { problem, state } = sync.status(SLOT)
  if (state === "refused" && problem) return `Kept in this browser. ${problem.detail}`
  if (state === "waiting") return sync.problem ? "Offline: your move is kept here, and sent later" : "Saving"
  if (sync.problem) return "Offline: this is the game as you saw it last"
  return state === "in_step" ? "Saved" : "Loading"
}

function draw() {
  if (!sync) return
  const [columns, here] = [columnsOf(match), sideHere(match)]
  const four = fourIn(columns)
  const over = four !== undefined || match.moves.length === COLUMNS * ROWS
  const mine = !over && here === sideOf(match.game, match.moves.length)
  columns.forEach((discs, column) => {
    const button = element("board").children[column]
    const words = discs.map((side) => DISCS[side]).join(", ") || "empty"
    button.setAttribute("aria-label", `Column ${column + 1}: ${words}`)
    button.setAttribute("aria-disabled", String(!mine || discs.length === ROWS))
    for (let height = 0; height < ROWS; height++) {
      const { dataset } = button.children[height]
      dataset.disc = DISCS[discs[height]] ?? ""
      dataset.four = four?.some(([c, h]) => c === column && h === height) ?? false
      dataset.last = match.moves.at(-1) === column && height === discs.length - 1
    }
  })
  tell("state", sentence(match, four))
  document.title = mine ? "Your turn: Four in a row" : "Four in a row"
  match.seats.forEach((seat, side) => {
    tell(`player-${side}`, `${SIDES[side]}: ${seat ? seat.name : "free"}${side === here ? " (you)" : ""}`)
    tell(`sit-${side}`, `Play ${SIDES[side].toLowerCase()}${seat ? ` in place of ${seat.name}` : ""}`)
  })
  const free = match.seats.some((seat) => !seat)
  tell("hint", free ? "The second player opens this page in another browser, and signs in as the same player." : "")
  element("seats").hidden = here >= 0
  element("again").hidden = here < 0 || !over
  element("more").hidden = here < 0
  tell("sync", placeOf(sync))
}

/** Put a disc into a column. @param {number} column */
function press(column) {
  tell("problem", "")
  act((match) => {
    const [here, next] = [sideHere(match), sideOf(match.game, match.moves.length)]
    const after = moved(match, column)
    if (here === next && after) return after
    const turn = here < 0 ? "Choose a side first." : `It is not your turn: ${nameOf(match, next)} to move.`
    tell("problem", fourIn(columnsOf(match)) ? "This game is over." : here === next ? "This column is full." : turn)
    return null
  })
}

const newGame = () => act((match) => ({ ...match, game: match.game + 1, moves: [] }))

for (let column = 0; column < COLUMNS; column++) {
  const button = document.createElement("button")
  button.type = "button"
  button.append(...Array.from({ length: ROWS }, () => document.createElement("span")))
  button.addEventListener("click", () => press(column))
  element("board").append(button)
}
element("seats").addEventListener("submit", (/** @type {SubmitEvent} */ event) => {
  event.preventDefault()
  const side = Number(/** @type {HTMLButtonElement} */ (event.submitter).value)
  act((match) => seated(match, side, { name: element("name").value, key }))
})
element("again").addEventListener("click", newGame)
element("over").addEventListener("click", newGame)
element("stand").addEventListener("click", () => act((match) => seated(match, sideHere(match), null)))
element("sign-out").addEventListener("click", async () => {
  await leave(undefined)
  await client?.signOut()
})
element("start").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault()
  start(element("server").value, true).catch(leave)
})
setInterval(() => (sync?.conflicts.length ? act() : draw()), 1000) // shows within a second whether the server responds

// `gamed dev --static` serves this file, which has the address of its server
const about = await fetch("../gamed-dev.json", { cache: "no-store" }).catch(() => undefined)
/** @type {string | undefined} */
const offered = about?.ok ? (await about.json()).server : undefined
const used = JSON.parse(localStorage.getItem(APP) ?? "{}")
const server = used.offered === offered ? used.server : offered // else `gamed dev` has another port now
element("server").value = server ?? ""
show(false)
if (server) await start(server, false).catch(leave)
