/** Behaviour of gamed.mjs outside the conformance suite: secrets, locks, addresses, single flight, printed values. */

import assert from "node:assert/strict"
import { spawn } from "node:child_process"
import { mkdir, readFile, readdir, rm, stat, writeFile } from "node:fs/promises"
import { once } from "node:events"
import { Server } from "node:net"
import { test } from "node:test"
import { inspect } from "node:util"

import * as gamed from "../gamed.mjs"
import { Sync } from "../gamed_sync.mjs"
import { COMPLETE, fake, folder, json, problem } from "./fake.mjs"

const { GamedClient, Origin } = gamed
const GAMED = new URL("../gamed.mjs", import.meta.url).href

async function signedIn(t, answers, options = {}) {
  const server = await fake(t, answers)
  const client = await GamedClient.open(server.base, { folder: await folder(t), sleep: async () => {}, ...options })
  await client.keep(COMPLETE)
  return { ...server, client }
}

test("errors: each class has its own name", () => {
  const classes = Object.entries(gamed).filter(([, value]) => value?.prototype instanceof gamed.GamedError)
  assert.equal(classes.length, 25)
  for (const [name, kind] of classes) {
    const error = new kind("code", "detail")
    assert.equal(error.name, name)
    assert.equal(error.passing, ["Unreachable", "Busy", "RateLimited", "DownloadCorrupt"].includes(name))
  }
})

test("sign-in: one that is cancelled while the server starts it opens no browser", async (t) => {
  const stop = new AbortController()
  const letters = "x".repeat(63)
  const names = []
  const answers = {
    "GET /auth/providers": (_, response) => json(response, { providers: [] }),
    "POST /auth/login": (_, response, body) => {
      names.push(JSON.parse(body).client.device_name)
      stop.abort()
      const poll = { url: `${base}/auth/login/collect`, max_wait: 25 }
      const started = { device_secret: "gds_1", expires_in: 600, login_url: `${base}/auth/login/x`, login_id: "lgn_1" }
      json(response, { ...started, poll }, 201)
    },
    "POST /auth/login/cancel": (_, response) => response.writeHead(204).end(),
  }
  const { client, seen, base } = await signedIn(t, answers, { deviceName: `${letters}\u{1f3ae}x` })
  const opened = []
  const person = { browserOpened: () => opened.push("person") }
  const how = { signal: stop.signal, openBrowser: (url) => opened.push(url), loopback: false }
  await assert.rejects(client.signIn(person, how), gamed.LoginCancelled)
  assert.deepEqual(opened, [])
  assert.deepEqual(names, [`${letters}\u{1f3ae}`]) // no half of a surrogate pair, which the server refuses
  assert.equal(seen.filter(({ key }) => key === "POST /auth/login/cancel").length, 1)
})

test("sign-in: one that is cancelled while the server lists its providers is a cancelled one", async (t) => {
  let listing = new AbortController()
  const { client } = await signedIn(t, { "GET /auth/providers": () => listing.abort() })
  const problems = []
  const person = { problem: (error) => problems.push(error.code) }
  await assert.rejects(client.signIn(person, { signal: listing.signal }), gamed.LoginCancelled)
  listing = new AbortController()
  await assert.rejects(client.signIn({ ...person, signal: listing.signal }), gamed.LoginCancelled)
  await rm(`${client.folder}/${client.place}.json`)
  listing = new AbortController()
  assert.equal(await client.ensureSignedIn(person, { signal: listing.signal }), false)
  assert.deepEqual(problems, ["login_cancelled"])
})

