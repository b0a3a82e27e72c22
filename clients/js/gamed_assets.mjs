/**
 * Downloads for gamed.mjs: the files that a game loads, always those of one release.
 *
 * Copy it beside gamed.mjs; no packages, no build.
 *
 *     const assets = await Assets.open(client)                      // asks no server
 *     await assets.download("stable", { progress: show })           // only new bytes; continues an interrupted one
 *     image.src = await assets.url("pictures/meadow.svg")           // of the newest whole release; offline too
 *
 * A download never changes the release that is in use: it adds another one beside it and then replaces `current` in one
 * step. The release before stays until the next download. In Node.js the folder has, for any program to read:
 *
 *     current                   the release to load, one line; replaced last
 *     releases/<release>/...    its files, under their own paths
 *     releases/<release>.json   its manifest; written once every file is there
 *     objects/                  the same files by their hashes, also for the next release
 *     staging/                  files that have partly arrived, kept for the next download
 *
 * In a browser all of it is in IndexedDB. Every failure is a GamedError.
 *
 * @module
 */

import {
  DownloadCorrupt,
  GamedClient,
  IN_NODE,
  InUse,
  LocalDamaged,
  NotFound,
  NotGamed,
  NotModified,
  Refused,
  Unreachable,
  diskError,
  fileHash,
  guarded,
  ignoring,
  innerOf,
  nodeModule,
  onDisk,
  openDatabase,
  retried,
  sha256Hex,
  syncFolder,
  transact,
  tryLock,
  unlessMissing,
  writeWhole,
} from "./gamed.mjs"

export { InUse }

/** @import { Answer, Meta, Request } from "./gamed.mjs" */

const WORKERS = 4
const MAX_MANIFEST_BYTES = 32 << 20
const MAX_FILES = 100_000
/** How often a download starts again because the server has deleted its release. */
const RESTARTS = 3
/** Size of the pieces in which a browser stores a file. */
const CHUNK_BYTES = 1 << 20
/** Bytes to leave free on the disk after a download. */
const SPARE_BYTES = 16 << 20

/** The release does not fit on this device; received bytes are kept for the next download. */
export class DiskFull extends LocalDamaged {
  static kind = "DiskFull"
}

// --- A release: validated before any part of it is used ---------------------------------------------------------

const RELEASE = /^r[0-9a-f]{16}$/
const CHANNEL = /^[a-z][a-z0-9-]{0,31}$/
const SHA256 = /^[0-9a-f]{64}$/

/**
 * A file of a release: `size` in bytes, `sha256` in hexadecimal, `type` its media type.
 * @typedef {{ size: number, sha256: string, type: string }} AssetFile
 */

const malformed = () => new NotGamed("not_gamed", "The release's list of files is malformed.")

/** The files of a release by their paths: relative, with `/`, valid on every file system that players have. */
export class Manifest {
  /**
   * Use `Assets.current`.
   * @internal
   * @param {string} release @param {any} value @param {Map<string, AssetFile>} files @param {Uint8Array} raw
   */
  constructor(release, value, files, raw) {
    /** Id of the release. @readonly */
    this.release = release
    /** RFC 3339. @readonly */
    this.published = String(value.published || "")
    /** The owner's note; "" without one. @readonly */
    this.note = String(value.note || "")
    /** Values that the owner wrote for the game. @readonly @type {Meta} */
    this.meta = isObject(value.meta) ? value.meta : {}
    /** The files by their paths. @readonly */
    this.files = files
    /** The bytes that the server sent. @readonly @type {Uint8Array} */
    this.raw = raw
    Object.freeze(this)
  }

  /**
   * Parse a manifest.
   *
   * @param {Uint8Array} raw
   * @returns {Promise<Manifest>}
   * @throws {NotGamed} if this device must not store its files
   */
  static async of(raw) {
    let value
    try {
      value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(raw))
    } catch {
      throw malformed()
    }
    if (!isObject(value) || value.format !== 1) {
      throw new NotGamed("not_gamed", "The release has a format that this game does not know; update the game.")
    }
    if (!isObject(value.files)) throw malformed()
    const paths = Object.keys(value.files)
    if (paths.length > MAX_FILES) throw new NotGamed("not_gamed", `The release has more than ${MAX_FILES} files.`)
    refusePaths(paths)
    /** @type {Map<string, AssetFile>} */
    const files = new Map(paths.map((path) => [path, fileOf(value.files[path])]))
    const sizes = new Map()
    for (const { sha256, size } of files.values()) {
      if ((sizes.get(sha256) ?? size) !== size) throw malformed()
      sizes.set(sha256, size)
    }
    return new Manifest(await releaseOf(raw), value, files, raw)
  }

  /** Size of the whole download if this device has none of the files, in bytes. */
  get size() {
    return this.contents.reduce((size, file) => size + file.size, 0)
  }

  /** List each different content once. @returns {AssetFile[]} */
  get contents() {
    return [...new Map([...this.files.values()].map((file) => [file.sha256, file])).values()]
  }
}

