/** Signals: each call ends at each of its requests with the signal's reason, also if that is an error of the protocol. */

import assert from "node:assert/strict"
import { createHash } from "node:crypto"
import { rm } from "node:fs/promises"
import { test } from "node:test"

import * as gamed from "../gamed.mjs"
import { Assets } from "../gamed_assets.mjs"
import { Sync } from "../gamed_sync.mjs"
import { COMPLETE, fake, folder, json, problem } from "./fake.mjs"

const { GamedClient } = gamed
const digestOf = (text) => `sha-256=:${createHash("sha256").update(text).digest("base64")}:`
const HASH = createHash("sha256").update("x").digest("hex")
const LARGE = "x".repeat(100_000) // a commit asks first whether the server has it
const LARGE_HASH = createHash("sha256").update(LARGE).digest("hex")
const INFO = { slot: "auto", version: 2, etag: '"2-ab"', size: 1, sha256: HASH, kind: "write", parent: 1 }
const OLDER = { ...INFO, version: 1, etag: '"1-ab"', parent: null }
const saved = (_, response) => {
  response.writeHead(200, { "Repr-Digest": digestOf("x"), ETag: '"2-ab"', "Content-Length": 1 }).end("x")
}
const done = (_, response) => response.writeHead(204).end()
const value =
  (of, status = 200, headers = {}) =>
  (_, response) =>
    json(response, of, status, headers)
const REASONS = [
  new Error("enough"),
  new gamed.NotFound("save_not_found", "enough"),
  new gamed.Refused("blob_missing", "enough"),
  new gamed.Refused("route_not_found", "enough"),
  new gamed.SignInRequired("session_revoked", "enough"),
  new gamed.SignInRequired("token_expired", "enough"),
  new gamed.Unreachable("unreachable", "enough"),
]

const WITHIN = { timeout: 60_000 } // ms; a signal without effect would let a test wait for ever

/** Requests that a call sends, with their answers; arguments of the call before its options, and more options. */
const CALLS = {
  policy: [[["GET /auth/config", value({ mode: "local", providers: [] })]]],
  providers: [
    [
      ["GET /auth/providers", (_, response) => problem(response, 404, "route_not_found")],
      ["GET /auth/config", value({ mode: "local", providers: [] })],
    ],
  ],
  whoami: [[["GET /game/", value({ player: { id: "ply_1" } })]]],
  setName: [[["PATCH /auth/player", value({ player: { id: "ply_1", name: "Anna" } })]], ["Anna"]],
  ticket: [[["POST /auth/tickets", value({ ticket: "x" })]], ["match", null]],
  listSessions: [[["GET /auth/sessions", value({ sessions: [] })]]],
  endSession: [[["DELETE /auth/sessions/ses_2", done]], ["ses_2"]],
  listIdentities: [[["GET /auth/identities", value({ identities: [] })]]],
  unlink: [[["DELETE /auth/identities/discord", done]], ["discord"]],
  deletePlayer: [[["DELETE /auth/player", done]]],
  eraseSaves: [
    [
      ["GET /game/", value({}, 200, { ETag: '"a"' })],
      ["DELETE /game/", done],
    ],
  ],
  export: [[["GET /game/export", saved]], [undefined]],
  listSaves: [[["GET /game/saves", value({ saves: [] })]]],
  changes: [[["GET /game/saves", value({ saves: [], cursor: "1" })]], [null]],
  get: [[["GET /game/saves/auto", saved]], ["auto"]],
  put: [[["PUT /game/saves/auto", value(INFO)]], ["auto", "x"], { base: null }],
  delete: [[["DELETE /game/saves/auto", done]], ["auto"], { base: "*" }],
  commit: [
    [
      [`HEAD /game/blobs/${LARGE_HASH}`, (_, response) => response.writeHead(404).end()],
      [`PUT /game/blobs/${LARGE_HASH}`, done],
      ["POST /game/commit", (_, response) => problem(response, 409, "blob_missing")],
      [`PUT /game/blobs/${LARGE_HASH}`, done],
      ["POST /game/commit", value({ saves: [] })],
    ],
    [[{ slot: "auto", data: LARGE, base: null }]],
  ],
  versions: [
    [
      ["GET /game/saves/auto/versions", value({ versions: [INFO], more: true })],
      ["GET /game/saves/auto/versions?before=2", value({ versions: [OLDER], more: false })],
    ],
    ["auto"],
  ],
  versionsPage: [[["GET /game/saves/auto/versions", value({ versions: [] })]], ["auto"]],
  version: [[["GET /game/saves/auto/versions/1", saved]], ["auto", 1]],
  restore: [[["POST /game/saves/auto/versions/1/restore", value(INFO)]], ["auto", 1], { base: null }],
  dismiss: [[["DELETE /game/saves/auto/versions/1", done]], ["auto", 1]],
  signOut: [[["POST /auth/session/logout", done]], ["others"]],
}
/** Members without requests, and sign-ins: client.test.mjs has these. */
const OTHERS = ["constructor", "credential", "folder", "keep", "look", "only", "place", "returned", "signedIn"]
const SIGN_INS = ["beginSignIn", "ensureSignedIn", "link", "signIn"]

