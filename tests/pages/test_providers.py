"""Each preset has a tile in its colours, which can be read on light and on dark pages; no other name has one."""

import re
from collections.abc import Mapping

from twisted.trial.unittest import SynchronousTestCase

from gamed.config.providers import PRESETS
from gamed.pages.render import FOLDER
from tests.account.gallery import ALL_PROVIDERS, sign_ins

RULE = re.compile(r"\.([a-z]+) \{ color: (#[0-9a-f]+); background: (#[0-9a-f]+); \}")
TILE = re.compile(r'<span class="tile ([a-z]*)" aria-hidden="true">(.)</span>([^<]+)')
LEAST = 4.5  # WCAG 2.2, 1.4.3


def luminance(colour: str) -> float:
    """Return the relative luminance of `#rgb` or `#rrggbb` (WCAG 2.2)."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def colours() -> tuple[Mapping[str, tuple[str, str]], Mapping[str, tuple[str, str]]]:
    """Return text and background of each tile on light pages, and those that dark pages change."""
    style = (FOLDER / "style.css").read_text("utf-8")
    begin = style.index(".discord {")
    own = style[begin : style.index(".more {", begin)]
    light, _, dark = own.partition("@media (prefers-color-scheme: dark)")
    return tuple({name: (text, back) for name, text, back in RULE.findall(part)} for part in (light, dark))  # type: ignore[return-value]


class TileTests(SynchronousTestCase):
    def test_names(self) -> None:
        """The tiles are those of the presets, in the owner's order; a provider named as a button's class has none."""
        [page] = [shown for shown in sign_ins() if shown.name == "account sign-in at all"]
        found = TILE.findall(page.html.decode())
        self.assertEqual([kind for kind, _, _ in found], [*PRESETS, ""])
        self.assertEqual([words.removeprefix("Continue with ") for *_, words in found], [*ALL_PROVIDERS.values()])

    def test_colours(self) -> None:
        """Each tile has enough contrast, on light pages and on dark ones."""
        light, dark = colours()
        self.assertEqual((light.keys(), dark.keys() - light.keys()), (PRESETS.keys(), set()))
        for kind, pair in (*light.items(), *dark.items()):
            self.assertGreaterEqual(contrast(*pair), LEAST, kind)

    def test_seen_on_dark(self) -> None:
        """No tile is nearly as dark as the card of a dark page."""
        light, dark = colours()
        card = "#171d23"
        self.assertIn(f"--card: {card};", (FOLDER / "style.css").read_text("utf-8"))
        for kind, (_, background) in {**light, **dark}.items():
            self.assertGreaterEqual(contrast(background, card), 3, kind)

    def test_planted(self) -> None:
        """The contrast of known pairs."""
        self.assertAlmostEqual(contrast("#000", "#ffffff"), 21)
        self.assertLess(contrast("#777777", "#fff"), LEAST)
