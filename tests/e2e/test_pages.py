"""Every page in a real browser: axe reports nothing, narrow windows fit, and the focus is visible."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from playwright.sync_api import Browser, Page
from twisted.trial.unittest import TestCase

from gamed.config.model import Look, Mark, Registration
from gamed.login import views
from gamed.pages.model import Frame, ServerName
from gamed.pages.render import PageRenderer
from tests.account import gallery as player_gallery
from tests.config.test_look import SHAPES
from tests.e2e.chromium import chromium
from tests.e2e.other_origin import installed
from tests.e2e.structures import every_page, has_many_rows, structures
from tests.login import gallery
from tests.login.gallery import RENDERER, Shown
from tests.pages.test_texts import words
from tests.support.covers import covers

HERE, EVIL = "https://game.example/", "https://evil.example/"
NARROW = {"width": 320, "height": 568}
"""In CSS pixels: 1280 px at 400 % zoom (WCAG 2.2, 1.4.10), 640 px at 200 %, and narrower than any phone."""
PHONE = {"width": 360, "height": 640}
TABLET = {"width": 768, "height": 1024}
DESKTOP = {"width": 1280, "height": 800}
LARGE = "html { font-size: 200% }"
SPACING = "* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important; }"
"""WCAG 2.2, 1.4.12."""

SCHEMES = ("light", "dark")
Found = dict[str, Any]

COLOURS = ("color-contrast", "link-in-text-block")
"""The rules of axe-core that see colours; they take most of its time."""
AXE = """async () => (await axe.run({ resultTypes: ['violations'] })).violations
    .map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' '))"""
AXE_WITH = """async () => (await axe.run(%s)).violations
    .map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' '))"""
CUT = """() => [document.documentElement, ...document.querySelectorAll('main, main *')]
    .filter(e => getComputedStyle(e).display !== 'inline' && e.localName !== 'input')
    .filter(e => e.scrollWidth > e.clientWidth + 1)
    .map(e => e.outerHTML.slice(0, 120))"""
"""Elements whose content is wider than they are; a field scrolls what is typed."""
SMALL = """() => {
    document.querySelectorAll('form[hidden]').forEach(e => { e.hidden = false });
    const all = 'button, .button, input:not([type=hidden], [hidden] *), summary, :is(.places, .chips, .languages li) a';
    return [...document.querySelectorAll(all)]
        .filter(e => { const r = e.getBoundingClientRect(); return r.height < 44 || r.width < 44 })
        .map(e => e.outerHTML)
}"""
"""The form of a passkey is shown first, as its script does where a browser has passkeys."""
BELOW = """() => [...document.querySelectorAll('button')].filter(e => !e.closest('details:not([open])'))
    .filter(e => e.getBoundingClientRect().bottom > innerHeight).map(e => e.outerHTML)"""
PAINTED = """() => {
    const style = getComputedStyle(document.querySelector('button'));
    return [document.images[0].naturalWidth > 0, style.backgroundColor, style.color]
}"""
FILLED = """() => [...document.querySelectorAll('.card')]
    .filter(e => e.querySelectorAll('.main').length > 1).map(e => e.outerHTML.slice(0, 120))"""
"""Cards with more than one way forward."""
IN_TURN = """async pages => {
    const found = [], parser = new DOMParser();
    for (const html of pages) {
        const next = parser.parseFromString(html, 'text/html'), { lang, dir } = next.documentElement;
        Object.assign(document.documentElement, { lang, dir });
        document.title = next.title;
        document.body.replaceWith(next.body);
        found.push(await (%s)());
    }
    return found;
}"""
COMMON = re.compile(r'<style>.*?</style>|<footer class="languages">.*?</footer>', re.DOTALL)
WIDE = """() => [...document.querySelectorAll('button, .button')].filter(e => {
    const before = e.getAttribute('style'), width = e.getBoundingClientRect().width;
    e.style.cssText = 'width: max-content; max-width: none';
    const own = e.getBoundingClientRect().width;
    before === null ? e.removeAttribute('style') : e.setAttribute('style', before);
    return width > own + 1;
}).map(e => e.outerHTML)"""
"""Buttons that are wider than their words."""
BESIDE = """() => [...document.querySelectorAll('.danger')].filter(e => {
    const acts = [...e.closest('.side, .card').querySelectorAll('button, .button')];
    const box = e.getBoundingClientRect(), level = other => {
        const its = other.getBoundingClientRect();
        return other !== e && its.top < box.bottom && its.bottom > box.top;
    };
    return acts.at(-1) !== e || acts.some(level);
}).map(e => e.outerHTML)"""
"""Acts that cannot be undone, beside another act of their card or before one."""
UNNAMED = """() => {
    const names = [...document.querySelectorAll('button, a.button')].map(e => e.ariaLabel || e.textContent.trim());
    return names.filter((name, at) => names.indexOf(name) !== at);
}"""
"""Names that two buttons have for a screen reader."""
SVG = "image/svg+xml"
SIGN = """() => {
    const e = document.querySelector('.seal'), svg = e.querySelector('svg');
    const drawn = svg.querySelector('path').getBBox();
    return [e.getAttribute('class'), svg.getAttribute('aria-hidden'), drawn.width > 10 && e.clientWidth]
}"""
STOPS = """() => {
    document.querySelectorAll('details').forEach(e => { e.open = true });
    return [...document.querySelectorAll('a, button, input:not([type=hidden], [hidden] *), summary')]
        .map(e => e.id || e.textContent)
}"""
FOCUSED = """() => {
    const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
    const within = box.top >= 0 && box.bottom <= innerHeight;
    return [e.id || e.textContent, style.outlineStyle, parseFloat(style.outlineWidth), within]
}"""
REFUSED = """() => {
    const e = document.activeElement, box = document.querySelector('.refused').getBoundingClientRect();
    return [e.name, box.top >= 0 && box.bottom <= innerHeight, e.getAttribute('aria-describedby').split(' ')[0]]
}"""
STYLED = f"""texts => texts.flatMap(text => {{
    const sheet = new CSSStyleSheet(); sheet.replaceSync(text); document.adoptedStyleSheets = [sheet];
    return ({CUT})().map(cut => text + cut)
}})"""


def named(name: str) -> Shown:
    return next(page for page in gallery.every_page() if page.name == name)


class PageCase(TestCase):
    def look(
        self, pages: Iterable[Shown], step: Callable[[Page], Any], script: str = "", loaded: bool = False, **window: Any
    ) -> Found:
        """Return the findings of `step` on each page that has some, after `script` has run. The browser loads the first
        page from the service, and the others if `loaded`. Otherwise they are written into the same document, for speed:
        its Content-Security-Policy stays in force.
        """
        first, *others = pages

        def work(browser: Browser) -> Found:
            shown = first
            with browser.new_context(**{"viewport": PHONE, **window}) as context:
                page = context.new_page()
                page.route(HERE, lambda route: route.fulfill(body=shown.html, headers=dict(RENDERER.headers)))
                page.goto(HERE)
                page.evaluate(script)
                found = {first.name: step(page)}
                for shown in others:
                    if loaded:
                        page.goto(HERE)
                    else:
                        page.set_content(shown.html.decode())
                    found[shown.name] = step(page)
                return {name: what for name, what in found.items() if what}

        return chromium().do(work)

    def measure(self, pages: Sequence[Shown], script: str, prelude: str = "", **window: Any) -> Found:
        """Return what `script` finds on each page that has some. The pages take turns in one document, without a call
        of Playwright for each, which is four times as fast as look(). The style sheet and the list of languages, which
        all pages have, come with the first one only.
        """

        def work(browser: Browser) -> Found:
            with browser.new_context(**{"viewport": PHONE, **window}) as context:
                page = context.new_page()
                page.route(HERE, lambda route: route.fulfill(body=pages[0].html, headers=dict(RENDERER.headers)))
                page.goto(HERE)
                page.evaluate(prelude)
                html = [each.html.decode() for each in pages]
                found = page.evaluate(IN_TURN % script, [html[0], *(COMMON.sub("", each) for each in html[1:])])
                return {each.name: what for each, what in zip(pages, found, strict=True) if what}

        return chromium().do(work)


@cache
def axe_core() -> str:
    """Return the source of axe-core."""
    return (installed() / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


def axe(without: Iterable[str] = (), only: Iterable[str] = ()) -> str:
    """Return a function that runs axe-core without some of its rules, or only these, and returns what it finds."""
    options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
    options |= {"rules": {rule: {"enabled": False} for rule in without}}
    options |= {"runOnly": [*only]} if only else {}
    return AXE_WITH % json.dumps(options)


def all_of(**scripts: str) -> str:
    """Return a function that returns the findings of all these functions, each with its name."""
    found = ", ".join(f"...({script})().map(found => '{name}: ' + found)" for name, script in scripts.items())
    return f"() => [{found}]"


def with_styles(*styles: str) -> str:
    """Return a function that returns the elements that each of these style sheets cuts off; the last one stays."""
    return f"() => ({STYLED})({json.dumps(styles)})"


def begun(page: Page) -> Any:
    """Return the field that the browser focuses soon after it has loaded a returned form."""
    page.locator(":focus").wait_for()
    return page.evaluate(REFUSED)


class AxeTests(PageCase):
    """All default rules of axe-core, in both schemes. A page for each structure of pages is enough."""

    def test_light(self) -> None:
        """No structure of a page has a finding."""
        self.assertGreater(len(structures()), 50)
        self.assertEqual(self.measure(structures(), axe(), axe_core()), {})

    def test_dark(self) -> None:
        """In the dark scheme no colours have a finding; nothing else differs."""
        self.assertEqual(self.measure(structures(), axe(only=COLOURS), axe_core(), color_scheme="dark"), {})

    def test_many_rows(self) -> None:
        """The pages with the most rows have no finding; the colours of a row are those of a page with few."""
        pages = [page for page in every_page() if has_many_rows(page)]
        self.assertGreater(len(pages), 2)
        self.assertEqual(self.measure(pages, axe(without=COLOURS), axe_core()), {})

    def checked(self, pages: Iterable[Shown], before: Callable[[Page], object] = lambda page: None) -> Found:
        def check(page: Page) -> list[str]:
            found = []
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                before(page)
                found += [f"{scheme}: {violation}" for violation in page.evaluate(AXE)]
            return found

        return self.look(pages, check, axe_core())

    def test_it_finds_something(self) -> None:
        """axe reports a field without a label, a page without a heading, and text that is too pale in one scheme."""
        plain = named("sign-in open")
        for good, bad in ((b'<label for="name">', b"<label>"), (b"<h1>Sign in</h1>", b"")):
            page = Shown("bad", plain.html.replace(good, bad))
            self.assertNotEqual(page.html, plain.html)
            self.assertEqual(list(self.checked([page])), ["bad"])
        for colour, scheme in (("#bbb", "light"), ("#444", "dark")):
            paint = f"() => document.querySelector('main p').style.setProperty('color', '{colour}')"
            [found] = self.checked([plain], lambda page, paint=paint: page.evaluate(paint)).values()
            self.assertEqual([line.split(": ")[:2] for line in found], [[scheme, "color-contrast"]])


class ViewTests(PageCase):
    """Measurements of the visible page."""

    def test_the_style_is_let_in(self) -> None:
        """The page's policy allows its style: the card has rounded corners, in the colours of the scheme."""
        seen = {}
        for scheme in SCHEMES:
            style = (
                "() => { const s = getComputedStyle(document.querySelector('.card')); return s.borderRadius + s.color }"
            )
            found = self.look(
                [named("sign-in open")], lambda page, style=style: page.evaluate(style), color_scheme=scheme
            )
            [seen[scheme]] = found.values()
        self.assertEqual([text[:4] for text in seen.values()], ["14px", "14px"])
        self.assertNotEqual(seen["light"], seen["dark"])

    def test_phone(self) -> None:
        """At 360 px nothing is cut off or scrolls sideways, with words of any length; buttons and links have 44 px.

        Nothing is cut off with text of twice the size or wider spacing either. A card has one filled button at most,
        and what cannot be undone stands alone and last in its card.
        """
        cut = with_styles(LARGE, SPACING, "")
        self.assertEqual(self.measure(every_page(), all_of(cut=cut, small=SMALL, filled=FILLED, beside=BESIDE)), {})

    def test_zoomed(self) -> None:
        """The same holds at 320 px: a window of 640 px at 200 % and one of 1280 px at 400 %."""
        script = all_of(cut=with_styles(LARGE, ""), small=SMALL)
        self.assertEqual(self.measure(every_page(), script, viewport=NARROW), {})

    def test_wider(self) -> None:
        """In a wider window a button is as wide as its words, too; only on a phone may it fill its card."""
        dangers = [page for page in every_page() if b"danger" in page.html.partition(b"</head>")[2]]
        self.assertGreater(len(dangers), 10)
        for window in (TABLET, DESKTOP):
            self.assertEqual(self.measure(every_page(), all_of(wide=WIDE, beside=BESIDE), viewport=window), {})
        self.assertNotEqual(self.measure(every_page()[:1], WIDE, viewport=PHONE), {})

    def test_names(self) -> None:
        """No two buttons of a player's page have one name for a screen reader."""
        pages = player_gallery.every_page()
        self.assertIn(b"ANNA-PC (31)", next(page for page in pages if page.name == "account full").html)
        self.assertEqual(self.measure(pages, UNNAMED), {})

    def test_above_the_fold(self) -> None:
        """Both buttons are visible without scrolling: the one that continues, and "This was not me"."""
        pages = [named(name) for name in ("sign-in open", "sign-in approval", "provider login", "code from plain")]
        for window in (PHONE, DESKTOP):
            self.assertEqual(self.look(pages, lambda page: page.evaluate(BELOW), viewport=window), {})
        low = {**PHONE, "height": 400}
        self.assertNotEqual(self.look(pages[:1], lambda page: page.evaluate(BELOW), viewport=low), {})

    def test_signs(self) -> None:
        """Each end has its drawing, which the policy allows and a screen reader skips."""
        signs = {"back at plain": "done", "denied_page": "declined", "outcome login_expired": "expired"}
        signs |= {"outcome player_blocked": "blocked", "new player with a code": "waiting"}
        found = self.look([named(name) for name in signs], lambda page: page.evaluate(SIGN))
        self.assertEqual(found, {name: [f"seal {sign}", "true", 52] for name, sign in signs.items()})

    def test_weights_are_found(self) -> None:
        """Each of these findings is made where it is planted."""
        plain = next(page for page in player_gallery.every_page() if page.name == "account")
        for script, plant in (
            (FILLED, "() => document.querySelectorAll('#devices button').forEach(e => e.classList.add('main'))"),
            (WIDE, "() => document.querySelectorAll('.acts, .acts *').forEach(e => e.style.width = '100%')"),
            (BESIDE, "() => document.querySelector('#devices button').classList.add('danger')"),
            (BESIDE, "() => document.querySelector('.danger').after(document.createElement('button'))"),
            (UNNAMED, "() => document.querySelectorAll('[aria-label]').forEach(e => e.removeAttribute('aria-label'))"),
        ):
            found = self.look([plain], lambda page, script=script: page.evaluate(script), plant, viewport=DESKTOP)
            self.assertEqual(list(found), ["account"])

    def test_it_finds_what_is_cut(self) -> None:
        """A word that cannot break is reported."""
        page = self.look([named("code from long")], lambda page: styled(page, "* { white-space: nowrap }"))
        self.assertEqual(list(page), ["code from long"])

    def test_without_style(self) -> None:
        """A browser without style sheets shows the same words, in the same order, and the same buttons."""
        for page in gallery.every_page():
            bare = Shown(page.name, re.sub(rb"<style>.*?</style>", b"", page.html, flags=re.DOTALL))
            self.assertNotEqual(bare.html, page.html)
            self.assertEqual(words(bare.html), words(page.html))
        pages = [Shown(page.name, page.html.replace(b":root {", b"x {")) for page in gallery.every_page()[:1]]
        found = self.look(
            pages, lambda page: page.evaluate("() => getComputedStyle(document.querySelector('.card')).borderRadius")
        )
        self.assertEqual(list(found.values()), ["0px"])

    def test_a_form_that_comes_back(self) -> None:
        """On a phone a returned form shows the reason and focuses the field; a screen reader reads both."""
        # No field belongs to a passkey that was refused, and a page that asks for one has a hidden alert.
        returned = [page for page in gallery.every_page() if b'role="alert"' in page.html]
        asking = {page.name for page in returned if b'id="passkey-failed"' in page.html}
        pages = [page for page in returned if page.name not in asking and not page.name.endswith("refused passkey")]
        self.assertGreater(len(pages), 12)
        names = {page.name for page in pages if re.search("^account|(name_malformed|taken|closed)$", page.name)}
        wanted = {page.name: ["name" if page.name in names else "password", True, "refused"] for page in pages}
        shown = [page.name for page in pages if re.search("^account.*display_name|^name refused", page.name)]
        wanted |= {name: ["display_name", True, "refused"] for name in shown}
        codes = [page.name for page in pages if re.search("^sign-in (refused recovery|with a recovery)", page.name)]
        wanted |= {name: ["recovery_code", True, "refused"] for name in codes}
        for window in (PHONE, NARROW):
            self.assertEqual(self.look(pages, begun, loaded=True, viewport=window), wanted)

    def test_focus(self) -> None:
        """The tab key reaches every control in the order of the page, with a visible focus."""
        for scheme in SCHEMES:
            for forced in ("none", "active"):
                pages = [
                    named(name) for name in ("sign-in approval", "provider adopt", "code from plain", "return at long")
                ]
                self.assertEqual(self.look(pages, tabbed, color_scheme=scheme, forced_colors=forced), {})