/** @param {unknown} value */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

/** @param {any} value @returns {AssetFile} */
function fileOf(value) {
  if (!isObject(value) || !Number.isSafeInteger(value.size) || value.size < 0 || !SHA256.test(value.sha256)) {
    throw malformed()
  }
  return { size: value.size, sha256: value.sha256, type: String(value.type || "application/octet-stream") }
}

/** Return the id of a release: a hash of the exact bytes of its manifest. @param {Uint8Array} raw */
const releaseOf = async (raw) => `r${(await sha256Hex(raw)).slice(0, 16)}`

/** Throw NotGamed unless all paths can be files of one folder on any system. @param {string[]} paths */
function refusePaths(paths) {
  const files = new Set()
  const folders = new Set()
  for (const path of paths) {
    const problem = problemOf(path)
    if (problem) throw new NotGamed("not_gamed", `The release has a file that must not be written here: it ${problem}.`)
    const names = path.toUpperCase().toLowerCase().normalize("NFC").split("/")
    const above = names.slice(1).map((_, depth) => names.slice(0, depth + 1).join("/"))
    const key = names.join("/")
    if (files.has(key) || folders.has(key) || above.some((folder) => files.has(folder))) {
      throw new NotGamed("not_gamed", "The release has two files, or a file and a folder, of one name.")
    }
    files.add(key)
    for (const folder of above) folders.add(folder)
  }
}

const DEVICES = /^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3])$/i