test("sign-in: one that is cancelled once it is stored, while the session before ends, has succeeded", async (t) => {
  const stop = new AbortController()
  const fresh = { ...COMPLETE, session_id: "ses_2", access_token: "gat_secret_2", refresh_credential: "grc_secret_2" }
  const { client, seen, base } = await signedIn(t, {
    "GET /auth/providers": (_, response) => json(response, { providers: [] }),
    "POST /auth/login": (_, response) => {
      const poll = { url: `${base}/auth/login/collect`, max_wait: 25 }
      const started = { device_secret: "gds_1", expires_in: 600, login_url: `${base}/auth/login/x`, login_id: "lgn_1" }
      json(response, { ...started, poll }, 201)
    },
    "POST /auth/login/collect": (_, response) => json(response, fresh),
    "POST /auth/login/cancel": (_, response) => response.writeHead(204).end(),
    "POST /auth/session/logout": (_, response) => {
      stop.abort()
      setTimeout(() => response.writeHead(204).end(), 100)
    },
  })
  const how = { signal: stop.signal, openBrowser: null, loopback: false }
  assert.equal((await client.signIn({ browserOpened: () => {} }, how)).sessionId, "ses_2")
  assert.ok(stop.signal.aborted)
  assert.ok(!seen.some(({ key }) => key === "POST /auth/login/cancel"))
})

test("sign-in: without the permission to listen, the player types the code", async (t) => {
  const stop = new AbortController()
  let body = null
  const { client } = await signedIn(t, {
    "GET /auth/providers": (_, response) => json(response, { providers: [] }),
    "POST /auth/login": (_, response, text) => {
      body = JSON.parse(text)
      stop.abort()
      problem(response, 503, "busy")
    },
  })
  const { listen } = Server.prototype
  t.after(() => (Server.prototype.listen = listen))
  Server.prototype.listen = function () {
    process.nextTick(() => this.emit("error", Object.assign(new Error("refused"), { syscall: "listen", code: "EPERM" })))
    return this
  }
  await assert.rejects(client.signIn({}, { signal: stop.signal, openBrowser: () => undefined }), gamed.GamedError)
  assert.notEqual(body, null)
  assert.equal("loopback_port" in body, false)
})

test("addresses: what a player types", () => {
  const good = {
    "play.example.org": "https://play.example.org",
    " HTTPS://Play.Example.org:443/ ": "https://play.example.org",
    "https://play.example.org.:8443": "https://play.example.org:8443",
    "bücher.example": "https://xn--bcher-kva.example",
    "localhost:8080": "http://localhost:8080",
    "http://127.0.0.1": "http://127.0.0.1",
    "http://[::1]:8080": "http://[::1]:8080",
  }
  for (const [typed, origin] of Object.entries(good)) assert.equal(String(Origin.entered(typed)), origin)
  const bad = [
    "",
    "http://play.example.org",
    "https://a@b.example",
    "ftp://a.example",
    "https://a.example/x",
    "https://a b",
    "https://a.example\\@b.example",
    "https://a.example:0",
    "https://a.example:99999",
    "javascript:alert(1)",
    "https://?",
  ]
  for (const typed of bad) assert.throws(() => Origin.entered(typed), gamed.UntrustedAddress, typed)
})

test("addresses: what a server names must be its own, as it is written", () => {
  const origin = Origin.entered("https://play.example.org")
  assert.equal(origin.require("https://play.example.org/auth/login/x"), "https://play.example.org/auth/login/x")
  const bad = [
    "https://play.example.org.evil.example/",
    "https://play.example.org@evil.example/",
    "http://play.example.org/",
    "https://play.example.org:444/",
    "https://play%2eexample.org/",
    "https://play.example.org\\.evil.example/",
    "//play.example.org/",
    "https://play.example.org/\n",
    "https:/play.example.org/",
  ]
  for (const url of bad) assert.throws(() => origin.require(url), gamed.UntrustedAddress, url)
})

test("secrets are in no print, no JSON, no error", async (t) => {
  const { client } = await signedIn(t, { "GET /game/": (_, response) => problem(response, 500, "internal_error") })
  const error = await client.whoami().catch((error) => error)
  assert.equal(error.code, "internal_error")
  for (const shown of [client, client.credential, error, client.only("ply_1")]) {
    assert.doesNotMatch(inspect(shown, { depth: 9, showHidden: true }) + JSON.stringify(shown), /secret/)
  }
})

