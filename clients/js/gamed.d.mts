/** Types of gamed.mjs; made from its comments by `python -m clients.js.tests.declarations`. */

/** Return the code as `BKTRVW`, or null if it cannot be one: a typing error costs no attempt. @param {string} typed */
export function finishCode(typed: string): string | null;

/**
 * Open the person's browser, never through a shell; in a browser a tab without an opener, so that it cannot change this
 * page.
 * @param {string} url @returns {Promise<boolean>}
 */
export function openBrowser(url: string): Promise<boolean>;

/** The version of this client. @type {string} */
export const VERSION: string;

/** Node.js without a page (Electron's windows have both, and count as browsers). */
export const IN_NODE: boolean;

/** `code` is for the program, `detail` for the person. The client has retried `passing` failures already. */
export class GamedError extends Error {
    /** The name of the class: `constructor.name` is another one after a bundler has shortened names. */
    static kind: string;
    /** @param {string} code @param {string} detail @param {ErrorDetails} [more] */
    constructor(code: string, detail: string, { status, problem, cause }?: ErrorDetails);
    /** One of the codes of docs/protocol.md, or of this client. */
    code: string;
    /** Text for the player, in English. */
    detail: string;
    /** HTTP status; 0 if the error comes from the client itself. */
    status: number;
    /** Every member of the problem (RFC 9457). @type {{ [name: string]: any }} */
    problem: {
        [name: string]: any;
    };
    /** Seconds that the server asks to wait. @type {number | null} */
    retryAfter: number | null;
    /** An earlier try of the same request got no response: the server may have performed it already. */
    answerLostBefore: boolean;
    /** True if the same request can succeed later; the client has retried it already. @returns {boolean} */
    get passing(): boolean;
}

/** The response is missing or incomplete, or comes from a front proxy that cannot reach its server. */
export class Unreachable extends GamedError {
}

/** The server cannot perform the request now. */
export class Busy extends GamedError {
}

/** Too many requests; the server accepts the next one after `retryAfter` seconds. */
export class RateLimited extends GamedError {
}

/** The received bytes do not match the digest that the server sent. */
export class DownloadCorrupt extends GamedError {
}

/** The server at this address does not speak this protocol. */
export class NotGamed extends GamedError {
}

/** An address that must not be used: plain http on the network, or a link to another server. */
export class UntrustedAddress extends GamedError {
}

/** The server rejected the request; sending it again gives the same error. */
export class Refused extends GamedError {
}

/** A sign-in is needed: none is stored here, or its session has ended. */
export class SignInRequired extends GamedError {
}

/** Another player has signed in on this device meanwhile; nothing was read or written in their name. */
export class PlayerChanged extends SignInRequired {
}

/** The owner of this server does not let the player in. */
export class PlayerBlocked extends GamedError {
}

/** The sign-in ended without credentials; start another one. */
export class LoginFailed extends GamedError {
}

/** The player declined, in the browser or at the provider. */
export class LoginDeclined extends LoginFailed {
}

/** The game or the player cancelled the sign-in on this device. */
export class LoginCancelled extends LoginFailed {
}

/** The player did not finish the sign-in in time. */
export class LoginExpired extends LoginFailed {
}

/** The finish code is wrong; `attemptsLeft` is the number of further attempts. */
export class InvalidProof extends GamedError {
    /** Number of further attempts. @returns {number} */
    get attemptsLeft(): number;
}

/** The server has no such save, version, session, channel or file. */
export class NotFound extends GamedError {
}

/** The save was deleted; its versions can still be restored. */
export class Deleted extends NotFound {
}

/** The version that was passed is the current one (304). */
export class NotModified extends GamedError {
}

/** The slot exists: pass the version that this write is based on. */
export class BaseRequired extends GamedError {
}

