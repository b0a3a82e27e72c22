/** Behaviour of the account outside the conformance suite: blobs, files beside an export, errors of the game. */

import assert from "node:assert/strict"
import { createHash } from "node:crypto"
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises"
import { test } from "node:test"

import { GamedClient, LocalDamaged, Refused, SaveInfo } from "../gamed.mjs"
import { COMPLETE, fake, folder, json, problem } from "./fake.mjs"

const ZIP = new Uint8Array(50_000).map((_, at) => at % 251)
const DIGEST = `sha-256=:${createHash("sha256").update(ZIP).digest("base64")}:`

async function signedIn(t, answers) {
  const server = await fake(t, answers)
  const place = await folder(t)
  const client = await GamedClient.open(server.base, { folder: place, sleep: async () => {} })
  await client.keep(COMPLETE)
  return { ...server, client, place }
}

/** Respond with the requested range of the export, at most `parts[n]` bytes to the n-th request. */
function exporting(...parts) {
  return (request, response) => {
    const start = Number(/bytes=(\d+)-/.exec(request.headers.range ?? "")?.[1] ?? 0)
    const headers = { "Content-Type": "application/zip", ETag: '"e.1-00"', "Repr-Digest": DIGEST }
    headers["Content-Length"] = ZIP.length - start
    if (start) headers["Content-Range"] = `bytes ${start}-${ZIP.length - 1}/${ZIP.length}`
    response.writeHead(start ? 206 : 200, headers)
    const part = parts.shift()
    if (part === undefined) return response.end(ZIP.subarray(start))
    response.write(ZIP.subarray(start, start + part), () => setTimeout(() => response.destroy(), 50))
  }
}

test("an export without a path is a Blob, and continues where it broke off", async (t) => {
  const { client, seen } = await signedIn(t, { "GET /game/export": exporting(20_000, 20_000) })
  const blob = await client.export()
  assert.equal(blob.type, "application/zip")
  assert.deepEqual(new Uint8Array(await blob.arrayBuffer()), ZIP)
  const asked = seen.filter(({ key }) => key === "GET /game/export").map(({ headers }) => headers)
  assert.deepEqual(
    asked.map((headers) => [headers.range, headers["if-range"]]),
    [
      [undefined, undefined],
      ["bytes=20000-", '"e.1-00"'],
      ["bytes=40000-", '"e.1-00"'],
    ],
  )
})

test("an export that fails leaves the older file, and nothing beside it", async (t) => {
  const { client, place } = await signedIn(t, { "GET /game/export": exporting(0, 0, 0, 0, 0, 0) })
  const before = await readdir(place)
  await writeFile(`${place}/mine.zip`, "an older one")
  await assert.rejects(client.export(`${place}/mine.zip`), { code: "unreachable" })
  assert.equal(await readFile(`${place}/mine.zip`, "utf8"), "an older one")
  assert.deepEqual((await readdir(place)).sort(), [...before, "mine.zip"].sort())
})

test("an export to a place that is none is an error of the disk", async (t) => {
  const { client, place } = await signedIn(t, { "GET /game/export": exporting(ZIP.length) })
  await assert.rejects(client.export(`${place}/nowhere/mine.zip`), LocalDamaged)
  await mkdir(`${place}/folder.zip/x`, { recursive: true })
  await assert.rejects(client.export(`${place}/folder.zip`), { code: "local_disk" })
})

test("a range that the server does not have begins the export again", async (t) => {
  const { client, answers } = await signedIn(t, {})
  const whole = exporting(20_000)
  answers["GET /game/export"] = (request, response) =>
    request.headers.range ? problem(response, 416, "range_not_satisfiable") : whole(request, response)
  assert.equal((await client.export()).size, ZIP.length)
})

test("the conflicts of a commit have the sides of each slot", async (t) => {
  const current = { slot: "world", version: 2, etag: '"2-00"', size: 1, sha256: "0".repeat(64), device: "ANNA-PC" }
  const conflict = { slot: "world", code: "version_conflict", base: null, current, yours: null }
  const { client } = await signedIn(t, {
    "PUT /game/blobs/ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb": (_, response) =>
      json(response, {}, 201),
    "POST /game/commit": (_, response) =>
      json(response, { code: "version_conflict", detail: "No.", status: 412, conflicts: [conflict] }, 412, {
        "Content-Type": "application/problem+json",
      }),
  })
  const error = await client.commit([{ slot: "world", data: "a", base: '"1-00"' }]).catch((error) => error)
  assert.deepEqual(
    error.slots.map(({ slot, current, yours }) => [slot, current instanceof SaveInfo, current.device, yours]),
    [["world", true, "ANNA-PC", null]],
  )
})

test("a commit checks its slots before it sends anything", async (t) => {
  const { client, seen } = await signedIn(t, {})
  const before = seen.length
  await assert.rejects(client.commit([{ slot: "../auto", data: "a", base: null }]), Refused)
  assert.equal(seen.length, before)
})

test("a device that cannot keep the sign-in is a problem in words", async (t) => {
  const client = await GamedClient.open("http://127.0.0.1:1", { folder: `${await folder(t)}/new` })
  const problems = []
  const person = { chooseProvider: () => assert.fail(), problem: (error) => problems.push(error) }
  await writeFile(client.folder, "not a folder")
  assert.equal(await client.ensureSignedIn(person), false)
  assert.deepEqual(
    problems.map(({ code, detail }) => [code, detail]),
    [["local_disk", "This device cannot read or write a file: not a directory."]],
  )
})

test("an error of the game is not shown to the player as a failed sign-in", async (t) => {
  const { base } = await fake(t, {
    "GET /auth/providers": (_, response) =>
      json(response, { providers: ["one", "two"].map((name) => ({ name, label: name })) }),
  })
  const client = await GamedClient.open(base, { folder: await folder(t) })
  const person = {
    chooseProvider: () => {
      throw new RangeError("a defect of the game")
    },
    problem: () => assert.fail("it is not for the player"),
  }
  await assert.rejects(client.ensureSignedIn(person), RangeError)
})