/** Return the reason why a file cannot have this path; null for a valid one. @param {string} path */
function problemOf(path) {
  const bytes = (/** @type {string} */ text) => new TextEncoder().encode(text).length
  const names = path.split("/")
  if (bytes(path) > 1024 || names.some((name) => bytes(name) > 255)) return "is too long"
  if (names.some((name) => name === "" || name === "." || name === "..")) return "leads elsewhere"
  if (/[<>:"|?*\\]|[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(path)) return "has characters that some systems refuse"
  if (path.normalize("NFC") !== path) return "is not in the normal form NFC"
  if (names.some((name) => /[. ]$/.test(name))) return "ends in a dot or a space"
  if (names.some((name) => DEVICES.test(name.split(".")[0].trimEnd()))) return "is a device on Windows"
  return null
}

// --- Kept on this device ---------------------------------------------------------------------------------------------

/** @typedef {{ size: number, write: (data: Uint8Array) => Promise<void>, close: () => Promise<void> }} Part */

/**
 * @typedef {object} AssetStore
 * @property {string | null} folder of files; null in a browser
 * @property {string} lock name of its lock
 * @property {() => Promise<string | null>} current
 * @property {(release: string) => Promise<Uint8Array | null>} manifest
 * @property {(file: AssetFile) => Promise<boolean>} has whether the whole file is here
 * @property {(sha256: string) => Promise<Part>} part opens the received part to append to it; `size` is its size
 * @property {(sha256: string) => Promise<void>} drop deletes the received part
 * @property {(file: AssetFile) => Promise<boolean>} finish turns the part into the file if it has this hash
 * @property {(file: AssetFile) => Promise<boolean>} check reads the file again; deletes it if damaged
 * @property {(manifest: Manifest) => Promise<void>} publish makes this `current`, in one step
 * @property {(releases: Set<string>, hashes: Set<string>) => Promise<void>} removeOthers keeps only these
 * @property {(release: string, path: string, file: AssetFile) => Promise<Blob | Uint8Array | null>} read
 * @property {() => Promise<number>} free bytes
 */

/** Open files in a folder. @param {string} folder @returns {Promise<AssetStore>} */
async function folderStore(folder) {
  const fs = await nodeModule("fs/promises")
  const [releases, objects, staging] = ["releases", "objects", "staging"].map((name) => `${folder}/${name}`)
  for (const place of [releases, objects, staging]) await fs.mkdir(place, { recursive: true })

  const digest = async (/** @type {string} */ path) => (await fileHash(path)).digest("hex")

  /**
   * Link the file under another name; copy it if the file system does not support links.
   * @param {string} from @param {string} to
   */
  const put = async (from, to) => {
    const here = await fs.stat(to).catch(unlessMissing)
    const there = await fs.stat(from)
    if (here && here.ino === there.ino && here.dev === there.dev) return
    const temporary = `${staging}/link`
    await fs.unlink(temporary).catch(unlessMissing)
    await fs.link(from, temporary).catch(() => fs.copyFile(from, temporary))
    await fs.rename(temporary, to)
  }

  return {
    folder,
    lock: `${folder}/lock`,
    async current() {
      const text = await fs.readFile(`${folder}/current`, "utf8").catch(unlessMissing)
      return text && RELEASE.test(text.trim()) ? text.trim() : null
    },
    manifest: (release) => fs.readFile(`${releases}/${release}.json`).catch(unlessMissing),
    async has({ sha256, size }) {
      const found = await fs.stat(`${objects}/${sha256}`).catch(unlessMissing)
      return found !== null && found.size === size
    },
    async part(sha256) {
      const handle = await fs.open(`${staging}/${sha256}`, "a")
      const { size } = await handle.stat()
      return { size, write: (data) => handle.writeFile(data), close: () => handle.close() }
    },
    drop: (sha256) => fs.unlink(`${staging}/${sha256}`).catch(unlessMissing),
    async finish({ sha256 }) {
      const part = `${staging}/${sha256}`
      if ((await digest(part)) !== sha256) return false
      const handle = await fs.open(part, "r+")
      await handle.sync().finally(() => handle.close())
      await fs.rename(part, `${objects}/${sha256}`)
      return true
    },
    async check({ sha256 }) {
      const good = (await digest(`${objects}/${sha256}`)) === sha256
      if (!good) await fs.unlink(`${objects}/${sha256}`)
      return good
    },
    async publish({ release, files, raw }) {
      const root = `${releases}/${release}`
      const folders = new Set([releases, objects])
      for (const [path, { sha256 }] of files) {
        const target = `${root}/${path}`
        const above = target.slice(0, target.lastIndexOf("/"))
        await fs.mkdir(above, { recursive: true })
        await put(`${objects}/${sha256}`, target)
        for (let at = above; at.length >= root.length; at = at.slice(0, at.lastIndexOf("/"))) folders.add(at)
      }
      for (const place of folders) await syncFolder(place)
      await writeWhole(`${root}.json`, raw)
      await writeWhole(`${folder}/current`, new TextEncoder().encode(`${release}\n`))
    },
    async removeOthers(kept, hashes) {
      /** @param {string} place @param {(name: string) => boolean} stays */
      const sweep = async (place, stays) => {
        const gone = (await fs.readdir(place)).filter((/** @type {string} */ name) => !stays(name))
        for (const name of gone) await fs.rm(`${place}/${name}`, { recursive: true, force: true })
      }
      await sweep(releases, (name) => kept.has(name.split(".")[0]))
      await sweep(objects, (name) => hashes.has(name))
      await sweep(staging, () => false)
    },
    async read(release, path) {
      const found = await fs.readFile(`${releases}/${release}/${path}`).catch(unlessMissing)
      return found && new Uint8Array(found)
    },
    async free() {
      const { bavail, bsize } = await fs.statfs(folder)
      return bavail * bsize
    },
  }
}

/**
 * Open a database of IndexedDB: files as Blobs, by their hashes.
 * @param {string} name @returns {Promise<AssetStore>}
 */
async function blobStore(name) {
  const database = await openDatabase(name, ["state", "manifests", "objects", "parts"])

  /** @param {string} store @param {(store: IDBObjectStore) => IDBRequest} step */
  const read = (store, step) => transact(database, [store], "readonly", (of) => step(of(store)))
  /** @param {string[]} stores @param {(of: (store: string) => IDBObjectStore) => void} step @returns {Promise<void>} */
  const change = (stores, step) => transact(database, stores, "readwrite", step)
  /** @param {string} sha256 @returns {Promise<Blob[]>} */
  const chunksOf = (sha256) => read("parts", (parts) => parts.getAll(rangeOf(sha256)))
  const hashOf = async (/** @type {Blob} */ blob) => sha256Hex(new Uint8Array(await blob.arrayBuffer()))

  return {
    folder: null,
    lock: name,
    current: async () => (await read("state", (state) => state.get("current"))) ?? null,
    manifest: async (release) => (await read("manifests", (manifests) => manifests.get(release))) ?? null,
    has: async ({ sha256 }) => (await read("objects", (objects) => objects.count(sha256))) > 0,
    async part(sha256) {
      const chunks = await chunksOf(sha256)
      let number = chunks.length
      /** @type {Uint8Array[]} */
      let held = []
      let size = 0
      const flush = async () => {
        if (size === 0) return
        const chunk = new Blob(/** @type {any} */ (held))
        await change(["parts"], (of) => void of("parts").put(chunk, [sha256, number++]))
        held = []
        size = 0
      }
      return {
        size: chunks.reduce((sum, chunk) => sum + chunk.size, 0),
        write: async (data) => {
          held.push(data)
          size += data.length
          if (size >= CHUNK_BYTES) await flush()
        },
        close: flush,
      }
    },
    drop: (sha256) => change(["parts"], (of) => void of("parts").delete(rangeOf(sha256))),
    async finish({ sha256, type }) {
      const whole = new Blob(await chunksOf(sha256), { type })
      if ((await hashOf(whole)) !== sha256) return false
      await change(["objects", "parts"], (of) => {
        of("objects").put(whole, sha256)
        of("parts").delete(rangeOf(sha256))
      })
      return true
    },
    async check({ sha256 }) {
      const blob = await read("objects", (objects) => objects.get(sha256))
      const good = Boolean(blob) && (await hashOf(blob)) === sha256
      if (!good) await change(["objects"], (of) => void of("objects").delete(sha256))
      return good
    },
    publish: ({ release, raw }) =>
      change(["state", "manifests"], (of) => {
        of("manifests").put(raw, release)
        of("state").put(release, "current")
      }),
    async removeOthers(kept, hashes) {
      /** @param {string} store @param {Set<string>} stay */
      const sweep = async (store, stay) => {
        const keys = await read(store, (all) => all.getAllKeys())
        const gone = keys.filter((/** @type {string} */ key) => !stay.has(key))
        await change([store], (of) => gone.forEach((/** @type {string} */ key) => of(store).delete(key)))
      }
      await sweep("manifests", kept)
      await sweep("objects", hashes)
      await change(["parts"], (of) => void of("parts").clear())
    },
    async read(release, path, { sha256, type }) {
      const blob = await read("objects", (objects) => objects.get(sha256))
      return blob ? blob.slice(0, blob.size, type) : null
    },
    async free() {
      const { quota = Infinity, usage = 0 } = (await navigator.storage?.estimate?.()) ?? {}
      return quota - usage
    },
  }
}

/** @param {string} sha256 */
const rangeOf = (sha256) => IDBKeyRange.bound([sha256, 0], [sha256, Infinity])

// --- A download ------------------------------------------------------------------------------------------------------

/**
 * The progress of a download, in bytes; `fetched`: received over the network since it began.
 * @typedef {{ stage: "looking" | "fetching" | "finishing", release: string, done: number, size: number,
 *   fetched: number }} Progress
 */

/** The download of one release. */
class Download {
  #access
  #store
  #manifest
  #tell
  #done = 0
  #fetched = 0
  /** @type {"looking" | "fetching" | "finishing"} */
  #stage = "looking"
  #stop = new AbortController()

  /**
   * @param {Access} access @param {AssetStore} store @param {Manifest} manifest
   * @param {(progress: Progress) => unknown} tell
   */
  constructor(access, store, manifest, tell) {
    this.#access = access
    this.#store = store
    this.#manifest = manifest
    this.#tell = tell
  }

  /** Download all missing files. @param {boolean} verify @param {AbortSignal | undefined} signal */
  async run(verify, signal) {
    /** @type {AssetFile[]} */
    const missing = []
    for (const file of this.#manifest.contents) {
      signal?.throwIfAborted()
      const here = (await this.#store.has(file)) && (!verify || (await this.#store.check(file)))
      if (here) this.#count(file.size)
      else missing.push(file)
    }
    await this.#makeRoom(missing)
    signal?.throwIfAborted()
    this.#stage = "fetching"
    const stop = () => this.#stop.abort(signal?.reason)
    signal?.addEventListener("abort", stop)
    try {
      const workers = Array.from({ length: Math.min(WORKERS, missing.length) }, () => this.#work(missing))
      const failed = (await Promise.allSettled(workers)).some(({ status }) => status === "rejected")
      if (failed) throw this.#stop.signal.reason
    } finally {
      signal?.removeEventListener("abort", stop)
    }
    this.#stage = "finishing"
    this.#count(0)
    signal?.throwIfAborted() // the last moment to give up: what follows publishes the release
  }

  /** Throw DiskFull before the first request if the files do not fit. @param {AssetFile[]} missing */
  async #makeRoom(missing) {
    if (missing.length === 0) return
    const needed = missing.reduce((sum, { size }) => sum + size, SPARE_BYTES) - (await this.#store.free())
    if (needed > 0) throw diskFull(needed)
  }

  /** Fetch files side by side; the first failure ends the others. @param {AssetFile[]} missing */
  async #work(missing) {
    try {
      for (let file = missing.pop(); file; file = missing.pop()) await this.#fetch(file)
    } catch (error) {
      missing.length = 0
      this.#stop.abort(error)
      throw error
    }
  }

  /** @param {AssetFile} file */
  async #fetch(file) {
    for (let damaged = 0; ; damaged++) {
      await this.#arrive(file)
      if (await this.#store.finish(file)) return
      await this.#store.drop(file.sha256)
      this.#count(-file.size)
      if (damaged) throw new DownloadCorrupt("download_corrupt", "A file of the release arrived damaged, twice.")
    }
  }

  /** Receive all bytes of a file. A try that received some does not count. @param {AssetFile} file */
  async #arrive(file) {
    let counted = 0
    let received = 0
    const once = async () => {
      const part = await this.#part(file)
      this.#count(part.size - counted)
      counted = part.size
      try {
        if (part.size === file.size) return
        await this.#stream(file, part.size, async (data) => {
          await part.write(data)
          counted += data.length
          received += data.length
          this.#fetched += data.length
          this.#count(data.length)
        })
      } finally {
        await part.close()
      }
    }
    await retried(once, { sleep: this.#access.sleep, signal: this.#stop.signal, received: () => received })
  }

  /** Open what has arrived of a file, from the start if that is too much. @param {AssetFile} file */
  async #part({ sha256, size }) {
    const part = await this.#store.part(sha256)
    if (part.size <= size) return part
    await part.close()
    await this.#store.drop(sha256)
    return this.#store.part(sha256)
  }

  /**
   * Request the bytes from `start` on.
   * @param {AssetFile} file @param {number} start @param {(data: Uint8Array) => Promise<void>} take
   */
  async #stream({ sha256, size }, start, take) {
    /** @type {Record<string, string>} */
    const headers = start ? { Range: `bytes=${start}-${size - 1}`, "If-Range": `"${sha256}"` } : {}
    let skip = -1
    let left = size - start
    const sink = async (/** @type {Uint8Array} */ data, /** @type {Answer} */ answer) => {
      if (skip < 0) skip = skipOf(answer, start, size)
      const passed = Math.min(skip, data.length)
      skip -= passed
      left -= data.length - passed
      if (left < 0) throw otherBytes()
      if (data.length > passed) await take(data.subarray(passed))
    }
    const how = { headers, sink, tries: 1, limit: Infinity, signal: this.#stop.signal }
    await this.#access.get(`/assets/objects/${sha256}`, how)
    if (left > 0) throw new Unreachable("unreachable", "The answer of the server broke off.")
  }

  /** @param {number} bytes */
  #count(bytes) {
    this.#done += bytes
    const { release, size } = this.#manifest
    this.#tell({ stage: this.#stage, release, done: this.#done, size, fetched: this.#fetched })
  }
}

