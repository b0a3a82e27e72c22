/** Bundles one file for browsers: `node bundle.mjs TOOL FILE TARGET`. A warning is a failure, as in a strict project. */

import { mkdtemp, rename } from "node:fs/promises"
import { dirname, join } from "node:path"

const [, , tool, file, target] = process.argv
const folder = dirname(file)

const TOOLS = {
  async esbuild() {
    const { build } = await import("esbuild")
    const how = { bundle: true, platform: "browser", format: "esm", logLevel: "silent" }
    const { warnings } = await build({ ...how, absWorkingDir: folder, entryPoints: [file], outfile: target })
    return warnings.map(({ text }) => text)
  },

  async vite() {
    const { build, createLogger } = await import("vite")
    const warnings = []
    const customLogger = { ...createLogger("silent"), warn: (text) => warnings.push(text), warnOnce: (text) => warnings.push(text) }
    const into = await mkdtemp(join(folder, "vite-"))
    const lib = { entry: file, formats: ["es"], fileName: () => "bundle.js" }
    await build({ root: folder, configFile: false, customLogger, build: { outDir: into, lib } })
    await rename(join(into, "bundle.js"), target)
    return warnings
  },

  async webpack() {
    const { default: webpack } = await import("webpack")
    const output = { path: dirname(target), filename: target.slice(dirname(target).length + 1) }
    const how = { mode: "production", target: "web", context: folder, entry: file, output, performance: false }
    const stats = await new Promise((resolve, reject) =>
      webpack(how, (error, done) => (error ? reject(error) : resolve(done))),
    )
    const { errors, warnings } = stats.toJson({ all: false, errors: true, warnings: true })
    return [...errors, ...warnings].map(({ message }) => message)
  },
}

const warnings = await TOOLS[tool]()
for (const text of warnings) console.error(text)
process.exit(warnings.length ? 1 : 0)