/** Another device wrote first. The server kept your bytes too, as `yours`, unless `detail` gives a reason. */
export class Conflict extends GamedError {
    /** The version that the write was based on; null if the server does not keep it. */
    get base(): SaveInfo | null;
    /** The current version of the slot; null if it is empty. */
    get current(): SaveInfo | null;
    /** The conflict copy that the server has kept of the refused bytes; null if it has not. */
    get yours(): SaveInfo | null;
    /** The sides of each slot whose base did not match; empty unless from `commit`. @returns {SlotConflict[]} */
    get slots(): SlotConflict[];
}

/** The player has reached a limit; see `problem.limit` and `problem.usage`. */
export class QuotaExceeded extends GamedError {
}

/** The owner's disk is full. */
export class StorageFull extends GamedError {
}

/** The server's copy is damaged; `detail` names the newest good version. */
export class SaveCorrupt extends GamedError {
}

/** This device cannot read or write a file (`local_disk`), or its bytes are not those that were written. */
export class LocalDamaged extends GamedError {
}

/** Another tab or process, or another object of this one, has the folder open. */
export class InUse extends GamedError {
}

/** Scheme, host and port: the identity of a server. https, or http on this machine only. */
export class Origin {
    /**
     * Parse an address as players type it: `play.example.org`, `https://play.example.org:8443`, `http://127.0.0.1:8080`.
     * @param {string} address
     */
    static entered(address: string): Origin;
    /** Return the origin of a URL that a server sent; refuse, not repair, an unusual one. @param {string} url */
    static of(url: string): Origin;
    /** @param {string} scheme @param {string} host @param {number} port */
    constructor(scheme: string, host: string, port: number);
    /** @readonly */
    readonly scheme: string;
    /** @readonly */
    readonly host: string;
    /** @readonly */
    readonly port: number;
    /** Return the origin as in a URL, without a default port. */
    toString(): string;
    /**
     * Return `url` if it has this origin, else throw: a server must not send a player's browser to another server.
     * @param {string} url
     */
    require(url: string): string;
}

/** One sign-in of one player at one server. console.log and JSON.stringify do not show its secrets. */
export class Credential {
    /** Parse the stored form; return null if it is not one of `origin`. @param {string} text @param {Origin} origin */
    static read(text: string, origin: Origin): Credential | null;
    /** @param {StoredCredential} value */
    constructor(value: StoredCredential);
    /** @readonly */
    readonly origin: string;
    /** @readonly */
    readonly playerId: string;
    /** @readonly */
    readonly sessionId: string;
    /** @readonly */
    readonly provider: string;
    /** Seconds since 1970 by this machine's clock. @readonly */
    readonly accessExpires: number;
    /** Seconds; null in credentials that older versions of this client stored. @readonly @type {number | null} */
    readonly accessLifetime: number | null;
    /** The name that games show, as the server sent it last; null as before, and for a player without one. @readonly */
    readonly playerName: string | null;
    /** A secret: never log it. */
    get refreshCredential(): string;
    /** A secret: never log it. */
    get accessToken(): string;
    /** Return whether the access token works without a refresh. @param {number} now seconds since 1970 */
    fresh(now: number): boolean;
    /** Return the stored form, which is the same in the Python client. @returns {StoredCredential} */
    stored(): StoredCredential;
    #private;
}

/** One login: start, browser, return proof, collect. Call `run` once; `cancel` may be called at any time. */
export class SignIn {
    private constructor();
    /**
     * Pass the address that the app was opened with (see `returnUri`). An address of another sign-in has no effect.
     * @param {string} url
     * @returns {boolean} whether the address belongs to this sign-in
     */
    returned(url: string): boolean;
    /**
     * Sign in and pass the credentials to `keep`. Any failure cancels the login.
     * @template T
     * @param {(complete: Complete) => Promise<T>} keep
     * @returns {Promise<T>} what `keep` returns
     * @throws {LoginFailed} or LoginDeclined, LoginCancelled, LoginExpired, InvalidProof
     */
    run<T>(keep: (complete: Complete) => Promise<T>): Promise<T>;
    /**
     * Cancel the login at the server: credentials of it do not work after this, and `run` throws LoginCancelled. This has
     * no effect once `run` has received the credentials.
     */
    cancel(): Promise<void>;
    #private;
}

