// npm oidc-provider, with an account chooser for prompt=select_account and its own consent page.
// One argument, JSON: port, issuer, client_id, client_secret, redirect_uri. Prints "ready" when it listens.
import { createServer } from 'node:http'
import Provider, { interactionPolicy } from 'oidc-provider'

const options = JSON.parse(process.argv[2])
const prompts = interactionPolicy.base()
prompts.add(new interactionPolicy.Prompt({ name: 'select_account', requestable: true }), 0)

const provider = new Provider(options.issuer, {
  clients: [{
    client_id: options.client_id,
    client_secret: options.client_secret,
    redirect_uris: [options.redirect_uri],
    response_types: ['code'],
    grant_types: ['authorization_code'],
  }],
  pkce: { required: () => true },
  scopes: ['openid'],
  interactions: { policy: prompts },
  cookies: { keys: ['only for tests'] },
  async findAccount(_, id) {
    return { accountId: id, claims: async () => ({ sub: id }) }
  },
})

const chooser = '<!DOCTYPE html><html lang="en"><title>Choose an account</title><h1>Choose an account</h1>'
  + '<form method="post"><label>Account <input name="account"></label><button>Next</button></form>'

provider.use(async (ctx, next) => {
  if (!/^\/interaction\/[^/]+$/.test(ctx.path)) return next()
  const { prompt } = await provider.interactionDetails(ctx.req, ctx.res)
  if (prompt.name !== 'select_account') return next()
  if (ctx.method === 'GET') {
    ctx.type = 'html'
    ctx.body = chooser
    return undefined
  }
  let body = ''
  for await (const part of ctx.req) body += part
  const accountId = new URLSearchParams(body).get('account')
  const result = { select_account: {}, login: { accountId } }
  return ctx.redirect(await provider.interactionResult(ctx.req, ctx.res, result))
})

createServer(provider.callback()).listen(options.port, '127.0.0.1', () => console.log('ready'))