/**
 * Return the number of bytes before the wanted ones: 0, unless the server sends the whole file instead of the range.
 * @param {Answer} answer @param {number} start @param {number} size
 */
function skipOf(answer, start, size) {
  if (answer.status !== 206) return start
  if (answer.headers.get("Content-Range") !== `bytes ${start}-${size - 1}/${size}`) throw otherBytes()
  return 0
}

const otherBytes = () => new DownloadCorrupt("download_corrupt", "The server sends other bytes than its release has.")

/** @param {number} missing bytes */
function diskFull(missing) {
  const more = `about ${Math.ceil(missing / 1e6)} MB are missing`
  return new DiskFull("disk_full", `This device has no room for the download: ${more}. Make some, then start it again.`)
}

/** Requests that carry a token only if the server asks for one: public files do not need a sign-in. */
class Access {
  #asked = false
  #inner

  /** @param {GamedClient} client */
  constructor(client) {
    this.#inner = innerOf(client)
    this.sleep = this.#inner.wire.patience.sleep
  }

  /** @param {string} path @param {Request} how */
  async get(path, how) {
    if (!this.#asked) {
      const sent = this.#inner.wire.call("GET", path, how)
      const answer = await sent.catch(ignoring(({ code }) => code === "token_missing", how.signal))
      if (answer) return answer
      this.#asked = true
    }
    return this.#inner.game("GET", path, how)
  }
}

