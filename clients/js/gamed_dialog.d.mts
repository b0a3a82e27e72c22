/** Types of gamed_dialog.mjs; made from its comments by `python -m clients.js.tests.declarations`. */

import { Provider } from "./gamed.mjs"

/** A dialog of this page: a Person for `ensureSignedIn`, `signIn` and `link`. */
export class Dialog {
    /**
     * Make a dialog; it opens when a sign-in needs it.
     *
     * @param {{ title?: string, locale?: string }} [options] `title`: its first line; `locale`: the game's language, such
     *   as "de" or "pt-BR", the system's by default
     */
    constructor({ title, locale }?: {
        title?: string;
        locale?: string;
    });
    /** Cancels the sign-in that begins now, also while the browser is open. @returns {AbortSignal} */
    get signal(): AbortSignal;
    /**
     * Show a button for each provider.
     *
     * @param {readonly Provider[]} providers
     * @returns {Promise<string>} the name of the chosen one
     * @throws {LoginCancelled} if the player cancels
     */
    chooseProvider(providers: readonly Provider[]): Promise<string>;
    /**
     * Show the link that continues the sign-in.
     *
     * @param {string} url
     * @param {boolean} opened false: the browser has not opened it; its QR code is shown, too
     * @param {string | null} qrUrl address of the QR code, for a phone
     */
    browserOpened(url: string, opened: boolean, qrUrl: string | null): void;
    /**
     * Ask for the code that the browser shows.
     *
     * @param {(() => Promise<void>) | null} showCode opens the page that shows it; null if the page shows it already
     * @param {number | null} attemptsLeft a number after a wrong code
     * @returns {Promise<string | null>}
     */
    finishCode(showCode: (() => Promise<void>) | null, attemptsLeft: number | null): Promise<string | null>;
    /**
     * Show an error until the player closes it, except that of a cancelled sign-in.
     *
     * @param {unknown} error of anything that a game calls
     * @returns {Promise<void>}
     */
    problem(error: unknown): Promise<void>;
    /** Close the dialog: the sign-in has ended. */
    ended(): void;
    #private;
}