/** Start a server that follows `script`: pairs of a request and its answer; it calls `atEnd` for a request after them. */
async function scripted(t, script, options = {}) {
  const state = { script, atEnd: () => undefined }
  const answer = (key) => (request, response, body) => {
    const next = state.script.shift()
    if (next === undefined) return state.atEnd(key)
    assert.equal(key, next[0])
    next[1](request, response, body)
  }
  const server = await fake(t, new Proxy({}, { get: (_, key) => answer(key) }))
  const client = await GamedClient.open(server.base, { folder: await folder(t), sleep: async () => {}, ...options })
  await client.keep(COMPLETE)
  return { ...server, client, state }
}

test("a signal ends each call at each of its requests, and no reason is taken for an answer", WITHIN, async (t) => {
  const { client, state } = await scripted(t, [])
  const names = Object.getOwnPropertyNames(GamedClient.prototype)
  assert.deepEqual([...Object.keys(CALLS), ...OTHERS, ...SIGN_INS].sort(), names.sort())
  const ways = {
    given: (name, args, more, signal) => client[name](...args, { ...more, signal }),
    bound: (name, args, more, signal) => client.only("ply_1", { signal })[name](...args, more),
    twice: (name, args, more, signal) => client.only("ply_1", { signal }).only("ply_1")[name](...args, more),
  }
  for (const [way, call] of Object.entries(ways)) {
    for (const [name, [requests, args = [], more = {}]] of Object.entries(CALLS)) {
      for (let at = 0; at < requests.length; at++) {
        for (const reason of REASONS) {
          await client.keep(COMPLETE)
          const stop = new AbortController()
          state.script = requests.slice(0, at)
          state.atEnd = () => stop.abort(reason)
          const outcome = await call(name, args, more, stop.signal).then(
            () => "it answered",
            (error) => error,
          )
          assert.equal(outcome, reason, `${way} ${name} ${at} ${reason.code}`)
          assert.notEqual(await client.look(), null, `${way} ${name} ${at} ${reason.code}`)
        }
      }
      state.script = [...requests]
      await call(name, args, more, new AbortController().signal)
      assert.deepEqual(state.script, [])
    }
  }
})

test("a sign-out whose signal is aborted before does nothing, and later is one that the server may not know", WITHIN, async (t) => {
  const { client, state, seen } = await scripted(t, [])
  const before = seen.length
  for (const scope of ["this", "others", "all"]) {
    await assert.rejects(client.signOut(scope, { signal: AbortSignal.abort(new Error("enough")) }), /enough/)
    assert.notEqual(await client.look(), null)
  }
  assert.equal(seen.length, before)
  const stop = new AbortController()
  state.atEnd = () => stop.abort(new Error("enough"))
  assert.equal(await client.signOut("this", { signal: stop.signal }), false)
  assert.equal(await client.look(), null)
})

