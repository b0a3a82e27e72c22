/**
 * Client of a gamed server, protocol 1.0, for JavaScript: sign in, stay signed in, keep saves, download assets.
 *
 * One file, no packages, no build: copy it into a game. For browsers, and for Node.js 20 or newer.
 *
 *     const client = await GamedClient.open("https://play.example.org", { app: "mygame" })
 *     if (!(await client.ensureSignedIn(person))) return          // a Person: how the game asks the player
 *     const save = await client.get("auto")                       // null: never saved
 *     await client.put("auto", bytes, { base: save })             // throws Conflict, and loses neither side
 *
 * To play offline too, copy gamed_sync.mjs along: it keeps the newest bytes on the device and sends them when the
 * server can be reached.
 *
 * Every failure is a GamedError with the `code` of the protocol and a `detail` that a person can read. A game may call
 * several methods at a time; several tabs, or processes, may share one sign-in.
 *
 * @module
 */

/** The version of this client. @type {string} */
export const VERSION = "1.0.0rc1"

const TIMEOUT_SECONDS = 15
const TRIES = 4
const LONGEST_PAUSE_SECONDS = 30
/** The client refreshes an access token this long before it expires, at most. */
const EARLY_SECONDS = 30
/** The client refreshes a short-lived access token when this share of its lifetime is left. */
const EARLY_SHARE = 0.1
/** How long to wait for the browser's return before offering a code, and how long the return waits for its response. */
const RETURN_SECONDS = 5
/** The timeout of an upload allows for a connection of this speed. */
const UPLOAD_BYTES_PER_SECOND = 32 << 10
const MAX_JSON_BYTES = 4 << 20
const MAX_SAVE_BYTES = 256 << 20
/** A commit asks the server first whether it has the bytes of a save that is larger than this. */
const ASK_FIRST_BYTES = 64 << 10
/** The server may take this long to prepare an export before it sends the first byte. */
const EXPORT_SECONDS = 120
/** The server answers `busy` with 30 seconds while an export whose connection broke still runs. */
const LONGEST_EXPORT_PAUSE_SECONDS = 60

/** Node.js without a page (Electron's windows have both, and count as browsers). */
export const IN_NODE = typeof process === "object" && !!process?.versions?.node && typeof document === "undefined"

/**
 * Import a module of Node.js. The name is not a literal, so that a bundler for browsers does not resolve it: esbuild
 * ignores both comments.
 * @param {string} name @returns {Promise<any>}
 * @internal
 */
export function nodeModule(name) {
  return import(/* webpackIgnore: true */ /* @vite-ignore */ `node:${name}`)
}

/**
 * Wait; a signal that aborts, or has aborted, ends the wait, too, without an error.
 * @internal
 * @param {number} seconds @param {(AbortSignal | undefined)[]} signals @returns {Promise<void>}
 */
export function delay(seconds, ...signals) {
  return new Promise((resolve) => {
    const over = new AbortController()
    const end = () => {
      clearTimeout(timer) // else Node.js would wait for it at its end
      over.abort()
      resolve()
    }
    const timer = setTimeout(end, seconds * 1000)
    for (const signal of signals) signal?.addEventListener("abort", end, { signal: over.signal })
    if (signals.some((signal) => signal?.aborted)) end()
  })
}

/** Return the system's language as the system calls it; "" if it is not known. @internal */
export function systemLocale() {
  if (!IN_NODE) return navigator.language ?? ""
  const { LC_ALL, LC_MESSAGES, LANG } = process.env
  const others = process.platform === "win32" || process.platform === "darwin"
  return LC_ALL || LC_MESSAGES || LANG || (others ? Intl.DateTimeFormat().resolvedOptions().locale : "")
}

/**
 * Return a language as a tag of BCP 47: `pt_BR.UTF-8` is `pt-BR`; "" for `C` and others that name no language.
 * @param {string} locale
 * @internal
 */
export function localeTag(locale) {
  const found = /^[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8}){0,3}(?![A-Za-z0-9])/.exec(locale)
  return (found?.[0] ?? "").replaceAll("_", "-")
}

// --- Errors: one class for each thing a game does about them, chosen by `code` ---------------------------------------

/**
 * @typedef {object} ErrorDetails
 * @property {number} [status] HTTP status
 * @property {{ [name: string]: any }} [problem] members of the problem (RFC 9457)
 * @property {unknown} [cause]
 */

/** `code` is for the program, `detail` for the person. The client has retried `passing` failures already. */
export class GamedError extends Error {
  /** @param {string} code @param {string} detail @param {ErrorDetails} [more] */
  constructor(code, detail, { status = 0, problem = {}, cause } = {}) {
    super(`${detail} (${code})`, cause === undefined ? undefined : { cause })
    /** Name of the class, also in a bundle that has shortened names. @type {string} */
    this.name = /** @type {any} */ (this.constructor).kind
    /** One of the codes of docs/protocol.md, or of this client. */
    this.code = code
    /** Text for the player, in English. */
    this.detail = detail
    /** HTTP status; 0 if the error comes from the client itself. */
    this.status = status
    /** Every member of the problem (RFC 9457). @type {{ [name: string]: any }} */
    this.problem = problem
    /** Seconds that the server asks to wait. @type {number | null} */
    this.retryAfter = null
    /** An earlier try of the same request got no response: the server may have performed it already. */
    this.answerLostBefore = false
  }

  /** The name of the class: `constructor.name` is another one after a bundler has shortened names. */
  static kind = "GamedError"

  /** True if the same request can succeed later; the client has retried it already. @returns {boolean} */
  get passing() {
    return PASSING.some((kind) => this instanceof kind)
  }
}

/** The response is missing or incomplete, or comes from a front proxy that cannot reach its server. */
export class Unreachable extends GamedError {}

/** The server cannot perform the request now. */
export class Busy extends GamedError {}

/** Too many requests; the server accepts the next one after `retryAfter` seconds. */
export class RateLimited extends GamedError {}

/** The received bytes do not match the digest that the server sent. */
export class DownloadCorrupt extends GamedError {}

/** The server at this address does not speak this protocol. */
export class NotGamed extends GamedError {}

/** An address that must not be used: plain http on the network, or a link to another server. */
export class UntrustedAddress extends GamedError {}

/** The server rejected the request; sending it again gives the same error. */
export class Refused extends GamedError {}

/** A sign-in is needed: none is stored here, or its session has ended. */
export class SignInRequired extends GamedError {}

/** Another player has signed in on this device meanwhile; nothing was read or written in their name. */
export class PlayerChanged extends SignInRequired {}

/** The owner of this server does not let the player in. */
export class PlayerBlocked extends GamedError {}

/** The sign-in ended without credentials; start another one. */
export class LoginFailed extends GamedError {}

/** The player declined, in the browser or at the provider. */
export class LoginDeclined extends LoginFailed {}

/** The game or the player cancelled the sign-in on this device. */
export class LoginCancelled extends LoginFailed {}

/** The player did not finish the sign-in in time. */
export class LoginExpired extends LoginFailed {}

/** The finish code is wrong; `attemptsLeft` is the number of further attempts. */
export class InvalidProof extends GamedError {
  /** Number of further attempts. @returns {number} */
  get attemptsLeft() {
    return Number.isInteger(this.problem.attempts_left) ? this.problem.attempts_left : 0
  }
}

/** The server has no such save, version, session, channel or file. */
export class NotFound extends GamedError {}

/** The save was deleted; its versions can still be restored. */
export class Deleted extends NotFound {}

/** The version that was passed is the current one (304). */
export class NotModified extends GamedError {}

/** The slot exists: pass the version that this write is based on. */
export class BaseRequired extends GamedError {}

/** Another device wrote first. The server kept your bytes too, as `yours`, unless `detail` gives a reason. */
export class Conflict extends GamedError {
  /** The version that the write was based on; null if the server does not keep it. */
  get base() {
    return SaveInfo.maybe(this.problem.base)
  }

  /** The current version of the slot; null if it is empty. */
  get current() {
    return SaveInfo.maybe(this.problem.current)
  }

  /** The conflict copy that the server has kept of the refused bytes; null if it has not. */
  get yours() {
    return SaveInfo.maybe(this.problem.yours)
  }

  /** The sides of each slot whose base did not match; empty unless from `commit`. @returns {SlotConflict[]} */
  get slots() {
    const listed = Array.isArray(this.problem.conflicts) ? this.problem.conflicts.filter(isObject) : []
    return listed.map((each) => ({ slot: String(each.slot), code: String(each.code), ...sidesOf(each) }))
  }
}

/** @param {Record<string, any>} problem */
function sidesOf({ base, current, yours }) {
  return { base: SaveInfo.maybe(base), current: SaveInfo.maybe(current), yours: SaveInfo.maybe(yours) }
}

/** The player has reached a limit; see `problem.limit` and `problem.usage`. */
export class QuotaExceeded extends GamedError {}

/** The owner's disk is full. */
export class StorageFull extends GamedError {}

/** The server's copy is damaged; `detail` names the newest good version. */
export class SaveCorrupt extends GamedError {}

/** This device cannot read or write a file (`local_disk`), or its bytes are not those that were written. */
export class LocalDamaged extends GamedError {}

/** Another tab or process, or another object of this one, has the folder open. */
export class InUse extends GamedError {}

/** The errors after which the same request can succeed later. */
const PASSING = [Unreachable, Busy, RateLimited, DownloadCorrupt]

named({ Unreachable, Busy, RateLimited, DownloadCorrupt, NotGamed, UntrustedAddress, Refused, SignInRequired })
named({ PlayerChanged, PlayerBlocked, LoginFailed, LoginDeclined, LoginCancelled, LoginExpired, InvalidProof })
named({ NotFound, Deleted, NotModified, BaseRequired, Conflict, QuotaExceeded, StorageFull, SaveCorrupt })
named({ LocalDamaged, InUse })

/** Give each class its `kind`. @param {{ [name: string]: typeof GamedError }} classes */
function named(classes) {
  for (const [name, of] of Object.entries(classes)) of.kind = name
}

/** @typedef {new (code: string, detail: string, more?: object) => GamedError} ErrorClass */

/** @type {Map<string, ErrorClass>} */
const BY_CODE = byCode([
  [Busy, "busy shutting_down unhealthy store_unavailable provider_unavailable request_timeout"],
  [RateLimited, "rate_limited"],
  [SignInRequired, "token_missing token_expired token_invalid session_revoked"],
  [SignInRequired, "refresh_expired refresh_reused refresh_invalid reauthentication_required"],
  [PlayerBlocked, "player_blocked player_pending registration_closed"],
  [LoginFailed, "device_secret_invalid login_collected"],
  [InvalidProof, "invalid_proof"],
  [Deleted, "deleted erased"],
  [NotFound, "save_not_found version_gone session_not_found channel_not_found release_not_found file_not_found"],
  [BaseRequired, "precondition_required"],
  [Conflict, "version_conflict superseded"],
  [QuotaExceeded, "save_too_large quota_exceeded too_many_slots"],
  [StorageFull, "storage_full"],
  [SaveCorrupt, "corrupt_blob"],
])

const LOGIN_BY_CODE = byCode([
  [LoginDeclined, "login_denied provider_denied"],
  [LoginCancelled, "login_cancelled"],
  [LoginExpired, "login_expired"],
])

/** The only codes after which the client deletes a refresh credential (docs/protocol.md: Rules for clients). */
const FORGET = new Set(["refresh_expired", "refresh_reused", "refresh_invalid", "session_revoked"])
const RENEW = new Set(["token_expired", "token_invalid"])
/** The further codes after which only a sign-in helps. */
const OVER = new Set(["token_invalid", "signed_out"])

/** @param {[ErrorClass, string][]} table @returns {Map<string, ErrorClass>} */
function byCode(table) {
  return new Map(table.flatMap(([kind, codes]) => codes.split(" ").map((code) => [code, kind])))
}

/** Return the error of a response that is not a success, by its `code`. @param {Answer} answer @internal */
export function errorOf(answer) {
  /** @type {Record<string, any>} */
  let problem = {}
  if (answer.mediaType === "application/problem+json") {
    try {
      problem = answer.json()
    } catch {
      // not JSON: the status decides
    }
  }
  const { code, detail, title } = problem
  let error
  if (typeof code !== "string") {
    error = errorOfStatus(answer.status)
  } else {
    let kind = BY_CODE.get(code) ?? Refused
    if (code === "deleted" && answer.status === 412) kind = Conflict
    error = new kind(code, String(detail || title || code), { status: answer.status, problem })
  }
  const retryAfter = answer.headers.get("Retry-After") ?? ""
  if (/^[0-9]+$/.test(retryAfter)) error.retryAfter = Number(retryAfter.slice(0, 6))
  return error
}

/**
 * Return the error of a response without a problem. gamed always sends one, so a proxy in front of it has responded.
 * @param {number} status
 */
function errorOfStatus(status) {
  if (status === 304) return new NotModified("not_modified", "You have the current version.", { status })
  if (status === 429) return new RateLimited("rate_limited", "Too many requests; try again later.", { status })
  if ([408, 502, 503, 504].includes(status)) {
    return new Unreachable("unreachable", `The server is away for the moment (HTTP ${status}).`, { status })
  }
  if (status === 0 || (status >= 300 && status < 400)) {
    return new NotGamed("not_gamed", "This address leads elsewhere.", { status })
  }
  return new NotGamed("not_gamed", `No gamed server answers at this address (HTTP ${status}).`, { status })
}

/** @type {Record<string, (value: any) => boolean>} */
const KINDS = {
  string: (value) => typeof value === "string",
  integer: Number.isSafeInteger,
  array: Array.isArray,
  object: isObject,
}

/** @param {unknown} value */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

/**
 * Return a required member of the protocol; throw NotGamed unless it has this type.
 * @param {Record<string, any>} of @param {string} name @param {"string" | "integer" | "array" | "object"} kind
 * @returns {any}
 */
