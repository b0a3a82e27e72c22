/** The player's account: devices, earlier gardens, a copy of all saves, and its end. */

import { GamedError } from "../gamed.mjs"

/** @import { GamedClient, Save, Version } from "../gamed.mjs" */

/** @param {string} id @returns {any} */
const element = (id) => document.getElementById(id)

/** @param {string} time */
const local = (time) => new Date(time).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" })

/**
 * The functions of the page that the dialog calls.
 * @typedef {object} Game
 * @property {string} slot
 * @property {(save: Save) => Promise<void>} take continues with an earlier garden
 * @property {(why: string) => Promise<void>} signInAgain signs in as the same player; throws GamedError
 * @property {(error: any) => string} wordsOf returns the text for the player
 * @property {() => Promise<void>} deleted is called after the player was deleted
 */

/** The dialog with the account of the player who is signed in. */
export class Account {
  /** @param {GamedClient} client @param {Game} game */
  constructor(client, game) {
    this.client = client
    this.game = game
  }

  async open() {
    element("account-problem").textContent = ""
    element("delete-sure").hidden = true
    for (const id of ["devices", "versions"]) element(id).replaceChildren()
    if (!element("account").open) element("account").showModal()
    await this.attempt(() => Promise.all([this.showDevices(), this.showVersions()]))
  }

  /** Run a step; show the reason if it fails. @param {() => Promise<unknown>} step */
  async attempt(step) {
    element("account-problem").textContent = ""
    try {
      await step()
    } catch (error) {
      element("account-problem").textContent = this.game.wordsOf(error)
      if (!element("account").open) element("account").showModal()
    }
  }

  async showDevices() {
    const sessions = await this.client.listSessions()
    const rows = sessions.map(({ sessionId, client, current, lastUsedAt }) => {
      const name = client?.deviceName ?? client?.name ?? "A device without a name"
      if (current) return row(`${name}: this one`, `Used ${local(lastUsedAt)}`)
      return row(name, `Used ${local(lastUsedAt)}`, "Sign out", () =>
        this.attempt(async () => {
          await this.client.endSession(sessionId)
          await this.showDevices()
        }),
      )
    })
    element("devices").replaceChildren(...rows)
    element("end-others").hidden = sessions.length < 2
  }

  async endOthers() {
    await this.client.signOut("others")
    await this.showDevices()
  }

  async showVersions() {
    const versions = await this.client.versions(this.game.slot).catch((error) => {
      if (error instanceof GamedError && error.code === "save_not_found") return []
      throw error
    })
    const rows = versions.map((version, at) => this.versionRow(version, at === 0))
    element("versions").replaceChildren(...(rows.length ? rows : [row("No garden is saved yet", "")]))
  }

  /** @param {Version} version @param {boolean} newest */
  versionRow({ version, kind, device, save }, newest) {
    if (!save) return row("Removed", device ? `On ${device}` : "")
    const where = `${kind === "conflict" ? "Not chosen, saved" : "Saved"} ${local(save.modified)}`
    const text = device ? `${where} on ${device}` : where
    const title = String(save.meta.title ?? "A garden")
    if (newest) return row(title, text)
    return row(title, text, "Take this one", () =>
      this.attempt(async () => {
        await this.game.take(await this.client.version(this.game.slot, version))
        element("account").close()
      }),
    )
  }

  /** Download all saves with their history as a zip, for the player. */
  async export() {
    const address = URL.createObjectURL(/** @type {Blob} */ (await this.client.export()))
    const link = document.createElement("a")
    link.href = address
    link.download = `garden-${this.client.origin.host}.zip`
    link.click()
    setTimeout(() => URL.revokeObjectURL(address), 60_000)
  }

  /** Delete the player, who has agreed. The server requires a sign-in of the last 10 minutes: ask for one if needed. */
  async delete() {
    try {
      await this.client.deletePlayer()
    } catch (error) {
      if (!(error instanceof GamedError) || error.code !== "reauthentication_required") throw error
      element("account").close()
      await this.game.signInAgain(error.detail)
      await this.client.deletePlayer()
    }
    element("account").close()
    await this.game.deleted()
  }
}

/** @param {string} title @param {string} text @param {string} [button] @param {() => void} [press] */
function row(title, text, button, press) {
  const item = document.createElement("li")
  const words = document.createElement("p")
  const strong = document.createElement("strong")
  strong.textContent = title
  const small = document.createElement("span")
  small.className = "hint"
  small.textContent = text
  words.append(strong, document.createElement("br"), small)
  item.append(words)
  if (button && press) {
    const control = document.createElement("button")
    control.type = "button"
    control.textContent = button
    control.setAttribute("aria-label", `${button}: ${title}, ${text}`)
    control.addEventListener("click", press)
    item.append(control)
  }
  return item
}

/**
 * Connect the buttons of the dialog.
 * @param {() => Account | undefined} current returns the account of the player who plays now
 */
export function connectAccount(current) {
  /** @param {string} id @param {(account: Account) => Promise<unknown>} step */
  const on = (id, step) =>
    element(id).addEventListener("click", () => {
      const account = current()
      if (account) account.attempt(() => step(account))
    })
  element("account-open").addEventListener("click", () => current()?.open())
  element("account-close").addEventListener("click", () => element("account").close())
  on("end-others", (account) => account.endOthers())
  on("export", (account) => account.export())
  on("delete-yes", (account) => account.delete())
  for (const [id, hidden] of Object.entries({ delete: false, "delete-no": true })) {
    element(id).addEventListener("click", () => (element("delete-sure").hidden = hidden))
  }
}