test("a client for one player sends nothing after the first one has signed out", async (t) => {
  const { client, seen } = await signedIn(t, {
    "GET /game/": (_, response) => json(response, { player: {} }),
    "POST /auth/session/logout": (_, response) => response.writeHead(204).end(),
  })
  const bound = client.only(client.credential.playerId)
  await bound.whoami()
  await client.signOut()
  await assert.rejects(bound.whoami(), (error) => error.code === "signed_out")
  assert.equal(seen.filter(({ key }) => key === "GET /game/").length, 1)
})

test("the credential's file is this user's, and nothing is left beside it", async (t) => {
  const { client } = await signedIn(t, {})
  const file = `${client.folder}/${client.place}.json`
  assert.equal((await stat(file)).mode & 0o777, 0o600)
  assert.deepEqual(await readdir(client.folder), [`${client.place}.json`])
  assert.equal(JSON.parse(await readFile(file, "utf8")).refresh_credential, "grc_secret_1")
})

test("many requests, two clients, one refresh", async (t) => {
  let generation = 1
  const answers = {
    "POST /auth/session/refresh": (_, response) => {
      generation++
      json(response, { ...COMPLETE, access_token: `gat_${generation}`, refresh_credential: `grc_${generation}` })
    },
    "GET /game/": (request, response) => {
      if (request.headers.authorization === `Bearer gat_${generation}`) json(response, { player: {} })
      else problem(response, 401, "token_expired")
    },
  }
  const { client, base, seen } = await signedIn(t, answers)
  const other = await GamedClient.open(base, { folder: client.folder })
  await Promise.all(Array.from({ length: 16 }, (_, number) => (number % 2 ? client : other).whoami()))
  assert.equal(seen.filter(({ key }) => key === "POST /auth/session/refresh").length, 1)
})

test("no cookie, no redirect, no referrer", async (t) => {
  const answers = {
    "GET /auth/config": (_, response) => json(response, { mode: "local", providers: [] }, 200, { "Set-Cookie": "a=b" }),
    "GET /game/": (_, response) => response.writeHead(302, { Location: "/elsewhere" }).end(),
  }
  const { client, seen } = await signedIn(t, answers)
  await client.policy()
  await client.policy()
  await assert.rejects(client.whoami(), gamed.NotGamed)
  assert.equal(seen.length, 3)
  for (const { headers } of seen) assert.equal(headers.cookie ?? headers.referer, undefined)
})

test("what takes too long is given up, and what the caller gave up", async (t) => {
  const { client } = await signedIn(t, { "GET /game/saves": () => {} }, { timeout: 0.05 })
  await assert.rejects(client.listSaves(), gamed.Unreachable)
  const stop = new AbortController()
  const waiting = client.changes(null, { wait: 25, signal: stop.signal })
  stop.abort(new Error("enough"))
  await assert.rejects(waiting, /enough/)
})

test("a signal ends a pause before another try and a wait for a refresh", async (t) => {
  const busy = (_, response) => problem(response, 503, "busy")
  const { client, seen } = await signedIn(t, { "GET /game/saves/auto": busy }, { sleep: () => new Promise(() => {}) })
  const stop = new AbortController()
  const reading = client.get("auto", { signal: stop.signal })
  while (!seen.length) await new Promise((resolve) => setTimeout(resolve, 5))
  setTimeout(() => stop.abort(new Error("enough")), 20)
  await assert.rejects(reading, /enough/)
  const expired = { refresh: new AbortController() }
  await client.keep({ ...COMPLETE, expires_in: 0 })
  const asking = client.whoami({ signal: expired.refresh.signal }) // the server does not answer the refresh
  expired.refresh.abort(new Error("enough"))
  await assert.rejects(asking, /enough/)
})

