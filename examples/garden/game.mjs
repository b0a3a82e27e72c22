/** The page around the garden: sign-in, saving, offline play, and the choice when two tabs have changed it. */

import { Account, connectAccount } from "./account.mjs"
import { GamedClient, GamedError, LoginCancelled, PlayerChanged, SignInRequired, finishCode } from "../gamed.mjs"
import { Assets } from "../gamed_assets.mjs"
import { InUse, Sync } from "../gamed_sync.mjs"
import { STAGES, described, faceOf, loaded, newGarden, pressed, saved } from "./garden.mjs"

/** @import { Side, Status, SyncConflict } from "../gamed_sync.mjs" */
/** @import { Garden } from "./garden.mjs" */

const SLOT = "garden"
const APP = "garden"
const SCENE = "meadow.svg"
const TABS = 4
/** A player who presses nothing for longer is not counted as playing. */
const LONGEST_REST_SECONDS = 60
/** Name of this device in the list of versions and in the player's list of devices. */
const DEVICE = `Browser on ${/** @type {any} */ (navigator).userAgentData?.platform || navigator.platform}`

/** @param {string} id @returns {any} */
const element = (id) => document.getElementById(id)

// --- The sign-in: the texts and buttons of this game -----------------------------------------------------------------

/** @type {AbortController | undefined} */
let signingIn

const person = {
  /** @param {readonly { name: string, label: string }[]} providers @returns {Promise<string>} */
  chooseProvider(providers) {
    return new Promise((resolve, reject) => {
      signingIn?.signal.addEventListener("abort", () => reject(new LoginCancelled("login_cancelled", "Cancelled.")))
      element("providers").hidden = false
      element("providers").replaceChildren(
        ...providers.map(({ name, label }) => {
          const button = document.createElement("button")
          button.type = "button"
          button.className = "main"
          button.textContent = `Sign in with ${label}`
          button.addEventListener("click", () => {
            element("providers").hidden = true
            resolve(name)
          })
          return button
        }),
      )
      element("providers").firstChild?.focus()
    })
  },

  /** @param {string} url */
  browserOpened(url) {
    element("login-link").href = url
    element("browser").hidden = false
    element("server-form").hidden = true
  },

  /** @param {unknown} showCode @param {number | null} attemptsLeft @returns {Promise<string>} */
  finishCode(showCode, attemptsLeft) {
    const form = element("code-form")
    form.hidden = false
    element("code").value = ""
    element("code").focus()
    if (attemptsLeft !== null) tell("start-problem", `That is not the code. You can try ${attemptsLeft} more times.`)
    return new Promise((resolve) => {
      form.onsubmit = (/** @type {Event} */ event) => {
        event.preventDefault()
        const code = finishCode(element("code").value)
        tell("start-problem", code ? "" : "The code has six letters, like BKT-RVW.")
        if (code) resolve(code)
      }
    })
  },

  /** @param {GamedError} error */
  problem(error) {
    if (!(error instanceof LoginCancelled)) tell("start-problem", error.detail)
  },
}

/** @param {string} id @param {string} text */
function tell(id, text) {
  if (element(id).textContent !== text) element(id).textContent = text // screen readers announce every change
}

function showStart() {
  element("server-form").hidden = false
  for (const id of ["game", "sign-out", "account-open", "providers", "browser", "code-form"]) element(id).hidden = true
  element("start").hidden = false
  tell("who", "")
}

/** @param {Event} event */
async function signIn(event) {
  event.preventDefault()
  tell("start-problem", "")
  signingIn?.abort()
  const abort = (signingIn = new AbortController())
  try {
    const client = await GamedClient.open(element("server").value, { app: APP, deviceName: DEVICE })
    if (!(await client.ensureSignedIn(person, { signal: abort.signal }))) {
      if (abort === signingIn) showStart() // else the player has begun another sign-in
      return
    }
    localStorage.setItem("server", String(client.origin))
    if (offered) localStorage.setItem("offered", offered)
    await play(client)
  } catch (/** @type {any} */ error) {
    showStart()
    tell("start-problem", wordsOf(error))
  }
}

/** Sign in as the same player, before an act that cannot be undone. @param {GamedClient} client @param {string} why */
async function signInAgain(client, why) {
  const player = client.credential?.playerId
  const abort = (signingIn = new AbortController())
  element("game").hidden = element("server-form").hidden = true
  element("start").hidden = false
  tell("start-problem", why)
  try {
    await client.signIn(person, { signal: abort.signal })
  } finally {
    for (const id of ["providers", "browser", "code-form", "start"]) element(id).hidden = true
    element("game").hidden = false
    tell("start-problem", "")
  }
  if (client.credential?.playerId !== player) {
    throw new PlayerChanged("player_changed", "That was another player. Nothing was deleted.")
  }
}

