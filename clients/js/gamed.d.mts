/** Types of gamed.mjs, whose comments describe the behaviour. */

export const VERSION: string
/** Node.js without a page. */
export const IN_NODE: boolean

export interface ErrorDetails {
  status?: number
  problem?: { [name: string]: unknown }
  cause?: unknown
}

/** `code` is for the program, `detail` for the player. */
export class GamedError extends Error {
  constructor(code: string, detail: string, more?: ErrorDetails)
  static kind: string
  code: string
  detail: string
  /** HTTP status; 0 if the error comes from the client itself. */
  status: number
  /** Every member of the problem (RFC 9457). */
  problem: { [name: string]: any }
  /** Seconds that the server asks to wait. */
  retryAfter: number | null
  answerLostBefore: boolean
  /** The client has retried already. */
  get passing(): boolean
}
export class Unreachable extends GamedError {}
export class Busy extends GamedError {}
export class RateLimited extends GamedError {}
export class DownloadCorrupt extends GamedError {}
export class NotGamed extends GamedError {}
export class UntrustedAddress extends GamedError {}
export class Refused extends GamedError {}
export class SignInRequired extends GamedError {}
export class PlayerChanged extends SignInRequired {}
export class PlayerBlocked extends GamedError {}
export class LoginFailed extends GamedError {}
export class LoginDeclined extends LoginFailed {}
export class LoginCancelled extends LoginFailed {}
export class LoginExpired extends LoginFailed {}
export class InvalidProof extends GamedError {
  get attemptsLeft(): number
}
export class NotFound extends GamedError {}
export class Deleted extends NotFound {}
export class NotModified extends GamedError {}
export class BaseRequired extends GamedError {}
export class Conflict extends GamedError {
  get base(): SaveInfo | null
  get current(): SaveInfo | null
  get yours(): SaveInfo | null
  /** The sides of each slot whose base did not match; empty unless from `commit`. */
  get slots(): SlotConflict[]
}
export class QuotaExceeded extends GamedError {}
export class StorageFull extends GamedError {}
export class SaveCorrupt extends GamedError {}
/** This device cannot read or write a file, or its bytes are not those that were written. */
export class LocalDamaged extends GamedError {}
export class InUse extends GamedError {}

/** Scheme, host and port of a server. */
export class Origin {
  constructor(scheme: string, host: string, port: number)
  static entered(address: string): Origin
  static of(url: string): Origin
  readonly scheme: string
  readonly host: string
  readonly port: number
  toString(): string
  require(url: string): string
}

/** One sign-in of one player at one server. */
export class Credential {
  constructor(value: StoredCredential)
  static read(text: string, origin: Origin): Credential | null
  readonly origin: string
  readonly playerId: string
  readonly sessionId: string
  readonly provider: string
  readonly accessExpires: number
  readonly accessLifetime: number | null
  readonly playerName: string | null
  get refreshCredential(): string
  get accessToken(): string
  fresh(now: number): boolean
  stored(): StoredCredential
}

export interface StoredCredential {
  origin: string
  player_id: string
  session_id: string
  provider: string
  refresh_credential: string
  access_token: string
  access_expires: number
  access_lifetime?: number | null
  player_name?: string | null
}

export interface Provider {
  name: string
  /** Text of the button. */
  label: string
}

/** The interface between a sign-in and the player; a game implements it or uses `Dialog` of gamed_dialog.mjs. */
export interface Person {
  /** Return the name of the chosen one. Not called if there is only one. */
  chooseProvider(providers: readonly Provider[]): string | Promise<string>
  browserOpened(url: string, opened: boolean, qrUrl: string | null): unknown
  /** Ask for the code that the browser shows; return null to stop asking. */
  finishCode(
    showCode: (() => Promise<void>) | null,
    attemptsLeft: number | null,
    signal: AbortSignal,
  ): string | null | Promise<string | null>
  /** Show `error.detail`; `ensureSignedIn` needs it. */
  problem?(error: GamedError): unknown
  /** Close the dialog: the sign-in has ended. */
  ended?(): unknown
  readonly signal?: AbortSignal
}

export interface SignInOptions {
  provider?: string
  openBrowser?: ((url: string, qrUrl: string | null) => unknown) | null
  loopback?: boolean
  adopt?: boolean
  returnUri?: string
  signal?: AbortSignal
}

/** A finished sign-in, with the members of the protocol. */
export interface Complete {
  status: "complete"
  session_id: string
  provider: string
  access_token: string
  refresh_credential: string
  expires_in: number
  player: { id: string; created: boolean; owner: boolean; name?: string | null }
  [name: string]: unknown
}

/** One login of `beginSignIn`. */
export interface SignIn {
  run<T>(keep: (complete: Complete) => Promise<T>): Promise<T>
  cancel(): Promise<void>
  returned(url: string): boolean
}

export interface Meta {
  [name: string]: any
}

/** One version of one slot. */
export class SaveInfo {
  constructor(value: SaveInfoMembers)
  static of(value: { [name: string]: any }): SaveInfo
  static maybe(value: unknown): SaveInfo | null
  readonly slot: string
  readonly version: number
  readonly etag: string
  readonly size: number
  readonly sha256: string
  readonly contentType: string
  readonly modified: string
  readonly meta: Meta
  /** Numbers of the versions that lost against this one; the player has to choose. */
  readonly conflicts: number[]
  /** Name of the device that wrote it, or null. */
  readonly device: string | null
}