/** One version of one slot. A later write passes `etag` as its base. */
export class SaveInfo {
    /** Parse the members of a response; throw NotGamed. @param {{ [name: string]: any }} value */
    static of(value: {
        [name: string]: any;
    }): SaveInfo;
    /** Parse the members of a response; return null if it is not an object. @param {unknown} value */
    static maybe(value: unknown): SaveInfo | null;
    /** @param {SaveInfoMembers} value */
    constructor({ slot, version, etag, size, sha256, contentType, modified, meta, conflicts, device }: SaveInfoMembers);
    /** @readonly */
    readonly slot: string;
    /** Number of the version in its slot, from 1. @readonly */
    readonly version: number;
    /** @readonly */
    readonly etag: string;
    /** Bytes. @readonly */
    readonly size: number;
    /** Hash of the bytes, in hexadecimal. @readonly */
    readonly sha256: string;
    /** @readonly */
    readonly contentType: string;
    /** Time of the write by the server's clock (RFC 3339): to show it. @readonly */
    readonly modified: string;
    /** @readonly */
    readonly meta: Meta;
    /** Numbers of the versions that lost against this one; the player has to choose. @readonly */
    readonly conflicts: number[];
    /** Name of the device that wrote this version, or null. @readonly */
    readonly device: string | null;
}

/**
 * One server, and the player who is signed in there.
 *
 * Every call throws a GamedError: Unreachable, Busy or RateLimited when a retry can help, which the client has tried
 * already; SignInRequired or PlayerBlocked when the player has to act; NotGamed when the address is no gamed server's.
 * Each call below names the errors that it has beside these.
 */
