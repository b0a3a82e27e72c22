/**
 * A ready dialog for gamed.mjs: the sign-in of a game that runs in a browser, until the game draws its own.
 *
 * Copy it and gamed_texts.mjs beside gamed.mjs; no packages, no build, no styles of the page.
 *
 *     const client = await GamedClient.open("https://play.example.org", { app: "mygame" })
 *     if (await client.ensureSignedIn(new Dialog())) startTheGame(client)
 *
 * It shows a button for each provider, the link with its QR code, a field for the six letters, and the text of every
 * problem, in the player's language. Cancel, or the Escape key, ends the sign-in. If the page has a
 * Content-Security-Policy, that must allow the server in `connect-src`, and for the QR code in `img-src`.
 *
 * @module
 */

import { GamedError, LoginCancelled, finishCode } from "./gamed.mjs"
import { Texts } from "./gamed_texts.mjs"

/** @import { Provider } from "./gamed.mjs" */

const STYLE = `
  dialog { box-sizing: border-box; width: min(24rem, 92vw); padding: 1.25rem; border: 1px solid #8886;
    border-radius: .75rem; background: Canvas; color: CanvasText; color-scheme: light dark;
    font: 1rem/1.5 system-ui, sans-serif; }
  dialog::backdrop { background: #0008; }
  h2 { margin: 0 0 .5rem; font-size: 1.25rem; }
  p { margin: 0 0 .75rem; overflow-wrap: anywhere; white-space: pre-line; }
  a, button, input { box-sizing: border-box; display: block; width: 100%; min-height: 2.75rem; margin: 0 0 .5rem;
    padding: .5rem; border: 1px solid GrayText; border-radius: .5rem; font: inherit; text-align: center; }
  a, .main { background: #1b5e37; border-color: #1b5e37; color: #fff; text-decoration: none; }
  button:not(.main) { background: ButtonFace; color: ButtonText; }
  img { display: block; width: 11rem; height: 11rem; margin: 0 auto .75rem; background: #fff; }
`
/**
 * @template {keyof HTMLElementTagNameMap} T @param {T} tag @param {Partial<HTMLElementTagNameMap[T]>} [members]
 * @returns {HTMLElementTagNameMap[T]}
 */
const made = (tag, members = {}) => Object.assign(document.createElement(tag), members)

/**
 * Return the QR code for a phone; it hides itself if the page's policy blocks it.
 * @param {string} qrUrl @param {Texts} texts
 */
function pictureOf(qrUrl, texts) {
  const alt = texts.text("The link to sign in, as a QR code")
  const picture = made("img", { alt, referrerPolicy: "no-referrer" })
  const figure = made("div")
  figure.append(made("p", { textContent: texts.text("To sign in with a phone, scan this:") }), picture)
  picture.addEventListener("error", () => figure.remove())
  picture.src = qrUrl
  return figure
}

/** A dialog of this page: a Person for `ensureSignedIn`, `signIn` and `link`. */
export class Dialog {
  #texts
  #title
  #host = made("div")
  /** @type {HTMLDialogElement} */
  #dialog
  /** @type {(error: GamedError) => void} */
  #cancel = () => undefined
  #abort = new AbortController()

