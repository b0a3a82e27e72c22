/** Types of gamed_texts.mjs, whose comments describe the behaviour. */

import type { GamedError } from "./gamed.mjs"

export class Texts {
  constructor(locale?: string)
  get tag(): string
  get direction(): "ltr" | "rtl"
  text(english: string, values?: Record<string, string | number>): string
  problem(error: GamedError): string
}
