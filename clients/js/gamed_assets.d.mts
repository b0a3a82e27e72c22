/** Types of gamed_assets.mjs, whose comments describe the behaviour. */

import { GamedClient, InUse, LocalDamaged, Meta } from "./gamed.mjs"

export { InUse }

/** The release does not fit on this device. */
export class DiskFull extends LocalDamaged {}

export interface AssetFile {
  size: number
  sha256: string
  type: string
}

/** The files of a release by their paths. */
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

/** The progress of a download, in bytes. */
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

/** The releases of a server on this device. */
export class Assets {
  private constructor()
  static open(client: GamedClient, options?: { folder?: string }): Promise<Assets>
  readonly current: Manifest | null
  get folder(): string | null
  switch(): Promise<Manifest | null>
  /** Return the path of a file; Node.js only. */
  path(name: string): string
  blob(name: string): Promise<Blob>
  bytes(name: string): Promise<Uint8Array>
  url(name: string): Promise<string>
  download(channel?: string, options?: DownloadOptions): Promise<Manifest>
}