/** @param {any} error */
function wordsOf(error) {
  if (error instanceof GamedError) return error.detail
  console.error(error)
  return "Something went wrong in this page."
}

// --- The game --------------------------------------------------------------------------------------------------------

/** The game in one tab. */
class Play {
  garden = newGarden()
  lastPress = Date.now()
  /** @type {AbortController | undefined} */
  running
  /** @type {SyncConflict | undefined} the one that is shown */
  conflict
  later = false
  /** How many gardens the browser is writing: until it has, `status` is that of the one before. */
  writing = 0
  /** Why the browser could not keep the garden on the screen. */
  unkept = ""

  /** @param {GamedClient} client @param {Sync} sync @param {number} tab */
  constructor(client, sync, tab) {
    this.client = client
    this.sync = sync
    this.tab = tab
    const own = ownOf(client) // which needs the credential, and a deleted player has none
    this.account = new Account(client, {
      slot: SLOT,
      take: (save) => this.replace(loaded(save.data)),
      signInAgain: (why) => signInAgain(client, why),
      wordsOf,
      deleted: () => forget(own),
    })
  }

  async start() {
    element("start").hidden = true
    element("offline").checked = false
    for (const id of ["game", "sign-out", "account-open"]) element(id).hidden = false
    this.showPlayer().catch((/** @type {any} */ error) => console.warn(wordsOf(error))) // without a network
    tell("device", this.tab === 1 ? "" : `Tab ${this.tab}: it saves as a device of its own.`)
    this.goOnline()
    tell("state", "Loading")
    await this.sync.ready() // on a fresh device only the server knows whether there is a garden
    await this.load()
    showScene(this.client).catch((/** @type {any} */ error) => console.warn(wordsOf(error))) // play without it
  }

  /** Show who plays where: without a network by the name that the player had last. */
  async showPlayer() {
    const name = `name${ownOf(this.client)}`
    const words = () => [localStorage.getItem(name), this.client.origin.host].filter(Boolean).join(" on ")
    tell("who", words())
    localStorage.setItem(name, (await this.client.whoami()).player.name ?? "")
    if (this === playing) tell("who", words())
  }

  async stop() {
    this.running?.abort()
    for (const id of ["conflict", "account"]) element(id).close()
    await this.sync.close()
  }

  goOnline() {
    const running = (this.running = new AbortController())
    this.sync
      .run(() => this === playing && this.look(), { signal: running.signal })
      .catch((/** @type {any} */ error) => {
        if (this !== playing) return
        if (error instanceof SignInRequired) leave(error.detail)
        else tell("state", wordsOf(error))
      })
  }

  goOffline() {
    this.running?.abort()
    this.running = undefined
    this.look()
  }

  /** Read the newest garden that this device has. */
  async load() {
    this.unkept = ""
    try {
      const save = await this.sync.read(SLOT)
      this.garden = save ? loaded(save.data) : newGarden()
    } catch (error) {
      if (!(error instanceof GamedError)) throw error
      this.garden = newGarden() // deleted, not here yet, or not known yet
    }
    this.draw()
    this.look()
  }

  /** @param {number} at */
  press(at) {
    const since = Math.min((Date.now() - this.lastPress) / 1000, LONGEST_REST_SECONDS)
    this.lastPress = Date.now()
    return this.replace(pressed(this.garden, at, since))
  }

  /** Continue with this garden, and save it. @param {Garden} garden */
  async replace(garden) {
    this.garden = garden
    this.draw()
    tell("state", "Saving")
    this.writing++
    try {
      await this.sync.write(SLOT, saved(this.garden), {
        contentType: "application/json",
        meta: faceOf(this.garden),
      })
      this.unkept = ""
    } catch (error) {
      this.unkept = `Not saved. ${wordsOf(error)}`
    } finally {
      this.writing--
    }
    this.look()
  }

  draw() {
    drawPlots(element("plots"), this.garden, (at) => this.press(at))
    tell("count", described(this.garden))
  }