class LookTests(PageCase):
    def test_look(self) -> None:
        """The owner's picture is drawn, and a button has their colour and a readable label, in both schemes."""
        look = Look("#22aa77", Mark("image/svg+xml", SHAPES))
        server = ServerName("Anna's Arena", "game.example", look)
        renderer = PageRenderer(look)
        html = renderer.render(views.sign_in_page(gallery.asked(), Registration.OPEN), Frame(server, "", 0))

        def work(browser: Browser) -> Any:
            found = []
            for scheme in SCHEMES:
                with browser.new_context(viewport=PHONE, color_scheme=scheme) as context:
                    page = context.new_page()
                    page.route(HERE, lambda route: route.fulfill(body=html, headers=dict(renderer.headers)))
                    page.route(f"{HERE}auth/mark", lambda route: route.fulfill(body=SHAPES, content_type=SVG))
                    page.goto(HERE)
                    found.append((page.evaluate(PAINTED), page.evaluate(BELOW)))
            return found

        painted = [True, "rgb(34, 170, 119)", "rgb(0, 0, 0)"]
        self.assertEqual(chromium().do(work), [(painted, []), (painted, [])])


class FrameTests(PageCase):
    @covers("threats/6")
    def test_no_frame(self) -> None:
        """A foreign page that frames one of gamed's gets an empty frame, so that nothing in it can be clicked."""

        def framed(browser: Browser, headers: dict[str, str]) -> bool:
            with browser.new_context(viewport=PHONE) as context:
                page = context.new_page()
                page.route(EVIL, lambda route: route.fulfill(body=f'<iframe src="{HERE}">', content_type="text/html"))
                page.route(HERE, lambda route: route.fulfill(body=named("provider login").html, headers=headers))
                page.goto(EVIL)
                return any(frame.query_selector("button") for frame in page.frames[1:])

        open_to_all = {"Content-Type": RENDERER.headers["Content-Type"]}
        self.assertTrue(chromium().do(lambda browser: framed(browser, open_to_all)))
        self.assertFalse(chromium().do(lambda browser: framed(browser, dict(RENDERER.headers))))


def styled(page: Page, *styles: str) -> list[str]:
    """Return the elements that each of these style sheets cuts off; they bypass the policy as a user's one does.

    The last one stays: end with "" if the page is looked at once more.
    """
    cut: list[str] = page.evaluate(STYLED, styles)
    return cut


def tabbed(page: Page) -> list[str]:
    """Return stops of the tab key that are not visible, or not in the order of the page."""
    wanted, wrong = page.evaluate(STOPS), []
    for stop in wanted:
        page.keyboard.press("Tab")
        name, style, width, within = page.evaluate(FOCUSED)
        if name != stop or style != "solid" or width < 2 or not within:
            wrong.append(f"{stop}: {name} {style} {width} {within}")
    return wrong if wanted else ["nothing to use"]