export interface SaveInfoMembers {
  slot: string
  version: number
  etag: string
  size: number
  sha256: string
  contentType: string
  modified: string
  meta: Meta
  conflicts: number[]
  device: string | null
}

export interface Deletion {
  slot: string
  version: number
  deleted: true
}

export interface Changes {
  cursor: string
  saves: (SaveInfo | Deletion)[]
  whole: boolean
  /** The server has further changes: ask with `cursor` at once. */
  more: boolean
}

export interface Version {
  version: number
  kind: string
  parent: number | null
  expires: string | null
  device: string | null
  save: SaveInfo | null
}

/** A part of a slot's history; `more`: ask for those `before` the last one here. */
export interface VersionsPage {
  versions: Version[]
  more: boolean
}

export interface Save {
  etag: string
  data: Uint8Array
  contentType: string
  meta: Meta
}

export type Bytes = Uint8Array | ArrayBuffer | string
/** A save that was read, or its etag; "*" for any existing version, null for an empty slot. */
export type Base = { etag: string } | string | null

export interface PutOptions {
  base: Base
  contentType?: string
  meta?: Meta | null
}

export type Write =
  | { slot: string; data: Bytes; base: Base; contentType?: string; meta?: Meta | null; delete?: false }
  | { slot: string; delete: true; base: Base }

export interface SlotConflict {
  slot: string
  code: string
  base: SaveInfo | null
  current: SaveInfo | null
  yours: SaveInfo | null
}

/** A device that is signed in, with the members of the protocol. */
export interface Session {
  session_id: string
  current: boolean
  provider: string
  created_at: string
  last_used_at: string
  expires_at: string
  client: { name?: string; version?: string; platform?: string; device_name?: string } | null
  [name: string]: unknown
}

/** An account that signs in as the player, with the members of the protocol. */
export interface Identity {
  provider: string
  can_sign_in: boolean
  linked_at: string
  last_used_at: string | null
  [name: string]: unknown
}

/** `GET /game/`, with the members of the protocol. */
export interface Overview {
  player: { id: string; owner: boolean; name?: string | null }
  time: string
  epoch: string
  cursor: string
  usage: { slots: number; bytes: number; history_bytes: number }
  limits: { [name: string]: number }
  [name: string]: unknown
}

export interface ClientOptions {
  /** The game's name. */
  app?: string
  /** The game's version. */
  version?: string
  deviceName?: string
  locale?: string
  /** A path; in a browser a name. */
  folder?: string
  sleep?: (seconds: number) => Promise<void>
  now?: () => number
  timeout?: number
  returnSeconds?: number
}

/** One server, and the player who is signed in there. */
export class GamedClient {
  private constructor()
  static open(server: string, options?: ClientOptions): Promise<GamedClient>
  readonly origin: Origin
  readonly app: string
  locale: string
  get folder(): string | null
  get place(): string
  get signedIn(): boolean
  get credential(): Credential | null
  look(): Promise<Credential | null>

  policy(): Promise<{ mode: string; providers: string[] }>
  providers(): Promise<Provider[]>
  ensureSignedIn(person: Person, options?: SignInOptions): Promise<boolean>
  signIn(person: Person, options?: SignInOptions): Promise<Credential>
  beginSignIn(person: Person, options?: SignInOptions): Promise<SignIn>
  returned(url: string): boolean
  keep(complete: Complete): Promise<Credential>
  signOut(scope?: "this" | "others" | "all"): Promise<boolean>
  only(playerId: string, options?: { tries?: number }): GamedClient

  whoami(): Promise<Overview>
  setName(name: string | null): Promise<string | null>
  ticket(audience: string, nonce?: string | null): Promise<string>
  listSessions(): Promise<Session[]>
  endSession(sessionId: string): Promise<void>
  listIdentities(): Promise<Identity[]>
  link(person: Person, provider: string, options?: SignInOptions): Promise<string>
  unlink(provider: string): Promise<void>
  deletePlayer(): Promise<void>
  eraseSaves(): Promise<void>
  /** Write to a file (Node.js only); return its size. */
  export(path: string): Promise<number>
  export(): Promise<Blob>

  listSaves(): Promise<SaveInfo[]>
  changes(since?: string | null, options?: { wait?: number; limit?: number; signal?: AbortSignal }): Promise<Changes>
  get(slot: string, options?: { unless?: Base }): Promise<Save | null>
  put(slot: string, data: Bytes, options: PutOptions): Promise<SaveInfo>
  delete(slot: string, options: { base: Base }): Promise<void>
  commit(writes: readonly Write[]): Promise<(SaveInfo | Deletion)[]>
  versions(slot: string, options?: { downTo?: number; limit?: number }): Promise<Version[]>
  versionsPage(slot: string, options?: { before?: number; limit?: number }): Promise<VersionsPage>
  version(slot: string, number: number): Promise<Save>
  restore(slot: string, number: number, options: { base: Base }): Promise<SaveInfo>
  dismiss(slot: string, number: number): Promise<void>
}

/** Return the letters of a typed code, or null if it cannot be one. */
export function finishCode(typed: string): string | null
/** Open the player's browser; return whether it opened. */
export function openBrowser(url: string): Promise<boolean>
