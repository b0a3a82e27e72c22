/**
 * Driver of this client for the conformance suite (clients/conformance/README.md): in Node.js it reads commands from
 * stdin and writes answers to stdout; in a browser the same lines pass through `gamedCommand` and `gamedSay`
 * (tests/chromium_driver.py, tests/engine_driver.py).
 */

import { Conflict, GamedClient, GamedError, IN_NODE, InvalidProof, SaveInfo, openDatabase, transact } from "./gamed.mjs"
import { Assets } from "./gamed_assets.mjs"
import { Sync } from "./gamed_sync.mjs"

const FEATURES = [
  ...(IN_NODE ? ["loopback"] : []),
  ..."saves sync assets parallel shared_store clock timeout names tickets other_players confirm".split(" "),
  ..."ensure providers qr account commit return_uri loop pages locale delete_newer cancel stop_at_once".split(" "),
]

/** What this browser cannot do. @type {string[]} */
const LACKS = /** @type {any} */ (globalThis).gamedLacks ?? []

/** @type {(text: string) => void} */
const write = IN_NODE
  ? (text) => process.stdout.write(`${text}\n`)
  : (text) => /** @type {any} */ (globalThis).gamedSay(text)

/** @param {object} line */
const say = (line) => write(JSON.stringify(line))

class Unsupported extends Error {}

/** The reason of each aborted signal. */
class Cancelled extends Error {}

/** One client, with the questions to its person. */
class Session {
  stop = new AbortController()
  /** @type {((code: string | null) => void) | undefined} */
  answer
  /** @type {(() => Promise<void>) | null | undefined} */
  showCode

  /** @param {any} command */
  static async open(command) {
    const session = new Session()
    session.name = command.client
    session.shift = command.clock_shift ?? 0
    const pauses = command.pauses ?? 1
    session.client = await GamedClient.open(command.server, {
      folder: IN_NODE ? command.folder : `${command.app ?? ""}${marked(command.folder)}`,
      app: command.app ?? "conformance",
      timeout: command.timeout_seconds ?? undefined,
      returnSeconds: command.return_seconds ?? undefined,
      deviceName: command.device_name ?? undefined,
      locale: command.locale ?? undefined,
      now: () => Date.now() / 1000 + session.shift,
      sleep: (seconds) => {
        session.tell({ event: "pause", seconds })
        return new Promise((resolve) => setTimeout(resolve, seconds * pauses * 1000))
      },
    })
    return session
  }

  /** @type {any} */
  sync
  /** @type {Map<string, any>} the conflicts that were shown last, by slot */
  shown = new Map()
  name = ""
  shift = 0
  /** @type {any} */
  client

  /** By the text of `cancellation`. @type {Map<string, AbortController>} */
  cancellations = new Map()

  /** @param {string} name */
  cancellation(name) {
    const known = this.cancellations.get(name) ?? new AbortController()
    this.cancellations.set(name, known)
    return known
  }

  /** Ends `sync_run`. */
  stopRun = new AbortController()

  /** @param {{ slot: string, state: string }} status */
  changed = ({ slot, state }) => this.tell({ event: "sync_changed", slot, state })

  /** @param {object} event */
  tell(event) {
    say({ ...event, client: this.name })
  }

  person = {
    /** @param {readonly { name: string, label: string }[]} providers */
    chooseProvider: (providers) => {
      const [names, labels] = [providers.map(({ name }) => name), providers.map(({ label }) => label)]
      this.tell({ event: "choose_provider", providers: names, labels })
      return names[names.length - 1]
    },
    browserOpened: () => undefined,
    /** @param {(() => Promise<void>) | null} showCode @param {number | null} attemptsLeft */
    finishCode: (showCode, attemptsLeft) => {
      this.showCode = showCode
      this.tell({ event: "finish_code", show_code: showCode !== null, attempts_left: attemptsLeft })
      return /** @type {Promise<string | null>} */ (new Promise((resolve) => (this.answer = resolve)))
    },
    /** @param {any} error */
    problem: (error) => void (this.problem = error),
  }

  /** @type {any} the error that `ensureSignedIn` showed */
  problem

  /** Return the options of a sign-in that does not open a browser. @param {any} command */
  options({ provider, loopback, return_uri }) {
    const openBrowser = (/** @type {string} */ url, /** @type {string | null} */ qr_url) => {
      this.tell({ event: "open", url, qr_url })
      return true
    }
    this.stop = new AbortController()
    const { signal } = this.stop
    const more = { loopback: loopback ?? true, returnUri: return_uri ?? undefined }
    return { provider: provider ?? undefined, ...more, openBrowser, signal }
  }
}

