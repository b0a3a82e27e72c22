/** Types of gamed_sync.mjs; made from its comments by `python -m clients.js.tests.declarations`. */

import { Bytes, GamedClient, GamedError, InUse, LocalDamaged, Meta, RequestOptions, Save, SaveInfo, Unreachable } from "./gamed.mjs"

export { InUse, LocalDamaged }

/** This device has not received the server's list yet: the server may have a save of this slot. */
export class NotKnown extends Unreachable {
    /** Make the error of a slot that this device does not know yet. */
    constructor();
}

/** The sides have changed since this conflict was shown, or it was settled: read `conflicts` again. */
export class ConflictOver extends GamedError {
}

/** Both sides have changed `base`. Nothing of the slot is sent until the game calls a method; play may continue. */
export class SyncConflict {
    private constructor();
    /** @readonly */
    readonly slot: string;
    /**
     * "changed"; "deleted" at the server; "lost": the server does not know this save (erased, or an old backup).
     * @readonly @type {"changed" | "deleted" | "lost"}
     */
    readonly reason: "changed" | "deleted" | "lost";
    /** The version that both sides have changed; null if the slot was empty. @readonly */
    readonly baseInfo: SaveInfo | null;
    /** The server's version; null if deleted or lost. @readonly */
    readonly current: SaveInfo | null;
    /** The conflict copy that the server keeps of this device's side, beside the current version. @readonly */
    readonly copy: SaveInfo | null;
    /**
     * Read this device's side, as it is now.
     *
     * @returns {Promise<Side | null>} null: it was deleted here
     * @throws {LocalDamaged} if this device cannot read its bytes
     */
    mine(): Promise<Side | null>;
    /**
     * Read the server's side, here or at the server.
     *
     * @param {RequestOptions} [options]
     * @returns {Promise<Side | null>} null: it is deleted or lost
     * @throws {Unreachable} if it is not on this device and the server does not respond
     */
    theirs({ signal }?: RequestOptions): Promise<Side | null>;
    /**
     * Read the common base, here or at the server.
     *
     * @param {RequestOptions} [options]
     * @returns {Promise<Side | null>} null: the slot was empty, or the base is not kept
     */
    base({ signal }?: RequestOptions): Promise<Side | null>;
    /**
     * Write this device's side over theirs, which stays in the server's history.
     *
     * @returns {Promise<void>}
     * @throws {ConflictOver} if the sides have changed since this conflict was shown
     */
    keepMine(): Promise<void>;
    /**
     * Continue from theirs: `read` it. The server keeps this device's side as a conflict copy: the next round sends the
     * bytes that the game has saved since the conflict began. They also stay here, as `Sync.lost`.
     *
     * @param {RequestOptions} [options]
     * @returns {Promise<void>}
     * @throws {ConflictOver} if the sides have changed since this conflict was shown
     * @throws {Unreachable} if their side is not on this device and the server does not respond
     */
    keepTheirs({ signal }?: RequestOptions): Promise<void>;
    /**
     * Continue from new bytes that combine both.
     *
     * @param {Bytes} data
     * @param {{ meta?: Meta | null }} [options]
     * @returns {Promise<void>}
     * @throws {ConflictOver} if the sides have changed since this conflict was shown
     */
    merged(data: Bytes, { meta }?: {
        meta?: Meta | null;
    }): Promise<void>;
    #private;
}