export class GamedClient {
    /**
     * Read the kept sign-in of this device; no request is sent.
     *
     * @param {string} server the address as the player entered it: `play.example.org`, `http://127.0.0.1:8080`
     * @param {ClientOptions} [options]
     * @returns {Promise<GamedClient>}
     * @throws {UntrustedAddress} if the address or this page's own must not be used
     * @throws {LocalDamaged} if this device cannot read its files
     */
    static open(server: string, options?: ClientOptions): Promise<GamedClient>;
    private constructor();
    /** @readonly */
    readonly origin: Origin;
    /** @readonly */
    readonly app: string;
    /** The game's language; the game may change it. @type {string} */
    locale: string;
    /** Folder of the credential, and of the pending saves of gamed_sync.mjs; null in a browser. */
    get folder(): string | null;
    /** Name of this server for files: its host, readable, and a hash of its origin, unique. */
    get place(): string;
    /** True if this client has last found a credential on this device; sends no request. */
    get signedIn(): boolean;
    /** The credential that this client has last found on this device, or null. */
    get credential(): Credential | null;
    /**
     * Read the kept credential again: another tab or process may have signed in or out. No request is sent.
     *
     * @returns {Promise<Credential | null>} null: no player is signed in on this device
     * @throws {LocalDamaged} if this device cannot read its files
     */
    look(): Promise<Credential | null>;
    /**
     * Request mode and providers: show one button for each provider, in `local` mode one for the server itself.
     *
     * @param {RequestOptions} [options]
     * @returns {Promise<Policy>}
     */
    policy({ signal }?: RequestOptions): Promise<Policy>;
    /**
     * Request the buttons of a sign-in.
     *
     * @param {RequestOptions} [options]
     * @returns {Promise<Provider[]>} one for each provider; none in `local` mode, where the game shows its own button
     */
    providers({ signal }?: RequestOptions): Promise<Provider[]>;
    /**
     * Ask the server once whether the kept session still works; sign in if it does not, or if there is none.
     * `person.problem` shows every failure; no GamedError is thrown. If the server does not respond, the kept session
     * counts, so that a Sync can play offline.
     *
     * @param {Person} person how the game asks the player; gamed_dialog.mjs has a ready one
     * @param {SignInOptions} [options]
     * @returns {Promise<boolean>} true: there is a session; false: the sign-in has failed
     */
    ensureSignedIn(person: Person, options?: SignInOptions): Promise<boolean>;
    /**
     * Sign in through the browser; return once the credential is on disk. The server ends the session that this device
     * had before.
     *
     * @param {Person} person
     * @param {SignInOptions} [options]
     * @returns {Promise<Credential>}
     * @throws {LoginFailed} or LoginDeclined, LoginCancelled, LoginExpired, InvalidProof
     */
    signIn(person: Person, options?: SignInOptions): Promise<Credential>;
    /**
     * Sign in in two steps, for a game with a Cancel button: `run((complete) => client.keep(complete))`, `cancel()`.
     *
     * @param {Person} person
     * @param {SignInOptions} [options]
     * @returns {Promise<SignIn>}
     * @throws {LoginCancelled} if the signal aborts meanwhile
     */
    beginSignIn(person: Person, options?: SignInOptions): Promise<SignIn>;
    /**
     * Pass the address that the app was opened with to the sign-in that waits for it (see `returnUri`).
     *
     * @param {string} url
     * @returns {boolean} false: the address does not belong to that sign-in
     */
    returned(url: string): boolean;
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
    signOut(scope?: "this" | "others" | "all", { signal }?: RequestOptions): Promise<boolean>;
    /**
     * Request the player, the usage with its limits, and the time.
     *
     * @param {RequestOptions} [options]
     * @returns {Promise<Overview>}
     */
    whoami({ signal }?: RequestOptions): Promise<Overview>;
    /**
     * Change the name that games show.
     *
     * @param {string | null} name null removes it
     * @param {RequestOptions} [options]
     * @returns {Promise<string | null>} the name as the server has stored it
     * @throws {Refused} if the server does not accept the name
     */
    setName(name: string | null, { signal }?: RequestOptions): Promise<string | null>;
    /**
     * Request a ticket, which tells another server for about a minute who is playing. Request one for each connection.
     *
     * @param {string} audience the name of that server
     * @param {string | null} [nonce] what it has sent for this connection
     * @param {RequestOptions} [options]
     * @returns {Promise<string>}
     * @throws {Refused} if the owner has not listed the audience
     */
    ticket(audience: string, nonce?: string | null, { signal }?: RequestOptions): Promise<string>;
    /**
     * Request the player's sessions on all devices.
     *
     * @param {RequestOptions} [options]
     * @returns {Promise<Session[]>} the last used first
     */
    listSessions({ signal }?: RequestOptions): Promise<Session[]>;
    /**
     * End a session, such as a lost device's. If it is this device's, the credential is deleted, too.
     *
     * @param {string} sessionId
     * @param {RequestOptions} [options]
     * @returns {Promise<void>}
     * @throws {NotFound} if the player has no such session
     */
    endSession(sessionId: string, { signal }?: RequestOptions): Promise<void>;
    /**
     * Request the accounts that sign in as this player.
     *
     * @param {RequestOptions} [options]
     * @returns {Promise<Identity[]>} the oldest first
     */
    listIdentities({ signal }?: RequestOptions): Promise<Identity[]>;
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
    link(person: Person, provider: string, options?: SignInOptions): Promise<string>;
    /**
     * Remove one of the accounts that sign in as this player, but not the last.
     *
     * @param {string} provider
     * @param {RequestOptions} [options]
     * @returns {Promise<void>}
     * @throws {Refused} if it is the last one
     * @throws {SignInRequired} with `reauthentication_required` if a recovery code signed this session in
     */
    unlink(provider: string, { signal }?: RequestOptions): Promise<void>;
    /**
     * Delete the player with all saves and sessions, and the credential.
     *
     * @param {RequestOptions} [options]
     * @returns {Promise<void>}
     * @throws {SignInRequired} with `reauthentication_required` if the sign-in is over 10 minutes old: sign in, repeat
     */
    deletePlayer({ signal }?: RequestOptions): Promise<void>;
    /**
     * Delete all saves with their history.
     *
     * @param {RequestOptions} [options]
     * @returns {Promise<void>}
     * @throws {Conflict} if a device has saved at the same moment
     * @throws {SignInRequired} with `reauthentication_required` if a recovery code signed this session in
     */
    eraseSaves({ signal }?: RequestOptions): Promise<void>;
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
    export(path: string, options?: RequestOptions | undefined): Promise<number>;
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
    export(path?: undefined, options?: RequestOptions | undefined): Promise<Blob>;
    /**
     * Request the current version of each slot.
     *
     * @param {RequestOptions} [options]
     * @returns {Promise<SaveInfo[]>} by slot
     */
    listSaves({ signal }?: RequestOptions): Promise<SaveInfo[]>;
    /**
     * Request the changes since the cursor of an earlier result; all slots without a cursor, or if the server no longer
     * knows it. The oldest changes come first; if there are `more`, ask again with the new cursor.
     *
     * @param {string | null} [since] the `cursor` of an earlier result
     * @param {ChangesOptions} [options] `wait`: if nothing has changed, the server waits up to so many seconds (at most
     *   25) for a change before it responds; `limit`: at most so many slots (256)
     * @returns {Promise<Changes>}
     */
    changes(since?: string | null, { wait, limit, signal }?: ChangesOptions): Promise<Changes>;
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
    get(slot: string, { unless, signal }?: GetOptions): Promise<Save | null>;
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
    put(slot: string, data: Bytes, { base, contentType, meta, signal }: PutOptions): Promise<SaveInfo>;
    /**
     * Delete the version that was read; its history stays on the server for a while.
     *
     * @param {string} slot
     * @param {BaseOptions} options `base`: as for `put`
     * @returns {Promise<void>}
     * @throws {Conflict} if the slot holds another version
     * @throws {NotFound} if the slot was never written
     */
    delete(slot: string, { base, signal }: BaseOptions): Promise<void>;
    /**
     * Change all these slots, or none. Repeating it with the same bytes is one commit.
     *
     * @param {readonly Write[]} writes
     * @param {RequestOptions} [options]
     * @returns {Promise<(SaveInfo | Deletion)[]>} the new state of each slot
     * @throws {Conflict} with the sides of each slot that holds another version (`slots`); no slot has changed then
     * @throws {QuotaExceeded} if a save or the number of saves is over the owner's limit
     */
    commit(writes: readonly Write[], { signal }?: RequestOptions): Promise<(SaveInfo | Deletion)[]>;
    /**
     * Request the kept versions of a slot, also of a deleted one, and conflict copies. A long history needs one request
     * for each 100 versions, or `limit`.
     *
     * @param {string} slot
     * @param {VersionsOptions} [options] `downTo`: the requests after the first end once this number is reached
     * @returns {Promise<Version[]>} newest first
     * @throws {NotFound} if the slot was never written
     */
    versions(slot: string, { downTo, limit, signal }?: VersionsOptions): Promise<Version[]>;
    /**
     * Request the newest versions of a slot that are older than `before`.
     *
     * @param {string} slot
     * @param {PageOptions} [options] `before`: a number of a version; `limit`: at most so many versions (100)
     * @returns {Promise<VersionsPage>} newest first
     * @throws {NotFound} if the slot was never written
     */
    versionsPage(slot: string, { before, limit, signal }?: PageOptions): Promise<VersionsPage>;
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
    version(slot: string, number: number, { signal }?: RequestOptions): Promise<Save>;
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
    restore(slot: string, number: number, { base, signal }: BaseOptions): Promise<SaveInfo>;
    /**
     * Delete a conflict copy, once the player has chosen. A copy that is deleted already is not an error.
     *
     * @param {string} slot
     * @param {number} number
     * @param {RequestOptions} [options]
     * @returns {Promise<void>}
     */
    dismiss(slot: string, number: number, { signal }?: RequestOptions): Promise<void>;
    /**
     * Make a client that acts for this player only: it throws PlayerChanged once another player has signed in here.
     *
     * @param {string} playerId
     * @param {RequestOptions & { tries?: number }} [options] `tries`: how often to send a request that gets no response;
     *   `signal`: for every request that has none of its own
     * @returns {GamedClient}
     */
    only(playerId: string, { tries, signal }?: RequestOptions & {
        tries?: number;
    }): GamedClient;
    /**
     * Store the result of a finished sign-in, before its first use: for `beginSignIn`.
     *
     * @param {Complete} complete
     * @returns {Promise<Credential>}
     * @throws {LocalDamaged} if this device cannot store it
     */
    keep(complete: Complete): Promise<Credential>;
    #private;
}

