/** A fake server of one player with scripted responses, and a folder for a client's files. */

import { mkdtemp, rm } from "node:fs/promises"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** The result of a finished sign-in. */
export const COMPLETE = {
  status: "complete",
  provider: "local",
  player: { id: "ply_1", created: true, owner: false },
  session_id: "ses_1",
  access_token: "gat_secret_1",
  refresh_credential: "grc_secret_1",
  expires_in: 900,
}

/** Start a server. `answers`: "METHOD /path" to (request, response, body) => ...; `early`: run before the body is read. */
export async function fake(test, answers = {}) {
  const seen = []
  const early = {}
  const server = createServer(async (request, response) => {
    const key = `${request.method} ${request.url}`
    seen.push({ key, headers: request.headers })
    if (early[key]) return early[key](request, response)
    const parts = []
    for await (const part of request) parts.push(part)
    const answer = answers[key]
    if (answer) answer(request, response, Buffer.concat(parts).toString())
    else problem(response, 404, "route_not_found")
  })
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve))
  test.after(() => (server.closeAllConnections(), server.close()))
  return { base: `http://127.0.0.1:${server.address().port}`, seen, early, answers }
}

export async function folder(test) {
  const made = await mkdtemp(join(tmpdir(), "gamed-js-"))
  test.after(() => rm(made, { recursive: true, force: true, maxRetries: 9 })) // a call may still write there
  return made
}

export function json(response, value, status = 200, headers = {}) {
  const body = JSON.stringify(value)
  response.writeHead(status, {
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
    "Gamed-Protocol": "1.0",
    ...headers,
  })
  response.end(body)
}

export function problem(response, status, code, headers = {}) {
  json(response, { code, detail: `${code}.`, status }, status, {
    "Content-Type": "application/problem+json",
    ...headers,
  })
}
