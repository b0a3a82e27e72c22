/** Types of gamed_assets.mjs; made from its comments by `python -m clients.js.tests.declarations`. */

import { GamedClient, InUse, LocalDamaged, Meta } from "./gamed.mjs"

export { InUse }

/** The release does not fit on this device; received bytes are kept for the next download. */
export class DiskFull extends LocalDamaged {
}

/** The files of a release by their paths: relative, with `/`, valid on every file system that players have. */
export class Manifest {
    /**
     * Parse a manifest.
     *
     * @param {Uint8Array} raw
     * @returns {Promise<Manifest>}
     * @throws {NotGamed} if this device must not store its files
     */
    static of(raw: Uint8Array): Promise<Manifest>;
    private constructor();
    /** Id of the release. @readonly */
    readonly release: string;
    /** RFC 3339. @readonly */
    readonly published: string;
    /** The owner's note; "" without one. @readonly */
    readonly note: string;
    /** Values that the owner wrote for the game. @readonly @type {Meta} */
    readonly meta: Meta;
    /** The files by their paths. @readonly */
    readonly files: Map<string, AssetFile>;
    /** The bytes that the server sent. @readonly @type {Uint8Array} */
    readonly raw: Uint8Array;
    /** Size of the whole download if this device has none of the files, in bytes. */
    get size(): number;
    /** List each different content once. @returns {AssetFile[]} */
    get contents(): AssetFile[];
}

/** The releases of a server on this device. Only `download` sends requests. */
export class Assets {
    /**
     * Open the releases on this device; no request is sent.
     *
     * @param {GamedClient} client
     * @param {{ folder?: string }} [options] `folder` replaces the one beside the credential; it must not have other
     *   files. In a browser it is a name
     * @returns {Promise<Assets>}
     * @throws {LocalDamaged} if this device cannot read its files
     */
    static open(client: GamedClient, { folder }?: {
        folder?: string;
    }): Promise<Assets>;
    private constructor();
    /** The newest complete release when this was opened, unchanged until `switch`; null if none was downloaded yet. */
    get current(): Manifest | null;
    /**
     * Change to the newest complete release; call it when the game has closed the files of the old one.
     *
     * @returns {Promise<Manifest | null>} null: no release was downloaded yet
     */
    switch(): Promise<Manifest | null>;
    /** Folder of the current release's files; null in a browser. @returns {string | null} */
    get folder(): string | null;
    /**
     * Find a file of the current release on this device's disk; Node.js only.
     *
     * @param {string} name its path in the release
     * @returns {string}
     * @throws {NotFound} if the release has no such file
     * @throws {Unreachable} until a release has been downloaded
     */
    path(name: string): string;
    /**
     * Read a file of the current release.
     *
     * @param {string} name its path in the release
     * @returns {Promise<Blob>} with the file's media type
     * @throws {NotFound} if the release has no such file
     * @throws {Unreachable} until a release has been downloaded
     */
    blob(name: string): Promise<Blob>;
    /**
     * Read a file of the current release as bytes.
     *
     * @param {string} name its path in the release
     * @returns {Promise<Uint8Array>}
     * @throws {NotFound} and the other errors of `blob`
     */
    bytes(name: string): Promise<Uint8Array>;
    /**
     * Make an address for pictures and sounds of this page; release it with URL.revokeObjectURL. Never open it as a page:
     * its scripts would run with this page's origin.
     *
     * @param {string} name its path in the release
     * @returns {Promise<string>}
     * @throws {NotFound} and the other errors of `blob`
     */
    url(name: string): Promise<string>;
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
    download(channel?: string, { progress, verify, signal }?: DownloadOptions): Promise<Manifest>;
    #private;
}

/**
 * A file of a release: `size` in bytes, `sha256` in hexadecimal, `type` its media type.
 */
export interface AssetFile {
    size: number;
    sha256: string;
    type: string;
}

/**
 * The progress of a download, in bytes; `fetched`: received over the network since it began.
 */
export interface Progress {
    stage: "looking" | "fetching" | "finishing";
    release: string;
    done: number;
    size: number;
    fetched: number;
}

export interface DownloadOptions {
    /**
     * called often; it may throw to end the download
     */
    progress?: ((progress: Progress) => unknown) | undefined;
    /**
     * check the bytes that are here already
     */
    verify?: boolean | undefined;
    /**
     * ends the download with the signal's reason
     */
    signal?: AbortSignal | undefined;
}