/**
 * A button of a sign-in: `name` is for `provider`, `label` for the player.
 */
export interface Provider {
    name: string;
    label: string;
}

/**
 * The interface between a sign-in and the person in front of the screen. A game implements it; its methods may return
 * promises.
 */
export interface Person {
    /**
     *   Show one button for each, with its label; return the name of the chosen one. Not called if there is only one.
     */
    chooseProvider(providers: readonly Provider[]): string | Promise<string>;
    /**
     *   The sign-in continues in the browser; show `url` as a link, with rel="noopener noreferrer", if it was not opened.
     *   `qrUrl` is the address of a QR code with the same link, for a phone; null if the server does not offer it.
     */
    browserOpened(url: string, opened: boolean, qrUrl: string | null): unknown;
    /**
     * Show `error.detail`: why `ensureSignedIn` has not got a session, or could not ask the server. Required there.
     */
    problem?(error: GamedError): unknown;
    /**
     * The sign-in has ended with any outcome: close the dialog.
     */
    ended?(): unknown;
    /**
     * cancels the sign-in, like `signal` of its options
     */
    signal?: AbortSignal | undefined;
    /**
     *   Ask for the code that the browser shows; return null to stop asking. `showCode` opens the page that shows it ("Show
     *   me a code"); null if the page shows it already. `attemptsLeft` is a number after a wrong code. `signal` aborts when
     *   the code is not needed any more.
     */
    finishCode(showCode: (() => Promise<void>) | null, attemptsLeft: number | null, signal: AbortSignal): string | null | Promise<string | null>;
}

