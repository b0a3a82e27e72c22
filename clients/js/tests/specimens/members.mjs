/** Print as JSON the contents of each module's types: names of values, and of the members of each class. */

import { createRequire } from "node:module"
import { resolve } from "node:path"

const [, , packages, folder, ...names] = process.argv
const ts = createRequire(resolve(packages, "package.json"))("typescript")
const files = names.map((name) => resolve(folder, name.replace(/\.mjs$/, ".d.mts")))
const options = { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, strict: true }
const program = ts.createProgram(files, options)
const checker = program.getTypeChecker()
const found = {}
const isCalled = (one) => Boolean(one.flags & (ts.SymbolFlags.Method | ts.SymbolFlags.Accessor))
/** Return whether an editor has a text to show for it. */
const isDescribed = (symbol) => symbol.getDocumentationComment(checker).length > 0
for (const [at, name] of names.entries()) {
  const stated = {}
  const undocumented = []
  const module = checker.getSymbolAtLocation(program.getSourceFile(files[at]))
  for (const exported of checker.getExportsOfModule(module)) {
    const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported
    if (!(symbol.flags & ts.SymbolFlags.Value)) continue
    const members = { own: [], static: [] }
    if (!isDescribed(symbol)) undocumented.push(exported.name)
    if (symbol.flags & ts.SymbolFlags.Class) {
      members.own = [...(symbol.members?.values() ?? [])]
        .filter((one) => one.flags & (ts.SymbolFlags.Method | ts.SymbolFlags.Accessor))
        .map((one) => one.name)
      const described = [...(symbol.members?.values() ?? []), ...(symbol.exports?.values() ?? [])]
      for (const one of described) if (isCalled(one) && !isDescribed(one)) undocumented.push(`${exported.name}.${one.name}`)
      members.static = [...(symbol.exports?.values() ?? [])].map((one) => one.name).filter((one) => one !== "prototype")
    }
    stated[exported.name] = members
  }
  const real = {}
  for (const [key, value] of Object.entries(await import(resolve(folder, name)))) {
    const isClass = typeof value === "function" && /^class\b/.test(Function.prototype.toString.call(value))
    const own = isClass ? Object.getOwnPropertyNames(value.prototype).filter((one) => !/^_|^constructor$/.test(one)) : []
    const statics = isClass ? Object.getOwnPropertyNames(value).filter((one) => !/^(_|length$|name$|prototype$)/.test(one)) : []
    real[key] = { own, static: statics }
  }
  const underscored = Object.values(await import(resolve(folder, name))).flatMap(underscoredOf)
  found[name] = { stated, real, undocumented, underscored }
}

/** Return the members of a class that only an underscore calls private. */
function underscoredOf(value) {
  if (typeof value !== "function") return []
  const names = Object.getOwnPropertyNames(value.prototype ?? {}).concat(Object.getOwnPropertyNames(value))
  const fields = String(value).match(/(?<=\bthis\.)_\w+|(?<=^  )_\w+(?= =|;?$)/gm) ?? [] // without an instance
  return [...names, ...fields].filter((each) => each.startsWith("_")).map((each) => `${value.name}.${each}`)
}
console.log(JSON.stringify(found))