test("a pause of the game's own need not be a promise, and one object of options is for one client only", async (t) => {
  const saves = { "GET /game/saves/auto": (_, response) => problem(response, 503, "busy") }
  const { client, base } = await signedIn(t, saves, { sleep: () => undefined })
  await assert.rejects(client.get("auto"), gamed.Busy)
  const options = { folder: await folder(t), now: () => 5, deviceName: "first" }
  const first = await GamedClient.open(base, options)
  options.now = () => 4e9
  const credential = await first.keep({ ...COMPLETE, expires_in: 100 })
  assert.equal(credential.accessExpires, 105)
})

test("members of an answer have names in camelCase, and those of the protocol until 1.0", async (t) => {
  const odd = JSON.parse('{"__proto__": {"inherited": 1}, "_": 1}')
  const session = { session_id: "ses_1", current: true, client: { device_name: "Tablet" }, __proto__: null }
  const { client } = await signedIn(t, {
    "GET /auth/sessions": (_, response) => json(response, { sessions: [session, "none"] }),
    "GET /game/": (_, response) => {
      const limits = JSON.parse('{"slot_bytes": 7, "slots": 9}')
      json(response, { player: { id: "ply_1" }, usage: { history_bytes: 5 }, limits, ...odd })
    },
  })
  const [found, ...others] = await client.listSessions()
  assert.deepEqual([found.sessionId, found.session_id, found.client.deviceName, others], ["ses_1", "ses_1", "Tablet", []])
  const overview = await client.whoami()
  const { usage, limits } = overview
  assert.deepEqual([usage.historyBytes, usage.history_bytes], [5, 5])
  assert.deepEqual(limits, { slot_bytes: 7, slots: 9 }) // a map: each name is that of a limit
  assert.equal(overview.inherited, undefined)
})

test("a reader of statuses gets the newest of each slot, and ends with its Sync or its signal", async (t) => {
  const answers = {
    "GET /game/saves": (_, response) => json(response, { cursor: "1", saves: [] }),
    "GET /game/saves?since=1": (_, response) => json(response, { cursor: "1", saves: [] }),
    "PUT /game/saves/auto": (_, response) => problem(response, 413, "save_too_large"),
  }
  const { client } = await signedIn(t, answers)
  const sync = await Sync.open(client)
  t.after(() => sync.close())
  const stop = new AbortController()
  const read = async (options) => {
    const found = []
    for await (const { slot, state } of sync.statuses(options)) found.push(`${slot} ${state}`)
    return found
  }
  const all = read()
  const given = read({ signal: stop.signal })
  await sync.write("auto", "level 1")
  await sync.send()
  stop.abort(new Error("enough"))
  await assert.rejects(given, /enough/)
  const info = { slot: "auto", version: 1, etag: '"1-ab"', size: 7, sha256: await gamed.sha256Hex("level 2") }
  answers["PUT /game/saves/auto"] = (_, response) => json(response, info, 201)
  await sync.write("auto", "level 2")
  await sync.send()
  await sync.close()
  assert.deepEqual(await all, ["auto refused", "auto in_step"])
})

