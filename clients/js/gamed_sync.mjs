/**
 * Offline play for gamed.mjs: a game saves to this device, which sends the saves when the server can be reached.
 *
 * Copy it beside gamed.mjs; no packages, no build.
 *
 *     const sync = await Sync.open(client)                     // needs no network, and at first no sign-in
 *     sync.run((status) => ..., { signal })                    // from here on saves are sent by themselves
 *     await sync.ready()                                       // until the server has responded, at most 5 seconds
 *     const save = await sync.read("auto")                     // null: never saved; throws NotKnown if never online
 *     await sync.write("auto", bytes, { meta: { title: "Chapter 3" } })    // on this device's disk when it returns
 *     for (const conflict of sync.conflicts)                   // both sides have changed: the player chooses
 *       await conflict.keepMine()                              // or keepTheirs(), or merged(bytes)
 *
 * A write is based on the version that the game last read or wrote, never on one that has only been downloaded: it does
 * not overwrite progress that the player has not seen. No rule uses a clock. All rules: docs/developers/offline.md.
 *
 * Every failure is a GamedError. A game may call several methods at a time; one tab or process at a time may use a
 * player's folder.
 *
 * @module
 */

import {
  Busy,
  Conflict,
  Deleted,
  GamedClient,
  GamedError,
  IN_NODE,
  InUse,
  LocalDamaged,
  NotFound,
  NotGamed,
  PlayerBlocked,
  RateLimited,
  Refused,
  SaveInfo,
  SignInRequired,
  Unreachable,
  UntrustedAddress,
  bytesOf,
  delay,
  guarded,
  ignoring,
  inTurn,
  innerOf,
  nodeModule,
  onDisk,
  openDatabase,
  orAborted,
  pathOf,
  pauseAfter,
  promise,
  sha256Hex,
  syncFolder,
  transact,
  tryLock,
  typeField,
  unlessMissing,
  writeWhole,
} from "./gamed.mjs"

export { InUse, LocalDamaged }

/** @import { Bytes, Credential, Deletion, Meta, RequestOptions, Save, Version } from "./gamed.mjs" */

const FORMAT = 1
/** Folder for saves from before the first sign-in here. `safeName` never returns this name, so it is not a player's. */
const UNOWNED = "not.signed.in"
/** How long the server waits for a change before it responds to a request for changes. */
const WAIT_SECONDS = 25
/** Pause before retrying a refused write, unless the server sends another: the owner can raise a limit meanwhile. */
const AGAIN_SECONDS = 300
/** Largest number of writes that one round sends for a slot that keeps changing. */
const STEPS = 4
/** The server limits the rate of requests for more versions. */
const PAGE_VERSIONS = 32

/** Errors that end a round: they concern the server or the player, not one slot. */
const HALTING = [Unreachable, Busy, RateLimited, SignInRequired, PlayerBlocked, NotGamed, UntrustedAddress]

/** This device has not received the server's list yet: the server may have a save of this slot. */
export class NotKnown extends Unreachable {
  static kind = "NotKnown"

  /** Make the error of a slot that this device does not know yet. */
  constructor() {
    super("not_known", "This device has not reached the server yet, so it does not know this save.")
  }
}

/** The sides have changed since this conflict was shown, or it was settled: read `conflicts` again. */
export class ConflictOver extends GamedError {
  static kind = "ConflictOver"
}

// --- The record of a slot: immutable, every change returns a new record ----------------------------------------------

/**
 * Bytes on this device, kept under their hash. `modified` is RFC 3339 by this device's or the server's clock: only show
 * it to the player.
 * @typedef {{ sha256: string, size: number, contentType: string, meta: { [name: string]: any },
 *   modified: string }} Local
 */

/** @param {SaveInfo} info @returns {Local} */
const localOf = ({ sha256, size, contentType, meta, modified }) => ({ sha256, size, contentType, meta, modified })

/**
 * Compare bytes, content type and meta; null equals null.
 * @param {Local | null} one @param {Local | SaveInfo | null} other
 */
function same(one, other) {
  if (one === null || other === null) return one === other
  return one.sha256 === other.sha256 && one.contentType === other.contentType && equal(one.meta, other.meta)
}

/** Compare JSON values; the order of members does not count. @param {any} one @param {any} other @returns {boolean} */
function equal(one, other) {
  if (one === other) return true
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false
  if (Array.isArray(one) !== Array.isArray(other)) return false
  const names = Object.keys(one)
  return (
    names.length === Object.keys(other).length && names.every((n) => Object.hasOwn(other, n) && equal(one[n], other[n]))
  )
}

/** @param {SaveInfo | null} info */
const tag = (info) => (info ? info.etag : null)

/**
 * A write, or with `local` null a delete, that was sent and may have arrived: it is repeated before any other is sent.
 * @typedef {{ local: Local | null, base: SaveInfo | null }} Sent
 */

/**
 * The server's response to a refused write. `reason`: changed, deleted, or lost (it does not know this save). `copy`:
 * the conflict copy that the server keeps of the refused bytes.
 * @typedef {{ reason: "changed" | "deleted" | "lost", base: SaveInfo | null, current: SaveInfo | null,
 *   copy: SaveInfo | null }} Dispute
 */

/**
 * @typedef {object} Known
 * @property {string} slot
 * @property {Local | null} local the game's bytes; null: none, or deleted
 * @property {SaveInfo | null} base the version that `local` is based on: the game last read it, or the server last
 *   acknowledged it
 * @property {boolean} dirty the game has changed `local` since
 * @property {Sent | null} sent
 * @property {SaveInfo | null} remote the server's version, as last listed
 * @property {boolean} deleted without bytes: there were some before
 * @property {Dispute | null} dispute
 * @property {Local | null} dropped the bytes that a conflict or a delete last replaced on this device
 * @property {SaveInfo | null} spent a conflict copy at the server that is not needed once its bytes are current
 * @property {Sent | null} unsentCopy bytes that a conflict replaced before the server had them; its `base` is never
 *   current, so the server refuses the write and keeps the bytes as a conflict copy
 * @property {string | null} unlisted the cursor that this device had when the server acknowledged `base`: the list of
 *   changes after it has `base`
 * @property {Local | null} offered bytes of another player that `Sync.adopt` has copied and the game has not read: they
 *   replace nothing here
 */

/** Declares the members of a Record. @type {new () => Readonly<Known>} */
const Members = /** @type {any} */ (Object)

class Record extends Members {
  /** @param {Known} known */
  constructor(known) {
    super()
    Object.freeze(Object.assign(this, known))
  }

  /** @param {string} slot */
  static empty(slot) {
    const nothing = { local: null, base: null, sent: null, remote: null, dispute: null, dropped: null, spent: null }
    const later = { unsentCopy: null, unlisted: null, offered: null }
    return new Record({ slot, dirty: false, deleted: false, ...nothing, ...later })
  }

  /** @param {Partial<Known>} changes */
  with(changes) {
    return new Record({ ...this, ...changes })
  }

  /** True if the server has a version that the game has not read, and the game has not changed its own. */
  get newer() {
    return this.idle && tag(this.remote) !== tag(this.base) && (this.remote !== null || this.deleted)
  }

  /** Record a write of the game; the same bytes are not a change. @param {Local | null} local @returns {Record} */
  wrote(local) {
    if (same(this.local, local)) return this
    const dropped = local ? this.dropped : this.local
    const record = this.with({ local, dirty: true, deleted: local === null, dropped })
    return local && this.dispute && this.remote ? record.heard(this.remote) : record
  }

  /**
   * Record a delete of the game; a version that the game has not read makes it a conflict.
   * @param {boolean} all @returns {Record}
   */
  removedHere(all) {
    if (all && this.offered) return this.with({ offered: null }).removedHere(all)
    if (!this.newer) return this.wrote(null)
    if (all || this.remote === null) return this.took().wrote(null)
    /** @type {Dispute} */
    const dispute = { reason: "changed", base: this.base, current: this.remote, copy: null }
    return this.wrote(null).with({ dirty: true, deleted: true, dispute })
  }

  /** Record that the game has read the newer version. */
  took() {
    const local = this.remote ? localOf(this.remote) : null
    const dropped = local || !this.local ? this.dropped : this.local
    return this.with({ local, base: this.remote, dropped })
  }

  /**
   * Record the server's version of a list. The same bytes are never a conflict, whichever device wrote them.
   * @param {SaveInfo | null} remote @param {boolean} [deleted] @returns {Record}
   */
  heard(remote, deleted = false) {
    const offered = this.offered?.sha256 === remote?.sha256 ? null : this.offered
    const record = this.with({ remote, deleted: remote === null && deleted, offered })
    if (remote === null) return this.local === null && !this.sent ? record.#settled(null) : record.#moved()
    if (this.sent?.local?.sha256 === remote.sha256) return record.acknowledged(remote, same(this.sent.local, remote))
    if (this.local?.sha256 === remote.sha256 && !this.sent) return record.#settled(remote)
    return record.#moved()
  }