/**
 * @typedef {object} DownloadOptions
 * @property {(progress: Progress) => unknown} [progress] called often; it may throw to end the download
 * @property {boolean} [verify] check the bytes that are here already
 * @property {AbortSignal} [signal] ends the download with the signal's reason
 */

/** The releases of a server on this device. Only `download` sends requests. */
export class Assets {
  #store
  #access
  /** @type {Manifest | null} */
  #current = null

  /**
   * Open the releases on this device; no request is sent.
   *
   * @param {GamedClient} client
   * @param {{ folder?: string }} [options] `folder` replaces the one beside the credential; it must not have other
   *   files. In a browser it is a name
   * @returns {Promise<Assets>}
   * @throws {LocalDamaged} if this device cannot read its files
   */
  static async open(client, { folder } = {}) {
    const opening = IN_NODE
      ? folderStore(folder ?? `${client.folder}/assets-js/${client.place}`)
      : blobStore(`${innerOf(client).place.database}/${folder ?? "assets"}/${client.place}`)
    const assets = new Assets(client, guarded(await onDisk(opening)))
    await assets.switch()
    return assets
  }

  /**
   * Use `open`.
   * @internal
   * @param {GamedClient} client @param {AssetStore} store
   */
  constructor(client, store) {
    this.#store = store
    this.#access = new Access(client)
  }