test("a call that is ended in a pause leaves no timer", WITHIN, async (t) => {
  let answered
  const paused = new Promise((resolve) => (answered = resolve))
  const busy = (_, response) => {
    response.on("finish", () => setTimeout(answered, 100))
    problem(response, 503, "busy", { "Retry-After": "7" })
  }
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length
  const { client } = await scripted(t, [["GET /game/saves/auto", busy]], { sleep: undefined })
  const before = timers()
  const stop = new AbortController()
  const reading = client.get("auto", { signal: stop.signal })
  await paused
  assert.equal(timers(), before + 1)
  stop.abort(new Error("enough"))
  await assert.rejects(reading, /enough/)
  assert.equal(timers(), before)
})

test("a signal ends the wait for a lock that another process has", WITHIN, async (t) => {
  const { client, state } = await scripted(t, [["GET /game/", value({ player: { id: "ply_1", name: "Anna" } })]])
  const release = await gamed.tryLock(`${client.folder}/${client.place}.json`)
  const stop = new AbortController()
  const asking = client.whoami({ signal: stop.signal })
  while (state.script.length) await new Promise((resolve) => setTimeout(resolve, 5))
  setTimeout(() => stop.abort(new Error("enough")), 50)
  await assert.rejects(asking, /enough/)
  release()
})

test("a round that is ended while it waits for another sends nothing", WITHIN, async (t) => {
  const { client, seen, state } = await scripted(t, [])
  const sync = await Sync.open(client)
  t.after(() => sync.close())
  const first = new AbortController()
  const asked = new Promise((resolve) => (state.atEnd = resolve))
  const sending = sync.send({ signal: first.signal }).catch((error) => error.message)
  await asked
  const stop = new AbortController()
  const waiting = sync.send({ signal: stop.signal })
  stop.abort(new Error("enough"))
  await assert.rejects(waiting, /enough/)
  first.abort(new Error("the other one"))
  assert.equal(await sending, "the other one")
  state.script = [["GET /game/saves", value({ cursor: "1", saves: [] })]]
  await sync.send()
  assert.equal(seen.filter(({ key }) => key.startsWith("GET /game/saves")).length, 2)
})

test("the sides of a conflict end with the signal's reason", WITHIN, async (t) => {
  const current = { ...INFO, sha256: "c".repeat(64) }
  const conflict = { status: 412, code: "version_conflict", detail: "x", base: OLDER, current }
  const { client, state } = await scripted(t, [
    ["GET /game/saves", value({ cursor: "1", saves: [OLDER] })],
    ["GET /game/saves/auto/versions/1", saved],
    ["GET /game/saves?since=1", value({ cursor: "1", saves: [] })],
    ["PUT /game/saves/auto", value(conflict, 412, { "Content-Type": "application/problem+json" })],
    ["GET /game/saves/auto/versions/2", (_, response) => problem(response, 503, "busy")],
  ])
  const sync = await Sync.open(client)
  t.after(() => sync.close())
  await sync.send()
  await sync.read("auto")
  await sync.write("auto", "level 2")
  await sync.send().catch(() => undefined)
  const [found] = sync.conflicts
  await rm(`${client.folder}/sync/${client.place}/ply_1/slots/auto/${HASH}`) // now all sides are at the server
  for (const call of ["theirs", "base", "keepTheirs"]) {
    for (const reason of REASONS) {
      const stop = new AbortController()
      state.script = []
      state.atEnd = () => stop.abort(reason)
      const outcome = await found[call]({ signal: stop.signal }).catch((error) => error)
      assert.equal(outcome, reason, call)
    }
  }
})