function member(of, name, kind) {
  const value = Object.hasOwn(of, name) ? of[name] : undefined
  if (!KINDS[kind](value)) throw new NotGamed("not_gamed", `The server's answer lacks '${name}'.`)
  return value
}

// --- Addresses -------------------------------------------------------------------------------------------------------

const LOOPBACK = new Set(["localhost", "127.0.0.1", "::1"])
/** @type {Record<string, number>} */
const PORTS = { https: 443, http: 80 }
const HOST = /^([a-z0-9_-]+(\.[a-z0-9_-]+)*|[0-9a-f:.]+)$/
const LINK = /^[A-Za-z0-9._~:/?#[\]@!$&()*+,;=%-]{1,2048}$/

/** Scheme, host and port: the identity of a server. https, or http on this machine only. */
export class Origin {
  /** @param {string} scheme @param {string} host @param {number} port */
  constructor(scheme, host, port) {
    /** @readonly */
    this.scheme = scheme
    /** @readonly */
    this.host = host
    /** @readonly */
    this.port = port
    Object.freeze(this)
  }

  /**
   * Parse an address as players type it: `play.example.org`, `https://play.example.org:8443`, `http://127.0.0.1:8080`.
   * @param {string} address
   */
  static entered(address) {
    address = address.trim()
    if (!address.includes("://")) {
      address = (LOOPBACK.has(Origin.#split(`https://${address}`).origin.host) ? "http://" : "https://") + address
    }
    const { origin, rest } = Origin.#split(address)
    if (!/^\/?\??#?$/.test(rest)) {
      throw new UntrustedAddress("untrusted_address", `Enter only the name of the server: ${origin}`)
    }
    return origin
  }

  /** Return the origin of a URL that a server sent; refuse, not repair, an unusual one. @param {string} url */
  static of(url) {
    if (!LINK.test(url)) {
      throw new UntrustedAddress("untrusted_address", "The link has characters that do not belong in one.")
    }
    const { origin, written } = Origin.#split(url)
    if (written !== origin.host) throw badAddress()
    return origin
  }

  /** @param {string} url @returns {{ origin: Origin, written: string, rest: string }} */
  static #split(url) {
    const found = /^(https?):\/\/([^/?#]*)(.*)$/is.exec(url)
    if (!found || /[@\\\s]/.test(found[2])) throw badAddress()
    const scheme = found[1].toLowerCase()
    let parsed
    try {
      parsed = new URL(`${scheme}://${found[2]}/`)
    } catch {
      throw badAddress()
    }
    const host = bare(parsed.hostname)
    const port = parsed.port === "" ? PORTS[scheme] : Number(parsed.port)
    if (!HOST.test(host) || !port) throw badAddress()
    if (scheme === "http" && !LOOPBACK.has(host)) {
      throw new UntrustedAddress("untrusted_address", `${host} needs https://, so that others cannot listen in.`)
    }
    return { origin: new Origin(scheme, host, port), written: bare(found[2].replace(/:[0-9]*$/, "")), rest: found[3] }
  }

  /** Return the origin as in a URL, without a default port. */
  toString() {
    const host = this.host.includes(":") ? `[${this.host}]` : this.host
    return `${this.scheme}://${host}${this.port === PORTS[this.scheme] ? "" : `:${this.port}`}`
  }

  /**
   * Return `url` if it has this origin, else throw: a server must not send a player's browser to another server.
   * @param {string} url
   */
  require(url) {
    const other = Origin.of(url)
    if (String(other) !== String(this)) {
      const detail = `${this} sends you to ${other}. If that is its true address, enter that one instead.`
      throw new UntrustedAddress("untrusted_address", detail)
    }
    return url
  }
}

const badAddress = () => new UntrustedAddress("untrusted_address", "That is not the address of a server.")
/** @param {string} host */
const bare = (host) =>
  host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/\.+$/, "")

// --- The wire --------------------------------------------------------------------------------------------------------

/** @internal */
export class Answer {
  /** @param {number} status @param {Headers} headers @param {Uint8Array} body */
  constructor(status, headers, body) {
    this.status = status
    this.headers = headers
    this.body = body
  }

  get mediaType() {
    return (this.headers.get("Content-Type") ?? "").split(";")[0].trim().toLowerCase()
  }

  /** @returns {Record<string, any>} */
  json() {
    const value = parsed(new TextDecoder().decode(this.body))
    if (!isObject(value)) {
      throw new NotGamed("not_gamed", "The server's answer is not a JSON object.", { status: this.status })
    }
    return value
  }
}

/** Parse JSON; return undefined if the text is not JSON. @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * @typedef {object} Request
 * @property {unknown} [json]
 * @property {Uint8Array} [body]
 * @property {Record<string, string>} [headers]
 * @property {string} [bearer]
 * @property {(answer: Answer) => unknown} [check] validates the response as part of a try: a failure is retried
 * @property {number} [limit] largest response, in bytes
 * @property {number} [timeout] longest time without a received byte, in seconds
 * @property {number} [tries]
 * @property {AbortSignal} [signal] ends the request with the signal's reason
 * @property {(part: Uint8Array, answer: Answer) => unknown} [sink] receives the body in parts; `answer.body` is empty
 */

/**
 * @typedef {object} Patience how a client waits
 * @property {(seconds: number, signal?: AbortSignal) => Promise<void>} sleep
 * @property {number} timeout seconds
 * @property {number} tries
 */

/**
 * Requests to one server. They never follow redirects, which could lead to another server, and never carry cookies.
 * @internal
 */
export class Wire {
  #agent

  /** @param {Origin} origin @param {string} agent @param {Patience} patience */
  constructor(origin, agent, patience) {
    this.origin = origin
    this.#agent = agent
    this.patience = patience
  }

  /** Return a Wire to the same server with other timeouts or tries. @param {Partial<Patience>} patience */
  with(patience) {
    return new Wire(this.origin, this.#agent, { ...this.patience, ...patience })
  }

  /**
   * Return a successful response or throw a GamedError. Passing failures are retried, so the server may receive the
   * request twice.
   * @param {string} method @param {string} path @param {Request} [how] @returns {Promise<Answer>}
   */
  call(method, path, how = {}) {
    let lost = false
    const once = async () => {
      const answer = await this.#once(method, path, how)
      await how.check?.(answer)
      return answer
    }
    const passing = (/** @type {GamedError} */ error) => {
      error.answerLostBefore = lost
      lost ||= error instanceof Unreachable
      return error.passing
    }
    return retried(once, { ...this.patience, passing, tries: how.tries ?? this.patience.tries, signal: how.signal })
  }

  /** @param {string} method @param {string} path @param {Request} how */
  async #once(method, path, how) {
    const body = how.json === undefined ? how.body : new TextEncoder().encode(JSON.stringify(how.json))
    const headers = { ...how.headers }
    if (IN_NODE) headers["User-Agent"] = this.#agent // a browser sends its own
    if (how.json !== undefined) headers["Content-Type"] = "application/json"
    if (how.bearer !== undefined) headers.Authorization = `Bearer ${how.bearer}`
    /** @type {unknown} */
    let own
    const timeout = how.timeout ?? this.patience.timeout
    const clock = new Deadline(how.signal)
    try {
      clock.within(timeout + (body ? body.length / UPLOAD_BYTES_PER_SECOND : 0))
      const response = await fetch(`${this.origin}${path}`, {
        method,
        headers,
        body: /** @type {any} */ (body),
        signal: clock.signal,
        redirect: "manual", // makes a redirect visible; it is refused below
        credentials: "omit",
        cache: "no-store",
        referrerPolicy: "no-referrer",
      })
      const answer = new Answer(response.status, response.headers, new Uint8Array())
      const taking = async (/** @type {Uint8Array} */ part) => {
        try {
          await how.sink?.(part, answer)
        } catch (error) {
          own = error
          throw error
        }
      }
      const sink = response.ok && how.sink ? taking : undefined
      answer.body = await readWhole(response, how.limit ?? MAX_JSON_BYTES, () => clock.within(timeout), sink)
      if (!response.ok) throw errorOf(answer)
      return answer
    } catch (error) {
      if (error instanceof GamedError || error === own || how.signal?.aborted) throw error
      throw networkError(this.origin, error)
    } finally {
      clock.clear()
    }
  }
}

/**
 * @typedef {object} Retries
 * @property {(seconds: number, signal?: AbortSignal) => Promise<void>} sleep
 * @property {AbortSignal} [signal] ends the tries with the signal's reason
 * @property {number} [tries]
 * @property {number} [longest] pause, in seconds
 * @property {(error: GamedError, pause: number) => boolean} [passing] whether to try again after this error
 * @property {() => number} [received] bytes so far: a try that received some does not count
 */

/**
 * Call `work` until it succeeds, with pauses in between; throw the error of the last try.
 * @internal
 * @template T @param {() => Promise<T>} work @param {Retries} how @returns {Promise<T>}
 */
export async function retried(work, how) {
  const { sleep, signal, tries = TRIES, longest = LONGEST_PAUSE_SECONDS, received = () => 0 } = how
  const { passing = (error) => error.passing } = how
  for (let attempt = 0; ; attempt++) {
    const before = received()
    let pause
    try {
      return await work()
    } catch (error) {
      signal?.throwIfAborted() // its reason may be a GamedError, too, and is no answer
      if (!(error instanceof GamedError)) throw error
      if (received() > before) attempt = 0
      pause = pauseAfter(error, attempt)
      if (!passing(error, pause) || attempt + 1 >= tries || pause > longest) throw error
    }
    await orAborted(sleep(pause, signal), signal)
  }
}

/**
 * Make a function for `catch`: it returns null for the server's answers that are `expected`, and throws other errors.
 * @internal
 * @param {(error: GamedError) => boolean} expected
 * @param {AbortSignal} [signal] of the request: its reason is no answer
 */
export function ignoring(expected, signal) {
  return (/** @type {unknown} */ error) => {
    signal?.throwIfAborted()
    if (!(error instanceof GamedError && expected(error))) throw error
    return null
  }
}

/**
 * Await `work`, or throw the signal's reason as soon as it aborts. `work` itself goes on.
 * @internal
 * @template T @param {Promise<T>} work of a game's function, possibly no promise @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
export function orAborted(work, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal?.reason)
    if (signal?.aborted) stop()
    signal?.addEventListener("abort", stop)
    Promise.resolve(work)
      .then(resolve, reject)
      .finally(() => signal?.removeEventListener("abort", stop))
  })
}

/** Aborts a request that takes too long, or that the caller has cancelled. */
class Deadline extends AbortController {
  #over = new AbortController()
  /** @type {any} */
  #timer

  /** @param {AbortSignal} [outer] */
  constructor(outer) {
    super()
    outer?.throwIfAborted()
    outer?.addEventListener("abort", () => this.abort(outer.reason), { signal: this.#over.signal })
  }

  /** Restart the time limit. @param {number} seconds */
  within(seconds) {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.abort(new DOMException("too slow", "TimeoutError")), seconds * 1000)
  }

  clear() {
    clearTimeout(this.#timer)
    this.#over.abort()
  }
}

/**
 * Read the whole body, or throw: never return the first part of an interrupted one.
 * @param {Response} response @param {number} limit bytes @param {() => void} step called for each part that arrives
 * @param {(part: Uint8Array) => unknown} [sink] receives the parts; the result is empty then
 */
async function readWhole(response, limit, step, sink) {
  /** @type {Uint8Array[]} */
  const parts = []
  let size = 0
  const reader = response.body?.getReader()
  try {
    for (;;) {
      step()
      const part = (await reader?.read())?.value
      if (!part) break
      size += part.length
      if (size > limit) throw new NotGamed("not_gamed", "The server's answer is larger than any expected here.")
      if (sink) await sink(part)
      else parts.push(part)
    }
  } catch (error) {
    reader?.cancel().catch(() => undefined)
    throw error
  }
  return joined(parts)
}

/** @param {Uint8Array[]} parts @internal */
export function joined(parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

const UNTRUSTED = /^(CERT_|ERR_TLS_CERT|DEPTH_ZERO_SELF_SIGNED|SELF_SIGNED_CERT|UNABLE_TO_(GET|VERIFY))/

/** @param {Origin} origin @param {any} error */
function networkError(origin, error) {
  const code = String(error?.cause?.code ?? "")
  if (UNTRUSTED.test(code)) {
    const detail = `${origin} cannot prove that it is ${origin.host}.`
    return new UntrustedAddress("untrusted_certificate", detail, { cause: error })
  }
  const hint = IN_NODE ? "" : ", or does not allow this page (its owner lists pages in cors_origins)"
  const detail = `${origin} does not answer${hint}. Check the address and the network.`
  return new Unreachable("unreachable", detail, { cause: error })
}

/**
 * Return the seconds before the next try: the server's, else doubling; random, so that not all clients retry at once.
 * @param {GamedError} error @param {number} attempt
 * @internal
 */
export function pauseAfter(error, attempt) {
  if (error.retryAfter !== null) return error.retryAfter + Math.random() * (Math.min(error.retryAfter, 3) + 0.1)
  return 0.1 + Math.random() * (Math.min(8, 0.5 * 2 ** attempt) - 0.1)
}

// --- Kept between runs -----------------------------------------------------------------------------------------------

/**
 * The form of a credential in a file, the same in the Python client: with the names of the protocol.
 * @typedef {{ origin: string, player_id: string, session_id: string, provider: string, refresh_credential: string,
 *   access_token: string, access_expires: number, access_lifetime?: number | null,
 *   player_name?: string | null }} StoredCredential
 */

/** One sign-in of one player at one server. console.log and JSON.stringify do not show its secrets. */
export class Credential {
  #refresh
  #access

  /** @param {StoredCredential} value */
  constructor(value) {
    /** @readonly */
    this.origin = value.origin
    /** @readonly */
    this.playerId = value.player_id
    /** @readonly */
    this.sessionId = value.session_id
    /** @readonly */
    this.provider = value.provider
    /** Seconds since 1970 by this machine's clock. @readonly */
    this.accessExpires = value.access_expires
    /** Seconds; null in credentials that older versions of this client stored. @readonly @type {number | null} */
    this.accessLifetime = value.access_lifetime ?? null
    /** The name that games show, as the server sent it last; null as before, and for a player without one. @readonly */
    this.playerName = nameOf({ name: value.player_name })
    this.#refresh = value.refresh_credential
    this.#access = value.access_token
    Object.freeze(this)
  }

  /** A secret: never log it. */
  get refreshCredential() {
    return this.#refresh
  }

  /** A secret: never log it. */
  get accessToken() {
    return this.#access
  }

  /** Return whether the access token works without a refresh. @param {number} now seconds since 1970 */
  fresh(now) {
    const share = this.accessLifetime === null ? EARLY_SECONDS : this.accessLifetime * EARLY_SHARE
    return now < this.accessExpires - Math.min(EARLY_SECONDS, share)
  }

  /** Return the stored form, which is the same in the Python client. @returns {StoredCredential} */
  stored() {
    return {
      origin: this.origin,
      player_id: this.playerId,
      session_id: this.sessionId,
      provider: this.provider,
      refresh_credential: this.#refresh,
      access_token: this.#access,
      access_expires: this.accessExpires,
      access_lifetime: this.accessLifetime,
      player_name: this.playerName,
    }
  }

  /** Parse the stored form; return null if it is not one of `origin`. @param {string} text @param {Origin} origin */
  static read(text, origin) {
    const value = parsed(text)
    const names = ["origin", "player_id", "session_id", "provider", "refresh_credential", "access_token"]
    if (!isObject(value) || names.some((name) => typeof value[name] !== "string")) return null
    if (typeof value.access_expires !== "number" || value.origin !== String(origin)) return null
    if (typeof (value.access_lifetime ?? 0) !== "number") return null
    return new Credential(value)
  }
}

/** @param {Record<string, any>} player @returns {string | null} */
const nameOf = ({ name }) => (typeof name === "string" ? name : null)

/**
 * @typedef {object} Place storage of the credential of one origin; changed only while `locked`
 * @property {string} name
 * @property {string | null} folder of files; null in a browser
 * @property {string} database prefix of the names of its databases; empty in Node.js
 * @property {() => Promise<string | null>} read
 * @property {(text: string) => Promise<void>} write on disk when it returns: the loss of a pair that was used would end
 *   the session
 * @property {() => Promise<void>} remove
 * @property {<T>(work: () => Promise<T>) => Promise<T>} locked runs `work` alone among all tabs or processes
 */

/**
 * Return this platform's folder for the state of programs, which people do not edit.
 * @param {string} app @param {string} platform @param {Record<string, string | undefined>} environ @param {string} home
 * @internal
 */
export function stateFolder(app, platform, environ, home) {
  if (platform === "win32") return `${environ.LOCALAPPDATA || `${home}\\AppData\\Local`}\\${app}`
  if (platform === "darwin") return `${home}/Library/Application Support/${app}`
  return `${environ.XDG_STATE_HOME || `${home}/.local/state`}/${app}`
}

/**
 * Make the place of a file that only this user can read.
 * @param {string} folder @param {string} name @returns {Place}
 */
function filePlace(folder, name) {
  const path = `${folder}/${name}.json`
  return {
    folder,
    name,
    database: "",
    async read() {
      const { readFile } = await nodeModule("fs/promises")
      return readFile(path, "utf8").catch(unlessMissing)
    },
    write: (text) => writeWhole(path, new TextEncoder().encode(text)),
    async remove() {
      const { unlink } = await nodeModule("fs/promises")
      await unlink(path).catch(unlessMissing)
    },
    async locked(work) {
      const { mkdir } = await nodeModule("fs/promises")
      await mkdir(folder, { recursive: true, mode: 0o700 })
      return inTurn(path, async () => {
        const release = await lockProcess(path)
        try {
          return await work()
        } finally {
          release()
        }
      })
    },
  }
}

/**
 * Make the place of a record of IndexedDB: any script of this page's origin can read it.
 * @param {string} base @param {string} name @returns {Place}
 */
function databasePlace(base, name) {
  const database = `gamed/${base}`
  /** @param {IDBTransactionMode} mode @param {(kept: IDBObjectStore) => IDBRequest} step */
  const run = async (mode, step) => {
    const opened = await openDatabase(database, ["credentials"])
    try {
      return await transact(opened, ["credentials"], mode, (of) => step(of("credentials")))
    } finally {
      opened.close()
    }
  }
  return {
    folder: null,
    name,
    database,
    read: async () => (await run("readonly", (kept) => kept.get(name))) ?? null,
    write: (text) => run("readwrite", (kept) => kept.put(text, name)),
    remove: () => run("readwrite", (kept) => kept.delete(name)),
    async locked(work) {
      const key = `${database}/${name}`
      return navigator.locks ? /** @type {Promise<any>} */ (navigator.locks.request(key, work)) : inTurn(key, work)
    },
  }
}

/** @param {string} name @param {string[]} stores @returns {Promise<IDBDatabase>} @internal */
export function openDatabase(name, stores) {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(name, 1)
    opening.onupgradeneeded = () => stores.forEach((store) => opening.result.createObjectStore(store))
    opening.onsuccess = () => {
      opening.result.onversionchange = () => opening.result.close() // else a newer page of the game has to wait
      resolve(opening.result)
    }
    opening.onerror = () => reject(opening.error)
  })
}

/**
 * Run one transaction, on disk when it returns; return the result of the request that `step` returns, if any.
 * @param {IDBDatabase} database @param {string[]} stores @param {IDBTransactionMode} mode
 * @param {(of: (store: string) => IDBObjectStore) => IDBRequest | void} step @returns {Promise<any>}
 * @internal
 */
export function transact(database, stores, mode, step) {
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(stores, mode, { durability: "strict" })
    const request = step((store) => transaction.objectStore(store))
    transaction.oncomplete = () => resolve(request?.result)
    // not `onerror`: when a request fails, that event comes before the abort, which sets transaction.error
    transaction.onabort = () => reject(transaction.error ?? new DOMException("the database stopped", "UnknownError"))
  })
}

/** @param {any} error @returns {null} @internal */
export function unlessMissing(error) {
  if (error?.code !== "ENOENT") throw error
  return null
}

/**
 * Replace the file: after a crash it has the old bytes or the new ones, and the new ones once this returns. Only this
 * user can read it.
 * @param {string} path @param {Uint8Array} data
 * @internal
 */
export async function writeWhole(path, data) {
  const { open, rename, unlink } = await nodeModule("fs/promises")
  const temporary = `${path}.${randomName()}.new`
  const file = await open(temporary, "wx", 0o600)
  try {
    try {
      await file.writeFile(data)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await unlink(temporary).catch(() => undefined)
    throw error
  }
  await syncFolder(path.slice(0, path.lastIndexOf("/")))
}

/**
 * Write the entries of a folder to disk: a renamed file survives a power cut only then.
 * @param {string} folder
 * @internal
 */
export async function syncFolder(folder) {
  if (process.platform === "win32") return
  const { open } = await nodeModule("fs/promises")
  const handle = await open(folder, "r")
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const randomName = () => Array.from(crypto.getRandomValues(new Uint8Array(8)), hex).join("")
/** @param {number} byte */
const hex = (byte) => byte.toString(16).padStart(2, "0")

/** @type {Map<unknown, Promise<unknown>>} */
const turns = new Map()

/**
 * Run `work` after all earlier work of the same key in this process.
 * @template T @param {unknown} key @param {() => Promise<T>} work @returns {Promise<T>}
 * @internal
 */
export async function inTurn(key, work) {
  const mine = (turns.get(key) ?? Promise.resolve()).then(work)
  const settled = mine.catch(() => undefined)
  turns.set(key, settled)
  try {
    return await mine
  } finally {
    if (turns.get(key) === settled) turns.delete(key)
  }
}

/** Wait for the lock among processes. @param {string} path @returns {Promise<() => void>} releases the lock */
async function lockProcess(path) {
  for (;;) {
    const release = await tryLock(path)
    if (release) return release
    await delay(0.02 + Math.random() * 0.05)
  }
}

/**
 * Acquire a lock without waiting, until it is released or the tab or process ends; return null if another has it.
 * @param {string} name in Node.js a path @returns {Promise<(() => void) | null>}
 * @internal
 */
export function tryLock(name) {
  if (IN_NODE) return lockOf(name)
  return new Promise((resolve, reject) => {
    const hold = (/** @type {Lock | null} */ lock) => {
      if (lock === null) return resolve(null)
      return new Promise((release) => resolve(() => release(undefined)))
    }
    navigator.locks.request(name, { ifAvailable: true }, hold).catch(reject)
  })
}

/**
 * Acquire a lock that the system releases when the process dies; return null if another process has it. Node.js cannot
 * lock files, so the process listens on a name derived from the path: an abstract socket on Linux, a pipe on Windows,
 * elsewhere a socket file. Where none can be opened, two processes may refresh at once, which the server accepts for
 * 30 s.
 * @param {string} path @param {string} [platform] @returns {Promise<(() => void) | null>}
 * @internal
 */
export async function lockOf(path, platform = process.platform) {
  const names = ["path", "os", "fs/promises"]
  const [{ resolve }, { tmpdir }, { realpath, unlink }] = await Promise.all(names.map(nodeModule))
  const folder = await realpath(resolve(path, "..")).catch(() => resolve(path, ".."))
  const id = (await sha256Hex(`${folder}/${path.slice(path.lastIndexOf("/") + 1)}`)).slice(0, 24)
  const name = `gamed-${process.getuid?.() ?? ""}-${id}`
  if (platform === "linux") return listening(`\0${name}`)
  if (platform === "win32") return listening(`\\\\.\\pipe\\${name}`)
  const file = `${tmpdir()}/${name}`
  const held = await listening(file)
  if (held || (await answers(file))) return held
  await unlink(file).catch(unlessMissing) // left by a process that died
  return listening(file)
}

/** @param {string} name @returns {Promise<(() => void) | null>} */
async function listening(name) {
  const { createServer } = await nodeModule("net")
  return new Promise((resolve) => {
    const server = createServer((/** @type {any} */ socket) => socket.destroy())
    server.once("error", (/** @type {any} */ error) => resolve(error.code === "EADDRINUSE" ? null : () => undefined))
    server.listen({ path: name, exclusive: true }, () => resolve(() => void server.close()))
    server.unref()
  })
}

/** @param {string} name @returns {Promise<boolean>} */
async function answers(name) {
  const { connect } = await nodeModule("net")
  return new Promise((resolve) => {
    const socket = connect({ path: name }, () => (socket.destroy(), resolve(true)))
    socket.once("error", () => resolve(false))
  })
}

// --- The sign-in -----------------------------------------------------------------------------------------------------

/**
 * A button of a sign-in: `name` is for `provider`, `label` for the player.
 * @typedef {{ name: string, label: string }} Provider
 */

/**
 * The interface between a sign-in and the person in front of the screen. A game implements it; its methods may return
 * promises.
 * @typedef {object} Person
 * @property {(providers: readonly Provider[]) => string | Promise<string>} chooseProvider
 *   Show one button for each, with its label; return the name of the chosen one. Not called if there is only one.
 * @property {(url: string, opened: boolean, qrUrl: string | null) => unknown} browserOpened
 *   The sign-in continues in the browser; show `url` as a link, with rel="noopener noreferrer", if it was not opened.
 *   `qrUrl` is the address of a QR code with the same link, for a phone; null if the server does not offer it.
 * @property {(error: GamedError) => unknown} [problem]
 *   Show `error.detail`: why `ensureSignedIn` has not got a session, or could not ask the server. Required there.
 * @property {() => unknown} [ended] The sign-in has ended with any outcome: close the dialog.
 * @property {AbortSignal} [signal] cancels the sign-in, like `signal` of its options
 * @property {(showCode: (() => Promise<void>) | null, attemptsLeft: number | null, signal: AbortSignal) =>
 *   string | null | Promise<string | null>} finishCode
 *   Ask for the code that the browser shows; return null to stop asking. `showCode` opens the page that shows it ("Show
 *   me a code"); null if the page shows it already. `attemptsLeft` is a number after a wrong code. `signal` aborts when
 *   the code is not needed any more.
 */

/** @typedef {{ kind: "ticket" | "finish_code", text: string, answered: () => void, done: Promise<void> }} Proof */

/** Return a promise with its resolve function. @internal */
export function promise() {
  /** @type {(value?: any) => void} */
  let keep = () => undefined
  const done = new Promise((resolve) => (keep = resolve))
  return { keep, done }
}

/** @param {"ticket" | "finish_code"} kind @param {string} text @returns {Proof} */
function proofOf(kind, text) {
  const { keep, done } = promise()
  return { kind, text, answered: keep, done }
}

/** A queue whose reader waits for items. @template T */
class Queue {
  /** @type {T[]} */
  #items = []
  #arrival = new AbortController()

  /** @param {T} item */
  put(item) {
    this.#items.push(item)
    this.#arrival.abort()
  }

  /** Return the next item, or undefined after the time. @param {number} seconds @returns {Promise<T | undefined>} */
  async get(seconds) {
    this.#arrival = new AbortController()
    if (this.#items.length === 0) await delay(seconds, this.#arrival.signal)
    return this.#items.shift()
  }
}

/** @typedef {{ loginId: string, port: number, replied: Promise<void>, close: () => void }} Listener */

/** Headers of every response to the browser. */
const PLAIN = {
  "Content-Length": "0",
  "Cache-Control": "no-store",
  "Referrer-Policy": "no-referrer",
  Connection: "close",
}

/**
 * Listen for the browser's return (docs/protocol.md: Collect): on 127.0.0.1, a random port, one path, for one login.
 * @param {string} doneUrl @param {(proof: Proof) => void} take @param {number} patience seconds
 * @returns {Promise<Listener>} `replied`: the browser has its response
 */
async function listen(doneUrl, take, patience) {
  const { createServer } = await nodeModule("http")
  const replied = promise()
  const server = createServer(async (/** @type {any} */ request, /** @type {any} */ response) => {
    const { loginId, port } = listener
    const [path, query = ""] = request.url.split(/\?(.*)/s)
    const ours = request.method === "GET" && path === "/gamed/return" && request.headers.host === `127.0.0.1:${port}`
    const ticket = ours && query.length < 2048 ? ticketOf(query, loginId) : null
    if (ticket === null) {
      response.writeHead(404, PLAIN).end() // another login's, or no login's: it must not have an effect
      return
    }
    const proof = proofOf("ticket", ticket)
    take(proof)
    await Promise.race([proof.done, delay(patience)])
    response.writeHead(303, { ...PLAIN, Location: `${doneUrl}?login_id=${encodeURIComponent(loginId)}` })
    response.end(replied.keep)
  })
  await new Promise((resolve, reject) => {
    server.once("error", reject)
    server.listen({ host: "127.0.0.1", port: 0, exclusive: true }, () => resolve(undefined))
  })
  const close = () => {
    server.close()
    server.closeAllConnections() // a browser keeps spare connections open
  }
  const listener = { loginId: "", port: server.address().port, replied: replied.done, close }
  return listener
}

/**
 * Return the ticket of a browser's return to this login; null for any other.
 * @param {string} query @param {string} loginId
 */
function ticketOf(query, loginId) {
  const values = new URLSearchParams(query)
  const [ids, tickets] = [values.getAll("login_id"), values.getAll("ticket")]
  const ours = loginId !== "" && ids.length === 1 && ids[0] === loginId && tickets.length === 1
  return ours && TICKET.test(tickets[0]) ? tickets[0] : null
}

const TICKET = /^[A-Za-z0-9_-]{1,256}$/
/** Most characters of a return after the `returnUri`: the server adds far fewer. */
const MAX_RETURN_CHARACTERS = 4096

/**
 * @typedef {object} SignInOptions
 * @property {string} [provider] instead of letting the person choose
 * @property {((url: string, qrUrl: string | null) => unknown) | null} [openBrowser] returns true if it has opened the
 *   browser; null if the person opens the link
 * @property {boolean} [loopback] listen for the browser's return (Node.js only); without it the person types the finish
 *   code
 * @property {boolean} [adopt] the page first asks for the name and password of an account that this server had in
 *   `local` mode; the player keeps that account
 * @property {string} [returnUri] the address of this app, such as `com.example.game:/signin`, to which the browser
 *   returns on a phone; replaces `loopback`. Pass the address that the app is opened with to `returned`.
 * @property {AbortSignal} [signal] cancels the sign-in
 */

/**
 * @typedef {object} SignInNeeds
 * @property {string} locale the game's language
 * @property {number} returnSeconds
 * @property {(json: object) => Promise<Answer>} [start] sends the first request in the player's name, to link another
 *   account
 * @property {boolean} [confirm] the server has wanted this sign-in with `reauthentication_required`
 */

/**
 * A finished sign-in, with the members of the protocol: for `GamedClient.keep`.
 * @typedef {object} CompleteMembers
 * @property {"complete"} status
 * @property {string} session_id
 * @property {string} provider
 * @property {string} access_token
 * @property {string} refresh_credential
 * @property {number} expires_in seconds
 * @property {{ id: string, created: boolean, owner: boolean, name?: string | null }} player
 */

/** @typedef {CompleteMembers & { [name: string]: unknown }} Complete */

/** One login: start, browser, return proof, collect. Call `run` once; `cancel` may be called at any time. */
export class SignIn {
  /** @type {string | undefined} */
  #secret
  /** @type {Listener | undefined} */
  #listener
  /** @type {Queue<Proof | { failure: unknown }>} */
  #proofs = new Queue()
  #asked = false
  #cancelled = false
  #notified = false
  #keeping = false
  #stop = new AbortController()
  #over = new AbortController()
  #loginId = ""
  #loginUrl = ""
  /** @type {string | null} */
  #qrUrl = null
  #pollPath = ""
  #deadline = 0
  #maxWait = 0
  #codeOnly = false

  #wire
  #person
  #device
  #options

  /**
   * Use `GamedClient.beginSignIn`.
   * @internal
   * @param {Wire} wire @param {Person} person @param {Record<string, string>} device
   * @param {SignInOptions & SignInNeeds} options
   */
  constructor(wire, person, device, options) {
    this.#wire = wire
    this.#person = person
    this.#device = device
    this.#options = options
  }

  /**
   * Pass the address that the app was opened with (see `returnUri`). An address of another sign-in has no effect.
   * @param {string} url
   * @returns {boolean} whether the address belongs to this sign-in
   */
  returned(url) {
    const { returnUri } = this.#options
    if (!returnUri || url.length > returnUri.length + MAX_RETURN_CHARACTERS) return false
    if (!url.startsWith(returnUri + (returnUri.includes("?") ? "&" : "?"))) return false
    const ticket = ticketOf(url.slice(returnUri.length + 1).split("#")[0], this.#loginId)
    if (ticket !== null) this.#proofs.put(proofOf("ticket", ticket))
    return ticket !== null
  }

  /**
   * Sign in and pass the credentials to `keep`. Any failure cancels the login.
   * @template T
   * @param {(complete: Complete) => Promise<T>} keep
   * @returns {Promise<T>} what `keep` returns
   * @throws {LoginFailed} or LoginDeclined, LoginCancelled, LoginExpired, InvalidProof
   */
  async run(keep) {
    const give = () => this.cancel()
    try {
      this.#options.signal?.addEventListener("abort", give)
      if (this.#options.signal?.aborted) await this.cancel()
      this.#stop.signal.throwIfAborted()
      await this.#start()
      this.#stop.signal.throwIfAborted()
      await this.#show()
      const complete = /** @type {Complete} */ (await this.#settle())
      if (this.#cancelled) throw loginCancelled()
      this.#keeping = true // a cancel from here on would end the session that the game gets
      return await keep(complete)
    } catch (error) {
      this.#keeping = false
      if (!(error instanceof LoginFailed) || (this.#cancelled && !this.#notified)) await this.cancel()
      throw error // after other LoginFailed the login has ended already
    } finally {
      this.#options.signal?.removeEventListener("abort", give)
      this.#over.abort()
      this.#listener?.close()
    }
  }

  /**
   * Cancel the login at the server: credentials of it do not work after this, and `run` throws LoginCancelled. This has
   * no effect once `run` has received the credentials.
   */
  async cancel() {
    if (this.#keeping) return
    this.#cancelled = true
    if (this.#secret) {
      this.#notified = true
      await this.#wire.call("POST", "/auth/login/cancel", { bearer: this.#secret, timeout: 5, tries: 1 }).catch(ifGamed)
    }
    this.#stop.abort(loginCancelled())
  }

  async #start() {
    /** @type {Record<string, unknown>} */
    const body = { client: this.#device }
    const locale = localeTag(this.#options.locale)
    if (locale) body.locale = locale
    if (this.#options.provider) body.provider = this.#options.provider
    if (this.#options.confirm) body.confirm = true
    if (this.#options.start) body.intent = "link"
    else if (this.#options.adopt) body.intent = "adopt"
    if (this.#options.returnUri) body.return_uri = this.#options.returnUri
    else if (this.#options.loopback) {
      const take = (/** @type {Proof} */ proof) => this.#proofs.put(proof)
      const listening = listen(`${this.#wire.origin}/auth/login/done`, take, this.#options.returnSeconds)
      this.#listener = await listening.catch(() => undefined) // a sandbox may forbid it: the player types the code
      if (this.#listener) body.loopback_port = this.#listener.port
    }
    const send = this.#options.start ?? ((json) => this.#wire.call("POST", "/auth/login", { json }))
    const started = (await send(body)).json()
    this.#secret = member(started, "device_secret", "string")
    this.#deadline = performance.now() + 1000 * (member(started, "expires_in", "integer") + 30)
    this.#loginUrl = this.#wire.origin.require(member(started, "login_url", "string"))
    const poll = member(started, "poll", "object")
    this.#pollPath = new URL(this.#wire.origin.require(member(poll, "url", "string"))).pathname
    this.#maxWait = Math.min(member(poll, "max_wait", "integer"), 25)
    this.#codeOnly = started.return_proof === "code"
    this.#loginId = member(started, "login_id", "string")
    if (this.#listener) this.#listener.loginId = this.#loginId
    this.#qrUrl = this.#own(started.qr_url)
  }

  /** Return the address of a picture if it is on the entered server. @param {unknown} url */
  #own(url) {
    try {
      return typeof url === "string" ? this.#wire.origin.require(url) : null
    } catch {
      return null
    }
  }

  async #show() {
    const opened = this.#options.openBrowser ? await this.#options.openBrowser(this.#loginUrl, this.#qrUrl) : false
    await this.#person.browserOpened(this.#loginUrl, Boolean(opened), this.#qrUrl)
  }

  /** Collect until there is an outcome. After a lost response the same proof is sent again. */
  async #settle() {
    let stage = "waiting_for_browser"
    /** @type {Proof | undefined} */
    let proof
    for (;;) {
      /** @type {Record<string, any>} */
      let answer
      try {
        answer = await this.#collect(stage, proof)
      } catch (error) {
        if (!(error instanceof InvalidProof)) throw error
        answer = await this.#collect(stage, undefined)
        if (proof?.kind === "finish_code" && error.attemptsLeft) this.#ask(error.attemptsLeft)
      } finally {
        proof?.answered()
      }
      if (answer.status === "complete") {
        // the game may exit after this: let the browser receive its page first
        if (proof?.kind === "ticket") await Promise.race([this.#listener?.replied, delay(1)])
        return answer
      }
      if (answer.status === "failed") throw loginError(member(answer, "problem", "object"))
      stage = member(answer, "stage", "string")
      proof = stage === "proof_required" ? await this.#awaitProof() : undefined
    }
  }

  /**
   * Request collect until the server responds, for as long as the login lives.
   * @param {string} stage @param {Proof | undefined} proof
   */
  async #collect(stage, proof) {
    const isAtOnce = proof || stage === "proof_required"
    const json = { wait: isAtOnce ? 0 : this.#maxWait, seen: stage, ...(proof && { [proof.kind]: proof.text }) }
    const { signal } = this.#stop
    const timeout = json.wait + this.#wire.patience.timeout
    const how = { json, bearer: this.#secret, timeout, tries: 1, signal }
    const once = async () => (await this.#wire.call("POST", this.#pollPath, how)).json()
    const passing = (/** @type {GamedError} */ error, /** @type {number} */ pause) =>
      error.passing && performance.now() + 1000 * pause <= this.#deadline
    return retried(once, { ...this.#wire.patience, signal, tries: Infinity, longest: Infinity, passing })
  }

  /** Wait `returnSeconds` for the browser's return or a typed code; without one ask the person, once per sign-in. */
  async #awaitProof() {
    if (this.#codeOnly) this.#ask(null)
    const found = await this.#proofs.get(this.#options.returnSeconds)
    if (found && "failure" in found) throw found.failure
    if (!found) this.#ask(null)
    return found
  }

  /** @param {number | null} attemptsLeft */
  async #ask(attemptsLeft) {
    if (attemptsLeft === null && this.#asked) return
    this.#asked = true
    try {
      const showCode = this.#codeOnly ? null : () => this.#show()
      const code = await this.#person.finishCode(showCode, attemptsLeft, this.#over.signal)
      if (code !== null && code !== undefined) this.#proofs.put(proofOf("finish_code", code))
    } catch (failure) {
      this.#proofs.put({ failure })
    }
  }
}

const loginCancelled = () => new LoginCancelled("login_cancelled", "The sign-in was cancelled.")

/** @param {Record<string, any>} problem */
function loginError(problem) {
  const code = member(problem, "code", "string")
  const detail = String(problem.detail || problem.title || code)
  return new (LOGIN_BY_CODE.get(code) ?? LoginFailed)(code, detail, { problem })
}

/**
 * Return the reason for the player, without Node.js's: "EISDIR: illegal operation on a directory, rename '/a' -> '/b'".
 * @param {unknown} error
 */
function reasonOf(error) {
  if (!(error instanceof Error)) return "the reason is unknown"
  return error.message.replace(/^E[A-Z]+: ([^,]*).*/s, "$1").replace(/\.$/, "")
}

/** Return LocalDamaged for an error of this device's disk; any other as it is. @param {any} error @internal */
export function diskError(error) {
  const ended = error?.name === "AbortError" || error?.name === "TimeoutError"
  if (typeof error?.syscall !== "string" && (ended || !(error instanceof DOMException))) return error
  const detail = `This device cannot read or write a file: ${reasonOf(error)}.`
  return new LocalDamaged("local_disk", detail, { cause: error })
}

/**
 * Await `work`, with `diskError` for its errors.
 * @template T @param {Promise<T>} work @returns {Promise<T>}
 * @internal
 */
export function onDisk(work) {
  return work.catch((error) => {
    throw diskError(error)
  })
}

/**
 * Return the object with `onDisk` around its asynchronous methods.
 * @template {object} T @param {T} of @returns {T}
 * @internal
 */
export function guarded(of) {
  const get = (/** @type {any} */ _, /** @type {string} */ name) => {
    const value = /** @type {any} */ (of)[name]
    if (typeof value !== "function") return value
    return (/** @type {any[]} */ ...args) => {
      const result = value.apply(of, args)
      return result instanceof Promise ? onDisk(result) : result
    }
  }
  return new Proxy(of, /** @type {any} */ ({ get }))
}

/** Ignore errors of the protocol, throw all others. @param {unknown} error @returns {asserts error is GamedError} */
function ifGamed(error) {
  if (!(error instanceof GamedError)) throw error
}

/** Return the code as `BKTRVW`, or null if it cannot be one: a typing error costs no attempt. @param {string} typed */
export function finishCode(typed) {
  const letters = typed.replace(/[\s-]/g, "").toUpperCase()
  return /^[BCDFGHJKLMNPQRSTVWXZ]{6}$/.test(letters) ? letters : null
}

/**
 * Open the person's browser, never through a shell; in a browser a tab without an opener, so that it cannot change this
 * page.
 * @param {string} url @returns {Promise<boolean>}
 */
export async function openBrowser(url) {
  if (!IN_NODE) {
    // browsers open a tab only for a click, and do not report whether they have opened it
    if (!(/** @type {any} */ (navigator).userActivation?.isActive)) return false
    window.open(url, "_blank", "noopener,noreferrer")
    return true
  }
  const { spawn } = await nodeModule("child_process")
  /** @type {Record<string, string[]>} */
  const programs = { win32: ["rundll32", "url.dll,FileProtocolHandler"], darwin: ["open"] }
  const [program, ...before] = programs[process.platform] ?? ["xdg-open"]
  return new Promise((resolve) => {
    const child = spawn(program, [...before, url], { stdio: "ignore", detached: true, windowsHide: true })
    child.once("error", () => resolve(false))
    child.once("exit", (/** @type {number | null} */ code) => resolve(code === 0))
    const timer = /** @type {any} */ (setTimeout(resolve, 3000, true)) // some browsers stay in the foreground
    timer.unref()
    child.unref()
  })
}

// --- Saves -----------------------------------------------------------------------------------------------------------

const ETAG = /^"[!#-~]{1,100}"$/
const SHA256 = /^[0-9a-f]{64}$/

/**
 * Values that a game stores beside a save, such as its title: a JSON object within the owner's limit, which `whoami`
 * has.
 * @typedef {{ [name: string]: any }} Meta
 */

/** The content of a save; a text is stored as UTF-8. @typedef {Uint8Array | ArrayBuffer | string} Bytes */

/**
 * @typedef {{ slot: string, version: number, etag: string, size: number, sha256: string, contentType: string,
 *   modified: string, meta: Meta, conflicts: number[], device: string | null }} SaveInfoMembers
 */

/** One version of one slot. A later write passes `etag` as its base. */
export class SaveInfo {
  /** @param {SaveInfoMembers} value */
  constructor({ slot, version, etag, size, sha256, contentType, modified, meta, conflicts, device }) {
    /** @readonly */
    this.slot = slot
    /** Number of the version in its slot, from 1. @readonly */
    this.version = version
    /** @readonly */
    this.etag = etag
    /** Bytes. @readonly */
    this.size = size
    /** Hash of the bytes, in hexadecimal. @readonly */
    this.sha256 = sha256
    /** @readonly */
    this.contentType = contentType
    /** Time of the write by the server's clock (RFC 3339): to show it. @readonly */
    this.modified = modified
    /** @readonly */
    this.meta = meta
    /** Numbers of the versions that lost against this one; the player has to choose. @readonly */
    this.conflicts = conflicts
    /** Name of the device that wrote this version, or null. @readonly */
    this.device = device
    Object.freeze(this)
  }

  /** Parse the members of a response; throw NotGamed. @param {{ [name: string]: any }} value */
  static of(value) {
    const { etag, sha256 } = value
    if (!ETAG.test(member(value, "etag", "string")) || !SHA256.test(member(value, "sha256", "string"))) {
      throw new NotGamed("not_gamed", "The server's answer has a malformed 'etag' or 'sha256'.")
    }
    return new SaveInfo({
      slot: member(value, "slot", "string"),
      version: member(value, "version", "integer"),
      etag,
      size: member(value, "size", "integer"),
      sha256,
      contentType: String(value.content_type || "application/octet-stream"),
      modified: String(value.modified || ""),
      meta: isObject(value.meta) ? value.meta : {},
      conflicts: Array.isArray(value.conflicts) ? value.conflicts.filter(Number.isInteger) : [],
      device: typeof value.device === "string" ? value.device : null,
    })
  }

  /** Parse the members of a response; return null if it is not an object. @param {unknown} value */
  static maybe(value) {
    return isObject(value) ? SaveInfo.of(/** @type {any} */ (value)) : null
  }
}

/**
 * An entry of a list of changes: `version` deleted the save.
 * @typedef {{ slot: string, version: number, deleted: true }} Deletion
 */

/**
 * @typedef {object} Changes
 * @property {string} cursor for the next call
 * @property {(SaveInfo | Deletion)[]} saves oldest change first
 * @property {boolean} whole the list has all slots, not only changed ones: the call had no cursor, or the server no
 *   longer knows it
 * @property {boolean} more the server has further changes; a slot may be listed again there, with a newer state
 * @property {boolean} expired for a whole list: a slot that is missing on all its pages was deleted long ago
 */

/**
 * One version in a slot's history.
 * @typedef {object} Version
 * @property {number} version
 * @property {string} kind write, restore, conflict or delete
 * @property {number | null} parent the version that it was based on
 * @property {string | null} expires latest time of its deletion; null while only newer versions can replace it
 * @property {string | null} device name of the device that wrote it
 * @property {SaveInfo | null} save null for a delete
 */

/**
 * A part of a slot's history; `more`: the server has older versions.
 * @typedef {{ versions: Version[], more: boolean }} VersionsPage
 */

/**
 * An entry of a commit: the new bytes of a slot, based on `base`, or its deletion.
 * @typedef {{ slot: string, data: Bytes, base: Base, contentType?: string, meta?: Meta | null, delete?: false } |
 *   { slot: string, delete: true, base: Base }} Write
 */

/**
 * A slot whose base did not match in a commit: `code` is the reason; the other members are those of Conflict.
 * @typedef {{ slot: string, code: string, base: SaveInfo | null, current: SaveInfo | null,
 *   yours: SaveInfo | null }} SlotConflict
 */

/**
 * The bytes of a slot at the time of the read.
 * @typedef {{ etag: string, data: Uint8Array, contentType: string, meta: Meta }} Save
 */

/**
 * The base of a write: a save that was read, or its etag; "*" for any existing version, null for an empty slot.
 * @typedef {{ etag: string } | string | null} Base
 */

/** @param {Record<string, any>} entry @returns {SaveInfo | Deletion} */
function changeOf(entry) {
  if (!entry.deleted) return SaveInfo.of(entry)
  return { slot: member(entry, "slot", "string"), version: member(entry, "version", "integer"), deleted: true }
}

/** @param {Record<string, any>} value @returns {Version} */
function versionOf(value) {
  return {
    version: member(value, "version", "integer"),
    kind: member(value, "kind", "string"),
    parent: Number.isInteger(value.parent) ? value.parent : null,
    expires: typeof value.expires === "string" ? value.expires : null,
    device: typeof value.device === "string" ? value.device : null,
    save: value.etag ? SaveInfo.maybe(value) : null,
  }
}

const DEVICES = /^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?$/

/**
 * Return the path of a slot; refuse a name that is not also a safe file name, on Windows too.
 * @param {string} slot
 * @internal
 */
export function pathOf(slot) {
  if (!/^[a-z0-9][a-z0-9._-]{0,63}$/.test(slot) || slot.endsWith(".") || DEVICES.test(slot)) {
    throw new Refused("invalid_slot", "A slot's name has 1-64 of a-z 0-9 . _ - and begins with a letter or digit.")
  }
  return `/game/saves/${slot}`
}

/**
 * Append the query parameters that are not null or undefined.
 * @param {string} path @param {{ [name: string]: string | number | null | undefined }} query
 */
function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined)
  const text = given.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&")
  return text ? `${path}?${text}` : path
}

/** @param {string} slot @param {number} number */
function versionPath(slot, number) {
  if (!Number.isSafeInteger(number)) throw new Refused("version_gone", "The number of a version is a whole number.")
  return `${pathOf(slot)}/versions/${number}`
}

/** Return the precondition header of a write. @param {Base} base @returns {Record<string, string>} */
function condition(base) {
  if (base === undefined) throw new TypeError('base is missing: what was read, its etag, "*", or null for a new slot')
  if (base === null) return { "If-None-Match": "*" }
  return { "If-Match": typeof base === "string" ? base : base.etag }
}

/** @param {Uint8Array} data */
const sha256Of = async (data) => new Uint8Array(await crypto.subtle.digest("SHA-256", /** @type {any} */ (data)))

/**
 * Read a file; return its SHA-256 as a Hash of Node.js, whose `digest` has several forms.
 * @param {string} path @returns {Promise<any>}
 * @internal
 */
export async function fileHash(path) {
  const [{ open }, { createHash }] = await Promise.all(["fs/promises", "crypto"].map(nodeModule))
  const hash = createHash("sha256")
  const file = await open(path)
  for await (const block of file.createReadStream()) hash.update(block)
  return hash
}

/** @param {Uint8Array | string} data @internal */
export async function sha256Hex(data) {
  return Array.from(await sha256Of(typeof data === "string" ? new TextEncoder().encode(data) : data), hex).join("")
}

/** @param {Uint8Array} bytes */
const base64 = (bytes) => btoa(String.fromCharCode(...bytes))

/** @param {Uint8Array} body */
const digestField = async (body) => `sha-256=:${base64(await sha256Of(body))}:`

/** Encode an entry of a commit; its bytes go to `blobs`. @param {Write} write @param {Map<string, Uint8Array>} blobs */
async function entryOf(write, blobs) {
  const { "If-Match": if_match, "If-None-Match": if_none_match } = condition(write.base)
  const entry = { slot: write.slot, if_match, if_none_match }
  if (write.delete) return { ...entry, delete: true }
  const body = bytesOf(write.data)
  const sha256 = await sha256Hex(body)
  blobs.set(sha256, body)
  const { contentType, meta } = write
  return { ...entry, sha256, content_type: contentType && typeField(contentType), meta: meta ?? undefined }
}

/** @param {Record<string, any>} value @returns {Provider} */
const providerOf = (value) => ({ name: member(value, "name", "string"), label: member(value, "label", "string") })

/** Return the SHA-256 that the server sent, in Base64. @param {Answer} answer */
function namedDigest(answer) {
  const named = /sha-256=:([A-Za-z0-9+/]+=*):/.exec(answer.headers.get("Repr-Digest") ?? "")
  if (!named) throw new NotGamed("not_gamed", "The server's answer lacks 'Repr-Digest'.")
  return named[1]
}

/** Throw DownloadCorrupt unless the body matches the server's digest. @param {Answer} answer */
async function checkDigest(answer) {
  const named = namedDigest(answer)
  if (named !== base64(await sha256Of(answer.body))) {
    // a browser may return the first part of an interrupted response without an error
    if (answer.body.length < Number(answer.headers.get("Content-Length"))) {
      throw new Unreachable("unreachable", "The answer of the server broke off.")
    }
    throw new DownloadCorrupt("download_corrupt", "The save arrived damaged.")
  }
}

/** @param {Answer} answer @returns {Save} */
function saveOf(answer) {
  const meta = parsed(answer.headers.get("Save-Meta") ?? "")
  return {
    etag: answer.headers.get("ETag") ?? "",
    data: answer.body,
    contentType: answer.headers.get("Content-Type") ?? "",
    meta: isObject(meta) ? meta : {},
  }
}

/** Encode `meta` as one line of ASCII, for a header. @param {Record<string, any>} meta */
function metaField(meta) {
  const text = isObject(meta) ? JSON.stringify(meta) : undefined
  if (text === undefined) throw new Refused("bad_meta", "The meta of a save is a JSON object.")
  return text.replace(/[\u007f-\uffff]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`)
}

/** @param {string} contentType @internal */
export function typeField(contentType) {
  if (/^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$/.test(contentType)) return contentType
  throw new Refused("bad_content_type", "The type of a save is a media type, such as application/json.")
}

/**
 * Return the bytes; a text's are its UTF-8.
 * @param {Uint8Array | ArrayBuffer | string} data @returns {Uint8Array}
 * @internal
 */
export function bytesOf(data) {
  if (typeof data === "string") return new TextEncoder().encode(data)
  if (data instanceof ArrayBuffer) return new Uint8Array(data)
  if (data instanceof Uint8Array) return data
  throw new TypeError("a save is a Uint8Array, an ArrayBuffer or a string")
}

// --- The export ------------------------------------------------------------------------------------------------------

/**
 * @typedef {object} Target where an export goes
 * @property {number} size bytes that are written
 * @property {(data: Uint8Array) => Promise<void>} write
 * @property {() => Promise<void>} restart
 * @property {() => Promise<string>} digest in Base64
 * @property {() => Promise<number | Blob>} finish
 * @property {() => Promise<void>} close
 */

/** Make a target in memory. @returns {Target} */
function blobTarget() {
  /** @type {Blob[]} */
  let parts = []
  return {
    size: 0,
    async write(data) {
      parts.push(new Blob([/** @type {any} */ (data)]))
      this.size += data.length
    },
    async restart() {
      parts = []
      this.size = 0
    },
    digest: async () => base64(await sha256Of(new Uint8Array(await new Blob(parts).arrayBuffer()))),
    finish: async () => new Blob(parts, { type: "application/zip" }),
    close: async () => undefined,
  }
}

/**
 * Make a temporary file beside the export's file, which replaces it once it is whole.
 * @param {string} path @returns {Promise<Target>}
 */
async function fileTarget(path) {
  const [fs, { resolve }] = await Promise.all(["fs/promises", "path"].map(nodeModule))
  const whole = resolve(path)
  const temporary = `${whole}.${randomName()}.new`
  const file = await fs.open(temporary, "wx+", 0o600)
  /** @type {Target} */
  const target = {
    size: 0,
    async write(data) {
      await file.write(data, 0, data.length, target.size)
      target.size += data.length
    },
    async restart() {
      await file.truncate(0)
      target.size = 0
    },
    digest: async () => (await fileHash(temporary)).digest("base64"),
    async finish() {
      await file.sync()
      await fs.rename(temporary, whole)
      return target.size
    },
    async close() {
      await file.close()
      await fs.unlink(temporary).catch(unlessMissing)
    },
  }
  return target
}

/**
 * Download an export into a target; after an interruption request the rest.
 * @param {(how: Request) => Promise<Answer>} get @param {Patience} patience @param {Target} target
 * @param {AbortSignal} [signal]
 */
async function downloadExport(get, patience, target, signal) {
  let etag = ""
  let named = ""

  /**
   * Check the first byte of the response; it is the whole export, from 0, if the export has changed since.
   * @param {Answer} answer @param {number} start
   */
  const begin = async (answer, start) => {
    if (start && answer.status === 206) {
      if (answer.headers.get("Content-Range")?.startsWith(`bytes ${start}-`)) return
      etag = ""
      throw new DownloadCorrupt("download_corrupt", "The server sends another part of the export.")
    }
    await target.restart()
    etag = answer.headers.get("ETag") ?? ""
    named = namedDigest(answer)
  }

  const once = async () => {
    const start = etag ? target.size : 0
    /** @type {Record<string, string>} */
    const headers = start ? { Range: `bytes=${start}-`, "If-Range": etag } : {}
    if (!start) await target.restart()
    let begun = false
    const sink = async (/** @type {Uint8Array} */ data, /** @type {Answer} */ answer) => {
      if (!begun) await begin(answer, start)
      begun = true
      await target.write(data)
    }
    await get({ headers, sink, tries: 1, limit: Infinity, timeout: EXPORT_SECONDS, signal })
    if (!begun) throw new NotGamed("not_gamed", "The server's answer lacks the export.")
    if ((await target.digest()) !== named) {
      etag = ""
      throw new DownloadCorrupt("download_corrupt", "The export arrived damaged.")
    }
  }

  const passing = (/** @type {GamedError} */ error) => {
    const isOther = error.code === "range_not_satisfiable"
    if (isOther) etag = ""
    return isOther || error.passing
  }
  const longest = LONGEST_EXPORT_PAUSE_SECONDS
  await retried(once, { ...patience, signal, passing, longest, received: () => target.size })
}

// --- The client ------------------------------------------------------------------------------------------------------

/**
 * @typedef {object} ClientOptions
 * @property {string} [app] the game's name, which separates its sign-in and saves from those of other games; letters,
 *   digits, space, '.', '_', '-'
 * @property {string} [version] the game's version
 * @property {string} [deviceName] name of this device in the player's lists, up to 64 characters; in Node.js the
 *   machine's name by default
 * @property {string} [locale] the game's language, such as "de" or "pt-BR", for the pages of a sign-in; the system's by
 *   default
 * @property {string} [folder] replaces the platform's folder for credentials; in a browser the name of the databases
 *   instead of `app`, so that two players can play at a time
 * @property {(seconds: number, signal?: AbortSignal) => Promise<void>} [sleep] replaces the pause before another try,
 *   which the signal may end early
 * @property {() => number} [now] seconds since 1970
 * @property {number} [timeout] longest time without a received byte, in seconds
 * @property {number} [returnSeconds] how long to wait for the browser's return before offering a code
 */

/**
 * @typedef {object} RequestOptions
 * @property {AbortSignal} [signal] ends the call with the signal's reason; the server may have performed the request
 */

/** @typedef {RequestOptions & { unless?: Base }} GetOptions */

/** @typedef {RequestOptions & { base: Base }} BaseOptions */

/** @typedef {BaseOptions & { contentType?: string, meta?: Meta | null }} PutOptions */

/** @typedef {RequestOptions & { wait?: number, limit?: number }} ChangesOptions */

/** @typedef {RequestOptions & { downTo?: number, limit?: number }} VersionsOptions */

/** @typedef {RequestOptions & { before?: number, limit?: number }} PageOptions */

/**
 * How players sign in at this server: `mode` is "local" or "oauth"; `providers` are names for `SignInOptions`.
 * @typedef {{ mode: string, providers: string[] }} Policy
 */

/**
 * A device that is signed in. The names of the protocol, such as `session_id`, stay beside these until 1.0.
 * @typedef {object} SessionMembers
 * @property {string} sessionId
 * @property {boolean} current it is this device
 * @property {string} provider
 * @property {string} createdAt RFC 3339
 * @property {string} lastUsedAt RFC 3339, of the last sign-in or refresh
 * @property {string} expiresAt RFC 3339
 * @property {{ name?: string, version?: string, platform?: string, deviceName?: string,
 *   device_name?: string } | null} client
 * @property {string} session_id `sessionId`, until 1.0
 * @property {string} created_at `createdAt`, until 1.0
 * @property {string} last_used_at `lastUsedAt`, until 1.0
 * @property {string} expires_at `expiresAt`, until 1.0
 */

/** @typedef {SessionMembers & { [name: string]: unknown }} Session */

/**
 * An account that signs in as the player. The names of the protocol, such as `linked_at`, stay beside these until 1.0.
 * @typedef {object} IdentityMembers
 * @property {string} provider
 * @property {boolean} canSignIn
 * @property {string} linkedAt RFC 3339
 * @property {string | null} lastUsedAt RFC 3339
 * @property {boolean} can_sign_in `canSignIn`, until 1.0
 * @property {string} linked_at `linkedAt`, until 1.0
 * @property {string | null} last_used_at `lastUsedAt`, until 1.0
 */

/** @typedef {IdentityMembers & { [name: string]: unknown }} Identity */

/**
 * The player at this server. The names of the protocol, such as `history_bytes`, stay beside these until 1.0.
 * @typedef {object} OverviewMembers
 * @property {{ id: string, owner: boolean, name?: string | null }} player
 * @property {string} time RFC 3339, by the server's clock
 * @property {string} epoch
 * @property {string} cursor for `changes`
 * @property {{ slots: number, bytes: number, historyBytes: number, history_bytes: number }} usage
 * @property {{ [name: string]: number }} limits
 */

/** @typedef {OverviewMembers & { [name: string]: unknown }} Overview */

/** Members of an answer that are maps: their names are values, such as those of limits. */
const MAPS = new Set(["limits"])

/**
 * Members of an answer in camelCase, beside their names in the protocol.
 * @param {any} value @param {number} [depth] of objects @returns {any}
 */
function camelCase(value, depth = 2) {
  if (!isObject(value) || !depth) return value
  /** @type {[string, any][]} */
  const both = []
  for (const [name, of] of Object.entries(value)) {
    const made = MAPS.has(name) ? of : camelCase(of, depth - 1)
    both.push([name, made], [name.replace(/_./g, ([, letter]) => letter.toUpperCase()), made])
  }
  return Object.fromEntries(both) // defines the members: an assignment to `__proto__` would set the prototype
}

/**
 * The parts of a client that the other files use.
 * @internal
 * @typedef {{ wire: Wire, place: Place, game: (method: string, path: string, how?: Request) => Promise<Answer> }} Inner
 */

/** @type {WeakMap<GamedClient, Inner>} */
const inners = new WeakMap()

/** @internal @param {GamedClient} client */
export function innerOf(client) {
  return /** @type {Inner} */ (inners.get(client))
}

/**
 * One server, and the player who is signed in there.
 *
 * Every call throws a GamedError: Unreachable, Busy or RateLimited when a retry can help, which the client has tried
 * already; SignInRequired or PlayerBlocked when the player has to act; NotGamed when the address is no gamed server's.
 * Each call below names the errors that it has beside these.
 */
export class GamedClient {
  /** @type {Credential | null} */
  #held = null
  /** The session for which the server has last wanted a more recent sign-in. @type {string | null} */
  #tooOld = null
  /** @type {string | null} */
  #player = null
  /** @type {AbortSignal | undefined} of all requests */
  #signal
  /** @type {SignIn | undefined} the newest one */
  #signIn
  #options
  #place
  #wire

  /**
   * Read the kept sign-in of this device; no request is sent.
   *
   * @param {string} server the address as the player entered it: `play.example.org`, `http://127.0.0.1:8080`
   * @param {ClientOptions} [options]
   * @returns {Promise<GamedClient>}
   * @throws {UntrustedAddress} if the address or this page's own must not be used
   * @throws {LocalDamaged} if this device cannot read its files
   */
  static async open(server, options = {}) {
    const origin = Origin.entered(server)
    const app = options.app ?? "gamed"
    if (!/^[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}$/.test(app))
      throw new RangeError("app: letters, digits, space, '.', '_', '-'")
    if (!globalThis.crypto?.subtle) {
      throw new UntrustedAddress("untrusted_address", "The game's own page needs https:// too.")
    }
    const name = `${origin.host.replace(/[^a-z0-9.-]/g, "_")}-${(await sha256Hex(String(origin))).slice(0, 12)}`
    const place = IN_NODE
      ? filePlace(options.folder ?? (await platformFolder(app)), name)
      : databasePlace(options.folder ?? app, name)
    const client = new GamedClient(origin, app, guarded(place), options)
    await client.look()
    return client
  }

  /**
   * Use `open`.
   * @internal
   * @param {Origin} origin @param {string} app @param {Place} place @param {ClientOptions} options
   */
  constructor(origin, app, place, options) {
    /** @readonly */
    this.origin = origin
    /** @readonly */
    this.app = app
    /** The game's language; the game may change it. @type {string} */
    this.locale = options.locale ?? systemLocale()
    this.#place = place
    this.#options = { ...options }
    const patience = { sleep: options.sleep ?? delay, timeout: options.timeout ?? TIMEOUT_SECONDS, tries: TRIES }
    this.#wire = new Wire(origin, `${app.replaceAll(" ", "-")}/${this.#version} gamed-js/${VERSION}`, patience)
    inners.set(this, { wire: this.#wire, place, game: (...request) => this.#game(...request) })
  }

  get #version() {
    return this.#options.version ?? VERSION
  }

  /** Seconds since 1970. */
  #now() {
    return this.#options.now?.() ?? Date.now() / 1000
  }

  /** Folder of the credential, and of the pending saves of gamed_sync.mjs; null in a browser. */
  get folder() {
    return this.#place.folder
  }

  /** Name of this server for files: its host, readable, and a hash of its origin, unique. */
  get place() {
    return this.#place.name
  }

  // -- the player --

  /** True if this client has last found a credential on this device; sends no request. */
  get signedIn() {
    return this.#held !== null
  }

  /** The credential that this client has last found on this device, or null. */
  get credential() {
    return this.#held
  }

  /**
   * Read the kept credential again: another tab or process may have signed in or out. No request is sent.
   *
   * @returns {Promise<Credential | null>} null: no player is signed in on this device
   * @throws {LocalDamaged} if this device cannot read its files
   */
  async look() {
    const text = await this.#place.read()
    this.#held = text === null ? null : Credential.read(text, this.origin)
    return this.#held
  }

  /**
   * Request mode and providers: show one button for each provider, in `local` mode one for the server itself.
   *
   * @param {RequestOptions} [options]
   * @returns {Promise<Policy>}
   */
  async policy({ signal = this.#signal } = {}) {
    const value = await this.#offered("/auth/config", signal)
    const providers = member(value, "providers", "array").filter(KINDS.string)
    return { mode: member(value, "mode", "string"), providers }
  }

  /**
   * Request the buttons of a sign-in.
   *
   * @param {RequestOptions} [options]
   * @returns {Promise<Provider[]>} one for each provider; none in `local` mode, where the game shows its own button
   */
  async providers({ signal = this.#signal } = {}) {
    const asked = this.#offered("/auth/providers", signal)
    const value = await asked.catch(ignoring(({ code }) => code === "route_not_found", signal))
    if (value) return member(value, "providers", "array").filter(isObject).map(providerOf)
    const { providers } = await this.policy({ signal }) // an older server does not send labels
    return providers.map((name) => ({ name, label: name.slice(0, 1).toUpperCase() + name.slice(1) }))
  }

  /** @param {string} path @param {AbortSignal | undefined} signal */
  async #offered(path, signal) {
    const answer = await this.#wire.call("GET", path, { signal })
    if (!(answer.headers.get("Gamed-Protocol") ?? "").startsWith("1.")) {
      throw new NotGamed("not_gamed", `${this.origin} is not a gamed server of protocol 1.`)
    }
    return answer.json()
  }

  /**
   * Ask the server once whether the kept session still works; sign in if it does not, or if there is none.
   * `person.problem` shows every failure; no GamedError is thrown. If the server does not respond, the kept session
   * counts, so that a Sync can play offline.
   *
   * @param {Person} person how the game asks the player; gamed_dialog.mjs has a ready one
   * @param {SignInOptions} [options]
   * @returns {Promise<boolean>} true: there is a session; false: the sign-in has failed
   */
  async ensureSignedIn(person, options = {}) {
    let isKept = true // as far as is known
    try {
      isKept = await this.#usable()
      if (!isKept) await this.signIn(person, options)
      return true
    } catch (error) {
      ifGamed(error)
      await person.problem?.(error)
      return isKept && !(error instanceof PlayerBlocked || error instanceof LocalDamaged)
    }
  }

  /** Ask the server once; return false if only a sign-in helps, and throw GamedError if it cannot answer. */
  async #usable() {
    const held = await this.look()
    if (held === null) return false
    try {
      await this.only(held.playerId, { tries: 1 }).whoami()
    } catch (error) {
      if (error instanceof PlayerChanged) return true
      const over = error instanceof SignInRequired && (FORGET.has(error.code) || OVER.has(error.code))
      if (!over) throw error
      return false
    } finally {
      await this.look()
    }
    return true
  }

  /**
   * Sign in through the browser; return once the credential is on disk. The server ends the session that this device
   * had before.
   *
   * @param {Person} person
   * @param {SignInOptions} [options]
   * @returns {Promise<Credential>}
   * @throws {LoginFailed} or LoginDeclined, LoginCancelled, LoginExpired, InvalidProof
   */
  async signIn(person, options = {}) {
    try {
      const login = await this.beginSignIn(person, options)
      return await login.run((complete) => this.keep(complete))
    } finally {
      await person.ended?.()
    }
  }

  /**
   * Sign in in two steps, for a game with a Cancel button: `run((complete) => client.keep(complete))`, `cancel()`.
   *
   * @param {Person} person
   * @param {SignInOptions} [options]
   * @returns {Promise<SignIn>}
   * @throws {LoginCancelled} if the signal aborts meanwhile
   */
  async beginSignIn(person, options = {}) {
    const signal = options.signal ?? person.signal
    const found = await this.providers({ signal }).catch((error) => {
      throw signal?.aborted ? loginCancelled() : error
    })
    let { provider } = options
    if (found.length > 0 && !provider) {
      provider = found.length === 1 ? found[0].name : await person.chooseProvider(found)
    }
    return this.#newSignIn(person, { ...options, provider })
  }

  /** @param {Person} person @param {SignInOptions} options @param {(json: object) => Promise<Answer>} [start] */
  async #newSignIn(person, options, start) {
    const signal = options.signal ?? person.signal
    const returnSeconds = this.#options.returnSeconds ?? RETURN_SECONDS
    const confirm = this.#held !== null && this.#held.sessionId === this.#tooOld
    const how = { openBrowser, ...options, signal, start, confirm, returnSeconds, locale: this.locale }
    how.loopback = IN_NODE && (options.loopback ?? true)
    return (this.#signIn = new SignIn(this.#wire, person, await this.#device(), how))
  }

  /**
   * Pass the address that the app was opened with to the sign-in that waits for it (see `returnUri`).
   *
   * @param {string} url
   * @returns {boolean} false: the address does not belong to that sign-in
   */
  returned(url) {
    return this.#signIn?.returned(url) ?? false
  }

  /** Return the members about this device that the sign-in page shows. */
  async #device() {
    /** @type {Record<string, string>} */
    const device = { name: this.app, version: this.#version, platform: "browser" }
    if (IN_NODE) {
      /** @type {Record<string, string>} */
      const names = { win32: "windows", darwin: "macos" }
      device.platform = names[process.platform] ?? process.platform
      device.device_name = (await nodeModule("os")).hostname()
    }
    if (this.#options.deviceName) device.device_name = this.#options.deviceName
    if (device.device_name) device.device_name = [...device.device_name].slice(0, 64).join("")
    return device
  }

  /**
   * Delete the credential here, even if the server cannot be reached, and end sessions at the server.
   *
   * @param {"this" | "others" | "all"} [scope] `all` ends every session of the player; `others` ends all but this one
   *   and deletes nothing here
   * @param {RequestOptions} [options]
   * @returns {Promise<boolean>} true: the server has ended the session, or there was none; false also if the signal
   *   aborts once the credential is deleted
   * @throws {LocalDamaged} if this device cannot delete the credential
   */
  async signOut(scope = "this", { signal = this.#signal } = {}) {
    const kept = await this.#place.locked(async () => {
      signal?.throwIfAborted() // not later: only the credential can end the session at the server
      const found = await this.look()
      if (scope !== "others") await this.#forget()
      return found
    })
    return kept === null || this.#tellLogout(kept, scope, signal)
  }

  /** @param {Credential} kept @param {string} scope @param {AbortSignal} [signal] */
  async #tellLogout(kept, scope, signal) {
    const json = { refresh_credential: kept.refreshCredential, scope }
    try {
      await this.#wire.call("POST", "/auth/session/logout", { json, timeout: 5, tries: 2, signal })
    } catch (error) {
      if (scope === "others") signal?.throwIfAborted()
      if (!signal?.aborted) ifGamed(error)
      return false
    }
    return true
  }

  // -- the account --

  /**
   * Request the player, the usage with its limits, and the time.
   *
   * @param {RequestOptions} [options]
   * @returns {Promise<Overview>}
   */
  async whoami({ signal = this.#signal } = {}) {
    const summary = await this.#json("GET", "/game/", { signal })
    await this.#noteName(member(summary, "player", "object"), signal)
    return camelCase(summary)
  }

  /**
   * Change the name that games show.
   *
   * @param {string | null} name null removes it
   * @param {RequestOptions} [options]
   * @returns {Promise<string | null>} the name as the server has stored it
   * @throws {Refused} if the server does not accept the name
   */
  async setName(name, { signal = this.#signal } = {}) {
    const answer = await this.#json("PATCH", "/auth/player", { json: { name }, signal })
    const player = member(answer, "player", "object")
    await this.#noteName(player, signal)
    return nameOf(player)
  }

  /**
   * Store the player's name with the credential, from where a Sync has it.
   * @param {Record<string, any>} player @param {AbortSignal | undefined} signal
   */
  async #noteName(player, signal) {
    const isNew = (/** @type {Credential | null} */ kept) =>
      kept?.playerId === player.id && kept?.playerName !== nameOf(player)
    if (this.#held && !isNew(this.#held)) return // without the lock, which a refresh may hold for long
    const noted = this.#place.locked(async () => {
      const kept = await this.look()
      if (!kept || !isNew(kept)) return
      this.#held = new Credential({ ...kept.stored(), player_name: nameOf(player) })
      await this.#place.write(JSON.stringify(this.#held.stored()))
    })
    const tried = noted.catch(() => undefined) // the next start tries again
    await orAborted(tried, signal)
  }

  /**
   * Request a ticket, which tells another server for about a minute who is playing. Request one for each connection.
   *
   * @param {string} audience the name of that server
   * @param {string | null} [nonce] what it has sent for this connection
   * @param {RequestOptions} [options]
   * @returns {Promise<string>}
   * @throws {Refused} if the owner has not listed the audience
   */
  async ticket(audience, nonce = null, { signal = this.#signal } = {}) {
    const json = nonce === null ? { audience } : { audience, nonce }
    return member(await this.#json("POST", "/auth/tickets", { json, signal }), "ticket", "string")
  }

  /**
   * Request the player's sessions on all devices.
   *
   * @param {RequestOptions} [options]
   * @returns {Promise<Session[]>} the last used first
   */
  async listSessions({ signal = this.#signal } = {}) {
    return this.#listed("sessions", signal)
  }

  /** @param {string} name @param {AbortSignal | undefined} signal */
  async #listed(name, signal) {
    const answer = await this.#json("GET", `/auth/${name}`, { signal })
    return member(answer, name, "array").filter(isObject).map((/** @type {object} */ each) => camelCase(each))
  }

  /**
   * End a session, such as a lost device's. If it is this device's, the credential is deleted, too.
   *
   * @param {string} sessionId
   * @param {RequestOptions} [options]
   * @returns {Promise<void>}
   * @throws {NotFound} if the player has no such session
   */
  async endSession(sessionId, { signal = this.#signal } = {}) {
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(sessionId)) {
      throw new NotFound("session_not_found", "There is no such session.")
    }
    const held = this.#held ?? (await this.look())
    await this.#remove(`/auth/sessions/${sessionId}`, signal)
    if (held?.sessionId === sessionId) await this.#forgetSession(sessionId)
  }

  /** @param {string} sessionId */
  async #forgetSession(sessionId) {
    await this.#place.locked(async () => {
      const kept = await this.look()
      if (kept?.sessionId === sessionId) await this.#forget()
    })
  }

  /**
   * Send a DELETE; the try whose answer was lost may have performed it.
   * @param {string} path @param {AbortSignal} [signal]
   */
  async #remove(path, signal) {
    const isDone = (/** @type {GamedError} */ { answerLostBefore, status, code }) =>
      answerLostBefore && (status === 404 || FORGET.has(code) || OVER.has(code))
    await this.#game("DELETE", path, { signal }).catch(ignoring(isDone, signal))
  }

  /**
   * Request the accounts that sign in as this player.
   *
   * @param {RequestOptions} [options]
   * @returns {Promise<Identity[]>} the oldest first
   */
  async listIdentities({ signal = this.#signal } = {}) {
    return this.#listed("identities", signal)
  }

  /**
   * Link another account, which then signs in as the same player.
   *
   * @param {Person} person
   * @param {string} provider one of `providers`
   * @param {SignInOptions} [options]
   * @returns {Promise<string>} the linked provider
   * @throws {SignInRequired} with `reauthentication_required` if the sign-in is over 10 minutes old: sign in, repeat
   * @throws {LoginFailed} or LoginDeclined, LoginCancelled, LoginExpired, InvalidProof
   */
  async link(person, provider, options = {}) {
    const start = (/** @type {object} */ json) => this.#game("POST", "/auth/login", { json })
    try {
      const login = await this.#newSignIn(person, { ...options, provider }, start)
      return await login.run(async (complete) => member(member(complete, "linked", "object"), "provider", "string"))
    } finally {
      await person.ended?.()
    }
  }

  /**
   * Remove one of the accounts that sign in as this player, but not the last.
   *
   * @param {string} provider
   * @param {RequestOptions} [options]
   * @returns {Promise<void>}
   * @throws {Refused} if it is the last one
   * @throws {SignInRequired} with `reauthentication_required` if a recovery code signed this session in
   */
  async unlink(provider, { signal = this.#signal } = {}) {
    await this.#remove(`/auth/identities/${encodeURIComponent(provider)}`, signal)
  }

  /**
   * Delete the player with all saves and sessions, and the credential.
   *
   * @param {RequestOptions} [options]
   * @returns {Promise<void>}
   * @throws {SignInRequired} with `reauthentication_required` if the sign-in is over 10 minutes old: sign in, repeat
   */
  async deletePlayer({ signal = this.#signal } = {}) {
    const held = this.#held ?? (await this.look())
    await this.#remove("/auth/player", signal)
    if (held !== null) await this.#forgetSession(held.sessionId)
  }

  /**
   * Delete all saves with their history.
   *
   * @param {RequestOptions} [options]
   * @returns {Promise<void>}
   * @throws {Conflict} if a device has saved at the same moment
   * @throws {SignInRequired} with `reauthentication_required` if a recovery code signed this session in
   */
  async eraseSaves({ signal = this.#signal } = {}) {
    const etag = (await this.#game("GET", "/game/", { signal })).headers.get("ETag") ?? ""
    if (!ETAG.test(etag)) throw new NotGamed("not_gamed", "The server's answer lacks 'ETag'.")
    await this.#game("DELETE", "/game/", { headers: { "If-Match": etag }, signal })
  }

  /**
   * Download all saves with their history as one zip. An interrupted download continues where it was.
   *
   * @overload
   * @param {string} path a file, which is written whole or not at all; Node.js only
   * @param {RequestOptions} [options]
   * @returns {Promise<number>} size of the file, in bytes
   * @throws {SignInRequired} with `reauthentication_required` if a recovery code signed this session in
   * @throws {DownloadCorrupt} if the bytes do not match the server's digest
   * @throws {LocalDamaged} if this device cannot write the file
   */
  /**
   * Download all saves with their history as one zip into memory. An interrupted download continues where it was.
   *
   * @overload
   * @param {undefined} [path]
   * @param {RequestOptions} [options]
   * @returns {Promise<Blob>}
   * @throws {SignInRequired} with `reauthentication_required` if a recovery code signed this session in
   * @throws {DownloadCorrupt} if the bytes do not match the server's digest
   */
  /** @param {string} [path] @param {RequestOptions} [options] @returns {Promise<any>} */
  export(path, { signal = this.#signal } = {}) {
    return onDisk(this.#export(path, signal))
  }

  /** @param {string | undefined} path @param {AbortSignal | undefined} signal */
  async #export(path, signal) {
    const target = path === undefined ? blobTarget() : await fileTarget(path)
    const get = (/** @type {Request} */ how) => this.#game("GET", "/game/export", how)
    try {
      await downloadExport(get, this.#wire.patience, target, signal)
      return await target.finish()
    } finally {
      await target.close()
    }
  }

  // -- saves --

  /**
   * Request the current version of each slot.
   *
   * @param {RequestOptions} [options]
   * @returns {Promise<SaveInfo[]>} by slot
   */
  async listSaves({ signal = this.#signal } = {}) {
    const listed = member(await this.#json("GET", "/game/saves", { signal }), "saves", "array")
    return listed.map(SaveInfo.of)
  }

  /**
   * Request the changes since the cursor of an earlier result; all slots without a cursor, or if the server no longer
   * knows it. The oldest changes come first; if there are `more`, ask again with the new cursor.
   *
   * @param {string | null} [since] the `cursor` of an earlier result
   * @param {ChangesOptions} [options] `wait`: if nothing has changed, the server waits up to so many seconds (at most
   *   25) for a change before it responds; `limit`: at most so many slots (256)
   * @returns {Promise<Changes>}
   */
  async changes(since = null, { wait = 0, limit, signal = this.#signal } = {}) {
    const path = withQuery("/game/saves", { since, limit })
    /** @type {Record<string, string>} */
    const headers = wait ? { Prefer: `wait=${wait}` } : {}
    const answer = await this.#game("GET", path, { headers, timeout: wait + this.#wire.patience.timeout, signal })
    const value = answer.json()
    const saves = member(value, "saves", "array").filter(isObject).map(changeOf)
    const reset = value.reset === true
    const [whole, expired] = [since === null || reset, reset && value.expired === true]
    return { cursor: member(value, "cursor", "string"), saves, whole, more: value.more === true, expired }
  }

  /**
   * Read the current bytes and check their digest.
   *
   * @param {string} slot name of the save: 1-64 of `a-z 0-9 . _ -`
   * @param {GetOptions} [options] `unless`: the version that the game has already
   * @returns {Promise<Save | null>} null: the slot was never written
   * @throws {Deleted} if the save was deleted; its versions can still be restored
   * @throws {NotModified} if `unless` is the current version
   * @throws {DownloadCorrupt} if the bytes do not match the server's digest
   * @throws {SaveCorrupt} if the server's copy is damaged
   */
  async get(slot, { unless = null, signal = this.#signal } = {}) {
    /** @type {Record<string, string>} */
    const headers = unless === null ? {} : { "If-None-Match": condition(unless)["If-Match"] }
    const how = { headers, check: checkDigest, limit: MAX_SAVE_BYTES, signal }
    const isNew = (/** @type {GamedError} */ error) => error instanceof NotFound && !(error instanceof Deleted)
    const answer = await this.#game("GET", pathOf(slot), how).catch(ignoring(isNew, signal))
    return answer && saveOf(answer)
  }

  /**
   * Write a save; return when the server has it on disk. Sending the same bytes twice is one write.
   *
   * @param {string} slot name of the save: 1-64 of `a-z 0-9 . _ -`
   * @param {Bytes} data
   * @param {PutOptions} options `base`: a save that was read, its etag, "*" for any existing version, null for a new
   *   slot; `meta`: a JSON object beside the bytes, such as the save's title
   * @returns {Promise<SaveInfo>} the new version, for `base` of the next write
   * @throws {Conflict} if the slot holds another version; the server then keeps both
   * @throws {BaseRequired} if the slot exists and `base` is null
   * @throws {QuotaExceeded} if the save or the number of saves is over the owner's limit
   * @throws {StorageFull} if the owner's disk is full
   */
  async put(slot, data, { base, contentType = "application/octet-stream", meta = null, signal = this.#signal }) {
    const body = bytesOf(data)
    /** @type {Record<string, string>} */
    const headers = { "Content-Type": typeField(contentType), ...condition(base) }
    headers["Content-Digest"] = await digestField(body)
    if (meta !== null) headers["Save-Meta"] = metaField(meta)
    return SaveInfo.of(await this.#json("PUT", pathOf(slot), { headers, body, signal }))
  }

  /**
   * Delete the version that was read; its history stays on the server for a while.
   *
   * @param {string} slot
   * @param {BaseOptions} options `base`: as for `put`
   * @returns {Promise<void>}
   * @throws {Conflict} if the slot holds another version
   * @throws {NotFound} if the slot was never written
   */
  async delete(slot, { base, signal = this.#signal }) {
    const sent = this.#game("DELETE", pathOf(slot), { headers: condition(base), signal })
    // then the try without a response has deleted it
    await sent.catch(ignoring(({ code, answerLostBefore }) => code === "deleted" && answerLostBefore, signal))
  }

  /**
   * Change all these slots, or none. Repeating it with the same bytes is one commit.
   *
   * @param {readonly Write[]} writes
   * @param {RequestOptions} [options]
   * @returns {Promise<(SaveInfo | Deletion)[]>} the new state of each slot
   * @throws {Conflict} with the sides of each slot that holds another version (`slots`); no slot has changed then
   * @throws {QuotaExceeded} if a save or the number of saves is over the owner's limit
   */
  async commit(writes, { signal = this.#signal } = {}) {
    /** @type {Map<string, Uint8Array>} */
    const blobs = new Map()
    /** @type {object[]} */
    const entries = []
    for (const write of writes) {
      pathOf(write.slot)
      entries.push(await entryOf(write, blobs))
    }
    await this.#stage(blobs, true, signal)
    const sent = () => this.#json("POST", "/game/commit", { json: { writes: entries }, signal })
    let answer = await sent().catch(ignoring(({ code }) => code === "blob_missing", signal))
    if (answer === null) {
      await this.#stage(blobs, false, signal) // the uploads have expired in between, or were damaged
      answer = await sent()
    }
    return member(answer, "saves", "array").filter(isObject).map(changeOf)
  }

  /**
   * Upload the bytes of a commit; with `ask`, skip large ones that the server already has.
   * @param {Map<string, Uint8Array>} blobs @param {boolean} ask @param {AbortSignal | undefined} signal
   */
  async #stage(blobs, ask, signal) {
    for (const [sha256, body] of blobs) {
      const path = `/game/blobs/${sha256}`
      if (ask && body.length > ASK_FIRST_BYTES && (await this.#staged(path, signal))) continue
      const headers = { "Content-Type": "application/octet-stream", "Content-Digest": await digestField(body) }
      await this.#game("PUT", path, { headers, body, signal })
    }
  }

  /**
   * Return whether the server has the bytes; false also without a response: the PUT that follows gets a better error.
   * @param {string} path @param {AbortSignal | undefined} signal
   */
  async #staged(path, signal) {
    return Boolean(await this.#game("HEAD", path, { tries: 1, signal }).catch(ignoring(() => true, signal)))
  }

  // -- history --

  /**
   * Request the kept versions of a slot, also of a deleted one, and conflict copies. A long history needs one request
   * for each 100 versions, or `limit`.
   *
   * @param {string} slot
   * @param {VersionsOptions} [options] `downTo`: the requests after the first end once this number is reached
   * @returns {Promise<Version[]>} newest first
   * @throws {NotFound} if the slot was never written
   */
  async versions(slot, { downTo = 1, limit, signal = this.#signal } = {}) {
    let { versions, more } = await this.versionsPage(slot, { limit, signal })
    const found = versions
    for (let last = found.at(-1)?.version ?? 0; more && last > downTo; last = found.at(-1)?.version ?? 0) {
      ;({ versions, more } = await this.versionsPage(slot, { before: last, limit, signal }))
      found.push(...versions)
    }
    return found
  }

  /**
   * Request the newest versions of a slot that are older than `before`.
   *
   * @param {string} slot
   * @param {PageOptions} [options] `before`: a number of a version; `limit`: at most so many versions (100)
   * @returns {Promise<VersionsPage>} newest first
   * @throws {NotFound} if the slot was never written
   */
  async versionsPage(slot, { before, limit, signal = this.#signal } = {}) {
    const path = withQuery(`${pathOf(slot)}/versions`, { before, limit })
    const value = await this.#json("GET", path, { signal })
    const versions = /** @type {Version[]} */ (member(value, "versions", "array").map(versionOf))
    const more = value.more === true
    const last = versions.at(-1)?.version ?? Infinity
    if (more && last >= (before ?? Infinity)) {
      throw new NotGamed("not_gamed", "The server's pages of versions do not end.")
    }
    return { versions, more }
  }

  /**
   * Read the bytes of one version and check their digest.
   *
   * @param {string} slot
   * @param {number} number
   * @param {RequestOptions} [options]
   * @returns {Promise<Save>}
   * @throws {NotFound} if the server no longer keeps it
   * @throws {DownloadCorrupt} if the bytes do not match the server's digest
   */
  async version(slot, number, { signal = this.#signal } = {}) {
    const how = { check: checkDigest, limit: MAX_SAVE_BYTES, signal }
    return saveOf(await this.#game("GET", versionPath(slot, number), how))
  }

  /**
   * Make an old version or a conflict copy current.
   *
   * @param {string} slot
   * @param {number} number
   * @param {BaseOptions} options `base`: the current version, as for `put`; null undeletes a slot
   * @returns {Promise<SaveInfo>} the new version
   * @throws {Conflict} if the slot holds another version
   * @throws {NotFound} if the server no longer keeps it
   */
  async restore(slot, number, { base, signal = this.#signal }) {
    const how = { headers: condition(base), signal }
    return SaveInfo.of(await this.#json("POST", `${versionPath(slot, number)}/restore`, how))
  }

  /**
   * Delete a conflict copy, once the player has chosen. A copy that is deleted already is not an error.
   *
   * @param {string} slot
   * @param {number} number
   * @param {RequestOptions} [options]
   * @returns {Promise<void>}
   */
  async dismiss(slot, number, { signal = this.#signal } = {}) {
    const sent = this.#game("DELETE", versionPath(slot, number), { signal })
    await sent.catch(ignoring((error) => error instanceof NotFound, signal))
  }

  // -- staying signed in --

  /**
   * Make a client that acts for this player only: it throws PlayerChanged once another player has signed in here.
   *
   * @param {string} playerId
   * @param {RequestOptions & { tries?: number }} [options] `tries`: how often to send a request that gets no response;
   *   `signal`: for every request that has none of its own
   * @returns {GamedClient}
   */
  only(playerId, { tries = TRIES, signal = this.#signal } = {}) {
    const bound = new GamedClient(this.origin, this.app, this.#place, this.#options)
    bound.locale = this.locale
    bound.#wire = innerOf(bound).wire = this.#wire.with({ tries })
    bound.#player = playerId
    bound.#signal = signal
    return bound
  }

  /**
   * Send a request in the player's name; repeat it once with a newer token if the server rejects the first (`stale`).
   * @param {string} method @param {string} path @param {Request} [how] @param {string | null} [stale]
   * @returns {Promise<Answer>}
   */
  async #game(method, path, how = {}, stale = null) {
    const signal = how.signal ?? this.#signal
    signal?.throwIfAborted()
    const used = await orAborted(this.#live(stale), signal) // a refresh goes on: other calls wait for it, too
    try {
      return await this.#wire.call(method, path, { ...how, signal, bearer: used.accessToken })
    } catch (error) {
      signal?.throwIfAborted()
      if (!(error instanceof SignInRequired) || !(await this.#renewable(error, used)) || stale !== null) throw error
      return this.#game(method, path, how, used.accessToken).catch((again) => {
        if (again instanceof GamedError) again.answerLostBefore ||= error.answerLostBefore
        throw again
      })
    }
  }

  /** @param {[string, string, Request?]} request */
  async #json(...request) {
    return (await this.#game(...request)).json()
  }

  /**
   * Return whether another token may work. Delete the credential of an ended session, but not a newer one.
   * @param {SignInRequired} error @param {Credential} used
   */
  async #renewable(error, used) {
    if (error.code === "reauthentication_required") this.#tooOld = used.sessionId
    if (!FORGET.has(error.code)) return RENEW.has(error.code)
    return this.#place.locked(async () => {
      const kept = await this.look()
      if (kept !== null && kept.sessionId !== used.sessionId) {
        if (kept.playerId !== used.playerId) this.#held = used // then `#live` throws PlayerChanged
        return true
      }
      await this.#forget()
      return false
    })
  }

  async #forget() {
    await this.#place.remove()
    this.#held = null
  }

  /**
   * Return a credential whose access token has not expired and is not `stale`; refresh if needed.
   * @param {string | null} stale
   */
  async #live(stale) {
    // A client for one player looks each time: it does not notice otherwise that the first one has signed out.
    const held = (this.#player === null ? this.#held : null) ?? (await this.look())
    if (held === null) throw signedOut()
    if (this.#player !== null && this.#player !== held.playerId) throw playerChanged()
    if (held.fresh(this.#now()) && held.accessToken !== stale) return held
    return this.#place.locked(async () => {
      const kept = await this.look() // the first holder of the lock refreshes, the others read its result
      if (kept === null) throw signedOut()
      if (kept.playerId !== held.playerId) {
        this.#held = held
        throw playerChanged()
      }
      if (kept.fresh(this.#now()) && kept.accessToken !== stale) return kept
      return (this.#held = await this.#refresh(kept))
    })
  }

  /**
   * Refresh; the caller holds the lock. A repetition is safe: until the new pair is used, the server returns it again.
   * @param {Credential} kept
   */
  async #refresh(kept) {
    const json = { refresh_credential: kept.refreshCredential }
    let pair
    try {
      pair = (await this.#wire.call("POST", "/auth/session/refresh", { json })).json()
    } catch (error) {
      if (error instanceof SignInRequired && FORGET.has(error.code)) await this.#forget()
      throw error
    }
    const renewed = new Credential({ ...kept.stored(), ...this.#pair(pair) })
    await this.#place.write(JSON.stringify(renewed.stored())) // on disk before its first use, which ends the old pair
    return renewed
  }

  /** @param {Record<string, any>} answer */
  #pair(answer) {
    const lifetime = member(answer, "expires_in", "integer")
    return {
      refresh_credential: member(answer, "refresh_credential", "string"),
      access_token: member(answer, "access_token", "string"),
      access_expires: this.#now() + lifetime,
      access_lifetime: lifetime,
    }
  }

  /**
   * Store the result of a finished sign-in, before its first use: for `beginSignIn`.
   *
   * @param {Complete} complete
   * @returns {Promise<Credential>}
   * @throws {LocalDamaged} if this device cannot store it
   */
  async keep(complete) {
    const player = member(complete, "player", "object")
    const fresh = new Credential({
      origin: String(this.origin),
      player_id: member(player, "id", "string"),
      player_name: nameOf(player),
      session_id: member(complete, "session_id", "string"),
      provider: member(complete, "provider", "string"),
      ...this.#pair(complete),
    })
    const before = await this.#place.locked(async () => {
      const found = await this.look()
      await this.#place.write(JSON.stringify(fresh.stored()))
      this.#held = fresh
      return found
    })
    if (before !== null && before.sessionId !== fresh.sessionId) await this.#tellLogout(before, "this")
    return fresh
  }
}

const signedOut = () => new SignInRequired("signed_out", "No player is signed in here.")
const playerChanged = () => new PlayerChanged("player_changed", "Another player signed in here meanwhile.")

/** @param {string} app */
async function platformFolder(app) {
  return stateFolder(app, process.platform, process.env, (await nodeModule("os")).homedir())
}
