/** Types of gamed_sync.mjs, whose comments describe the behaviour. */

import { Bytes, GamedClient, GamedError, InUse, LocalDamaged, Meta, Save, SaveInfo, Unreachable } from "./gamed.mjs"

export { InUse, LocalDamaged }

/** This device has not received the server's first list yet. */
export class NotKnown extends Unreachable {
  constructor()
}
export class ConflictOver extends GamedError {}

export type State = "unknown" | "in_step" | "waiting" | "newer" | "conflict" | "refused"

/** One slot, for a menu. */
export interface Status {
  slot: string
  state: State
  size: number | null
  meta: Meta
  modified: string
  copies: number[]
  problem: GamedError | null
}

/** Another player of this server whose saves are on this device. */
export interface OtherPlayer {
  playerId: string
  name: string | null
  modified: string
  saves: { slot: string; size: number; meta: Meta; modified: string }[]
}

/** One side of a conflict. */
export interface Side {
  data: Uint8Array
  contentType: string
  meta: Meta
  modified: string
  device: string | null
}

/** The player has to choose. */
export class SyncConflict {
  private constructor()
  readonly slot: string
  readonly reason: "changed" | "deleted" | "lost"
  readonly baseInfo: SaveInfo | null
  readonly current: SaveInfo | null
  readonly copy: SaveInfo | null
  mine(): Promise<Side | null>
  theirs(): Promise<Side | null>
  base(): Promise<Side | null>
  keepMine(): Promise<void>
  keepTheirs(): Promise<void>
  merged(data: Bytes, options?: { meta?: Meta | null }): Promise<void>
}

/** One player's saves on this device, and their exchange with the server. */
export class Sync {
  private constructor()
  static open(client: GamedClient, options?: { folder?: string }): Promise<Sync>
  /** Empty before the first sign-in. */
  readonly playerId: string
  /** The error of the last pump; null if it succeeded. */
  readonly trouble: GamedError | null
  start(changed?: (status: Status) => unknown): void
  close(within?: number): Promise<void>
  run(signal?: AbortSignal, changed?: (status: Status) => unknown): Promise<void>
  ready(within?: number): Promise<boolean>
  pump(): Promise<Status[]>
  read(slot: string): Promise<Save | null>
  peek(slot: string): Promise<Save | null>
  write(slot: string, data: Bytes, options?: { meta?: Meta | null; contentType?: string }): Promise<void>
  delete(slot: string, options?: { includingNewer?: boolean }): Promise<void>
  slots(): Status[]
  status(slot: string): Status
  get conflicts(): SyncConflict[]
  dropped(slot: string): Promise<Side | null>
  otherPlayers(): Promise<OtherPlayer[]>
  adopt(playerId: string, options?: { slots?: string[] | null }): Promise<string[]>
}