/** One player's saves on this device, and their exchange with the server. */
export class Sync {
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
    static open(client: GamedClient, { folder }?: {
        folder?: string;
    }): Promise<Sync>;
    private constructor();
    /** The player whose saves these are; "" before the first sign-in. */
    get playerId(): string;
    /** The error of the last round; null if it succeeded: for a display that says "offline". */
    get problem(): GamedError | null;
    /**
     * Read `problem`.
     *
     * @deprecated The older name of `problem`; it works until 1.0.
     */
    get trouble(): GamedError | null;
    /**
     * Call `run` until `close`; a GamedError that ends it earlier is in `problem`. After such an end call it again, once
     * a player has signed in. While it works, a further call only replaces `changed`, if it has one.
     *
     * @param {(status: Status) => unknown} [changed] called with each status that has changed
     * @throws {InUse} if this Sync was closed
     */
    start(changed?: (status: Status) => unknown): void;
    /**
     * Release the folder for other tabs and processes. Pending writes stay pending.
     *
     * @param {number} [within] after `start`, first wait at most so many seconds until all writes are sent, or until the
     *   server cannot be reached
     * @returns {Promise<void>}
     */
    close(within?: number): Promise<void>;
    /**
     * Wait for the first round: call it after `run` or `start` and before the first `read`. A device that knows its saves
     * does not wait for a server that does not respond.
     *
     * @param {number} [within] seconds to wait at most
     * @returns {Promise<boolean>} false: this device was never online with this player; `read` throws NotKnown
     */
    ready(within?: number): Promise<boolean>;
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
    read(slot: string): Promise<Save | null>;
    /**
     * Read the same bytes as `read`, but do not base the next write on them: for a preview, or a copy elsewhere.
     *
     * @param {string} slot
     * @returns {Promise<Save | null>} null: the slot was never written
     * @throws {NotKnown} and the other errors of `read`
     */
    peek(slot: string): Promise<Save | null>;
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
    write(slot: string, data: Bytes, { meta, contentType }?: {
        meta?: Meta | null;
        contentType?: string;
    }): Promise<void>;
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
    delete(slot: string, { includingNewer }?: {
        includingNewer?: boolean;
    }): Promise<void>;
    /**
     * List the status of every slot that has bytes or a pending change; no request is sent.
     *
     * @returns {Status[]} by slot
     */
    slots(): Status[];
    /**
     * Describe one slot; no request is sent.
     *
     * @param {string} slot
     * @returns {Status}
     */
    status(slot: string): Status;
    /** Conflicts in which the player has to choose. @returns {SyncConflict[]} */
    get conflicts(): SyncConflict[];
    /**
     * Read the bytes that `keepTheirs` or a delete, also on this device, last replaced here: to undo the choice.
     *
     * @param {string} slot
     * @returns {Promise<Side | null>} null: nothing was replaced
     * @throws {LocalDamaged} if this device cannot read the bytes
     */
    lost(slot: string): Promise<Side | null>;
    /**
     * Call `lost`.
     *
     * @deprecated The older name of `lost`; it works until 1.0.
     * @param {string} slot
     * @returns {Promise<Side | null>}
     */
    dropped(slot: string): Promise<Side | null>;
    /**
     * List the other players of this server whose saves are on this device: to ask the player before `adopt`. They are of
     * another person, or of this one, whom a server that was set up anew has given another id. Saves that the player has
     * as well or has adopted are left out, and players whose saves another tab or process has open.
     *
     * @returns {Promise<OtherPlayer[]>}
     * @throws {LocalDamaged} if this device cannot read its files
     */
    otherPlayers(): Promise<OtherPlayer[]>;
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
    adopt(playerId: string, { slots }?: {
        slots?: string[] | null;
    }): Promise<string[]>;
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
    send({ signal }?: RequestOptions): Promise<Status[]>;
    /**
     * Call `send`.
     *
     * @deprecated The older name of `send`; it works until 1.0.
     * @param {RequestOptions} [options]
     * @returns {Promise<Status[]>}
     */
    pump(options?: RequestOptions): Promise<Status[]>;
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
    run(changed?: ((status: Status) => unknown) | undefined, options?: RequestOptions | undefined): Promise<void>;
    /**
     * Run with the arguments in their earlier order.
     *
     * @deprecated Pass `changed` first, and the signal in the options; this order ends with 1.0.
     * @overload
     * @param {AbortSignal | undefined} signal
     * @param {(status: Status) => unknown} [changed]
     * @returns {Promise<void>}
     */
    run(signal: AbortSignal | undefined, changed?: ((status: Status) => unknown) | undefined): Promise<void>;
    /**
     * Iterate with `for await` over the statuses that change after this call, while `run`, `start` or `send` works. Of
     * each slot only the newest status waits for the reader. Without a loop, end it with `return()`.
     *
     * @param {RequestOptions} [options]
     * @returns {AsyncIterableIterator<Status>} ends when this Sync is closed
     */
    statuses({ signal }?: RequestOptions): AsyncIterableIterator<Status>;
    #private;
}

export type State = "unknown" | "in_step" | "waiting" | "newer" | "conflict" | "refused";

/**
 * One slot, for a menu.
 */
export interface Status {
    slot: string;
    /**
     * unknown: the first list has not arrived; in_step; waiting: an upload or a download is
     * pending; newer: `read` returns another device's bytes; conflict: the player has to choose; refused: see `problem`,
     * the bytes are kept here
     */
    state: State;
    /**
     * describes the bytes that `read` would return, like the next two; null: deleted
     */
    size: number | null;
    meta: Meta;
    /**
     * RFC 3339, by this device's or the server's clock: only show it; "" without bytes
     */
    modified: string;
    /**
     * conflict copies at the server, of any device: `restore` or `dismiss` them
     */
    copies: number[];
    problem: GamedError | null;
}

/**
 * One side of a conflict: its bytes, and their description for the player.
 */
export interface Side {
    data: Uint8Array;
    contentType: string;
    meta: Meta;
    /**
     * RFC 3339
     */
    modified: string;
    /**
     * name of the device that wrote it; always null for this device's own side
     */
    device: string | null;
}

/**
 * Another player of this server whose saves are on this device; only the person knows whether they are theirs.
 */
export interface OtherPlayer {
    playerId: string;
    /**
     * at the last sign-in here; null if it is not known
     */
    name: string | null;
    /**
     * that of the newest save
     */
    modified: string;
    saves: {
        slot: string;
        size: number;
        meta: Meta;
        modified: string;
    }[];
}