/** @type {Map<string, Session>} */
const sessions = new Map()

/** @type {Record<string, (session: Session, command: any) => any>} */
const COMMANDS = {
  clock: (session, { shift }) => void (session.shift = shift),
  cancel: (session, { cancellation }) => session.cancellation(cancellation).abort(new Cancelled()),
  policy: ({ client }) => client.policy(),
  providers: async ({ client }) => ({ providers: await client.providers() }),
  sign_in: async (session, command) => {
    await session.client.signIn(session.person, session.options(command))
    return who(session.client)
  },
  ensure_signed_in: async (session, command) => {
    session.problem = null
    const signed_in = await session.client.ensureSignedIn(session.person, session.options(command))
    return { signed_in, problem: session.problem && errorJson(session.problem) }
  },
  returned: ({ client }, { url }) => void client.returned(url),
  finish_code: (session, { code }) => session.answer?.(code ?? null),
  show_code: (session) => void session.showCode?.(),
  cancel_sign_in: ({ stop }) => stop.abort(),
  signed_in: async ({ client }) => (await client.look(), who(client)),
  sign_out: async ({ client }, { scope }) => ({ server_notified: await client.signOut(scope ?? "this") }),
  whoami: ({ client }, { signal }) => client.whoami({ signal }),
  set_name: async ({ client }, { name }) => ({ name: await client.setName(name) }),
  ticket: async ({ client }, { audience, nonce }) => ({ ticket: await client.ticket(audience, nonce ?? null) }),

  sessions: async ({ client }) => ({ sessions: await client.listSessions() }),
  end_session: ({ client }, { session_id }) => client.endSession(session_id),
  identities: async ({ client }) => ({ identities: await client.listIdentities() }),
  link: async (session, command) => {
    const options = session.options(command)
    return { provider: await session.client.link(session.person, command.provider, options) }
  },
  unlink: ({ client }, { provider }) => client.unlink(provider),
  delete_player: ({ client }) => client.deletePlayer(),
  erase_saves: ({ client }) => client.eraseSaves(),
  export: async ({ client }, { file, signal }) => {
    if (IN_NODE) return { size: await client.export(file, { signal }) }
    const blob = await client.export(undefined, { signal })
    say({ write: file, files: { "": base64(await blob.arrayBuffer()) } })
    return { size: blob.size }
  },
  commit: async ({ client }, { writes }) => {
    const found = await client.commit(writes.map(writeOf))
    return { saves: found.map(infoJson) }
  },

  list_saves: async ({ client }) => ({ saves: (await client.listSaves()).map(infoJson) }),
  changes: async ({ client }, { since, wait, limit, signal }) => {
    const found = await client.changes(since ?? null, { wait: wait ?? 0, limit: limit ?? undefined, signal })
    return { ...found, saves: found.saves.map(infoJson) }
  },
  get: async ({ client }, { slot, unless }) => saveJson(await client.get(slot, { unless: unless ?? null })),
  put: async ({ client }, { slot, data, base, content_type, meta, signal }) => {
    const options = { base: base ?? null, contentType: content_type ?? undefined, meta: meta ?? null, signal }
    return infoJson(await client.put(slot, bytes(data), options))
  },
  delete: ({ client }, { slot, base }) => client.delete(slot, { base: base ?? null }),
  versions: async ({ client }, { slot }) => ({ versions: (await client.versions(slot)).map(versionJson) }),
  versions_page: async ({ client }, { slot, before, limit }) => {
    const page = await client.versionsPage(slot, { before: before ?? undefined, limit: limit ?? undefined })
    return { versions: page.versions.map(versionJson), more: page.more }
  },
  version: async ({ client }, { slot, number }) => saveJson(await client.version(slot, number)),
  restore: async ({ client }, { slot, number, base }) =>
    infoJson(await client.restore(slot, number, { base: base ?? null })),
  dismiss: ({ client }, { slot, number }) => client.dismiss(slot, number),

  download: async ({ client }, { channel, target, signal }) => {
    const assets = await Assets.open(client, { folder: IN_NODE ? `${target}.store` : undefined })
    const { release, files } = await assets.download(channel, { signal })
    const paths = [...files.keys()]
    if (IN_NODE) {
      const { rename, symlink } = await import("node:fs/promises")
      await symlink(`${target}.store/releases/${release}`, `${target}.new`)
      await rename(`${target}.new`, target)
    } else {
      await assets.switch()
      /** @type {Record<string, string>} */
      const contents = {}
      for (const path of paths) contents[path] = base64(await assets.bytes(path))
      say({ write: target, files: contents })
    }
    return { release, files: paths }
  },

  sync_open: async (session) => void (session.sync = await Sync.open(session.client)),
  sync_close: ({ sync }, { within }) => sync?.close(within ?? 0),
  sync_start: (session) => session.sync.start(session.changed),
  sync_run: (session) => {
    session.stopRun = new AbortController()
    return session.sync.run(session.changed, { signal: session.stopRun.signal })
  },
  sync_stop: ({ stopRun }) => stopRun.abort(),
  sync_ready: async ({ sync }, { within }) => ({ ready: await sync.ready(within) }),
  sync_read: async ({ sync }, { slot }) => saveJson(await sync.read(slot)),
  sync_peek: async ({ sync }, { slot }) => saveJson(await sync.peek(slot)),
  sync_write: ({ sync }, { slot, data, meta, content_type }) =>
    sync.write(slot, bytes(data), { meta: meta ?? null, contentType: content_type ?? undefined }),
  sync_delete: ({ sync }, { slot, including_newer }) => sync.delete(slot, { includingNewer: including_newer ?? false }),
  sync_status: ({ sync }, { slot }) => statusJson(sync.status(slot)),
  sync_slots: ({ sync }) => ({ slots: sync.slots().map(statusJson) }),
  sync_pump: async ({ sync }) => ({ news: (await sync.send()).map(statusJson) }),
  sync_conflicts: (session) => {
    session.shown = new Map(session.sync.conflicts.map((/** @type {any} */ conflict) => [conflict.slot, conflict]))
    return { conflicts: [...session.shown.values()].map(conflictJson) }
  },
  sync_side: async (session, { slot, side }) => sideJson(await shown(session, slot)[side]()),
  sync_keep_mine: (session, { slot }) => shown(session, slot).keepMine(),
  sync_keep_theirs: (session, { slot }) => shown(session, slot).keepTheirs(),
  sync_merged: (session, { slot, data, meta }) => shown(session, slot).merged(bytes(data), { meta: meta ?? null }),
  sync_dropped: async ({ sync }, { slot }) => sideJson(await sync.lost(slot)),
  sync_other_players: async ({ sync }) => {
    const found = await sync.otherPlayers()
    return { players: found.map((/** @type {any} */ player) => ({ player_id: player.playerId, ...player })) }
  },
  sync_adopt: async ({ sync }, { player_id, slots }) => ({ slots: await sync.adopt(player_id, { slots }) }),
  sync_trouble: ({ sync }) => ({ code: sync.problem ? sync.problem.code : null }),
}