test("a reader of statuses listens from the call on, and stops at once, also while it waits", { timeout: 20_000 }, async (t) => {
  const { client } = await signedIn(t, {
    "GET /game/saves": (_, response) => json(response, { cursor: "1", saves: [] }),
    "GET /game/saves?since=1": (_, response) => json(response, { cursor: "1", saves: [] }),
    "PUT /game/saves/auto": (_, response) => problem(response, 413, "save_too_large"),
  })
  const sync = await Sync.open(client)
  t.after(() => sync.close())
  const [early, left] = [sync.statuses(), sync.statuses()]
  const waiting = [left.next(), left.next()]
  const end = { done: true, value: undefined }
  assert.deepEqual([await left.return(), ...(await Promise.all(waiting))], [end, end, end])
  await sync.write("auto", "level 1")
  await sync.send()
  for await (const { slot, state } of early) {
    assert.deepEqual([slot, state], ["auto", "refused"])
    break
  }
  assert.deepEqual([await early.next(), await left.next()], [end, end])
  const failing = sync.statuses()
  await assert.rejects(failing.throw(new Error("enough")), /enough/)
  assert.deepEqual(await failing.next(), end)
  const shared = sync.statuses()
  const both = [shared.next(), shared.next()]
  await sync.write("b", "level 1")
  await sync.send()
  assert.equal((await both[0]).value.slot, "b")
  await sync.close()
  assert.deepEqual([await both[1], await sync.statuses().next()], [end, end])
})

test("run accepts its arguments in the order of before 1.0, and half of it", { timeout: 20_000 }, async (t) => {
  const { client } = await signedIn(t, {
    "GET /game/saves": (_, response) => json(response, { cursor: "1", saves: [] }),
    "GET /game/saves?since=1": (_, response) => json(response, { cursor: "1", saves: [] }),
    "PUT /game/saves/auto": (_, response) => problem(response, 413, "save_too_large"),
    "PUT /game/saves/b": (_, response) => problem(response, 413, "save_too_large"),
    "PUT /game/saves/c": (_, response) => problem(response, 413, "save_too_large"),
  })
  const sync = await Sync.open(client)
  t.after(() => sync.close())
  const slots = ["auto", "b", "c"]
  const halfway = (signal, changed) => [changed, signal]
  for (const order of [(signal, changed) => [signal, changed], halfway, (signal, changed) => [changed, { signal }]]) {
    const stop = new AbortController()
    const found = []
    const running = sync.run(...order(stop.signal, (status) => found.push(status.state)))
    await sync.write(slots.pop(), "level 1")
    while (!found.includes("refused")) await new Promise((resolve) => setTimeout(resolve, 5))
    stop.abort()
    await running
  }
})

test("an upload refused before it was read is an answer", async (t) => {
  const { client, early } = await signedIn(t, {})
  early["PUT /game/saves/auto"] = (_, response) => problem(response, 413, "save_too_large", { Connection: "close" })
  await assert.rejects(client.put("auto", new Uint8Array(20 << 20), { base: null }), gamed.QuotaExceeded)
})

test("the error for a file that is not writable shows no error code and no path", async (t) => {
  const answers = { "GET /game/saves": (_, response) => json(response, { cursor: "1", saves: [] }) }
  const { client } = await signedIn(t, answers)
  const sync = await Sync.open(client)
  await mkdir(`${client.folder}/sync/${client.place}/ply_1/cursor/in-the-way`, { recursive: true })
  await assert.rejects(sync.send(), gamed.LocalDamaged)
  const stop = new AbortController()
  const running = sync.run(undefined, { signal: stop.signal })
  while (sync.problem === null) await new Promise((resolve) => setTimeout(resolve, 10))
  assert.match(sync.problem.detail, /^This device cannot read or write a file: [a-z ]+\.$/)
  stop.abort()
  await running
  await sync.close()
})

test("the first read waits for the first list, and a device that was never online says so", async (t) => {
  const answers = { "GET /game/saves": (_, response) => problem(response, 503, "busy") }
  const { client } = await signedIn(t, answers)
  const sync = await Sync.open(client)
  const stop = new AbortController()
  const running = sync.run(undefined, { signal: stop.signal })
  assert.equal(await sync.ready(0.05), false)
  await assert.rejects(sync.read("auto"), { code: "not_known" })
  assert.equal(sync.status("auto").state, "unknown")
  answers["GET /game/saves"] = (_, response) => json(response, { cursor: "1", saves: [] })
  assert.equal(await sync.ready(60), true)
  assert.equal(await sync.read("auto"), null)
  stop.abort()
  await running
  await sync.close()
  const again = await Sync.open(client)
  answers["GET /game/saves?since=1"] = (_, response) => problem(response, 503, "busy")
  await assert.rejects(again.send(), gamed.Busy)
  assert.equal(await again.ready(60), true) // it knows its saves, so it does not wait for the server
  await again.close()
})