  /** Show the state of the save, and a newer garden or a conflict. */
  look() {
    const status = this.sync.status(SLOT)
    element("state").dataset.state = status.state
    tell("state", this.wordsFor(status))
    const untouched = status.state === "newer" && this.garden.picked === 0 && this.garden.plots.every((stage) => !stage)
    if (untouched) return void this.load() // the player has not changed the garden on the screen
    element("newer").hidden = status.state !== "newer"
    tell("newer-text", `There is a newer garden from another device: ${status.meta.title ?? "it was removed"}.`)
    element("undecided").hidden = status.state !== "conflict" || element("conflict").open
    const [conflict] = this.sync.conflicts
    if (conflict && !this.later && JSON.stringify(conflict) !== JSON.stringify(this.conflict)) this.ask(conflict)
    if (!conflict) {
      element("conflict").close()
      this.conflict = undefined
      this.later = false
    }
  }

  /** @param {Status} status */
  wordsFor({ state, problem }) {
    const away = this.running ? this.sync.problem : true
    if (this.writing) return "Saving"
    if (this.unkept) return this.unkept
    if (state === "conflict") return "Kept in this browser; waits for your choice"
    if (state === "refused") return problem ? `Kept in this browser. ${problem.detail}` : ""
    if (state === "waiting") return away ? "Offline: kept in this browser" : "Saving"
    if (state === "unknown") return away ? "Offline: this browser was never online with this player" : "Loading"
    return away ? "Offline" : "Saved"
  }

  /** @param {SyncConflict} conflict */
  async ask(conflict) {
    this.conflict = conflict
    this.later = false
    tell("conflict-problem", "")
    try {
      const [mine, theirs] = await Promise.all([conflict.mine(), conflict.theirs()])
      drawSide("mine", mine, "Removed here.")
      drawSide("theirs", theirs, conflict.reason === "lost" ? "The server has lost it." : "Removed there.")
    } catch (error) {
      return tell("state", wordsOf(error))
    }
    element("undecided").hidden = true
    if (!element("conflict").open) element("conflict").showModal()
  }

  /** @param {"keepMine" | "keepTheirs"} how */
  async choose(how) {
    try {
      await this.conflict?.[how]()
    } catch (error) {
      tell("conflict-problem", wordsOf(error))
      const [conflict] = this.sync.conflicts
      if (!conflict) return this.look()
      await this.ask(conflict) // a side has changed meanwhile
      return tell("conflict-problem", wordsOf(error))
    }
    element("conflict").close()
    await this.load()
  }

  decideLater() {
    this.later = true
    element("conflict").close()
    this.look()
  }
}

/**
 * Show a picture of the server's release: first the one on this device, then the newest.
 * @param {GamedClient} client
 */
async function showScene(client) {
  const assets = await Assets.open(client)
  const draw = async () => {
    if (!assets.current?.files.has(SCENE)) return
    const image = element("scene-image")
    URL.revokeObjectURL(image.src)
    image.src = await assets.url(SCENE)
    image.hidden = false
    tell("scene-text", `The meadow is from the server: release ${assets.current.release}`)
  }
  await draw()
  await assets.download("stable")
  await assets.switch()
  await draw()
}

/** @param {HTMLElement} grid @param {Garden} garden @param {((at: number) => void)} [press] */
function drawPlots(grid, garden, press) {
  if (grid.children.length === 0) {
    grid.append(...garden.plots.map((_, at) => newPlot(press && (() => press(at)))))
  }
  garden.plots.forEach((stage, at) => {
    const plot = /** @type {any} */ (grid.children[at])
    plot.dataset.stage = stage
    plot.querySelector("use").setAttribute("href", `#stage-${stage}`)
    if (press) plot.setAttribute("aria-label", `Plot ${at + 1}: ${STAGES[stage]}`)
  })
}

const SVG = "http://www.w3.org/2000/svg"

/** @param {(() => void) | undefined} press */
function newPlot(press) {
  const plot = document.createElement(press ? "button" : "span")
  const picture = document.createElementNS(SVG, "svg")
  picture.setAttribute("aria-hidden", "true")
  picture.append(document.createElementNS(SVG, "use"))
  plot.append(picture)
  if (press) {
    plot.setAttribute("type", "button")
    plot.addEventListener("click", press)
  }
  return plot
}