/**
 * An entry of a list of changes: `version` deleted the save.
 */
export interface Deletion {
    slot: string;
    version: number;
    deleted: true;
}

export interface Changes {
    /**
     * for the next call
     */
    cursor: string;
    /**
     * oldest change first
     */
    saves: (SaveInfo | Deletion)[];
    /**
     * the list has all slots, not only changed ones: the call had no cursor, or the server no
     * longer knows it
     */
    whole: boolean;
    /**
     * the server has further changes; a slot may be listed again there, with a newer state
     */
    more: boolean;
    /**
     * for a whole list: a slot that is missing on all its pages was deleted long ago
     */
    expired: boolean;
}

/**
 * One version in a slot's history.
 */
export interface Version {
    version: number;
    /**
     * write, restore, conflict or delete
     */
    kind: string;
    /**
     * the version that it was based on
     */
    parent: number | null;
    /**
     * latest time of its deletion; null while only newer versions can replace it
     */
    expires: string | null;
    /**
     * name of the device that wrote it
     */
    device: string | null;
    /**
     * null for a delete
     */
    save: SaveInfo | null;
}

/**
 * A part of a slot's history; `more`: the server has older versions.
 */
export interface VersionsPage {
    versions: Version[];
    more: boolean;
}

/**
 * An entry of a commit: the new bytes of a slot, based on `base`, or its deletion.
 */
