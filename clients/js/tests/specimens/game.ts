/** A game in TypeScript that uses every part of the client; it is compiled, not run. */

import { Conflict, GamedClient, GamedError, SaveInfo, VERSION } from "../../gamed.mjs"
import type { Complete, Deletion, Person, Provider, Save, Session, Version } from "../../gamed.mjs"
import { Assets, DiskFull } from "../../gamed_assets.mjs"
import { Dialog } from "../../gamed_dialog.mjs"
import { ConflictOver, NotKnown, Sync } from "../../gamed_sync.mjs"
import type { Side, Status } from "../../gamed_sync.mjs"

const person: Person = {
  chooseProvider: (providers: readonly Provider[]) => providers[0]?.name ?? "discord",
  browserOpened: (url, opened, qrUrl) => void [url.length, opened, qrUrl?.length],
  finishCode: async (showCode, attemptsLeft, signal) => {
    await showCode?.()
    return signal.aborted || attemptsLeft === 0 ? null : "BKT-RVW"
  },
  problem: (error) => alert(error.detail),
}

export const isNewest: boolean = VERSION === "1.0.1" // another release of this file

export async function play(server: string): Promise<void> {
  const client = await GamedClient.open(server, { app: "mygame", deviceName: "Anna's tablet" })
  if (!(await client.ensureSignedIn(new Dialog({ title: "Hello" }), { loopback: false }))) return
  const save: Save | null = await client.get("auto")
  try {
    const info: SaveInfo = await client.put("auto", "level 4", { base: save, meta: { title: "Chapter 4" } })
    const device: string | null = info.device
    console.log(device)
  } catch (error) {
    if (!(error instanceof Conflict)) throw error
    console.log(error.current?.etag, error.slots[0]?.slot)
  }
  const written: (SaveInfo | Deletion)[] = await client.commit([
    { slot: "world", data: new Uint8Array([1]), base: save },
    { slot: "old", delete: true, base: "*" },
  ])
  const [first] = written
  if (first && "deleted" in first) console.log(first.version)
  const versions: Version[] = await client.versions("auto")
  console.log(versions[0]?.save?.sha256)
  const login = await client.beginSignIn(person, { returnUri: "com.example.game:/signin", provider: "discord" })
  await login.run((complete: Complete) => client.keep(complete))
  client.returned("com.example.game:/signin?login_id=x&ticket=y")
  const bytes: number = await client.export("saves.zip")
  const blob: Blob = await client.export()
  const linked: string = await client.link(person, "google")
  for (const { sessionId, current } of await client.listSessions()) if (!current) await client.endSession(sessionId)
  for (const { provider } of await client.listIdentities()) if (provider !== linked) await client.unlink(provider)
  const tickets: string[] = [await client.ticket("match.example", "nonce"), await client.ticket("match.example")]
  console.log(tickets.length)
  await client.eraseSaves()
  await client.deletePlayer()
  console.log(bytes, blob.size, (await client.whoami()).limits["slots"], await client.setName(null))
}

/** A person whose buttons are a list that may change, and a client that an earlier version of this file knew. */
export class Asks implements Person {
  chooseProvider(providers: Provider[]): string {
    return providers.pop()?.name ?? "discord"
  }
  browserOpened(): void {}
  finishCode(): null {
    return null
  }
}

declare module "../../gamed.mjs" {
  interface Session {
    nickname?: string
  }
}

/** The names of the protocol, until 1.0. */
export async function namesOfTheProtocol(client: GamedClient, complete: Complete): Promise<unknown[]> {
  const [session] = await client.listSessions()
  const sessions: unknown[] = [session?.session_id, session?.last_used_at, session?.expires_at, session?.created_at]
  const device: string | undefined = session?.client?.device_name ?? session?.client?.deviceName ?? session?.nickname
  const [identity] = await client.listIdentities()
  const { usage } = await client.whoami()
  const bytes: number = usage.history_bytes
  const others: unknown[] = [session?.["address"], identity?.["subject"], complete["linked"]]
  return [...sessions, device, identity?.can_sign_in, identity?.linked_at, identity?.last_used_at, bytes, ...others]
}

export async function cancel(client: GamedClient, signal: AbortSignal): Promise<number> {
  await client.put("auto", "level 5", { base: "*", signal })
  const save: Save | null = await client.get("auto", { signal })
  await client.commit([{ slot: "old", delete: true, base: "*" }], { signal })
  await client.changes(null, { wait: 25, signal })
  const { usage } = await client.whoami({ signal })
  return usage.historyBytes + (save?.data.length ?? 0)
}

export async function playOffline(client: GamedClient, signal: AbortSignal): Promise<void> {
  const sync = await Sync.open(client)
  void sync.run(({ state, problem }: Status) => console.log(state, problem?.detail), { signal })
  void sync.run(signal, ({ state }: Status) => console.log(state)) // until 1.0
  void sync.run()
  for await (const { slot, state } of sync.statuses({ signal })) console.log(slot, state)
  if (!(await sync.ready(3))) console.log(sync.problem?.detail)
  try {
    await sync.write("auto", (await sync.read("auto"))?.data ?? "level 1", { contentType: "text/plain" })
  } catch (error) {
    if (error instanceof NotKnown) console.log(error.retryAfter)
  }
  await sync.send({ signal })
  const lost: Side | null = await sync.lost("auto")
  console.log(lost?.data, await sync.dropped("auto"), await sync.pump({ signal }), sync.trouble?.code) // until 1.0
  for (const conflict of sync.conflicts) {
    const theirs: Side | null = await conflict.theirs()
    try {
      if (theirs?.device && conflict.reason === "changed") await conflict.keepTheirs()
      else await conflict.merged("both", { meta: null })
    } catch (error) {
      if (!(error instanceof ConflictOver)) throw error
    }
  }
  await sync.close()
}

export async function download(client: GamedClient): Promise<string> {
  const assets = await Assets.open(client, { folder: "assets" })
  try {
    await assets.download("stable", { progress: ({ done, size }) => console.log(done / size) })
  } catch (error) {
    if (error instanceof DiskFull || error instanceof GamedError) console.log(error.detail)
  }
  await assets.switch()
  return assets.url("pictures/meadow.svg")
}

export function mistakes(client: GamedClient, session: Session): void {
  // @ts-expect-error: the name of a member is sessionId
  const id: string = session["sesionId"]
  console.log(id)
  // @ts-expect-error: a write needs a base
  void client.put("auto", "level 4")
  // @ts-expect-error: the constructor is private
  new GamedClient()
  // @ts-expect-error: a number is not the bytes of a save
  void client.put("auto", 4, { base: null })
  // @ts-expect-error: this scope does not exist
  void client.signOut("everywhere")
  // @ts-expect-error: a person has to answer for the code
  void client.ensureSignedIn({ chooseProvider: () => "discord", browserOpened: () => undefined })
}