test("a Sync that was started sends what is pending before it closes, unless the server is away", async (t) => {
  const answers = {
    "GET /game/saves": (_, response) => json(response, { cursor: "1", saves: [] }),
    "GET /game/saves?since=1": (_, response) => json(response, { cursor: "1", saves: [] }),
  }
  const { client, seen } = await signedIn(t, answers)
  const sha256 = await gamed.sha256Hex("level 1")
  const info = { slot: "auto", version: 1, etag: '"1-ab"', size: 7, sha256 }
  answers["PUT /game/saves/auto"] = (_, response) => setTimeout(() => json(response, info, 201), 200)
  const sync = await Sync.open(client)
  sync.start()
  await sync.ready()
  await sync.write("auto", "level 1")
  await sync.close(60)
  assert.equal(seen.filter(({ key }) => key === "PUT /game/saves/auto").length, 1)
  const again = await Sync.open(client)
  assert.equal(again.status("auto").state, "in_step")
  answers["GET /game/saves?since=1"] = (_, response) => problem(response, 503, "busy")
  again.start()
  await again.write("auto", "level 2")
  await again.close(60)
  assert.equal(again.problem.code, "busy")
  const third = await Sync.open(client)
  assert.equal(third.status("auto").state, "waiting")
  await third.close()
})

test("a write says what it replaces, its meta in one line of ASCII", async (t) => {
  const found = []
  const info = { slot: "auto", version: 1, etag: '"1-ab"', size: 1, sha256: "a".repeat(64) }
  const answers = {
    "PUT /game/saves/auto": (request, response) => (found.push(request.headers), json(response, info, 201)),
  }
  const { client } = await signedIn(t, answers)
  await client.put("auto", "x", { base: null, meta: { title: "Küche \u2028 \u{1f33b}" } })
  await client.put("auto", "x", { base: '"1-ab"' })
  await assert.rejects(client.put("auto", "x", {}), TypeError)
  await assert.rejects(client.put("auto", "x", { base: null, contentType: "text/plain\n" }), gamed.Refused)
  assert.equal(found[0]["save-meta"], '{"title":"K\\u00fcche \\u2028 \\ud83c\\udf3b"}')
  assert.deepEqual([found[0]["if-none-match"], found[1]["if-match"]], ["*", '"1-ab"'])
})

test("a lock goes with its process, also by the way of systems without Linux's names", async (t) => {
  const place = await folder(t)
  for (const platform of ["linux", "freebsd"]) {
    const script = `import { lockOf } from "${GAMED}"
      console.log(Boolean(await lockOf("${place}/lock", "${platform}")))
      setInterval(() => {}, 1000)`
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    })
    t.after(() => child.kill("SIGKILL"))
    assert.equal(String((await once(child.stdout, "data"))[0]).trim(), "true")
    assert.equal(await gamed.lockOf(`${place}/lock`, platform), null)
    child.kill("SIGKILL")
    await once(child, "exit")
    const release = await gamed.lockOf(`${place}/lock`, platform)
    assert.ok(release)
    assert.equal(await gamed.lockOf(`${place}/lock`, platform), null)
    release()
  }
})

test("where a platform keeps what a program remembers", () => {
  assert.equal(gamed.stateFolder("my game", "linux", {}, "/home/a"), "/home/a/.local/state/my game")
  assert.equal(gamed.stateFolder("g", "linux", { XDG_STATE_HOME: "/s" }, "/home/a"), "/s/g")
  assert.equal(gamed.stateFolder("g", "darwin", {}, "/Users/a"), "/Users/a/Library/Application Support/g")
  assert.equal(gamed.stateFolder("g", "win32", { LOCALAPPDATA: "C:\\L" }, "C:\\a"), "C:\\L\\g")
})