  /** The newest complete release when this was opened, unchanged until `switch`; null if none was downloaded yet. */
  get current() {
    return this.#current
  }

  /**
   * Change to the newest complete release; call it when the game has closed the files of the old one.
   *
   * @returns {Promise<Manifest | null>} null: no release was downloaded yet
   */
  async switch() {
    return (this.#current = await this.#newest())
  }

  async #newest() {
    const release = await this.#store.current()
    const raw = release && (await this.#store.manifest(release))
    return raw && (await releaseOf(raw)) === release ? Manifest.of(raw) : null // null: damaged, to download again
  }

  /** Folder of the current release's files; null in a browser. @returns {string | null} */
  get folder() {
    return this.#store.folder
  }

  /**
   * Find a file of the current release on this device's disk; Node.js only.
   *
   * @param {string} name its path in the release
   * @returns {string}
   * @throws {NotFound} if the release has no such file
   * @throws {Unreachable} until a release has been downloaded
   */
  path(name) {
    const [release] = this.#find(name)
    return `${this.folder}/releases/${release}/${name}`
  }

  /**
   * Read a file of the current release.
   *
   * @param {string} name its path in the release
   * @returns {Promise<Blob>} with the file's media type
   * @throws {NotFound} if the release has no such file
   * @throws {Unreachable} until a release has been downloaded
   */
  async blob(name) {
    const [release, file] = this.#find(name)
    const found = await this.#store.read(release, name, file)
    if (found === null) throw new NotFound("file_not_found", `The file ${name} is gone from this device.`)
    return found instanceof Blob ? found : new Blob([/** @type {any} */ (found)], { type: file.type })
  }

  /**
   * Read a file of the current release as bytes.
   *
   * @param {string} name its path in the release
   * @returns {Promise<Uint8Array>}
   * @throws {NotFound} and the other errors of `blob`
   */
  async bytes(name) {
    return new Uint8Array(await (await this.blob(name)).arrayBuffer())
  }

  /**
   * Make an address for pictures and sounds of this page; release it with URL.revokeObjectURL. Never open it as a page:
   * its scripts would run with this page's origin.
   *
   * @param {string} name its path in the release
   * @returns {Promise<string>}
   * @throws {NotFound} and the other errors of `blob`
   */
  async url(name) {
    return URL.createObjectURL(await this.blob(name))
  }

  /** @param {string} name @returns {[string, AssetFile]} */
  #find(name) {
    if (this.#current === null) {
      throw new Unreachable("not_arrived", "The game's files have not been downloaded yet.")
    }
    const file = this.#current.files.get(name)
    if (!file) throw new NotFound("file_not_found", `The release has no file ${name}.`)
    return [this.#current.release, file]
  }

  /**
   * Download a release; it is complete on this device when this returns. Bytes that are here already are not fetched.
   * After a failure the received bytes are kept for the next download. `current` stays as it is until `switch`.
   *
   * @param {string} [channel] its release; or a release by its id
   * @param {DownloadOptions} [options]
   * @returns {Promise<Manifest>}
   * @throws {NotFound} if the server has no such channel or release
   * @throws {SignInRequired} if files are for players only
   * @throws {DiskFull} if the release does not fit on this device
   * @throws {DownloadCorrupt} if a file arrived damaged, twice
   * @throws {InUse} if another tab or process is downloading these files
   */
  async download(channel = "stable", { progress = () => undefined, verify = false, signal } = {}) {
    if (!CHANNEL.test(channel) && !RELEASE.test(channel)) {
      throw new Refused("invalid_channel", "A channel's name has 1-32 of a-z 0-9 - and begins with a letter.")
    }
    const release = await tryLock(this.#store.lock)
    if (!release) throw new InUse("in_use", "These files are being downloaded already, in another window.")
    try {
      for (let left = RESTARTS - 1; ; left--) {
        const fetched = this.#fetch(await this.#manifest(channel, signal), progress, verify, signal)
        // the owner has removed it meanwhile: try the newer one
        const manifest = await fetched.catch(ignoring((error) => error instanceof NotFound && left > 0, signal))
        if (manifest) return manifest
      }
    } catch (error) {
      const problem = diskError(error)
      const cause = problem instanceof LocalDamaged ? /** @type {any} */ (problem.cause) : null
      const name = cause?.code ?? cause?.name
      if (name === "ENOSPC" || name === "EDQUOT" || name === "QuotaExceededError") throw diskFull(SPARE_BYTES)
      throw problem
    } finally {
      release()
    }
  }

  /**
   * Read the manifest. All later requests name its release, so that a publication meanwhile does not matter.
   * @param {string} channel @param {AbortSignal | undefined} signal
   */
  async #manifest(channel, signal) {
    const here = await this.#newest()
    /** @type {Record<string, string>} */
    const headers = here ? { "If-None-Match": `"${here.release}"` } : {}
    const how = { headers, check: checkRelease, limit: MAX_MANIFEST_BYTES, signal }
    const asked = this.#access.get(`/assets/${channel}`, how)
    const answer = await asked.catch(ignoring((error) => here !== null && error instanceof NotModified, signal))
    return answer ? Manifest.of(answer.body) : /** @type {Manifest} */ (here)
  }

  /**
   * @param {Manifest} manifest @param {(progress: Progress) => unknown} progress @param {boolean} verify
   * @param {AbortSignal | undefined} signal
   */
  async #fetch(manifest, progress, verify, signal) {
    await new Download(this.#access, this.#store, manifest, progress).run(verify, signal)
    await this.#store.publish(manifest)
    const before = this.#current
    if (this.#current === null) this.#current = manifest
    const kept = before ? [manifest, before] : [manifest]
    const hashes = kept.flatMap(({ contents }) => contents.map(({ sha256 }) => sha256))
    await this.#store.removeOthers(new Set(kept.map(({ release }) => release)), new Set(hashes))
    return manifest
  }
}

/** Throw DownloadCorrupt unless the manifest has the hash that the release is named by. @param {Answer} answer */
async function checkRelease(answer) {
  const named = answer.headers.get("Asset-Release") ?? (answer.headers.get("ETag") ?? "").replace(/^"|"$/g, "")
  if (!RELEASE.test(named)) throw new NotGamed("not_gamed", "The server's answer lacks 'ETag'.")
  if ((await releaseOf(answer.body)) !== named) {
    throw new DownloadCorrupt("download_corrupt", "The list of files arrived damaged.")
  }
}
