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
for (const [at, name] of names.entries()) {
  const stated = {}
  const module = checker.getSymbolAtLocation(program.getSourceFile(files[at]))
  for (const exported of checker.getExportsOfModule(module)) {
    const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported
    if (!(symbol.flags & ts.SymbolFlags.Value)) continue
    const members = { own: [], static: [] }
    if (symbol.flags & ts.SymbolFlags.Class) {
      members.own = [...(symbol.members?.values() ?? [])]
        .filter((one) => one.flags & (ts.SymbolFlags.Method | ts.SymbolFlags.Accessor))
        .map((one) => one.name)
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
  found[name] = { stated, real }
}
console.log(JSON.stringify(found))