  /**
   * Record that both sides have the same bytes. The game's content type and meta are still sent if they differ; without
   * own changes it adopts the server's.
   * @param {SaveInfo | null} remote
   */
  #settled(remote) {
    if (!this.dirty && remote) return this.with({ local: localOf(remote), base: remote, dispute: null })
    return this.with({ base: remote, dirty: remote !== null && !same(this.local, remote), dispute: null })
  }

  /** Update an open conflict to the server's current version. */
  #moved() {
    if (this.dispute === null || tag(this.dispute.current) === tag(this.remote)) return this
    if (this.remote && tag(this.remote) === tag(this.base)) return this.with({ dispute: null })
    const reason = this.remote ? "changed" : this.deleted ? "deleted" : "lost"
    return this.with({ dispute: { ...this.dispute, reason, current: this.remote } })
  }

  /**
   * Record an entry of a whole list. `known`: the server's history contains the base of this record. If it does not,
   * the server has lost an acknowledged write, and the game's bytes are pending again.
   * @param {{ known: boolean, deleted: boolean, listed: boolean }} found
   */
  relisted({ known, deleted, listed }) {
    const record = known || this.dirty || this.local === null ? this : this.with({ dirty: true })
    return listed ? record : record.heard(null, deleted)
  }

  /** Record that a whole list lacks this slot because it was deleted long ago. @returns {Record} */
  expired() {
    if (!this.local || !this.base || !(this.dirty || this.sent)) {
      return this.heard(null, this.base !== null || this.remote !== null || this.deleted)
    }
    /** @type {Dispute} */
    const dispute = this.dispute ?? { reason: "deleted", base: this.base, current: null, copy: null }
    return this.with({ sent: null, dispute }).heard(null, true)
  }

  /**
   * Record that the server performed `sent`, as `info`; the game may have written since.
   * @param {SaveInfo | null} info @param {boolean} [exactly]
   */
  acknowledged(info, exactly = true) {
    const done = exactly && same(this.local, this.sent ? this.sent.local : null)
    let { local } = this
    if (done && info && local) local = { ...local, contentType: info.contentType, meta: info.meta } // normalized
    return this.with({ local, base: info, dirty: !done, sent: null })
  }

  /** @param {SaveInfo} info @param {string | null} cursor */
  written(info, cursor) {
    return this.acknowledged(info).with({ remote: info, deleted: false, unlisted: cursor })
  }

  /** @param {SaveInfo | null} [current] */
  removed(current = null) {
    return this.acknowledged(null).with({ remote: current, deleted: current === null })
  }

  /** Record that `sent` was performed and another device has written after it. @param {Conflict} error */
  superseded(error) {
    return this.acknowledged(error.yours).with({ remote: error.current, deleted: error.current === null })
  }

  /** @param {Conflict} error */
  disputed(error) {
    const deleted = error.code === "deleted"
    const reason = error.current ? "changed" : deleted ? "deleted" : "lost"
    /** @type {Dispute} */
    const dispute = { reason, base: this.base, current: error.current, copy: error.yours }
    return this.with({ sent: null, dispute }).heard(error.current, deleted)
  }

  /** True if this device has neither a pending write nor a conflict here. */
  get idle() {
    return !(this.dirty || this.sent || this.dispute)
  }

  /** Adopt bytes from before the sign-in, without a base, so that they never replace others. @param {Local} local */
  adopted(local) {
    return this.with({ local, base: null, dirty: true, deleted: false, dropped: this.local ?? this.dropped })
  }

  /** Return whether `read` returns these bytes, now or after a download. @param {string} digest */
  has(digest) {
    return [this.local, this.remote, this.offered].some((side) => side?.sha256 === digest)
  }

  /** Return the bytes that `read` takes: an offer waits while own ones are pending or in a conflict. */
  get unread() {
    return this.idle ? this.offered : null
  }

  /** Record that the game has read `offered`, which may have arrived: it is sent before any write after it. */
  tookOffered() {
    if (this.offered === null) return this
    return this.adopted(this.offered).with({ offered: null, sent: { local: this.offered, base: null } })
  }

  /** Record that the server has `offered` as `info`, which the game has not read. @param {SaveInfo} info */
  placed(info) {
    return this.with({ offered: null }).heard(info)
  }

  /** Record that another device was first; `offered` stays to be read. @param {Conflict} error */
  notPlaced(error) {
    const record = error.code === "superseded" ? this.with({ offered: null }) : this
    return record.heard(error.current, error.code === "deleted")
  }

  keptMine() {
    return this.with({ base: this.#theirs, dirty: true, dispute: null, spent: this.dispute ? this.dispute.copy : null })
  }

  keptTheirs() {
    const local = this.#theirs ? localOf(this.#theirs) : null
    const deleted = this.dispute?.reason === "deleted"
    return this.#gaveWay().with({ local, base: this.#theirs, dirty: false, deleted, dispute: null })
  }

  /** @param {Local} local */
  merged(local) {
    const record = this.local?.sha256 === local.sha256 ? this : this.#gaveWay()
    return record.with({ local, base: this.#theirs, dirty: true, dispute: null })
  }

  /**
   * Keep this device's bytes as `dropped`, and as `unsentCopy` if the server does not have them. The server has only
   * the bytes that it refused; the game may have saved newer ones since.
   */
  #gaveWay() {
    if (this.local === null || this.dispute === null) return this
    const { copy } = this.dispute
    const record = this.with({ dropped: this.local })
    const base = copy ?? this.dispute.base
    if (base === null || copy?.sha256 === this.local.sha256) return record
    return record.with({ unsentCopy: { local: this.local, base } })
  }

  get #theirs() {
    return this.dispute ? this.dispute.current : null
  }

  /** Hashes of all bytes that must stay on the disk. @returns {Set<string>} */
  get bodies() {
    const sides = [this.local, this.base, this.remote, this.dropped, this.offered]
    sides.push(this.sent && this.sent.local, this.unsentCopy && this.unsentCopy.local)
    if (this.dispute) sides.push(this.dispute.base, this.dispute.current)
    return new Set(sides.filter((side) => side !== null).map((side) => side.sha256))
  }

  /** Return the stored form, which is the same in the Python client. */
  toText() {
    return JSON.stringify({ format: FORMAT, ...stored(this) })
  }

  /** Parse the stored form; throw any Error if the text is not one. @param {string} text */
  static read(text) {
    const value = JSON.parse(text)
    if (value.format !== FORMAT || typeof value.slot !== "string") throw new TypeError("another format")
    // older records lack the last three
    const { slot, sent, dispute, unsent_copy: unsentCopy = null, unlisted = null, offered = null } = value
    return new Record({
      slot,
      local: localFrom(value.local),
      base: infoFrom(value.base),
      dirty: value.dirty === true,
      sent: sentFrom(sent),
      remote: infoFrom(value.remote),
      deleted: value.deleted === true,
      dispute: dispute && {
        reason: dispute.reason,
        base: infoFrom(dispute.base),
        current: infoFrom(dispute.current),
        copy: infoFrom(dispute.copy),
      },
      dropped: localFrom(value.dropped),
      spent: infoFrom(value.spent),
      unsentCopy: sentFrom(unsentCopy),
      unlisted: typeof unlisted === "string" ? unlisted : null,
      offered: localFrom(offered),
    })
  }
}

/** Members whose names in the stored form are others. @type {{ [name: string]: string }} */
const STORED = { contentType: "content_type", unsentCopy: "unsent_copy" }

/**
 * Return a record, or a part of one, with the names of the stored form; those in a meta are the game's.
 * @param {any} value @returns {any}
 */
function stored(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value
  const named = Object.entries(value).map(([name, of]) => [STORED[name] ?? name, name === "meta" ? of : stored(of)])
  return Object.fromEntries(named)
}

/** @param {any} value @returns {SaveInfo | null} */
const infoFrom = (value) => (value === null ? null : SaveInfo.of(value))

/** @param {any} value @returns {Sent | null} */
const sentFrom = (value) => value && { local: localFrom(value.local), base: infoFrom(value.base) }

/** @param {any} value @returns {Local | null} */
function localFrom(value) {
  if (value === null) return null
  const { sha256, size, meta, modified } = value
  if (!/^[0-9a-f]{64}$/.test(sha256) || typeof meta !== "object") throw new TypeError("another format")
  return { sha256, size, contentType: String(value.content_type), meta, modified }
}

// --- The disk --------------------------------------------------------------------------------------------------------

/**
 * The name of a store's player, and a text `<slot>/<sha256>` for each save that they have adopted from another player.
 * @typedef {{ name: string | null, adopted: string[] }} About
 */

/** Parse an About; a damaged one is empty: no save depends on it. @param {string | null} text @returns {About} */
function aboutFrom(text) {
  let value = null
  try {
    value = JSON.parse(text ?? "null")
  } catch {
    // it has nothing that a save depends on
  }
  const adopted = Array.isArray(value?.adopted) ? value.adopted : []
  return {
    name: typeof value?.name === "string" ? value.name : null,
    adopted: adopted.filter((/** @type {unknown} */ save) => typeof save === "string"),
  }
}

/**
 * Where a Store keeps its values: `cursor`, `player`, and for each slot `<slot>/record` and bodies, `<slot>/<sha256>`.
 * @typedef {object} Disk
 * @property {(name: string) => string} where for the player: the place of a value
 * @property {() => Promise<[string, number | null][]>} list all of the slots by slot, each with its size if it is known
 * @property {(name: string) => Promise<string | null>} text
 * @property {(name: string) => Promise<Uint8Array | null>} bytes
 * @property {(name: string, value: string | Uint8Array) => Promise<void>} put
 * @property {(name: string) => Promise<void>} remove
 * @property {() => void} close
 */

/** Open files that only this user can read. @param {string} folder @returns {Promise<Disk>} */
async function folderDisk(folder) {
  const fs = await nodeModule("fs/promises")
  const slots = `${folder}/slots`
  const where = (/** @type {string} */ name) => `${name.includes("/") ? slots : folder}/${name}`
  await fs.mkdir(slots, { recursive: true, mode: 0o700 })
  const release = await tryLock(`${folder}/lock`)
  if (!release) throw inUse()
  return {
    where,
    async list() {
      /** @type {[string, number][]} */
      const found = []
      for (const slot of (await fs.readdir(slots)).sort()) {
        const names = (await fs.readdir(`${slots}/${slot}`)).map((/** @type {string} */ name) => `${slot}/${name}`)
        for (const name of names) found.push([name, (await fs.stat(where(name))).size])
      }
      return found
    },
    text: (name) => fs.readFile(where(name), "utf8").catch(unlessMissing),
    async bytes(name) {
      const data = await fs.readFile(where(name)).catch(unlessMissing)
      return data && new Uint8Array(data)
    },
    async put(name, value) {
      const path = where(name)
      const above = path.slice(0, path.lastIndexOf("/"))
      if (await fs.mkdir(above, { recursive: true, mode: 0o700 })) await syncFolder(slots)
      await writeWhole(path, bytesOf(value))
    },
    remove: (name) => fs.unlink(where(name)).catch(() => undefined),
    close: release,
  }
}

/** Open a database of IndexedDB. @param {string} place @returns {Promise<Disk>} */
async function databaseDisk(place) {
  const release = await tryLock(place)
  if (!release) throw inUse()
  const database = await openDatabase(place, ["state", "records", "bodies"]).catch((error) => {
    release()
    throw error
  })
  /**
   * @param {string} name @param {IDBTransactionMode} mode
   * @param {(store: IDBObjectStore, key: string) => IDBRequest} step
   */
  const run = (name, mode, step) => {
    let [store, key] = [name.includes("/") ? "bodies" : "state", name]
    if (name.endsWith("/record")) [store, key] = ["records", name.replace("/record", "")]
    return transact(database, [store], mode, (of) => step(of(store), key))
  }
  /** @param {string} store @returns {Promise<string[]>} */
  const keys = (store) => transact(database, [store], "readonly", (of) => of(store).getAllKeys())
  const get = async (/** @type {string} */ name) =>
    (await run(name, "readonly", (store, key) => store.get(key))) ?? null
  return {
    where: () => place,
    async list() {
      const records = (await keys("records")).map((slot) => `${slot}/record`)
      return [...records, ...(await keys("bodies"))].map((name) => [name, null])
    },
    text: get,
    bytes: get,
    put: (name, value) => run(name, "readwrite", (store, key) => store.put(value, key)),
    remove: (name) => run(name, "readwrite", (store, key) => store.delete(key)),
    close: () => (database.close(), release()),
  }
}

/**
 * One player's saves at one server on this device: a cursor, and for each slot a record and bodies. A body is stored
 * before the record that names it, and deleted after it, so that a crash never leaves a record without its bytes.
 */
class Store {
  #disk
  /** The names on the disk with their sizes. @type {Map<string, number | null>} */
  #present = new Map()

  /** @param {Disk} disk */
  constructor(disk) {
    this.#disk = disk
  }

  async load() {
    this.#present = new Map(await this.#disk.list())
    const records = []
    // a slot has no record if a crash has interrupted the first write to it
    for (const name of [...this.#present.keys()].filter((each) => each.endsWith("/record"))) {
      const record = readRecord(await this.#disk.text(name), name.split("/")[0], this.#disk.where(name))
      await this.#tidy(record.slot, record.bodies)
      records.push(record)
    }
    return { records, cursor: await this.#disk.text("cursor") }
  }

  /** @param {Record} record */
  async keep(record) {
    await this.#put(`${record.slot}/record`, record.toText())
    await this.#tidy(record.slot, record.bodies)
  }

  /** Delete the bodies of a slot that its record does not name. @param {string} slot @param {Set<string>} needed */
  async #tidy(slot, needed) {
    for (const name of this.#present.keys()) {
      const [of, digest] = name.split("/")
      if (of === slot && digest !== "record" && !needed.has(digest)) await this.discard(slot, digest)
    }
  }

  /** Delete a slot, its record first. @param {string} slot */
  async forget(slot) {
    await this.discard(slot, "record")
    await this.#tidy(slot, new Set())
  }

  /** @param {string} slot @param {string} digest @param {Uint8Array} data */
  add(slot, digest, data) {
    return this.#put(`${slot}/${digest}`, data)
  }

  /** @param {string} name @param {string | Uint8Array} value */
  async #put(name, value) {
    await this.#disk.put(name, value)
    this.#present.set(name, value.length)
  }

  /** Read a body, without checking the hash. @param {string} slot @param {string} digest */
  body(slot, digest) {
    return this.#disk.bytes(`${slot}/${digest}`)
  }

  /** @param {string} slot @param {string} digest */
  async discard(slot, digest) {
    await this.#disk.remove(`${slot}/${digest}`)
    this.#present.delete(`${slot}/${digest}`)
  }

  /** Return whether the body is here, and whole. @param {string} slot @param {SaveInfo} info */
  has(slot, { sha256, size }) {
    const found = this.#present.get(`${slot}/${sha256}`)
    return found === null || found === size
  }

  /** @param {string} cursor */
  keepCursor(cursor) {
    return this.#disk.put("cursor", cursor)
  }

  async about() {
    return aboutFrom(await this.#disk.text("player"))
  }

  /** @param {About} about */
  keepAbout(about) {
    return this.#disk.put("player", JSON.stringify(about))
  }

  close() {
    this.#disk.close()
  }
}

/** @param {string | null} text @param {string} slot @param {string} where */
function readRecord(text, slot, where) {
  try {
    const record = Record.read(text ?? "")
    if (record.slot !== slot) throw new TypeError("of another slot")
    return record
  } catch (cause) {
    const detail = `${where} cannot be read; what is beside it is untouched.`
    throw new LocalDamaged("state_damaged", detail, { cause })
  }
}

/**
 * Return the path, or the prefix of the names, of all saves at this server.
 * @param {GamedClient} client @param {string | undefined} folder
 */
function placeOf(client, folder) {
  const beside = IN_NODE ? (folder ?? `${client.folder}/sync`) : `${innerOf(client).place.database}/${folder ?? "sync"}`
  return `${beside}/${client.place}`
}

/** @param {string} place @param {string} name @returns {Promise<Store>} */
async function openStore(place, name) {
  const disk = await onDisk((IN_NODE ? folderDisk : databaseDisk)(`${place}/${name}`))
  return guarded(new Store(disk))
}

/** List the names of the stores on this device. @param {string} place @returns {Promise<string[]>} */
async function storesAt(place) {
  if (IN_NODE) {
    const fs = await nodeModule("fs/promises")
    return (await onDisk(fs.readdir(place).catch(unlessMissing))) ?? []
  }
  const found = await indexedDB.databases?.()
  if (!found) return [UNOWNED] // an old browser cannot list databases: open this one
  const names = found.map(({ name }) => name ?? "").filter((name) => name.startsWith(`${place}/`))
  return names.map((name) => name.slice(place.length + 1))
}

/**
 * Keep the player's name beside the saves: it has to outlast the credential, for `otherPlayers`.
 * @param {Store} store @param {Credential} credential
 */
async function noteName(store, { playerName: name }) {
  await noteAbout(store, (about) => name !== null && name !== about.name && { name })
}

/**
 * Leave a save out of `otherPlayers` from now on: the game has read it, or the server has it.
 * @param {Store} store @param {string} save
 */
async function noteAdopted(store, save) {
  await noteAbout(store, ({ adopted }) => !adopted.includes(save) && { adopted: [...adopted, save] })
}

/**
 * Change an About. If the disk fails, the next start notes the name again, and the save is only listed again.
 * @param {Store} store @param {(about: About) => Partial<About> | false} how
 */
async function noteAbout(store, how) {
  const note = async () => {
    const about = await store.about()
    const changes = how(about)
    if (changes) await store.keepAbout({ ...about, ...changes })
  }
  await note().catch(ignoring((error) => error instanceof LocalDamaged))
}

const signedOut = () => new SignInRequired("signed_out", "No player is signed in here.")
const wasClosed = () => new InUse("closed", "This Sync was closed.")

const inUse = () => new InUse("in_use", "This game is running already, with the same saves.")

// --- The interface of a game -----------------------------------------------------------------------------------------

/** @typedef {"unknown" | "in_step" | "waiting" | "newer" | "conflict" | "refused"} State */

/**
 * One slot, for a menu.
 * @typedef {object} Status
 * @property {string} slot
 * @property {State} state unknown: the first list has not arrived; in_step; waiting: an upload or a download is
 *   pending; newer: `read` returns another device's bytes; conflict: the player has to choose; refused: see `problem`,
 *   the bytes are kept here
 * @property {number | null} size describes the bytes that `read` would return, like the next two; null: deleted
 * @property {Meta} meta
 * @property {string} modified RFC 3339, by this device's or the server's clock: only show it; "" without bytes
 * @property {number[]} copies conflict copies at the server, of any device: `restore` or `dismiss` them
 * @property {GamedError | null} problem
 */

/**
 * One side of a conflict: its bytes, and their description for the player.
 * @typedef {object} Side
 * @property {Uint8Array} data
 * @property {string} contentType
 * @property {Meta} meta
 * @property {string} modified RFC 3339
 * @property {string | null} device name of the device that wrote it; always null for this device's own side
 */

/**
 * Another player of this server whose saves are on this device; only the person knows whether they are theirs.
 * @typedef {object} OtherPlayer
 * @property {string} playerId
 * @property {string | null} name at the last sign-in here; null if it is not known
 * @property {string} modified that of the newest save
 * @property {{ slot: string, size: number, meta: Meta, modified: string }[]} saves
 */

/**
 * What a conflict needs of its Sync.
 * @typedef {object} Sides
 * @property {(slot: string) => Promise<Side | null>} mine
 * @property {(slot: string, of: SaveInfo | null, signal?: AbortSignal) => Promise<Side | null>} side
 * @property {(shown: SyncConflict, how: (record: Record) => Record) => Promise<void>} settle
 * @property {(shown: SyncConflict, data: Uint8Array, meta: Meta | null) => Promise<void>} merge
 */

/** Both sides have changed `base`. Nothing of the slot is sent until the game calls a method; play may continue. */
export class SyncConflict {
  #sides

  /**
   * Read `Sync.conflicts`.
   * @internal
   * @param {string} slot @param {Dispute} dispute @param {Sides} sides
   */
  constructor(slot, { reason, base, current, copy }, sides) {
    /** @readonly */
    this.slot = slot
    /**
     * "changed"; "deleted" at the server; "lost": the server does not know this save (erased, or an old backup).
     * @readonly @type {"changed" | "deleted" | "lost"}
     */
    this.reason = reason
    /** The version that both sides have changed; null if the slot was empty. @readonly */
    this.baseInfo = base
    /** The server's version; null if deleted or lost. @readonly */
    this.current = current
    /** The conflict copy that the server keeps of this device's side, beside the current version. @readonly */
    this.copy = copy
    this.#sides = sides
    Object.freeze(this)
  }

  /**
   * Read this device's side, as it is now.
   *
   * @returns {Promise<Side | null>} null: it was deleted here
   * @throws {LocalDamaged} if this device cannot read its bytes
   */
  mine() {
    return this.#sides.mine(this.slot)
  }

  /**
   * Read the server's side, here or at the server.
   *
   * @param {RequestOptions} [options]
   * @returns {Promise<Side | null>} null: it is deleted or lost
   * @throws {Unreachable} if it is not on this device and the server does not respond
   */
  theirs({ signal } = {}) {
    return this.#sides.side(this.slot, this.current, signal)
  }

  /**
   * Read the common base, here or at the server.
   *
   * @param {RequestOptions} [options]
   * @returns {Promise<Side | null>} null: the slot was empty, or the base is not kept
   */
  base({ signal } = {}) {
    return this.#sides.side(this.slot, this.baseInfo, signal).catch(ignoring(() => true, signal))
  }

  /**
   * Write this device's side over theirs, which stays in the server's history.
   *
   * @returns {Promise<void>}
   * @throws {ConflictOver} if the sides have changed since this conflict was shown
   */
  keepMine() {
    return this.#sides.settle(this, (record) => record.keptMine())
  }

  /**
   * Continue from theirs: `read` it. The server keeps this device's side as a conflict copy: the next round sends the
   * bytes that the game has saved since the conflict began. They also stay here, as `Sync.lost`.
   *
   * @param {RequestOptions} [options]
   * @returns {Promise<void>}
   * @throws {ConflictOver} if the sides have changed since this conflict was shown
   * @throws {Unreachable} if their side is not on this device and the server does not respond
   */
  async keepTheirs({ signal } = {}) {
    await this.theirs({ signal })
    await this.#sides.settle(this, (record) => record.keptTheirs())
  }

  /**
   * Continue from new bytes that combine both.
   *
   * @param {Bytes} data
   * @param {{ meta?: Meta | null }} [options]
   * @returns {Promise<void>}
   * @throws {ConflictOver} if the sides have changed since this conflict was shown
   */
  merged(data, { meta = null } = {}) {
    return this.#sides.merge(this, bytesOf(data), meta)
  }
}

/**
 * A whole list whose pages are arriving; after an interruption the next round continues it. `expired`: a slot that is
 * missing on all pages was deleted long ago. `compared`: the slots whose base was compared with their entry.
 * @typedef {{ cursor: string, expired: boolean, listed: Map<string, SaveInfo | Deletion>,
 *   compared: Set<string> }} Whole
 */

/** @typedef {{ error: GamedError, due: number }} Problem due: by the monotonic clock, in seconds */

/** Return whether a retry cannot help: the server rejected the write, or a body is damaged. @param {Problem} problem */
const final = ({ error }) => (error.status >= 400 && error.status < 500) || error instanceof LocalDamaged

const monotonic = () => performance.now() / 1000

/** A signal that ends the wait between two rounds. */
class Bell {
  #rung = false
  #isHeeded = false
  #end = new AbortController()

  ring() {
    this.#rung = true
    if (this.#isHeeded) this.hurry()
  }

  /** End the wait, with `heed` or without. */
  hurry() {
    this.#end.abort()
  }

  quiet() {
    this.#rung = false
  }

  /**
   * Wait for the time, or for a ring if `heed`, or for `signal`.
   * @param {number} seconds @param {AbortSignal} signal @param {boolean} heed
   */
  async wait(seconds, signal, heed) {
    if (heed && this.#rung) return
    this.#isHeeded = heed
    this.#end = new AbortController()
    await delay(Math.min(seconds, 1e6), signal, this.#end.signal)
  }
}

/** One player's saves on this device, and their exchange with the server. */
export class Sync {
  /** @type {Map<string, Record>} */
  #records
  /** @type {string | null} */
  #cursor
  /** @type {Map<string, Problem>} */
  #problems = new Map()
  /**
   * Problems of each slot's `unsentCopy`, apart from the others: they must not delay writes or downloads.
   * @type {Map<string, Problem>}
   */
  #copyProblems = new Map()
  #bell = new Bell()
  #closed = false
  /** Ends the loop of `start`. */
  #stop = new AbortController()
  /** @type {Promise<void> | undefined} */
  #running
  /**
   * The callback that was passed to `start`.
   * @type {(status: Status) => unknown}
   */
  #report = () => undefined
  /** How often `start` or `run` was called. */
  #starts = 0
  /** That number when the last round began. */
  #roundStarts = 0
  /** That number at the beginning of the last round that has ended: `problem` does not concern later starts. */
  #triedStarts = 0
  /** True once a round of this Sync has succeeded. */
  #succeeded = false
  /** The whole list whose pages are arriving. @type {Whole | null} */
  #whole = null
  /** Aborts at the end of the round, or of this Sync. */
  #end = new AbortController()
  /** @type {Map<string, string>} */
  #reported
  #client
  #place
  #store
  #turn = {}
  #playerId
  /** @type {GamedError | null} */
  #problem = null
  /**
   * Called with each status that has changed, and with null at the end of this Sync.
   * @type {Set<(status: Status | null) => void>}
   */
  #listeners = new Set()

  /** @type {Sides} */
  #sides = {
    mine: (slot) => this.#side(slot, this.#record(slot).local),
    side: (slot, of, signal) => this.#side(slot, of, signal),
    settle: (shown, how) => this.#settle(() => this.#answered(shown, how)),
    merge: (shown, data, meta) => this.#settle(() => this.#merged(shown, data, meta)),
  }

  /**
   * Open the saves of the player who is signed in; no request is sent. Before the first sign-in at this server the
   * saves wait on this device: the first `send` after the sign-in, or the first Sync, adopts them for the player.
   *
   * @param {GamedClient} client
   * @param {{ folder?: string }} [options] `folder` replaces the one beside the credential; in a browser it is a name:
   *   tabs that play at the same time have one each
   * @returns {Promise<Sync>}
   * @throws {SignInRequired} after a sign-out
   * @throws {InUse} if another tab or process has these saves open
   * @throws {LocalDamaged} if this device cannot read its files
   */
  static async open(client, { folder } = {}) {
    const credential = client.credential ?? (await client.look())
    const place = placeOf(client, folder)
    const names = await storesAt(place)
    if (credential === null && names.some((name) => !name.includes("."))) throw signedOut()
    const store = await openStore(place, credential ? await safeName(credential.playerId) : UNOWNED)
    try {
      const sync = new Sync(client, credential?.playerId ?? "", place, store, await store.load())
      if (credential) await noteName(store, credential)
      if (credential && names.includes(UNOWNED)) await sync.#adoptLeft()
      return sync
    } catch (error) {
      store.close()
      throw error
    }
  }

  /**
   * Use `open`.
   * @internal
   * @param {GamedClient} client @param {string} playerId @param {string} place @param {Store} store
   * @param {{ records: Record[], cursor: string | null }} found
   */
  constructor(client, playerId, place, store, { records, cursor }) {
    this.#playerId = playerId
    this.#client = client
    this.#place = place
    this.#store = store
    this.#records = new Map(records.map((record) => [record.slot, record]))
    this.#cursor = cursor
    const quiet = this.slots().filter(({ state }) => state === "in_step" || state === "waiting")
    this.#reported = new Map(quiet.map((status) => [status.slot, this.#lookOf(status)]))
  }

  /** The player whose saves these are; "" before the first sign-in. */
  get playerId() {
    return this.#playerId
  }

  /** The error of the last round; null if it succeeded: for a display that says "offline". */
  get problem() {
    return this.#problem
  }

  /**
   * Read `problem`.
   *
   * @deprecated The older name of `problem`; it works until 1.0.
   */
  get trouble() {
    return this.#problem
  }

  /**
   * Call `run` until `close`; a GamedError that ends it earlier is in `problem`. After such an end call it again, once
   * a player has signed in. While it works, a further call only replaces `changed`, if it has one.
   *
   * @param {(status: Status) => unknown} [changed] called with each status that has changed
   * @throws {InUse} if this Sync was closed
   */
  start(changed) {
    this.#open()
    this.#report = changed ?? this.#report
    this.#starts++
    this.#running ??= this.#runUntilClosed()
  }

  /** Run again after a `start` that came during the round which ended the loop: its error is an older sign-in's. */
  async #runUntilClosed() {
    try {
      do {
        const options = { signal: this.#stop.signal }
        await this.run((status) => this.#report(status), options).catch(ignoring(() => true))
      } while (!this.#stop.signal.aborted && this.#triedStarts !== this.#starts)
    } finally {
      this.#running = undefined
    }
  }

  /**
   * Release the folder for other tabs and processes. Pending writes stay pending.
   *
   * @param {number} [within] after `start`, first wait at most so many seconds until all writes are sent, or until the
   *   server cannot be reached
   * @returns {Promise<void>}
   */
  async close(within = 0) {
    if (this.#running) await this.#until(() => this.#needsNoLonger(), within)
    this.#stop.abort()
    await this.#inTurn(async () => {
      if (!this.#closed) this.#store.close()
      this.#closed = true
      this.#bell.ring()
      this.#wake()
      for (const listener of this.#listeners) listener(null)
    })
  }

  /**
   * Wait for the first round: call it after `run` or `start` and before the first `read`. A device that knows its saves
   * does not wait for a server that does not respond.
   *
   * @param {number} [within] seconds to wait at most
   * @returns {Promise<boolean>} false: this device was never online with this player; `read` throws NotKnown
   */
  async ready(within = 5) {
    await this.#until(() => this.#needsNoWait(), within)
    return this.#cursor !== null
  }

  /**
   * Wait at most `within` seconds, until `done` at the end of a round.
   * @param {() => boolean} done @param {number} within
   */
  async #until(done, within) {
    const end = monotonic() + within
    for (let left = within; left > 0 && !done(); left = end - monotonic()) await delay(left, this.#end.signal)
  }

  /** Return whether a round has nothing more to send, or cannot send it now. */
  #needsNoLonger() {
    const tried = [...this.#records].filter(([slot, { dispute }]) => !this.#problems.has(slot) && !dispute)
    const failed = this.#failed() && !this.#lacksSpace()
    return this.#closed || failed || !tried.some(([, { dirty, sent }]) => dirty || sent)
  }

  /** Return whether the last round only could not store another device's save here: all writes are still sent then. */
  #lacksSpace() {
    const full = [...this.#problems.values()].some((p) => p.error.code === "local_disk")
    return full && this.#problem?.code === "local_disk"
  }

  /** Return whether waiting for a round would not help `ready`. */
  #needsNoWait() {
    const hopeless = this.#cursor !== null || ends(this.#problem)
    return this.#succeeded || this.#closed || (this.#failed() && hopeless)
  }

  /** Return whether the last round failed, and `start` has not been called since to overcome that. */
  #failed() {
    const overcome = ends(this.#problem) && this.#triedStarts !== this.#starts
    return this.#problem !== null && !overcome
  }

  #wake() {
    this.#end.abort()
    this.#end = new AbortController()
  }

  /** @param {GamedError | null} problem error of the round */
  #noteEnd(problem) {
    this.#problem = problem
    this.#triedStarts = this.#roundStarts
    this.#succeeded ||= problem === null
    this.#wake()
  }

  // -- the game's side: this device only, no network --

  /**
   * Read the newest bytes on this device; the game's next write is based on them. In a conflict they are this device's
   * side.
   *
   * @param {string} slot name of the save: 1-64 of `a-z 0-9 . _ -`
   * @returns {Promise<Save | null>} null: the slot was never written
   * @throws {NotKnown} before the first list (see `ready`)
   * @throws {Deleted} if the save was deleted
   * @throws {Unreachable} while a listed save has not been downloaded
   * @throws {LocalDamaged} if this device cannot read the bytes
   */
  read(slot) {
    return this.#look(slot, true)
  }

  /**
   * Read the same bytes as `read`, but do not base the next write on them: for a preview, or a copy elsewhere.
   *
   * @param {string} slot
   * @returns {Promise<Save | null>} null: the slot was never written
   * @throws {NotKnown} and the other errors of `read`
   */
  peek(slot) {
    return this.#look(slot, false)
  }

  /**
   * Write bytes to this device's disk, based on the version that the game last read or wrote here. The next round sends
   * them. Newer bytes replace older ones that have not been sent.
   *
   * @param {string} slot name of the save: 1-64 of `a-z 0-9 . _ -`
   * @param {Bytes} data
   * @param {{ meta?: Meta | null, contentType?: string }} [options] `meta`: a JSON object beside the bytes, such as the
   *   save's title
   * @returns {Promise<void>}
   * @throws {LocalDamaged} if the disk cannot store them
   * @throws {Refused} if the slot's name, the type or the meta is not valid
   */
  async write(slot, data, { meta = null, contentType = "application/octet-stream" } = {}) {
    await this.#inTurn(async () => {
      const local = await this.#local(slot, bytesOf(data), contentType, meta)
      await this.#changed(slot, (record) => record.wrote(local))
    })
    this.#bell.ring()
  }

  /**
   * Delete the version that the game last read or wrote; the server can restore it for a while. If another device has
   * saved a newer one, it is a conflict.
   *
   * @param {string} slot
   * @param {{ includingNewer?: boolean }} [options] `includingNewer` deletes the newer version, too: only for a player
   *   who has seen it
   * @returns {Promise<void>}
   * @throws {NotKnown} before the first list, unless the game has written this slot here
   */
  async delete(slot, { includingNewer = false } = {}) {
    pathOf(slot)
    await this.#change(slot, (record) => {
      if (this.#unknown(record)) throw new NotKnown()
      return record.removedHere(includingNewer)
    })
    this.#bell.ring()
  }

  /**
   * List the status of every slot that has bytes or a pending change; no request is sent.
   *
   * @returns {Status[]} by slot
   */
  slots() {
    return this.#known()
      .map((slot) => this.status(slot))
      .filter(shown)
  }

  /**
   * Describe one slot; no request is sent.
   *
   * @param {string} slot
   * @returns {Status}
   */
  status(slot) {
    const record = this.#record(slot)
    const problem = this.#problems.get(slot)
    const shownProblem = problem ?? this.#copyProblems.get(slot)
    const held = this.#seen(record).local
    return {
      slot,
      state: this.#state(record, problem),
      size: held ? held.size : null,
      meta: held ? held.meta : {},
      modified: held ? held.modified : "",
      copies: record.remote ? [...record.remote.conflicts] : [],
      problem: shownProblem ? shownProblem.error : null,
    }
  }

  /** Conflicts in which the player has to choose. @returns {SyncConflict[]} */
  get conflicts() {
    return this.#known().flatMap((slot) => {
      const { dispute } = this.#record(slot)
      return dispute ? [new SyncConflict(slot, dispute, this.#sides)] : []
    })
  }

  /**
   * Read the bytes that `keepTheirs` or a delete, also on this device, last replaced here: to undo the choice.
   *
   * @param {string} slot
   * @returns {Promise<Side | null>} null: nothing was replaced
   * @throws {LocalDamaged} if this device cannot read the bytes
   */
  lost(slot) {
    return this.#side(slot, this.#record(slot).dropped)
  }

  /**
   * Call `lost`.
   *
   * @deprecated The older name of `lost`; it works until 1.0.
   * @param {string} slot
   * @returns {Promise<Side | null>}
   */
  dropped(slot) {
    return this.lost(slot)
  }

  /**
   * List the other players of this server whose saves are on this device: to ask the player before `adopt`. They are of
   * another person, or of this one, whom a server that was set up anew has given another id. Saves that the player has
   * as well or has adopted are left out, and players whose saves another tab or process has open.
   *
   * @returns {Promise<OtherPlayer[]>}
   * @throws {LocalDamaged} if this device cannot read its files
   */
  otherPlayers() {
    return this.#inTurn(async () => {
      this.#open()
      const { adopted } = await this.#store.about()
      /** @type {OtherPlayer[]} */
      const found = []
      for (const playerId of await this.#otherStores()) {
        const other = await this.#leftBy(playerId, async (left, saves) => {
          const listed = [...saves]
            .filter(([slot, { sha256 }]) => !adopted.includes(`${slot}/${sha256}`))
            .map(([slot, { size, meta, modified }]) => ({ slot, size, meta, modified }))
          const modified = listed.map((save) => save.modified).sort().pop() ?? ""
          return { playerId, name: (await left.about()).name, modified, saves: listed }
        }).catch(ignoring((error) => error instanceof InUse || error instanceof LocalDamaged))
        if (other?.saves.length) found.push(other)
      }
      return found
    })
  }

  /**
   * Copy saves of another player, only after the player has said that the saves are theirs. They replace nothing: each
   * is `newer` until `read` returns it, and a write of the game meanwhile does not replace it. The next round sends
   * those whose slot is empty at the server; elsewhere a conflict follows the `read`. The other player's saves stay
   * here.
   *
   * @param {string} playerId one of `otherPlayers`
   * @param {{ slots?: string[] | null }} [options] `slots`: which ones; by default all that `otherPlayers` lists
   * @returns {Promise<string[]>} the slots that were copied, without those that have a pending write or a conflict:
   *   call it again later
   * @throws {SignInRequired} before the sign-in
   * @throws {InUse} if another tab or process has the other player's saves open
   * @throws {LocalDamaged} if this device cannot store the bytes
   */
  adopt(playerId, { slots = null } = {}) {
    return this.#inTurn(async () => {
      this.#open()
      if (!this.#playerId) throw signedOut()
      if (!(await this.#otherStores()).includes(playerId)) return []
      const { adopted } = await this.#store.about()
      return this.#leftBy(playerId, async (left, saves) => {
        const copied = []
        for (const [slot, local] of saves) {
          const wanted = slots ? slots.includes(slot) : !adopted.includes(`${slot}/${local.sha256}`)
          if (wanted && this.#record(slot).idle && (await this.#offer(left, slot, local))) copied.push(slot)
        }
        return copied
      })
    }).finally(() => this.#bell.ring())
  }

  /** @param {Store} left @param {string} slot @param {Local} local */
  async #offer(left, slot, local) {
    const data = await left.body(slot, local.sha256)
    if (data === null || (await sha256Hex(data)) !== local.sha256) return false
    await this.#store.add(slot, local.sha256, data)
    await this.#changed(slot, (record) => record.with({ offered: local }))
    return true
  }

  async #otherStores() {
    const own = this.#playerId && (await safeName(this.#playerId))
    return (await storesAt(this.#place)).filter((name) => !name.includes(".") && name !== own).sort()
  }

  /**
   * Open the store of another player; call `work` with what `read` would return in each slot, without what this player
   * has already.
   * @template T @param {string} name @param {(left: Store, saves: Map<string, Local>) => Promise<T>} work
   */
  async #leftBy(name, work) {
    const left = await openStore(this.#place, name)
    try {
      const saves = new Map()
      for (const record of (await left.load()).records) {
        const arrived = record.newer && record.remote && left.has(record.slot, record.remote)
        const { slot } = record
        const local = record.unread ?? (arrived ? record.took() : record).local
        if (local && isSlot(slot) && !this.#record(slot).has(local.sha256)) saves.set(slot, local)
      }
      return await work(left, saves)
    } finally {
      left.close()
    }
  }

  /** @param {string} slot @param {boolean} take @returns {Promise<Save | null>} */
  #look(slot, take) {
    pathOf(slot)
    return this.#inTurn(async () => {
      let record = this.#record(slot)
      if (this.#unknown(record)) throw new NotKnown()
      if (record.offered && (await this.#body(slot, record.offered.sha256)) === null) {
        record = await this.#changed(slot, (r) => r.with({ offered: null })) // the other player still has it
      }
      const seen = this.#seen(record)
      if (seen.local === null && record.newer && record.remote) {
        throw new Unreachable("not_arrived", "This save has not arrived on this device yet.")
      }
      const data = seen.local === null ? null : await this.#bytes(slot, seen.local)
      if (take) await this.#changed(slot, () => seen)
      if (seen.local === null && seen.deleted) throw new Deleted("deleted", "This save was deleted.")
      if (seen.local === null || data === null) return null
      const etag = seen.dirty || !seen.base ? "" : seen.base.etag
      return { etag, data, contentType: seen.local.contentType, meta: seen.local.meta }
    })
  }

  /** @param {string} slot @param {Local} local */
  async #bytes(slot, local) {
    const data = await this.#body(slot, local.sha256)
    if (data === null) {
      const record = this.#record(slot)
      if (!record.dirty && record.base) await this.#store.discard(slot, local.sha256) // the next round fetches it again
      throw damaged(slot)
    }
    return data
  }

  /** Read a body; return null if it is missing or damaged. @param {string} slot @param {string} digest */
  async #body(slot, digest) {
    const data = await this.#store.body(slot, digest)
    return data !== null && (await sha256Hex(data)) === digest ? data : null
  }

  /** Return whether the server may have a save that this device has not heard of. @param {Record} record */
  #unknown({ local, base, remote, unread }) {
    return this.#cursor === null && [local, base, remote, unread].every((side) => side === null)
  }

  /** Return the record after a `read`. @param {Record} record */
  #seen(record) {
    if (record.unread) return record.tookOffered()
    return this.#arrived(record) ? record.took() : record
  }

  /** Return whether a newer version has been downloaded. @param {Record} record */
  #arrived(record) {
    return record.newer && (record.remote === null || this.#store.has(record.slot, record.remote))
  }

  /** @param {Record} record @param {Problem | undefined} problem @returns {State} */
  #state(record, problem) {
    if (record.dispute) return "conflict"
    if (problem) return "refused"
    if (record.unread || this.#arrived(record)) return "newer"
    if (this.#copyProblems.has(record.slot)) return "refused"
    if (record.dirty || record.sent || record.newer || record.unsentCopy) return "waiting"
    return this.#unknown(record) ? "unknown" : "in_step"
  }

  /**
   * Read a side from this device, else from the server.
   * @param {string} slot @param {Local | SaveInfo | null} of @param {AbortSignal} [signal]
   * @returns {Promise<Side | null>}
   */
  async #side(slot, of, signal) {
    if (of === null) return null
    let data = await this.#body(slot, of.sha256)
    if (data === null && of instanceof SaveInfo) {
      data = await fetched(this.#client.only(this.#playerId, { signal }), of)
      await this.#keepBody(slot, of.sha256, data)
    }
    if (data === null) throw damaged(slot)
    const device = of instanceof SaveInfo ? of.device : null
    return { data, contentType: of.contentType, meta: of.meta, modified: of.modified, device }
  }

  /**
   * Store the bytes; return their Local. The caller holds the turn.
   * @param {string} slot @param {Uint8Array} data @param {string} contentType
   * @param {{ [name: string]: any } | null} meta @returns {Promise<Local>}
   */
  async #local(slot, data, contentType, meta) {
    pathOf(slot)
    const plain = plainOf(meta ?? {})
    typeField(contentType)
    this.#open()
    const kept = data.slice() // the game may reuse its array
    const sha256 = await sha256Hex(kept)
    if ((await this.#body(slot, sha256)) === null) await this.#store.add(slot, sha256, kept)
    const modified = new Date().toISOString()
    return { sha256, size: kept.length, contentType, meta: plain, modified }
  }

  /** @param {() => Promise<unknown>} work */
  async #settle(work) {
    await this.#inTurn(work)
    this.#bell.ring()
  }

  /** @param {SyncConflict} shown @param {Uint8Array} data @param {Meta | null} meta */
  async #merged(shown, data, meta) {
    const like = this.#record(shown.slot).local ?? shown.current
    const contentType = like ? like.contentType : "application/octet-stream"
    const local = await this.#local(shown.slot, data, contentType, meta)
    await this.#answered(shown, (record) => record.merged(local))
  }

  /** @param {SyncConflict} shown @param {(record: Record) => Record} how */
  #answered(shown, how) {
    const { dispute } = this.#record(shown.slot)
    const now = dispute && JSON.stringify(new SyncConflict(shown.slot, dispute, this.#sides))
    if (now !== JSON.stringify(shown)) {
      throw new ConflictOver("conflict_over", "This conflict has changed since it was shown.")
    }
    return this.#changed(shown.slot, how)
  }

  /** @param {string} slot */
  #record(slot) {
    return this.#records.get(slot) ?? Record.empty(slot)
  }

  /** Run one change at a time. @template T @param {() => Promise<T>} work @returns {Promise<T>} */
  #inTurn(work) {
    return inTurn(this.#turn, work)
  }

  /** Change a record, on disk when it returns. @param {string} slot @param {(record: Record) => Record} how */
  #change(slot, how) {
    return this.#inTurn(() => this.#changed(slot, how))
  }

  /** Change a record; the caller holds the turn. @param {string} slot @param {(record: Record) => Record} how */
  async #changed(slot, how) {
    this.#open()
    const before = this.#record(slot)
    const after = how(before)
    if (after !== before && after.toText() !== before.toText()) {
      await this.#store.keep(after)
      this.#records.set(slot, after)
    }
    if (before.offered && !after.offered) await noteAdopted(this.#store, `${slot}/${before.offered.sha256}`)
    return after
  }

  #open() {
    if (this.#closed) throw wasClosed()
  }

  // -- the server's side --

  /**
   * Request the changes, send pending writes, download newer saves. After a failure, or the end of the process, call it
   * again: nothing is lost. An error that concerns one slot is in its status.
   *
   * @param {RequestOptions} [options]
   * @returns {Promise<Status[]>} the statuses that have changed
   * @throws {Unreachable} or Busy, RateLimited, NotGamed: the server cannot be used now
   * @throws {SignInRequired} or PlayerBlocked: the player has to act
   * @throws {LocalDamaged} if this device cannot store another device's save
   */
  async send({ signal } = {}) {
    await this.#sendAll(signal)
    return this.#news()
  }

  /**
   * Call `send`.
   *
   * @deprecated The older name of `send`; it works until 1.0.
   * @param {RequestOptions} [options]
   * @returns {Promise<Status[]>}
   */
  pump(options) {
    return this.send(options)
  }

  /** Run a round until `signal`, or the end of this Sync. @param {AbortSignal} [signal] */
  async #sendAll(signal) {
    // the game's reason may be a GamedError, which would count as the server's answer to a write
    const stop = new AbortController()
    const over = new AbortController()
    const give = () => stop.abort()
    for (const each of [signal, this.#stop.signal]) each?.addEventListener("abort", give, { signal: over.signal })
    if (signal?.aborted || this.#stop.signal.aborted) give()
    try {
      await orAborted(this.#sendInTurn(stop.signal), stop.signal)
    } catch (error) {
      signal?.throwIfAborted()
      if (this.#stop.signal.aborted) throw wasClosed()
      throw error
    } finally {
      over.abort()
    }
  }

  /** @param {AbortSignal} signal */
  #sendInTurn(signal) {
    return inTurn(this.#problems, async () => {
      signal.throwIfAborted()
      this.#roundStarts = this.#starts
      try {
        await this.#round(signal)
        this.#noteEnd(null)
      } catch (error) {
        if (error instanceof GamedError) this.#noteEnd(error)
        throw error
      }
    })
  }

  /** Adopt the saves from before the sign-in, unless another tab or process has them open. */
  async #adoptLeft() {
    const left = await openStore(this.#place, UNOWNED).catch(ignoring((error) => error instanceof InUse))
    if (left === null) return
    try {
      const { records } = await left.load()
      await this.#inTurn(() => this.#adoptAll(left, records))
    } finally {
      left.close()
    }
  }

  /** Adopt the saves of `left`; the caller holds the turn. @param {Store} left @param {Iterable<Record>} records */
  async #adoptAll(left, records) {
    const saves = new Map([...records].map(({ slot, local }) => [slot, local]))
    for (const slot of await this.#adopted(left, saves)) await left.forget(slot)
  }

  /**
   * Adopt saves of `left`; return the slots, without those that have a pending write here or a damaged body. The caller
   * holds the turn.
   * @param {Store} left @param {Map<string, Local | null>} saves
   */
  async #adopted(left, saves) {
    const done = []
    for (const [slot, local] of saves) {
      const mine = this.#record(slot)
      if (local && !same(mine.local, local)) {
        const data = await left.body(slot, local.sha256)
        if (data === null || (await sha256Hex(data)) !== local.sha256 || !mine.idle) continue
        await this.#store.add(slot, local.sha256, data)
        await this.#changed(slot, (record) => record.adopted(local))
      }
      done.push(slot)
    }
    return done
  }

  /** Open the player's saves once a player has signed in, and adopt the earlier ones. */
  async #own() {
    const credential = this.#client.credential ?? (await this.#client.look())
    if (credential === null) throw signedOut()
    const player = await safeName(credential.playerId)
    await this.#inTurn(async () => {
      this.#open()
      const store = await openStore(this.#place, player)
      const { records, cursor } = await store.load().catch((error) => {
        store.close()
        throw error
      })
      const [left, before] = [this.#store, this.#records]
      this.#playerId = credential.playerId
      this.#store = store
      this.#records = new Map(records.map((record) => [record.slot, record]))
      this.#cursor = cursor
      try {
        await this.#adoptAll(left, before.values())
        await noteName(store, credential)
      } finally {
        left.close()
      }
    })
  }

  /** @param {AbortSignal} signal */
  async #round(signal) {
    if (!this.#playerId) await this.#own()
    const client = this.#client.only(this.#playerId, { tries: 1, signal })
    await this.#hear(client)
    for (const slot of this.#known()) {
      await this.#sendOffered(client, slot)
      await this.#sendCopy(client, slot)
      for (let step = 0; step < STEPS && (await this.#send(client, slot)); step++);
      await this.#dismiss(client, slot)
    }
    for (const slot of this.#known()) await this.#fetch(client, slot)
    for (const { error } of this.#problems.values()) {
      // while a save of another device does not fit here
      if (error.code === "local_disk") throw new LocalDamaged("local_disk", error.detail)
    }
  }

  /**
   * Call `send` whenever a change is pending here or at the server. Errors that waiting can end are in `problem` until
   * a retry succeeds.
   *
   * @overload
   * @param {(status: Status) => unknown} [changed] called with each status that has changed
   * @param {RequestOptions} [options] `signal`: ends it at once, also during a request; nothing is lost
   * @returns {Promise<void>}
   * @throws {SignInRequired} or PlayerBlocked: run it again after a sign-in
   * @throws {InUse} once this Sync is closed
   */
  /**
   * Run with the arguments in their earlier order.
   *
   * @deprecated Pass `changed` first, and the signal in the options; this order ends with 1.0.
   * @overload
   * @param {AbortSignal | undefined} signal
   * @param {(status: Status) => unknown} [changed]
   * @returns {Promise<void>}
   */
  /**
   * @param {any} [first] @param {any} [second]
   * @returns {Promise<void>}
   */
  async run(first, second) {
    const isOld = typeof second === "function" || (first && typeof first !== "function")
    const [changed = () => undefined, options = {}] = isOld ? [second, { signal: first }] : [first, second]
    const given = options instanceof AbortSignal ? options : options.signal // a game may have changed only the order
    const signal = given ?? new AbortController().signal
    this.#starts++
    const over = new AbortController()
    const until = { signal: over.signal }
    // at once, also while a round waits for its answer
    for (const each of [signal, this.#stop.signal]) each.addEventListener("abort", () => over.abort(), until)
    const online = () => this.#problem?.code === "unreachable" && this.#bell.hurry()
    if (!IN_NODE) globalThis.addEventListener("online", online, until)
    const listening = this.#listen(over.signal)
    try {
      for (let attempt = 0; !signal.aborted;) {
        this.#bell.quiet()
        const error = await this.#tried(signal)
        for (const status of this.#news()) await changed(status)
        attempt = error ? Math.min(attempt + 1, 8) : 0
        const heed = error === null || this.#lacksSpace()
        await this.#bell.wait(error ? pauseAfter(error, attempt) : this.#untilDue(), signal, heed)
      }
    } catch (error) {
      if (!(signal.aborted && (error instanceof InUse || error === signal.reason))) throw error
    } finally {
      over.abort()
      await listening
    }
  }

  /**
   * Run one round; return an error that a retry may end, throw others.
   * @param {AbortSignal} signal @returns {Promise<GamedError | null>}
   */
  async #tried(signal) {
    await this.#sendAll(signal).catch(ignoring((error) => !(error instanceof InUse || ends(error))))
    return this.#problem
  }

  #untilDue() {
    const dues = [...this.#problems.values(), ...this.#copyProblems.values()].map(({ due }) => due)
    return Math.max(0, Math.min(1e9, ...dues) - monotonic())
  }

  /** Wait at the server for changes, and ring; the round requests the changes. @param {AbortSignal} over */
  async #listen(over) {
    for (let attempt = 0; !over.aborted;) {
      const began = monotonic()
      let rang = false
      try {
        rang = await this.#waited(over)
        attempt = 0
      } catch (error) {
        if (over.aborted) return
        if (ends(error)) this.#bell.ring() // a round tries the same; after a sign-in it succeeds, and this waits again
        const passing = error instanceof GamedError ? error : new Unreachable("unreachable", "The wait broke off.")
        await delay(pauseAfter(passing, attempt), over)
        attempt = Math.min(attempt + 1, 8)
      }
      if (rang) this.#bell.ring()
      // the round needs a moment to request the change; and a server that never waits gets one request per second
      if (rang || monotonic() - began < 1) await delay(1, over)
    }
  }

  /** @param {AbortSignal} signal */
  async #waited(signal) {
    const cursor = this.#cursor
    if (cursor === null) return false
    const client = this.#client.only(this.#playerId, { tries: 1 })
    return (await client.changes(cursor, { wait: WAIT_SECONDS, signal })).cursor !== cursor
  }

  #known() {
    return [...this.#records.keys()].sort()
  }

  /** Return the statuses that have changed since the last report to the game. @returns {Status[]} */
  #news() {
    const statuses = this.#known().map((slot) => this.status(slot))
    const before = this.#reported
    this.#reported = new Map(statuses.map((status) => [status.slot, this.#lookOf(status)]))
    const isNew = (/** @type {Status} */ { slot }) => this.#reported.get(slot) !== before.get(slot)
    const news = statuses.filter((status) => isNew(status) && shown(status))
    for (const listener of this.#listeners) news.forEach(listener)
    return news
  }

  /**
   * Iterate with `for await` over the statuses that change after this call, while `run`, `start` or `send` works. Of
   * each slot only the newest status waits for the reader. Without a loop, end it with `return()`.
   *
   * @param {RequestOptions} [options]
   * @returns {AsyncIterableIterator<Status>} ends when this Sync is closed
   */
  statuses({ signal } = {}) {
    // no generator: it would listen from the first `next` on only, and `return` would wait for a `next` that waits
    /** @type {Map<string, Status>} */
    const news = new Map()
    let isOver = false
    let awaited = promise()
    const wake = () => {
      awaited.keep()
      awaited = promise()
    }
    const listener = (/** @type {Status | null} */ status) => {
      if (status) news.set(status.slot, status)
      wake()
    }
    /** @returns {IteratorReturnResult<undefined>} */
    const end = () => {
      isOver = true
      this.#listeners.delete(listener)
      wake()
      return { done: true, value: undefined }
    }
    /** @returns {Promise<IteratorResult<Status, undefined>>} */
    const next = async () => {
      while (!isOver) {
        if (signal?.aborted) {
          end()
          throw signal.reason
        }
        for (const [slot, value] of news) {
          news.delete(slot)
          return { done: false, value }
        }
        if (this.#closed) break
        await orAborted(awaited.done, signal).catch(() => undefined)
      }
      return end()
    }
    this.#listeners.add(listener)
    return {
      next,
      return: async () => end(),
      throw: async (error) => {
        end()
        throw error
      },
      [Symbol.asyncIterator]() {
        return this
      },
    }
  }

  /**
   * Return a text that changes when the game has to show the status again: also for a newer version at the server.
   * @param {Status} status
   */
  #lookOf({ slot, state, problem }) {
    const of = state === "newer" || state === "conflict" ? tag(this.#record(slot).remote) : null
    return JSON.stringify([state, of, problem ? problem.code : null])
  }

  /** Request all changes, page by page, before any write is sent. @param {GamedClient} client */
  async #hear(client) {
    const known = [...this.#records.values()].filter(({ unlisted }) => unlisted !== null && unlisted === this.#cursor)
    const unlisted = new Set(known.map(({ slot }) => slot))
    while (await this.#hearPage(client, unlisted));
  }

  /**
   * Request a page of changes; return whether there are more. The cursor is stored last, so that an interrupted page is
   * requested again. `unlisted` are the slots that this device has written since the cursor: if a list of changes lacks
   * that version, the server may have lost it.
   * @param {GamedClient} client @param {Set<string>} unlisted
   */
  async #hearPage(client, unlisted) {
    const asked = this.#whole?.cursor ?? this.#cursor
    const changes = await client.changes(asked).catch((error) => {
      if (asked === null || !(error instanceof Refused) || error.status !== 400) throw error
      return client.changes() // the server does not know this cursor
    })
    if (changes.more && changes.cursor === asked) {
      throw new NotGamed("not_gamed", "The server's pages of changes do not end.")
    }
    let listed = new Map(changes.saves.filter(({ slot }) => isSlot(slot)).map((entry) => [entry.slot, entry]))
    const { cursor, expired } = changes
    if (changes.whole) this.#whole = { cursor, expired, listed: new Map(), compared: new Set() }
    if (this.#whole) {
      this.#whole.cursor = cursor
      for (const [slot, entry] of listed) {
        this.#whole.listed.set(slot, entry)
        this.#whole.compared.delete(slot)
      }
      if (changes.more) return true
      listed = this.#whole.listed
      await this.#hearAll(client, this.#whole)
      unlisted.clear()
    }
    for (const slot of [...unlisted].filter((each) => !changes.more || listed.has(each))) {
      await this.#compareUnlisted(client, slot, listed.get(slot))
      unlisted.delete(slot)
    }
    for (const [slot, entry] of listed) {
      const remote = entry instanceof SaveInfo ? entry : null
      await this.#change(slot, (record) => record.heard(remote, remote === null))
    }
    await this.#inTurn(async () => {
      this.#open()
      if (changes.cursor === this.#cursor) return
      await this.#store.keepCursor(changes.cursor)
      this.#cursor = changes.cursor
    })
    this.#whole = null
    return changes.more
  }

  /**
   * Compare all records with a whole list. The server may have lost writes: a base that is not in its history makes the
   * game's bytes pending again.
   * @param {GamedClient} client @param {Whole} whole
   */
  async #hearAll(client, { listed, compared, expired }) {
    this.#problems.clear()
    this.#copyProblems.clear()
    for (const slot of this.#known().filter((each) => !compared.has(each))) {
      const { base } = this.#record(slot)
      const entry = listed.get(slot)
      const moved = base !== null && base.etag !== tag(entry instanceof SaveInfo ? entry : null)
      if (!entry && expired) await this.#change(slot, (record) => record.expired())
      else if (!entry || moved) await this.#compare(client, slot, entry)
      compared.add(slot)
    }
  }

  /** @param {GamedClient} client @param {string} slot @param {SaveInfo | Deletion | undefined} entry */
  async #compareUnlisted(client, slot, entry) {
    const { base } = this.#record(slot)
    if (base === null || (entry instanceof SaveInfo && entry.etag === base.etag)) return
    if (entry) return this.#compare(client, slot, entry)
    const history = await historyOf(client, slot, base.version)
    const known = history.some(({ save }) => tag(save) === base.etag)
    await this.#change(slot, (r) => r.relisted({ known, deleted: false, listed: true }))
  }

  /** @param {GamedClient} client @param {string} slot @param {SaveInfo | Deletion | undefined} entry */
  async #compare(client, slot, entry) {
    const record = this.#record(slot)
    const stands = record.base ?? record.remote
    const history = stands ? await historyOf(client, slot, stands.version) : []
    const deleted = history.find(({ kind }) => kind !== "conflict")?.kind === "delete"
    const has = record.base === null || history.some(({ save }) => tag(save) === tag(record.base))
    const agrees = entry instanceof SaveInfo && entry.sha256 === record.local?.sha256
    const known = (has && (deleted || entry !== undefined)) || agrees
    await this.#change(slot, (r) => r.relisted({ known, deleted, listed: entry !== undefined }))
  }

  /** Send a slot's pending write; return whether to call it again. @param {GamedClient} client @param {string} slot */
  async #send(client, slot) {
    const sent = (await this.#next(slot))?.sent
    if (!sent) return false
    let how
    try {
      how = sent.local ? await this.#put(client, slot, sent, sent.local) : await this.#remove(client, slot, sent)
    } catch (error) {
      this.#refused(this.#problems, slot, error)
    }
    if (how) await this.#change(slot, how)
    return true
  }

  /**
   * Return the record with the write to send, which is on disk first: the same one until the server has answered it.
   * @param {string} slot @returns {Promise<Record | null>}
   */
  #next(slot) {
    return this.#inTurn(async () => {
      const record = this.#record(slot)
      const problem = this.#problems.get(slot)
      let { sent } = record
      if (problem && sent) {
        if (final(problem) && !same(sent.local, record.local)) {
          sent = null // the server refused it, and the game has written other bytes since
        } else if (monotonic() < problem.due) {
          return null
        }
      }
      if (record.dispute || (sent === null && !record.dirty)) return null
      this.#problems.delete(slot)
      if (sent === null && record.local === null && record.base === null) {
        await this.#changed(slot, (r) => r.with({ dirty: false, sent: null })) // the server never had it
        return null
      }
      return this.#changed(slot, (r) => r.with({ sent: sent ?? { local: r.local, base: r.base } }))
    })
  }

  /**
   * @param {GamedClient} client @param {string} slot @param {Sent} sent @param {Local} local
   * @returns {Promise<(record: Record) => Record>}
   */
  async #put(client, slot, { base }, local) {
    const data = await this.#inTurn(() => this.#bytes(slot, local))
    const cursor = this.#cursor
    try {
      const info = await put(client, slot, data, base, local)
      return (record) => record.written(info, cursor)
    } catch (error) {
      if (!(error instanceof Conflict)) throw error
      return (record) => (error.code === "superseded" ? record.superseded(error) : record.disputed(error))
    }
  }

  /**
   * @param {GamedClient} client @param {string} slot @param {Sent} sent
   * @returns {Promise<(record: Record) => Record>}
   */
  async #remove(client, slot, { base }) {
    try {
      await client.delete(slot, { base })
    } catch (error) {
      if (error instanceof Conflict) {
        const versions = await client.versions(slot, { downTo: base?.version ?? 1, limit: PAGE_VERSIONS })
        const did = versions.some(({ kind, parent }) => kind === "delete" && parent === base?.version)
        // did: the delete was performed before another device wrote
        return (record) => (did ? record.removed(error.current) : record.disputed(error))
      }
      if (!(error instanceof NotFound)) throw error // else the slot is empty, as wanted
    }
    return (record) => record.removed()
  }

  /** @param {Map<string, Problem>} problems @param {string} slot @param {unknown} error */
  #refused(problems, slot, error) {
    if (!(error instanceof GamedError) || halts(error)) throw error
    problems.set(slot, { error, due: monotonic() + (error.retryAfter || AGAIN_SECONDS) })
  }

  /**
   * Send the slot's `offered` if the server has no save there; a write of the game after it is a conflict.
   * @param {GamedClient} client @param {string} slot
   */
  async #sendOffered(client, slot) {
    const { offered, base, remote, sent, dispute } = this.#record(slot)
    const problem = this.#copyProblems.get(slot)
    if (!offered || base || remote || sent || dispute || (problem && monotonic() < problem.due)) return
    const data = await this.#body(slot, offered.sha256)
    /** @type {(record: Record) => Record} */
    let how = (record) => record.with({ offered: null }) // its body is damaged; the other player still has it
    try {
      if (data !== null) {
        const info = await put(client, slot, data, null, offered)
        how = (record) => record.placed(info)
      }
    } catch (error) {
      if (!(error instanceof Conflict)) return this.#refused(this.#copyProblems, slot, error)
      how = (record) => record.notPlaced(error)
    }
    this.#copyProblems.delete(slot)
    await this.#change(slot, (record) => (record.offered === offered ? how(record) : record))
  }

  /**
   * Send the slot's `unsentCopy`, until the server has answered. Other writes do not wait for it.
   * @param {GamedClient} client @param {string} slot
   */
  async #sendCopy(client, slot) {
    const { unsentCopy, sent } = this.#record(slot)
    const problem = this.#copyProblems.get(slot)
    if (!unsentCopy?.local || sent || (problem && monotonic() < problem.due)) return
    const { local, base } = unsentCopy
    const data = await this.#body(slot, local.sha256)
    try {
      // a damaged body cannot be sent: give up
      if (data !== null) await put(client, slot, data, base, local)
    } catch (error) {
      // a Conflict is the expected answer: the server has kept the bytes, or does not know this save
      if (!(error instanceof Conflict)) return this.#refused(this.#copyProblems, slot, error)
    }
    this.#copyProblems.delete(slot)
    await this.#change(slot, (r) => (r.unsentCopy === unsentCopy ? r.with({ unsentCopy: null }) : r))
  }

  /**
   * Delete a conflict copy whose bytes have become current, so that the player does not see it as a conflict.
   * @param {GamedClient} client @param {string} slot
   */
  async #dismiss(client, slot) {
    const { spent, dirty, sent, dispute, base } = this.#record(slot)
    if (spent === null || dirty || sent || dispute) return
    if (base && base.sha256 === spent.sha256) {
      await client.dismiss(slot, spent.version).catch(ignoring((error) => !halts(error))) // else it expires later
    }
    await this.#change(slot, (record) => record.with({ spent: null }))
  }

  /** Download the bytes that the game may read next, also offline. @param {GamedClient} client @param {string} slot */
  async #fetch(client, slot) {
    const record = this.#record(slot)
    const problem = this.#problems.get(slot)
    let wanted = record.dirty ? null : record.base
    if (record.dispute || record.newer) wanted = record.dispute ? record.dispute.current : record.remote
    if (wanted === null || this.#store.has(slot, wanted) || (problem && monotonic() < problem.due)) return
    let data
    try {
      data = await fetched(client, wanted)
    } catch (error) {
      if (!(error instanceof NotFound)) this.#refused(this.#problems, slot, error)
      return // else it was replaced meanwhile: the next list has the new version
    }
    this.#problems.delete(slot)
    try {
      await this.#keepBody(slot, wanted.sha256, data)
    } catch (error) {
      if (!(error instanceof LocalDamaged)) throw error
      this.#problems.set(slot, { error, due: monotonic() + AGAIN_SECONDS }) // else every round would download it again
    }
  }

  /** Keep the bytes while a record names them. @param {string} slot @param {string} digest @param {Uint8Array} data */
  #keepBody(slot, digest, data) {
    return this.#inTurn(async () => {
      this.#open()
      if (this.#record(slot).bodies.has(digest)) await this.#store.add(slot, digest, data)
    })
  }
}

