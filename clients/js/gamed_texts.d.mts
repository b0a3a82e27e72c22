/** Types of gamed_texts.mjs; made from its comments by `python -m clients.js.tests.declarations`. */

import { GamedError } from "./gamed.mjs"

/** The texts in one language. */
export class Texts {
    /**
     * Choose a language; English if there are no texts in it.
     *
     * @param {string} [locale] the game's, such as "de" or "pt-BR"; the system's by default
     */
    constructor(locale?: string);
    /** The language, for the attribute `lang`. @returns {string} */
    get tag(): string;
    /** The direction of its script, for the attribute `dir`. @returns {"ltr" | "rtl"} */
    get direction(): "ltr" | "rtl";
    /**
     * Return a text of the dialogs with its values.
     *
     * @param {string} english the text in English, such as "Sign in with {provider}"
     * @param {{ [name: string]: string | number }} [values] for the names in braces
     * @returns {string}
     */
    text(english: string, values?: {
        [name: string]: string | number;
    }): string;
    /**
     * Return what the player reads of an error: its English detail if there is no translation.
     *
     * @param {GamedError} error
     * @returns {string}
     */
    problem(error: GamedError): string;
    #private;
}
