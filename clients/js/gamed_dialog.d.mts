/** Types of gamed_dialog.mjs, whose comments describe the behaviour. */

import { Person, Provider } from "./gamed.mjs"

/** A ready dialog to sign in, for browsers. */
export class Dialog implements Person {
  constructor(options?: { title?: string; locale?: string })
  get signal(): AbortSignal
  chooseProvider(providers: readonly Provider[]): Promise<string>
  browserOpened(url: string, opened: boolean, qrUrl: string | null): void
  finishCode(showCode: (() => Promise<void>) | null, attemptsLeft: number | null): Promise<string | null>
  problem(error: unknown): Promise<void>
  ended(): void
}