/** @param {Status} status */
const shown = ({ size, state }) => size !== null || (state !== "in_step" && state !== "unknown")

/** Return whether the error ends the loop: waiting does not help. @param {unknown} error */
const ends = (error) => error instanceof SignInRequired || error instanceof PlayerBlocked

/**
 * Send bytes with their description.
 * @param {GamedClient} client @param {string} slot @param {Uint8Array} data @param {SaveInfo | null} base
 * @param {Local} local
 */
const put = (client, slot, data, base, { contentType, meta }) =>
  client.put(slot, data, { base, contentType, meta: Object.keys(meta).length ? meta : null })

/** Return whether the error ends a round: it does not concern one slot. @param {GamedError} error */
const halts = (error) => error.code === "local_disk" || HALTING.some((kind) => error instanceof kind)

/** @param {string} slot */
const damaged = (slot) => new LocalDamaged("local_damaged", `The bytes of ${slot} on this device are damaged or gone.`)

/** Return whether the name is a slot; a later protocol may list others. @param {string} name */
function isSlot(name) {
  try {
    return Boolean(pathOf(name))
  } catch {
    return false
  }
}

/**
 * Request the versions of a slot down to `downTo`; return none if the server never had it.
 * @param {GamedClient} client @param {string} slot @param {number} downTo @returns {Promise<Version[]>}
 */
async function historyOf(client, slot, downTo) {
  const asked = client.versions(slot, { downTo, limit: PAGE_VERSIONS })
  return (await asked.catch(ignoring((error) => error instanceof NotFound))) ?? []
}

/** @param {GamedClient} client @param {SaveInfo} info */
async function fetched(client, info) {
  const { data } = await client.version(info.slot, info.version)
  if ((await sha256Hex(data)) !== info.sha256) {
    throw new NotFound("version_gone", "The server has another save under this version.")
  }
  return data
}

/** @param {object} meta @returns {{ [name: string]: any }} */
function plainOf(meta) {
  let plain
  try {
    plain = JSON.parse(JSON.stringify(meta))
  } catch {
    plain = null
  }
  if (typeof plain !== "object" || plain === null || Array.isArray(plain)) {
    throw new Refused("bad_meta", "The meta of a save is a JSON object.")
  }
  return plain
}

/** @param {string} name */
const safeName = async (name) => (/^[A-Za-z0-9_-]{1,64}$/.test(name) ? name : sha256Hex(name))