/** @param {"mine" | "theirs"} side @param {Side | null} found @param {string} none */
function drawSide(side, found, none) {
  const garden = found ? loaded(found.data) : newGarden()
  const when = found?.modified ? new Date(found.modified) : null
  const where = found?.device ? ` on ${found.device}` : ""
  const time = when?.toLocaleString([], { dateStyle: "medium", timeStyle: "medium" })
  tell(`${side}-when`, when ? `Saved ${time}${where}` : "")
  tell(`${side}-text`, found ? described(garden) : none)
  drawPlots(element(`${side}-plots`), garden)
  element(`${side}-plots`).setAttribute("aria-label", found ? described(garden) : none)
}

// --- The page --------------------------------------------------------------------------------------------------------

/** @type {Play | undefined} */
let playing

/** Start the game with a folder of its own: the first that no other tab has open. @param {GamedClient} client */
async function play(client) {
  for (let tab = 1; tab <= TABS; tab++) {
    try {
      const sync = await Sync.open(client, { folder: `tab-${tab}` })
      element("plots").replaceChildren()
      playing = new Play(client, sync, tab)
      navigator.storage?.persist?.() // else a browser whose disk is full may delete saves that are not sent yet
      await playing.start()
      return void sendLeftovers(client, tab)
    } catch (error) {
      if (!(error instanceof InUse) || tab === TABS) throw error
    }
  }
}

/**
 * Send the saves that a closed tab has not sent. Without a network they stay for the next start; after a conflict, for
 * the next tab that opens that folder.
 * @param {GamedClient} client @param {number} mine
 */
async function sendLeftovers(client, mine) {
  const places = Array.from({ length: TABS }, (_, index) => index + 1).filter((tab) => tab !== mine)
  for (const tab of places) {
    try {
      const sync = await Sync.open(client, { folder: `tab-${tab}` })
      if (sync.status(SLOT).state === "waiting") await sync.send().catch(() => undefined)
      await sync.close()
    } catch (error) {
      if (!(error instanceof InUse)) console.warn(wordsOf(error)) // else that tab is open and sends them itself
    }
  }
}

/** @param {string} why */
async function leave(why) {
  const left = playing
  playing = undefined
  await left?.stop()
  showStart()
  tell("start-problem", why)
}

/** Return the end of all names of a player's data in this browser; Sync has the same. @param {GamedClient} client */
const ownOf = (client) => `/${client.place}/${client.credential?.playerId}`

/** Delete the data of a deleted player from this browser, not that of other players. @param {string} own */
async function forget(own) {
  await leave("You and your gardens were deleted.")
  localStorage.removeItem(`name${own}`)
  for (const { name } of (await indexedDB.databases?.()) ?? []) {
    if (name?.startsWith(`gamed/${APP}/`) && name.endsWith(own)) indexedDB.deleteDatabase(name)
  }
}

element("server-form").addEventListener("submit", signIn)
connectAccount(() => playing?.account)
element("cancel").addEventListener("click", () => {
  signingIn?.abort()
  showStart()
})
element("sign-out").addEventListener("click", async () => {
  const client = playing?.client
  await leave("")
  await client?.signOut()
})
element("offline").addEventListener("change", () => {
  if (element("offline").checked) playing?.goOffline()
  else playing?.goOnline()
})
element("load").addEventListener("click", () => playing?.load())
element("choose").addEventListener("click", () =>
  playing?.sync.conflicts.slice(0, 1).map((/** @type {any} */ one) => playing?.ask(one)),
)
element("keep-mine").addEventListener("click", () => playing?.choose("keepMine"))
element("keep-theirs").addEventListener("click", () => playing?.choose("keepTheirs"))
element("later").addEventListener("click", () => playing?.decideLater())
element("conflict").addEventListener("cancel", () => playing?.decideLater())
setInterval(() => playing?.look(), 1000) // shows within a second whether the server responds

/**
 * Return the address of the server that `gamed dev --static` runs; null if another program serves this page.
 * @returns {Promise<string | null>}
 */
async function developmentServer() {
  try {
    const answer = await fetch("../gamed-dev.json", { cache: "no-store" })
    return answer.ok ? (await answer.json()).server : null
  } catch {
    return null
  }
}

const offered = await developmentServer()
// the last server that the player used, unless `gamed dev` has moved to another port since
const moved = offered !== null && offered !== localStorage.getItem("offered")
const server = moved ? null : localStorage.getItem("server")
element("server").value = server ?? offered ?? ""
try {
  const client = server ? await GamedClient.open(server, { app: APP, deviceName: DEVICE }) : null
  if (client?.signedIn) await play(client)
  else showStart()
} catch (error) {
  showStart()
  tell("start-problem", wordsOf(error))
}