/** Commands on the browser's storage, which need no session. @type {Record<string, (command: any) => any>} */
const STORAGE = {
  stored: async ({ folder, text }) => ({ stored: (await recordsWith(folder, text)).length }),
  damage: async ({ folder, text, into }) => {
    const found = await recordsWith(folder, text)
    for (const { name, store, key, value } of found) {
      const other = typeof value === "string" ? into : new TextEncoder().encode(into)
      const damaged = value instanceof Blob ? new Blob([other]) : other
      await inDatabase(name, (database) =>
        transact(database, [store], "readwrite", (of) => of(store).put(damaged, key)),
      )
    }
    return { stored: found.length }
  },
}

/** @param {Session} session @param {string} slot */
function shown(session, slot) {
  const conflict = session.shown.get(slot)
  if (!conflict) throw new Unsupported(`no conflict of ${slot} was shown`)
  return conflict
}

/** @param {any} status */
const statusJson = (status) => ({ ...status, problem: status.problem ? status.problem.code : null })

/** @param {any} conflict */
function conflictJson({ slot, reason, baseInfo, current, copy }) {
  return { slot, reason, base: infoJson(baseInfo), current: infoJson(current), copy: infoJson(copy) }
}

/** @param {any} side */
function sideJson(side) {
  if (side === null) return null
  return { data: base64(side.data), content_type: side.contentType, meta: side.meta }
}

/** @param {any} client */
function who({ credential }) {
  if (credential === null) return { signed_in: false }
  return { signed_in: true, player_id: credential.playerId, session_id: credential.sessionId }
}

/** @param {any} info */
function infoJson(info) {
  if (!(info instanceof SaveInfo)) return info
  const { contentType, ...rest } = info
  return { ...rest, content_type: contentType }
}

/** @param {any} version */
const versionJson = (version) => ({ ...version, save: infoJson(version.save) })

/** @param {any} save */
function saveJson(save) {
  if (save === null) return null
  const data = base64(save.data)
  return { data, etag: save.etag, content_type: save.contentType, meta: save.meta }
}

/** @param {any} write */
function writeOf({ slot, data, base, content_type, meta, ...rest }) {
  const where = { slot, base: base ?? null }
  if (rest.delete) return { ...where, delete: true }
  return { ...where, data: bytes(data), contentType: content_type ?? undefined, meta: meta ?? null }
}