test("a download ends in a pause, and a client for one player keeps its tries in it", WITHIN, async (t) => {
  const busy = ["GET /assets/stable", (_, response) => problem(response, 503, "busy")]
  const script = [busy, busy]
  const { client, seen, state } = await scripted(t, script, { sleep: () => new Promise(() => undefined) })
  const stop = new AbortController()
  const ended = (await Assets.open(client)).download("stable", { signal: stop.signal })
  while (script.length > 1) await new Promise((resolve) => setTimeout(resolve, 5))
  stop.abort(new gamed.NotModified("not_modified", "enough"))
  await assert.rejects(ended, /enough/)
  assert.deepEqual(state.script, [busy])
  await assert.rejects((await Assets.open(client.only("ply_1", { tries: 1 }))).download(), gamed.Busy)
  assert.equal(seen.length, 2)
  const text = JSON.stringify({ format: 1, files: { x: { size: 1, sha256: HASH, type: "text/plain" } } })
  const tag = { ETag: `"r${createHash("sha256").update(text).digest("hex").slice(0, 16)}"` }
  const again = new AbortController()
  state.script = [
    ["GET /assets/stable", (_, response) => response.writeHead(200, tag).end(text)],
    [`GET /assets/objects/${HASH}`, busy[1]],
  ]
  const whole = (await Assets.open(client)).download("stable", { signal: again.signal })
  while (state.script.length) await new Promise((resolve) => setTimeout(resolve, 5))
  setTimeout(() => again.abort(new Error("enough")), 100)
  await assert.rejects(whole, /enough/)
})

test("a round that is ended keeps what is pending, whatever the reason", WITHIN, async (t) => {
  const list = { cursor: "1", saves: [{ ...OLDER, slot: "b" }] }
  for (const reason of [...REASONS, new gamed.Conflict("superseded", "enough")]) {
    const { client, state } = await scripted(t, [
      ["GET /game/saves", value(list)],
      ["GET /game/saves/b/versions/1", saved],
    ])
    const sync = await Sync.open(client)
    t.after(() => sync.close())
    await sync.send()
    assert.equal(new TextDecoder().decode((await sync.read("b")).data), "x")
    await sync.write("auto", "x")
    await sync.delete("b")
    const requests = [
      ["GET /game/saves?since=1", value({ cursor: "1", saves: [] })],
      ["PUT /game/saves/auto", value(INFO)],
      ["DELETE /game/saves/b", done],
    ]
    for (let at = 0; at < requests.length; at++) {
      const stop = new AbortController()
      state.script = requests.slice(0, at)
      state.atEnd = () => stop.abort(reason)
      const outcome = await sync.send({ signal: stop.signal }).catch((error) => error)
      assert.equal(outcome, reason)
      assert.equal(sync.problem, null)
      const states = [sync.status("auto").state, sync.status("b").state]
      assert.deepEqual(states, [at < 2 ? "waiting" : "in_step", "waiting"])
    }
    state.script = [["GET /game/saves?since=1", value({ cursor: "2", saves: [INFO] })], requests[2]]
    await sync.send()
    assert.deepEqual([sync.status("auto").state, sync.status("b").state], ["in_step", "in_step"])
  }
})

test("a loop ends at once during a round, by its signal or a close, and keeps what is pending", WITHIN, async (t) => {
  let onPut = () => undefined
  const answer = (key) => (request, response) => {
    if (key.startsWith("PUT")) return onPut(response)
    if (!request.headers.prefer) return json(response, { cursor: "1", saves: [] })
  }
  const { base } = await fake(t, new Proxy({}, { get: (_, key) => answer(key) }))
  const client = await GamedClient.open(base, { folder: await folder(t), sleep: async () => {} })
  await client.keep(COMPLETE)
  const ends = [
    (sync, stop) => stop.abort(new Error("enough")),
    (sync, stop) => stop.abort(new gamed.Unreachable("unreachable", "enough")),
    (sync) => sync.close(),
  ]
  for (const end of ends) {
    const sync = await Sync.open(client)
    await sync.write("auto", "x")
    const stop = new AbortController()
    const asked = new Promise((resolve) => (onPut = resolve))
    const outcome = sync.run(undefined, { signal: stop.signal }).catch((error) => error)
    await asked
    const began = performance.now()
    end(sync, stop)
    assert.equal((await outcome)?.code, stop.signal.aborted ? undefined : "closed")
    assert.ok(performance.now() - began < 5000)
    assert.equal(sync.problem, null)
    await sync.close()
  }
  const sync = await Sync.open(client)
  t.after(() => sync.close())
  assert.equal(sync.status("auto").state, "waiting")
  onPut = (response) => json(response, INFO)
  await sync.send()
  assert.equal(sync.status("auto").state, "in_step")
})
