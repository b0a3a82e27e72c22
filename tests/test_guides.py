"""The operator's guides are correct: their configurations are accepted, and their commands exist."""

import re
from base64 import b64encode
from textwrap import dedent

from joserfc.jwk import ECKey
from twisted.trial.unittest import SynchronousTestCase

from gamed.cli.commands import gamed
from gamed.config.authentication import load
from gamed.config.model import Config, Mode
from gamed.config.providers import PRESETS
from gamed.http.problems import CODES
from tests.support.commands import members
from tests.test_docs import commands
from tests.test_spec import ROOT

PRESET_PAGES = ("steam", "github", "twitch", "microsoft", "apple")
PROVIDERS = tuple(f"docs/owners/{name}.md" for name in ("providers", *PRESET_PAGES, "keycloak", "other-providers"))
GUIDES = ("docs/owners/providers.md", "docs/owners/owner-guide.md", "docs/owners/by-hand.md", "docs/owners/keys.md")
REMEDIES = ("docs/owners/troubleshooting.md", "docs/owners/not-starting.md", "docs/owners/published-files.md")
CHANGES = re.compile(r"(?m)^\| `([^`]+)` \|")
SYMPTOMS = (
    "redirect_uri",
    "sign_in_failed",
    "orphaned_identities",
    "Open the link again from the game",
    "provider_misconfigured",
    "server_clock_skew",
    "invalid_proof",
    "proof_attempts_exceeded",
    "auth.db is written with another key",
    "Another gamed already serves",
    "use another store than",
    "the port is taken by another program",
    "database_unavailable",
    "is damaged",
    "database_damaged",
    "was made by another version of gamed",
    "the disk is full",
    "has a server: a start would begin an empty one",
)
PEM = ECKey.generate_key("P-256").as_pem(private=True).decode()
BLOCK = re.compile(r"(?ms)^( *)```(\w*)\n(.*?)^\1```$")


def blocks(page: str, kind: str) -> list[str]:
    """Return the code blocks of this language."""
    found = BLOCK.findall((ROOT / page).read_text("utf-8"))
    return [dedent(text) for _, named, text in found if named == kind]


def configured(text: str) -> Config:
    """Load a configuration with each variable set that it names."""
    secrets = re.findall(r'"client_secret_env": "(\w+)"', text)
    key = b64encode(bytes(range(100, 132))).decode()
    environ = {name: PEM if name.endswith("_KEY") else "a-secret" for name in secrets}
    return load(text, {**environ, "GAMED_MASTER_KEY": key}, None, "the guide").config


class GuideTests(SynchronousTestCase):
    def test_configurations(self) -> None:
        """gamed accepts each configuration that a guide shows; together they have each kind of provider."""
        texts = [text for page in {*GUIDES, *PROVIDERS} for text in blocks(page, "json")]
        configs = [configured(text) for text in texts if '"mode"' in text]
        names = {name for config in configs for name in config.providers}
        self.assertEqual(names, {*PRESETS, "club", "forge"})
        self.assertEqual({config.mode for config in configs}, {Mode.LOCAL, Mode.OAUTH})
        self.assertEqual({config.public_url for config in configs}, {"https://play.example.org"})

    def test_redirect_uris(self) -> None:
        """A page has the redirect URI of each provider in its configurations."""
        for page in PROVIDERS:
            shown = (ROOT / page).read_text("utf-8")
            for text in blocks(page, "json"):
                config = configured(text)
                for name in config.providers:
                    self.assertIn(f"{config.public_url}/auth/{name}/callback", shown)

    def test_commands(self) -> None:
        """Each command that a guide names exists."""
        known = {*commands(gamed), *dict(members(gamed))}
        for page in GUIDES:
            text = (ROOT / page).read_text("utf-8")
            named = re.findall(
                r"(?:`|/bin/)gamed ([a-z]+(?:-[a-z]+)?(?: (?:new|fingerprint|add))?)", text, re.MULTILINE
            )
            self.assertTrue(named)
            self.assertEqual([name for name in named if name not in known], [])

    def test_proxies(self) -> None:
        """Each line of a proxy's sample that the guide changes exists once."""
        page = (ROOT / "docs/owners/proxies.md").read_text("utf-8")
        for sample in ("etc/nginx/gamed.conf", "etc/caddy/Caddyfile"):
            copied = re.search(rf"(?m)^cp {sample} (\S+)$", page)
            rows = CHANGES.findall(page.partition(f"| Line of `{copied[1]}` | To |\n")[2].partition("\n\n")[0])
            text = (ROOT / sample).read_text("utf-8")
            self.assertGreaterEqual(len(rows), 3)
            self.assertEqual([line for line in rows if text.count(line) != 1], [])

    def test_symptoms(self) -> None:
        """The problem codes of the pages with remedies have these statuses, and the log events exist in the code."""
        chapter = "".join((ROOT / page).read_text("utf-8") for page in REMEDIES)
        named = re.findall(r"`(\d{3})` `(\w+)`", chapter)
        self.assertGreaterEqual(len(named), 7)
        self.assertEqual([(status, code) for status, code in named if CODES[code].status != int(status)], [])
        source = "".join(path.read_text("utf-8") for path in (ROOT / "gamed").rglob("*.py"))
        self.assertEqual([words for words in SYMPTOMS if words not in chapter or words not in source], [])
