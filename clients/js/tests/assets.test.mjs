/** Behaviour of gamed_assets.mjs outside the conformance suite: continued downloads, kept files, refused manifests. */

import assert from "node:assert/strict"
import { createHash } from "node:crypto"
import { readFile, readdir, rm, writeFile } from "node:fs/promises"
import { test } from "node:test"

import { DownloadCorrupt, GamedClient, LocalDamaged, NotGamed, SignInRequired } from "../gamed.mjs"
import { Assets, DiskFull, InUse } from "../gamed_assets.mjs"
import { COMPLETE, fake, folder, json, problem } from "./fake.mjs"

const sha256 = (data) => createHash("sha256").update(data).digest("hex")
const LEVEL = Buffer.from("level ".repeat(50_000))

/** Return a manifest of `files`, a map of path to bytes. */
function manifestOf(files, more = {}) {
  const listed = Object.entries(files).map(([path, data]) => [path, { size: data.length, sha256: sha256(data) }])
  return Buffer.from(JSON.stringify({ format: 1, published: "", files: Object.fromEntries(listed), ...more }))
}

async function serving(t, files, more = {}) {
  const server = await fake(t)
  publish(server, files, more)
  const client = await GamedClient.open(server.base, { folder: await folder(t), sleep: async () => {} })
  return { ...server, client, assets: await Assets.open(client) }
}

function publish({ answers }, files, more = {}) {
  const manifest = manifestOf(files, more)
  const release = `r${sha256(manifest).slice(0, 16)}`
  answers["GET /assets/stable"] = (request, response) => {
    const headers = { ETag: `"${release}"`, "Asset-Release": release }
    if (request.headers["if-none-match"] === `"${release}"`) response.writeHead(304, headers).end()
    else response.writeHead(200, { ...headers, "Content-Length": manifest.length }).end(manifest)
  }
  for (const data of Object.values(files)) answers[`GET /assets/objects/${sha256(data)}`] = sendFile(data)
}

function sendFile(data, { torn = 0, ranges = true } = {}) {
  return (request, response) => {
    const from = ranges ? Number(/^bytes=([0-9]+)-/.exec(request.headers.range ?? "")?.[1] ?? 0) : 0
    const part = data.subarray(from)
    const range = from ? { "Content-Range": `bytes ${from}-${data.length - 1}/${data.length}` } : {}
    response.writeHead(from ? 206 : 200, { "Content-Length": part.length, ...range })
    if (!torn) return response.end(part)
    response.write(part.subarray(0, torn), () => setTimeout(() => response.destroy(), 20))
  }
}

const ranges = (seen) => seen.filter(({ key }) => key.includes("objects")).map(({ headers }) => headers.range ?? "all")

test("what broke off goes on where it was, also in the next process", async (t) => {
  const { answers, assets, client, seen } = await serving(t, { "a/level": LEVEL })
  const key = `GET /assets/objects/${sha256(LEVEL)}`
  answers[key] = (request, response) => {
    sendFile(LEVEL, { torn: 100_000 })(request, response)
    answers[key] = (_, response) => response.destroy()
  }
  await assert.rejects(assets.download())
  assert.equal(assets.current, null)
  answers[key] = sendFile(LEVEL)
  const next = await Assets.open(client)
  await next.download()
  assert.match(ranges(seen).at(-1), /^bytes=[1-9][0-9]*-299999$/)
  assert.deepEqual(await readFile(next.path("a/level")), LEVEL)
})

test("a server without ranges sends all of it again, and only the rest is taken", async (t) => {
  const { answers, assets } = await serving(t, { level: LEVEL })
  const key = `GET /assets/objects/${sha256(LEVEL)}`
  answers[key] = (request, response) => {
    answers[key] = sendFile(LEVEL, { ranges: false })
    sendFile(LEVEL, { torn: 100_000 })(request, response)
  }
  await assets.download()
  assert.deepEqual(Buffer.from(await assets.bytes("level")), LEVEL)
})

test("bytes of another hash are fetched once more, then it is over; nothing of them is kept", async (t) => {
  const { answers, assets, seen } = await serving(t, { level: LEVEL })
  answers[`GET /assets/objects/${sha256(LEVEL)}`] = sendFile(Buffer.alloc(LEVEL.length))
  await assert.rejects(assets.download(), DownloadCorrupt)
  assert.deepEqual(ranges(seen), ["all", "all"])
  assert.deepEqual(await readdir(`${assets.folder}/objects`), [])
})

test("the next release fetches what is new; the one that is open stays until the next switch", async (t) => {
  const server = await serving(t, { level: LEVEL, word: Buffer.from("one") })
  const { assets, seen } = server
  const first = await assets.download()
  publish(server, { level: LEVEL, word: Buffer.from("two") }, { note: "2" })
  const second = await assets.download()
  assert.equal(seen.filter(({ key }) => key.includes("objects")).length, 3)
  assert.equal(String(await readFile(assets.path("word"))), "one")
  assert.equal(assets.current.release, first.release)
  await assets.switch()
  assert.deepEqual([assets.current.release, assets.current.note], [second.release, "2"])
  assert.equal(String(await readFile(assets.path("word"))), "two")
  publish(server, { level: LEVEL, word: Buffer.from("three") })
  await assets.download()
  assert.ok(!(await readdir(`${assets.folder}/releases`)).includes(first.release))
  assert.ok((await readdir(`${assets.folder}/releases`)).includes(second.release))
})