export type Write = {
    slot: string;
    data: Bytes;
    base: Base;
    contentType?: string;
    meta?: Meta | null;
    delete?: false;
} | {
    slot: string;
    delete: true;
    base: Base;
};

/**
 * A slot whose base did not match in a commit: `code` is the reason; the other members are those of Conflict.
 */
export interface SlotConflict {
    slot: string;
    code: string;
    base: SaveInfo | null;
    current: SaveInfo | null;
    yours: SaveInfo | null;
}

/**
 * The bytes of a slot at the time of the read.
 */
export interface Save {
    etag: string;
    data: Uint8Array;
    contentType: string;
    meta: Meta;
}

/**
 * The base of a write: a save that was read, or its etag; "*" for any existing version, null for an empty slot.
 */
export type Base = {
    etag: string;
} | string | null;

export interface ErrorDetails {
    /**
     * HTTP status
     */
    status?: number | undefined;
    /**
     * members of the problem (RFC 9457)
     */
    problem?: {
        [name: string]: any;
    } | undefined;
    cause?: unknown;
}

/**
 * The form of a credential in a file, the same in the Python client: with the names of the protocol.
 */
export interface StoredCredential {
    origin: string;
    player_id: string;
    session_id: string;
    provider: string;
    refresh_credential: string;
    access_token: string;
    access_expires: number;
    access_lifetime?: number | null;
    player_name?: string | null;
}

export interface SignInOptions {
    /**
     * instead of letting the person choose
     */
    provider?: string | undefined;
    /**
     * returns true if it has opened the
     * browser; null if the person opens the link
     */
    openBrowser?: ((url: string, qrUrl: string | null) => unknown) | null | undefined;
    /**
     * listen for the browser's return (Node.js only); without it the person types the finish
     * code
     */
    loopback?: boolean | undefined;
    /**
     * the page first asks for the name and password of an account that this server had in
     * `local` mode; the player keeps that account
     */
    adopt?: boolean | undefined;
    /**
     * the address of this app, such as `com.example.game:/signin`, to which the browser
     * returns on a phone; replaces `loopback`. Pass the address that the app is opened with to `returned`.
     */
    returnUri?: string | undefined;
    /**
     * cancels the sign-in
     */
    signal?: AbortSignal | undefined;
}

/**
 * A finished sign-in, with the members of the protocol: for `GamedClient.keep`.
 */
export interface CompleteMembers {
    status: "complete";
    session_id: string;
    provider: string;
    access_token: string;
    refresh_credential: string;
    /**
     * seconds
     */
    expires_in: number;
    player: {
        id: string;
        created: boolean;
        owner: boolean;
        name?: string | null;
    };
}

export interface Complete extends CompleteMembers {
    [name: string]: unknown;
}

/**
 * Values that a game stores beside a save, such as its title: a JSON object within the owner's limit, which `whoami`
 * has.
 */
export interface Meta {
    [name: string]: any;
}

/**
 * The content of a save; a text is stored as UTF-8.
 */
export type Bytes = Uint8Array | ArrayBuffer | string;

export interface SaveInfoMembers {
    slot: string;
    version: number;
    etag: string;
    size: number;
    sha256: string;
    contentType: string;
    modified: string;
    meta: Meta;
    conflicts: number[];
    device: string | null;
}

