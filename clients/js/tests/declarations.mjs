/**
 * Print as JSON the declarations (.d.mts) of the modules in a folder, made from their JSDoc by TypeScript.
 *
 * Arguments: the folder with the package typescript, the folder of the modules, their names. What is marked @internal is
 * left out, and so is each type that nothing of the rest needs; a constructor that is marked is private. A type of an
 * object is printed as an interface, to which a program can add members.
 */

import { createRequire } from "node:module"
import { resolve } from "node:path"

const [, , packages, folder, ...names] = process.argv
const ts = createRequire(resolve(packages, "package.json"))("typescript")
const options = {
  allowJs: true,
  checkJs: true,
  strict: true,
  declaration: true,
  emitDeclarationOnly: true,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  target: ts.ScriptTarget.ES2024,
  lib: ["lib.es2024.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts"],
}
const program = ts.createProgram(names.map((name) => resolve(folder, name)).concat(resolve(folder, "node.d.ts")), options)
const emitted = {}
const { diagnostics } = program.emit(undefined, (path, text) => (emitted[path] = text))
const flaws = [...ts.getPreEmitDiagnostics(program), ...diagnostics]
if (flaws.length) {
  console.error(ts.formatDiagnostics(flaws, { getNewLine: () => "\n", getCurrentDirectory: () => folder, getCanonicalFileName: String }))
  process.exit(1)
}

const isInternal = (node) =>
  ts.getJSDocTags(node).some(({ tagName }) => tagName.text === "internal") || /^__#private/.test(node.name?.text ?? "")
const nameOf = (node) => (node.name ?? node.declarationList?.declarations[0].name)?.text

/** Return the names that a declaration uses. */
function used(node, found = new Set()) {
  if (ts.isIdentifier(node)) found.add(node.text)
  ts.forEachChild(node, (child) => void used(child, found))
  return found
}

/** Types that games implement. Their functions are printed as methods: those may take more special arguments. */
const IMPLEMENTED = new Set(["Person"])

/** Return the edits, each with start, end and new text, that leave out the internal members of a class. */
function withoutInternal(node) {
  const cut = (member) => {
    const made = ts.isConstructorDeclaration(member) ? "\n    private constructor();" : ""
    return [member.getFullStart(), member.end, made]
  }
  return (node.members ?? []).filter(isInternal).map(cut)
}

/** Return the edits that make an interface of the type of an object, also of one that extends others. */
function asInterface({ name, type, end }, text) {
  const parts = ts.isIntersectionTypeNode(type) ? [...type.types] : [type]
  const own = parts.pop()
  if (!ts.isTypeLiteralNode(own) || !parts.every(ts.isTypeReferenceNode)) return []
  const from = parts.length ? ` extends ${parts.map((part) => part.getText()).join(", ")}` : ""
  const start = text.lastIndexOf("type", name.pos)
  const methods = IMPLEMENTED.has(name.text) ? own.members.flatMap(asMethod) : []
  return [[start, own.getStart(), `interface ${name.text}${from} `], ...methods, [own.end, end, ""]]
}

/** Return the edit that makes a method of a member that is a function. */
function asMethod({ name, type, end }) {
  const unwrapped = ts.isUnionTypeNode(type) ? type.types[0] : type // an optional one is `(function) | undefined`
  const of = ts.isParenthesizedTypeNode(unwrapped) ? unwrapped.type : unwrapped
  if (!ts.isFunctionTypeNode(of)) return []
  const mark = of === type ? "" : "?"
  const parameters = of.parameters.map((each) => each.getText()).join(", ")
  return [[name.end, end, `${mark}(${parameters}): ${of.type.getText()};`]]
}

/** Return the text of a declaration with its comments, after these changes. */
function shown(node, text) {
  const edits = ts.isTypeAliasDeclaration(node) ? asInterface(node, text) : withoutInternal(node)
  const begin = node.getStart(undefined, true)
  let result = text.slice(begin, node.end)
  for (const [from, to, made] of edits.reverse()) result = result.slice(0, from - begin) + made + result.slice(to - begin)
  return result
}

/** Return the text of a declaration with its own comment, without those of the module or of types before it. */
function declared(node, text) {
  const result = shown(node, text)
  const docs = node.jsDoc ?? []
  const own = docs.findLast(({ tags }) => !tags?.some(({ tagName }) => tagName.text === "module"))
  return result.slice((own?.pos ?? node.getStart()) - node.getStart(undefined, true))
}

const printed = {}
for (const name of names) {
  const path = resolve(folder, name).replace(/\.mjs$/, ".d.mts")
  const text = emitted[path]
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.ES2024, true)
  const declarations = source.statements.filter((node) => nameOf(node) && !ts.isImportDeclaration(node))
  const byName = new Map(declarations.map((node) => [nameOf(node), node]))
  const isValue = (node) => !ts.isTypeAliasDeclaration(node)
  const isExported = (node) => node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)
  const kept = new Set(declarations.filter((node) => isValue(node) && isExported(node) && !isInternal(node)))
  const needed = new Set()
  for (const node of kept) {
    const part = ts.createSourceFile("part.d.ts", declared(node, text), ts.ScriptTarget.ES2024, true)
    for (const each of used(part)) {
      needed.add(each)
      if (byName.has(each)) kept.add(byName.get(each))
    }
  }
  const lines = [`/** Types of ${name}; made from its comments by \`python -m clients.js.tests.declarations\`. */`]
  const imported = new Map()
  const reexported = []
  for (const node of source.statements) {
    if (ts.isImportDeclaration(node)) {
      const from = node.moduleSpecifier.text
      if (!imported.has(from)) imported.set(from, new Set())
      for (const { name: each } of node.importClause.namedBindings.elements) imported.get(from).add(each.text)
    } else if (ts.isExportDeclaration(node)) {
      for (const { name: each } of node.exportClause?.elements ?? []) reexported.push(each.text)
    }
  }
  for (const [from, found] of imported) {
    const wanted = [...found].filter((each) => needed.has(each) || reexported.includes(each)).sort()
    if (wanted.length) lines.push(`import { ${wanted.join(", ")} } from "${from}"`)
  }
  if (reexported.length) lines.push(`export { ${reexported.sort().join(", ")} }`)
  for (const node of declarations) if (kept.has(node)) lines.push(declared(node, text))
  printed[name.replace(/\.mjs$/, ".d.mts")] = lines.join("\n\n") + "\n"
}
console.log(JSON.stringify(printed))