test("a pause is what the server asks for, and a little more; else it grows, and is spread", () => {
  const busy = new gamed.Busy("busy", "busy.")
  for (let attempt = 0; attempt < 9; attempt++) {
    const pause = gamed.pauseAfter(busy, attempt)
    assert.ok(pause >= 0.1 && pause <= 8)
  }
  busy.retryAfter = 12
  const pause = gamed.pauseAfter(busy, 0)
  assert.ok(pause >= 12 && pause <= 15.1)
})

test("saves: notes of a player that cannot be read hide neither the saves nor other players", async (t) => {
  const { client } = await signedIn(t, {}, { tries: 1 })
  const place = `${client.folder}/sync/${client.place}`
  await mkdir(`${place}/ply_1/player`, { recursive: true })
  await client.keep({ ...COMPLETE, player: { ...COMPLETE.player, name: "Anna" } })
  const own = await Sync.open(client)
  await own.write("auto", "of anna")
  await own.close()
  await client.keep({ ...COMPLETE, player: { id: "ply_2" } })
  await mkdir(`${place}/ply_3/slots/auto/record`, { recursive: true })
  const sync = await Sync.open(client)
  t.after(() => sync.close())
  for (const notes of ['{"adopted":null,"name":5}', '{"adopted":5}', '{"adopted":[5]}', "5", "["]) {
    await writeFile(`${place}/ply_2/player`, notes)
    await rm(`${place}/ply_1/player`, { recursive: true })
    await writeFile(`${place}/ply_1/player`, notes)
    const found = await sync.otherPlayers()
    assert.deepEqual(found.map(({ playerId, name }) => [playerId, name]), [["ply_1", null]])
  }
  assert.deepEqual(await sync.adopt("ply_1"), ["auto"])
  assert.equal(sync.status("auto").state, "newer")
})

async function endsAtOnce(t, begin) {
  const list = (_, response) => json(response, { cursor: "1", saves: [] })
  const { client, answers } = await signedIn(t, { "GET /game/saves": list })
  const arrived = {}
  const waits = new Promise((resolve) => (arrived.wait = resolve))
  const puts = new Promise((resolve) => (arrived.put = resolve))
  answers["GET /game/saves?since=1"] = ({ headers }, response) =>
    headers.prefer ? arrived.wait(response) : list(null, response)
  answers["PUT /game/saves/auto"] = (_, response) => arrived.put(response)
  const sync = await Sync.open(client)
  const running = begin(sync)
  await sync.ready()
  const wait = await waits
  await sync.write("auto", "level 1")
  const put = await puts
  const ended = once(wait, "close")
  const closing = sync.close()
  await ended
  assert.equal(put.destroyed, false)
  problem(put, 503, "busy")
  await closing
  await running
}

test("close ends the wait of start at once, also while a round waits for its answer", (t) =>
  endsAtOnce(t, (sync) => sync.start()))

test("close ends the wait of run at once, also while a round waits for its answer", (t) =>
  endsAtOnce(t, (sync) => assert.rejects(sync.run(), { code: "closed" })))

test("the older names of a Sync do the same until 1.0", async (t) => {
  const { client } = await signedIn(t, { "GET /game/saves": (_, response) => problem(response, 503, "busy") })
  const sync = await Sync.open(client)
  await assert.rejects(sync.pump(), gamed.Busy)
  assert.equal(sync.trouble, sync.problem)
  assert.equal(sync.problem.code, "busy")
  await sync.write("auto", "level 1")
  await sync.delete("auto")
  assert.equal(new TextDecoder().decode((await sync.dropped("auto")).data), "level 1")
  assert.deepEqual(await sync.dropped("auto"), await sync.lost("auto"))
  await sync.close()
})