test("what was damaged on the disk is found when asked for, and fetched again", async (t) => {
  const { assets } = await serving(t, { level: LEVEL })
  await assets.download()
  await writeFile(assets.path("level"), Buffer.alloc(LEVEL.length))
  await assets.download("stable", { verify: true })
  assert.deepEqual(await readFile(assets.path("level")), LEVEL)
})

test("a damaged list of files is fetched again, and no file with it", async (t) => {
  const { assets, client, seen } = await serving(t, { level: LEVEL })
  const { raw, release } = await assets.download()
  for (const damaged of ["", "{}", String(raw).replace("level", "Level")]) {
    await writeFile(`${assets.folder}/releases/${release}.json`, damaged)
    const next = await Assets.open(client)
    assert.equal(next.current, null)
    await next.download()
    assert.deepEqual(await readFile(next.path("level")), LEVEL)
  }
  assert.deepEqual(ranges(seen), ["all"])
})

test("a token goes along only where it is asked for", async (t) => {
  const { answers, assets, client, seen } = await serving(t, { level: LEVEL })
  const open = { ...answers }
  for (const key of Object.keys(open)) {
    answers[key] = (request, response) => {
      if (request.headers.authorization) open[key](request, response)
      else problem(response, 401, "token_missing")
    }
  }
  await assert.rejects(assets.download(), SignInRequired)
  await client.keep(COMPLETE)
  await (await Assets.open(client)).download()
  assert.equal(seen.filter(({ headers }) => headers.authorization === "Bearer gat_secret_1").length, 2)
})

test("one download at a time; given up, it leaves what arrived", async (t) => {
  const { answers, assets, client } = await serving(t, { level: LEVEL })
  const key = `GET /assets/objects/${sha256(LEVEL)}`
  const whole = answers[key]
  const arrived = new Promise((resolve) => (answers[key] = (_, response) => resolve(response)))
  const stop = new AbortController()
  const download = assets.download("stable", { signal: stop.signal })
  await arrived
  await assert.rejects((await Assets.open(client)).download(), InUse)
  stop.abort(new Error("enough"))
  await assert.rejects(download, /enough/)
  answers[key] = whole
  await assets.download()
})

test("a download that is given up while it looks at what is here fetches and publishes nothing", async (t) => {
  const server = await serving(t, { z: LEVEL })
  const { assets, seen } = server
  const { release } = await assets.download()
  for (const files of [{ a: Buffer.from("new"), z: LEVEL }, { z: LEVEL, y: LEVEL }]) {
    publish(server, files)
    const stop = new AbortController()
    const progress = ({ stage, done }) => stage === "looking" && done && stop.abort(new Error("enough"))
    await assert.rejects(assets.download("stable", { progress, signal: stop.signal }), /enough/)
  }
  assert.deepEqual(ranges(seen), ["all"])
  assert.equal((await assets.switch()).release, release)
})

test("what the game throws ends a download at once, as what the system throws", async (t) => {
  const { assets, seen } = await serving(t, { level: LEVEL })
  let thrown = 0
  const enough = ({ fetched }) => {
    if (fetched && !thrown++) throw new TypeError("enough")
  }
  await assert.rejects(assets.download("stable", { progress: enough }), /^TypeError: enough$/)
  assert.deepEqual(ranges(seen), ["all"])
  const full = ({ fetched }) => {
    if (fetched) throw Object.assign(new Error("no space"), { code: "ENOSPC", syscall: "write" })
  }
  await assert.rejects(assets.download("stable", { progress: full }), DiskFull)
})

test("a folder that cannot be used is an error of the disk", async (t) => {
  const { assets, client } = await serving(t, { level: LEVEL })
  await rm(`${assets.folder}/staging`, { recursive: true })
  await writeFile(`${assets.folder}/staging`, "in the way")
  await assert.rejects(assets.download(), { code: "local_disk" })
  await assert.rejects(Assets.open(client), LocalDamaged)
})

test("a list of files that this device should not write is refused whole", async (t) => {
  const { answers, assets } = await serving(t, {})
  const x = Buffer.from("x")
  const bad = [
    { "../x": x },
    { "/x": x },
    { "a//b": x },
    { "a\\b": x },
    { "nul.txt": x },
    { "a:b": x },
    { "a ": x },
    { "a.": x },
    { "a\u0000b": x },
    { "e\u0301": x },
    { A: x, a: x },
    { a: x, "a/b": x },
    { "Com1.x": x },
    { ["a".repeat(256)]: x },
  ]
  for (const files of bad) {
    publish({ answers }, files)
    await assert.rejects(assets.download(), NotGamed, JSON.stringify(files))
  }
  publish({ answers }, { x }, { format: 2 })
  await assert.rejects(assets.download(), /update the game/)
  answers["GET /assets/stable"] = (_, response) => json(response, {}, 200, { ETag: '"r0123456789abcdef"' })
  await assert.rejects(assets.download(), DownloadCorrupt)
})
