// Firefox over WebDriver BiDi, for the tests in Python: each line of stdin is a call in JSON, [name, ...arguments], and
// each line of stdout its answer, {result} or {error}. Arguments: the program, the colour scheme, the folder of downloads.
// Ends with stdin.
import { createInterface } from 'node:readline'
import puppeteer from 'puppeteer-core'

const browser = await puppeteer.launch({
  browser: 'firefox',
  executablePath: process.argv[2],
  headless: true,
  acceptInsecureCerts: true,
  extraPrefsFirefox: {
    'intl.accept_languages': 'en',
    'ui.systemUsesDarkTheme': process.argv[3] === 'dark' ? 1 : 0,
    'browser.download.folderList': 2, // the folder below
    'browser.download.dir': process.argv[4],
    'ui.prefersReducedMotion': 1, // no page has a rule for it; Firefox's signs of loading take a fifth of its time
    'dom.ipc.processPrelaunch.enabled': false, // a process that waits for the next site takes a second each time
  },
})
const TALLEST = 65535 // pixels of a picture
const errors = []
const pages = []
const page = () => pages.at(-1)

function watch(opened) {
  opened.on('pageerror', (error) => errors.push(error.message)) // also what a Content-Security-Policy has blocked
  opened.on('console', (message) => message.type() === 'error' && errors.push(message.text()))
  pages.push(opened)
}

/** The element that a function in text returns, such as '(name) => document.getElementById(name)'. */
async function element([script, ...values]) {
  const handle = await page().evaluateHandle(`(${script})(...${JSON.stringify(values)})`)
  return handle.asElement() ?? Promise.reject(new Error(`nothing has these words: ${values}`))
}

const calls = {
  // not goto(), which waits for ever after a download: puppeteer takes that for a navigation under way
  open: (url) => page().mainFrame().browsingContext.navigate(url, 'complete').then(() => null),
  evaluate: (script, values) => page().evaluate(`(${script})(...${JSON.stringify(values)})`),
  click: async (found) => (await element(found)).click(),
  async type(found, text) {
    const field = await element(found)
    await field.evaluate((input) => input.select())
    await field.type(text)
  },
  resize: (width, height) => page().setViewport({ width, height }),
  async newest() {
    const opened = (await browser.pages()).filter((each) => !pages.includes(each))
    if (opened.length) watch(opened.at(-1))
    return opened.length > 0
  },
  beside: async () => watch(await browser.newPage()),
  leave: () => pages.pop().close(),
  async draw(path) {
    const height = await page().evaluate(() => document.documentElement.scrollHeight)
    await page().screenshot(height > TALLEST ? { path } : { path, fullPage: true })
  },
  errors: () => errors.splice(0),
}

watch((await browser.pages())[0] ?? (await browser.newPage()))
console.log(JSON.stringify({ result: await browser.version() }))
for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...values] = JSON.parse(line)
  try {
    console.log(JSON.stringify({ result: (await calls[name](...values)) ?? null }))
  } catch (error) {
    console.log(JSON.stringify({ error: String(error?.message ?? error) }))
  }
}
await browser.close()
