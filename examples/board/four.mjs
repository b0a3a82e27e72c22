/** The game itself: a match of four in a row, as the save has it. It does not use a page or a server. */

export const COLUMNS = 7
export const ROWS = 6
export const SIDES = ["Flowers", "Leaves"]
export const DISCS = ["flower", "leaf"]
const STEPS = [[1, 0], [0, 1], [1, 1], [1, -1]] // prettier-ignore

/** @typedef {{ name: string, key: string } | null} Seat the player of a side; `key` is that of their browser */
/** @typedef {{ game: number, moves: number[], seats: Seat[] }} Match each move is a column; the sides take turns */

/** Return who makes a move: the sides take turns to begin a game, too. @param {number} game @param {number} at */
export const sideOf = (game, at) => (game + 1 + at) % 2

/** Return the discs of each column from the bottom, as sides. @param {Match} match @returns {number[][]} */
export function columnsOf({ game, moves }) {
  const columns = Array.from({ length: COLUMNS }, () => /** @type {number[]} */ ([]))
  moves.forEach((column, at) => columns[column].push(sideOf(game, at)))
  return columns
}

/** Return the places of four in a row as [column, height], or undefined. @param {number[][]} columns */
export function fourIn(columns) {
  const discs = columns.flatMap((heights, column) => heights.map((side, height) => ({ side, column, height })))
  for (const { side, column, height } of discs) {
    for (const [right, up] of STEPS) {
      const line = [0, 1, 2, 3].map((n) => [column + n * right, height + n * up])
      if (line.every(([c, h]) => columns[c]?.[h] === side)) return line
    }
  }
}

/** Return the match after a move, or null if the rules forbid it. @param {Match} match @param {number} column */
export function moved(match, column) {
  const columns = columnsOf(match)
  if (fourIn(columns) || !(columns[column]?.length < ROWS)) return null
  return { ...match, moves: [...match.moves, column] }
}

/** @param {Match} match @param {number} side @param {Seat} seat @returns {Match} */
export const seated = (match, side, seat) => ({ ...match, seats: match.seats.with(side, seat) })

/** Parse a save; return a new match for other bytes. @param {Uint8Array} [bytes] @returns {Match} */
export function parsed(bytes) {
  /** @type {Match} */
  const none = { game: 1, moves: [], seats: [null, null] }
  try {
    const { game, moves, seats } = JSON.parse(new TextDecoder().decode(bytes))
    const sits = (/** @type {any} */ seat) => seat && { name: String(seat.name).slice(0, 20), key: String(seat.key) }
    const empty = { game: Number.isSafeInteger(game) ? game : 1, moves: [], seats: [sits(seats[0]), sits(seats[1])] }
    return moves.reduce((/** @type {Match} */ match, /** @type {number} */ to) => moved(match, to) ?? match, empty)
  } catch {
    return none // not a match
  }
}

/**
 * Return one match of two that were changed at once. The server's goes first: a move of this browser is in the result
 * if it follows on the server's last one, and a seat if it is free there.
 * @param {Match} mine @param {Match} theirs @returns {Match}
 */
export function merged(mine, theirs) {
  const follows = mine.game === theirs.game && theirs.moves.every((column, at) => mine.moves[at] === column)
  return { ...(follows ? mine : theirs), seats: theirs.seats.map((seat, side) => seat ?? mine.seats[side]) }
}