/** @param {string} data @returns {Uint8Array} */
const bytes = (data) => Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))

/** @param {Uint8Array | ArrayBuffer} data */
function base64(data) {
  let text = ""
  for (const byte of new Uint8Array(data)) text += String.fromCharCode(byte)
  return btoa(text)
}

// --- Databases of a browser, in place of a folder --------------------------------------------------------------------

/** @param {string} folder */
const marked = (folder) => folder.replace(/[^A-Za-z0-9]+/g, "-")

/**
 * List the records with this text that the client keeps for `folder` and the folders below it.
 * @param {string} folder @param {string} text
 */
async function recordsWith(folder, text) {
  /** @type {any[]} */
  const found = []
  const names = (await indexedDB.databases()).map(({ name }) => name ?? "")
  for (const name of names.filter((one) => one.includes(marked(folder)))) {
    await inDatabase(name, async (database) => {
      for (const store of database.objectStoreNames) {
        const keys = await transact(database, [store], "readonly", (of) => of(store).getAllKeys())
        const values = await transact(database, [store], "readonly", (of) => of(store).getAll())
        for (const [at, value] of values.entries()) {
          const holds = typeof value === "string" ? value : await new Blob([value]).text()
          if (holds.includes(text)) found.push({ name, store, key: keys[at], value })
        }
      }
    })
  }
  return found
}

/** @template T @param {string} name @param {(database: IDBDatabase) => Promise<T>} work */
async function inDatabase(name, work) {
  const database = await openDatabase(name, [])
  try {
    return await work(database)
  } finally {
    database.close()
  }
}

/** @param {any} sides */
const sidesJson = ({ base, current, yours }) => ({
  base: infoJson(base),
  current: infoJson(current),
  yours: infoJson(yours),
})

/** @param {any} error */
function errorJson(error) {
  if (error instanceof Unsupported) return { code: "unsupported", kind: "Driver", detail: error.message, status: 0 }
  if (error instanceof Cancelled) return { code: "cancelled", kind: "Cancelled", detail: "", status: 0 }
  if (!(error instanceof GamedError)) {
    return { code: "driver_failed", kind: "Driver", detail: String(error?.stack ?? error), status: 0 }
  }
  const { code, name: kind, detail, status, retryAfter } = error
  const more = retryAfter === null ? {} : { retry_after: retryAfter }
  if (error instanceof InvalidProof) Object.assign(more, { attempts_left: error.attemptsLeft })
  if (error instanceof Conflict) {
    Object.assign(more, sidesJson(error))
    if (error.slots.length) {
      const listed = error.slots.map((one) => ({ slot: one.slot, code: one.code, ...sidesJson(one) }))
      Object.assign(more, { conflicts: listed })
    }
  }
  return { code, kind, detail, status, ...more }
}

/** @param {any} command */
async function perform(command) {
  if (command.do === "open") {
    const session = await Session.open(command)
    sessions.set(command.client, session)
    return { origin: String(session.client.origin) }
  }
  if (command.do === "close") {
    const session = sessions.get(command.client)
    sessions.delete(command.client)
    session?.stop.abort()
    await session?.sync?.close()
    return {}
  }
  if (!IN_NODE && Object.hasOwn(STORAGE, command.do)) return STORAGE[command.do](command)
  const session = sessions.get(command.client)
  if (!session) throw new Unsupported(`no client is called ${command.client}`)
  if (!Object.hasOwn(COMMANDS, command.do)) throw new Unsupported(`no command is called ${command.do}`)
  const { cancellation } = command
  const how = { ...command, signal: cancellation ? session.cancellation(cancellation).signal : undefined }
  return COMMANDS[command.do](session, how)
}

/** @param {string} line */
async function answer(line) {
  const command = JSON.parse(line)
  try {
    const ok = await perform(command)
    say({ id: command.id, ok: ok === undefined ? {} : ok })
  } catch (error) {
    say({ id: command.id, error: errorJson(error) })
  }
}

if (!IN_NODE) Object.assign(globalThis, { gamedCommand: (/** @type {string} */ line) => void answer(line) })
say({
  event: "hello",
  language: IN_NODE ? "JavaScript" : "JavaScript in a browser",
  features: FEATURES.filter((name) => !LACKS.includes(name)),
  own_storage: !IN_NODE,
})
if (IN_NODE) {
  const { createInterface } = await import("node:readline")
  const lines = createInterface({ input: process.stdin })
  lines.on("line", answer)
  lines.on("close", () => process.exit(0))
}
