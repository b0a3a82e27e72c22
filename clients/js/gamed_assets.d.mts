/** Types of gamed_assets.mjs. Its comments have the behaviour. */

import { GamedClient, GamedError, InUse, Meta } from "./gamed.mjs"

export { InUse }

/** This device has no room for the release. */
export class DiskFull extends GamedError {}

export interface AssetFile {
  size: number
  sha256: string
  type: string
}

/** What a release has, by path. */
export class Manifest {
  private constructor()
  static of(raw: Uint8Array): Promise<Manifest>
  readonly release: string
  readonly published: string
  readonly note: string
  readonly meta: Meta
  readonly files: Map<string, AssetFile>
  readonly raw: Uint8Array
  get size(): number
  get contents(): AssetFile[]
}

/** How far a download is, in bytes. */
export interface Progress {
  stage: "looking" | "fetching" | "finishing"
  release: string
  done: number
  size: number
  fetched: number
}

export interface DownloadOptions {
  progress?: (progress: Progress) => unknown
  verify?: boolean
  signal?: AbortSignal
}

/** What this device has of a server's releases. */
export class Assets {
  private constructor()
  static open(client: GamedClient, options?: { folder?: string }): Promise<Assets>
  readonly current: Manifest | null
  get folder(): string | null
  switch(): Promise<Manifest | null>
  /** Where a file is; Node.js only. */
  path(name: string): string
  blob(name: string): Promise<Blob>
  bytes(name: string): Promise<Uint8Array>
  url(name: string): Promise<string>
  download(channel?: string, options?: DownloadOptions): Promise<Manifest>
}