export interface ClientOptions {
    /**
     * the game's name, which separates its sign-in and saves from those of other games; letters,
     * digits, space, '.', '_', '-'
     */
    app?: string | undefined;
    /**
     * the game's version
     */
    version?: string | undefined;
    /**
     * name of this device in the player's lists, up to 64 characters; in Node.js the
     * machine's name by default
     */
    deviceName?: string | undefined;
    /**
     * the game's language, such as "de" or "pt-BR", for the pages of a sign-in; the system's by
     * default
     */
    locale?: string | undefined;
    /**
     * replaces the platform's folder for credentials; in a browser the name of the databases
     * instead of `app`, so that two players can play at a time
     */
    folder?: string | undefined;
    /**
     * replaces the pause before another try,
     * which the signal may end early
     */
    sleep?: ((seconds: number, signal?: AbortSignal) => Promise<void>) | undefined;
    /**
     * seconds since 1970
     */
    now?: (() => number) | undefined;
    /**
     * longest time without a received byte, in seconds
     */
    timeout?: number | undefined;
    /**
     * how long to wait for the browser's return before offering a code
     */
    returnSeconds?: number | undefined;
}

export interface RequestOptions {
    /**
     * ends the call with the signal's reason; the server may have performed the request
     */
    signal?: AbortSignal | undefined;
}

export interface GetOptions extends RequestOptions {
    unless?: Base;
}

export interface BaseOptions extends RequestOptions {
    base: Base;
}

export interface PutOptions extends BaseOptions {
    contentType?: string;
    meta?: Meta | null;
}

export interface ChangesOptions extends RequestOptions {
    wait?: number;
    limit?: number;
}

export interface VersionsOptions extends RequestOptions {
    downTo?: number;
    limit?: number;
}

export interface PageOptions extends RequestOptions {
    before?: number;
    limit?: number;
}

/**
 * How players sign in at this server: `mode` is "local" or "oauth"; `providers` are names for `SignInOptions`.
 */
export interface Policy {
    mode: string;
    providers: string[];
}

/**
 * A device that is signed in. The names of the protocol, such as `session_id`, stay beside these until 1.0.
 */
export interface SessionMembers {
    sessionId: string;
    /**
     * it is this device
     */
    current: boolean;
    provider: string;
    /**
     * RFC 3339
     */
    createdAt: string;
    /**
     * RFC 3339, of the last sign-in or refresh
     */
    lastUsedAt: string;
    /**
     * RFC 3339
     */
    expiresAt: string;
    client: {
        name?: string;
        version?: string;
        platform?: string;
        deviceName?: string;
        device_name?: string;
    } | null;
    /**
     * `sessionId`, until 1.0
     */
    session_id: string;
    /**
     * `createdAt`, until 1.0
     */
    created_at: string;
    /**
     * `lastUsedAt`, until 1.0
     */
    last_used_at: string;
    /**
     * `expiresAt`, until 1.0
     */
    expires_at: string;
}

export interface Session extends SessionMembers {
    [name: string]: unknown;
}

/**
 * An account that signs in as the player. The names of the protocol, such as `linked_at`, stay beside these until 1.0.
 */
export interface IdentityMembers {
    provider: string;
    canSignIn: boolean;
    /**
     * RFC 3339
     */
    linkedAt: string;
    /**
     * RFC 3339
     */
    lastUsedAt: string | null;
    /**
     * `canSignIn`, until 1.0
     */
    can_sign_in: boolean;
    /**
     * `linkedAt`, until 1.0
     */
    linked_at: string;
    /**
     * `lastUsedAt`, until 1.0
     */
    last_used_at: string | null;
}

export interface Identity extends IdentityMembers {
    [name: string]: unknown;
}

/**
 * The player at this server. The names of the protocol, such as `history_bytes`, stay beside these until 1.0.
 */
export interface OverviewMembers {
    player: {
        id: string;
        owner: boolean;
        name?: string | null;
    };
    /**
     * RFC 3339, by the server's clock
     */
    time: string;
    epoch: string;
    /**
     * for `changes`
     */
    cursor: string;
    usage: {
        slots: number;
        bytes: number;
        historyBytes: number;
        history_bytes: number;
    };
    limits: {
        [name: string]: number;
    };
}

export interface Overview extends OverviewMembers {
    [name: string]: unknown;
}
