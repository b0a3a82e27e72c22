/** The game itself: plots that grow. It does not use a server; its save is a line of JSON. */

export const PLOTS = 24
export const STAGES = ["empty", "sprout", "bud", "flower"]

/** @typedef {{ plots: number[], picked: number, seconds: number }} Garden the seconds are those of play */

/** @returns {Garden} */
export const newGarden = () => ({ plots: Array(PLOTS).fill(0), picked: 0, seconds: 0 })

/**
 * Return the garden after a press on a plot; the player has played `since` seconds more.
 * @param {Garden} garden @param {number} at @param {number} since @returns {Garden}
 */
export function pressed({ plots, picked, seconds }, at, since) {
  const flower = plots[at] === STAGES.length - 1
  const grown = plots.with(at, flower ? 0 : plots[at] + 1)
  return { plots: grown, picked: picked + (flower ? 1 : 0), seconds: Math.round(seconds + since) }
}

/** @param {Garden} garden @returns {Uint8Array} */
export const saved = (garden) => new TextEncoder().encode(JSON.stringify(garden))

/** Parse a save; return a new garden for other bytes. @param {Uint8Array} bytes @returns {Garden} */
export function loaded(bytes) {
  try {
    const { plots, picked, seconds = 0 } = JSON.parse(new TextDecoder().decode(bytes))
    const fits = Array.isArray(plots) && plots.length === PLOTS && plots.every((stage) => stage in STAGES)
    if (fits && Number.isInteger(picked) && Number.isInteger(seconds)) return { plots, picked, seconds }
  } catch {
    // not a garden
  }
  return newGarden()
}

/** Describe the garden in words, for menus and for players who cannot see the picture. @param {Garden} garden */
export function described({ plots, picked }) {
  const flowers = plots.filter((stage) => stage === STAGES.length - 1).length
  const growing = plots.filter((stage) => stage > 0).length - flowers
  return `${flowers} ${flowers === 1 ? "flower" : "flowers"}, ${growing} growing, ${picked} picked`
}

/** Return what the player's account shows of a save. @param {Garden} garden */
export const faceOf = (garden) => ({
  title: described(garden),
  place: "Meadow",
  playtime_seconds: garden.seconds,
})