  /**
   * Make a dialog; it opens when a sign-in needs it.
   *
   * @param {{ title?: string, locale?: string }} [options] `title`: its first line; `locale`: the game's language, such
   *   as "de" or "pt-BR", the system's by default
   */
  constructor({ title, locale } = {}) {
    this.#texts = new Texts(locale)
    this.#title = title ?? this.#texts.text("Sign in to play")
    this.#dialog = made("dialog", { lang: this.#texts.tag, dir: this.#texts.direction })
    const style = new CSSStyleSheet()
    style.replaceSync(STYLE)
    const root = this.#host.attachShadow({ mode: "open" })
    root.adoptedStyleSheets = [style]
    root.append(this.#dialog)
    this.#dialog.addEventListener("cancel", () => this.#cancelled())
  }

  /** Cancels the sign-in that begins now, also while the browser is open. @returns {AbortSignal} */
  get signal() {
    return this.#abort.signal
  }

  /**
   * Show a button for each provider.
   *
   * @param {readonly Provider[]} providers
   * @returns {Promise<string>} the name of the chosen one
   * @throws {LoginCancelled} if the player cancels
   */
  chooseProvider(providers) {
    return new Promise((resolve, reject) => {
      this.#cancel = reject
      const buttons = providers.map(({ name, label }) => {
        const textContent = this.#texts.text("Sign in with {provider}", { provider: label })
        const button = made("button", { type: "button", className: "main", textContent })
        button.addEventListener("click", () => resolve(name))
        return button
      })
      this.#show(...buttons)
    })
  }

  /**
   * Show the link that continues the sign-in.
   *
   * @param {string} url
   * @param {boolean} opened false: the browser has not opened it; its QR code is shown, too
   * @param {string | null} qrUrl address of the QR code, for a phone
   */
  browserOpened(url, opened, qrUrl) {
    const textContent = this.#texts.text("Sign in")
    const link = made("a", { href: url, target: "_blank", rel: "noopener noreferrer", textContent })
    const picture = qrUrl && !opened ? [pictureOf(qrUrl, this.#texts)] : []
    this.#show(made("p", { textContent: this.#texts.text("The sign-in continues in another tab.") }), link, ...picture)
  }

  /**
   * Ask for the code that the browser shows.
   *
   * @param {(() => Promise<void>) | null} showCode opens the page that shows it; null if the page shows it already
   * @param {number | null} attemptsLeft a number after a wrong code
   * @returns {Promise<string | null>}
   */
  finishCode(showCode, attemptsLeft) {
    const texts = this.#texts
    return new Promise((resolve) => {
      const field = made("input", { required: true, autocomplete: "one-time-code", autocapitalize: "characters" })
      const asked = made("p", { textContent: texts.text("Type the six letters that the sign-in page shows.") })
      field.setAttribute("aria-label", asked.textContent)
      field.dir = "ltr"
      const problem = made("p", { role: "alert" })
      if (attemptsLeft !== null) {
        problem.textContent = texts.text("That is not the code. Attempts left: {count}", { count: attemptsLeft })
      }
      const form = made("form")
      const submit = made("button", { className: "main", textContent: texts.text("Continue") })
      form.append(asked, field, submit)
      form.addEventListener("submit", (event) => {
        event.preventDefault()
        const code = finishCode(field.value)
        problem.textContent = code ? "" : texts.text("The code has six letters, like BKT-RVW.")
        if (code) resolve(code)
      })
      const again = made("button", { type: "button", textContent: texts.text("Show me a code") })
      again.addEventListener("click", () => void showCode?.())
      this.#show(problem, form, ...(showCode ? [again] : []))
    })
  }

  /**
   * Show an error until the player closes it, except that of a cancelled sign-in.
   *
   * @param {unknown} error of anything that a game calls
   * @returns {Promise<void>}
   */
  async problem(error) {
    if (error instanceof LoginCancelled) return
    if (!(error instanceof GamedError)) console.error(error)
    const known = error instanceof GamedError
    const detail = known ? this.#texts.problem(error) : this.#texts.text("Something went wrong in this game.")
    await new Promise((resolve) => {
      this.#cancel = resolve
      const close = made("button", { type: "button", className: "main", textContent: this.#texts.text("Close") })
      close.addEventListener("click", resolve)
      this.#fill([made("p", { role: "alert", dir: "auto", textContent: detail }), close])
    })
    this.ended()
  }

  /** Close the dialog: the sign-in has ended. */
  ended() {
    this.#dialog.close()
    this.#host.remove()
  }

  #cancelled() {
    const error = new LoginCancelled("login_cancelled", "The sign-in was cancelled.")
    this.#cancel(error)
    this.#abort.abort(error)
    this.#abort = new AbortController()
    this.ended()
  }

  /** @param {...HTMLElement} content */
  #show(...content) {
    const cancel = made("button", { type: "button", textContent: this.#texts.text("Cancel") })
    cancel.addEventListener("click", () => this.#cancelled())
    this.#fill([...content, cancel])
  }

  /** @param {HTMLElement[]} content */
  #fill(content) {
    const title = made("h2", { id: "title", textContent: this.#title })
    this.#dialog.setAttribute("aria-labelledby", "title")
    this.#dialog.replaceChildren(title, ...content)
    if (!this.#host.isConnected) document.body.append(this.#host)
    if (!this.#dialog.open) this.#dialog.showModal()
    this.#dialog.querySelector("input")?.focus()
  }
}
