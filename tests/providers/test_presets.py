"""A provider's special features are fields of its `Preset`; only `gamed/config/providers.py` knows their names."""

import ast
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

from twisted.trial.unittest import SynchronousTestCase

from gamed import __version__
from gamed.config import providers
from gamed.config.model import Preset, Provider, ProviderProtocol, SubjectForm
from gamed.config.providers import PRESETS
from gamed.providers.base import ExternalIdentity, ProviderError
from tests.config.fixtures import OAUTH, changed, errors, load_config
from tests.providers.fake_provider import (
    PUBLIC_URL,
    FakeDiscord,
    FakeOpenIdProvider,
    ProviderFixture,
    Reply,
    started,
)
from tests.providers.signing import ES, RSA
from tests.test_layout import package

EVERYTHING = Preset(
    ProviderProtocol.OIDC,
    "Every",
    ("openid", "all"),
    "https://every.example",
    fixed_scopes=True,
    authorization_parameters={"prompt": "login", "state": "not the preset's"},
    other_issuers=("every.example", "https://old.every.example"),
    algorithms=("ES256",),
    user_agent="EveryBot/{version} +{public_url}",
)
FORGE = Preset(
    ProviderProtocol.OAUTH2,
    "Forge",
    endpoints={
        "authorization_endpoint": "https://forge.example/login/oauth/authorize",
        "token_endpoint": "https://forge.example/api/v10/oauth2/token",
        "userinfo_endpoint": "https://forge.example/api/v10/users/@me",
    },
    subject_field="number",
    subject_form=SubjectForm.DIGITS,
)
OWN = {"client_id": "client:7", "client_secret_env": "DISCORD_CLIENT_SECRET"}
NAMES = {*PRESETS, "apple", "github", "microsoft", "steam", "twitch"}
EXCEPTED = ("gamed.config.providers", "gamed.dev", "gamed.cli.dev")
"""The table of presets, and the emulations of two providers with the command that configures them."""


class PlantedPresetTests(SynchronousTestCase):
    def settings(self, name: str, preset: Preset) -> Provider:
        """Return the provider of a file that has only the credentials for this preset."""
        self.patch(providers, "PRESETS", {**PRESETS, name: preset})
        return load_config(changed(OAUTH, providers={name: OWN})).config.providers[name]

    def openid(self, settings: Provider) -> tuple[ProviderFixture, FakeOpenIdProvider]:
        fake, path = FakeOpenIdProvider(settings.issuer or ""), "/.well-known/openid-configuration"
        fake.usual[urlsplit(settings.issuer or "").path + path] = fake.usual[path]
        return ProviderFixture(fake, settings), fake

    def query(self, fixture: ProviderFixture) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.successResultOf(fixture.go()).url).query))

    def test_twitch(self) -> None:
        """Twitch asks the player to confirm each time, by a parameter of its own; its accounts are numbers."""
        settings = self.settings("twitch", PRESETS["twitch"])
        fixture, _ = self.openid(settings)
        query = self.query(fixture)
        self.assertEqual((settings.label, query["scope"], query["force_verify"]), ("Twitch", "openid", "true"))
        self.assertNotIn("prompt", query)
        identity = self.successResultOf(fixture.identify())
        self.assertEqual(identity, ExternalIdentity("oidc", "https://id.twitch.tv/oauth2", "player-7"))

    def test_every_field(self) -> None:
        """Each field of a planted preset has its effect; none can replace a parameter of the protocol."""
        fixture, fake = self.openid(self.settings("every", EVERYTHING))
        query = self.query(fixture)
        self.assertEqual((query["scope"], query["prompt"], query["state"]), ("openid all", "login", "s" * 43))
        self.failureResultOf(started(fixture.identify()), ProviderError)
        fake.signers, fake.signer = [RSA, ES], ES
        first = self.successResultOf(fixture.identify())
        for issuer in EVERYTHING.other_issuers:
            fake.claims["iss"] = issuer
            self.assertEqual(self.successResultOf(fixture.identify()), first)
        fake.claims["iss"] = "accounts.google.com"
        self.failureResultOf(started(fixture.identify()), ProviderError)
        agents = {agent for call in fake.seen for agent in call.headers["user-agent"]}
        self.assertEqual(agents, {f"EveryBot/{__version__} +{PUBLIC_URL}"})
        scopes = errors(changed(OAUTH, providers={"every": {**OWN, "scopes": ["openid"]}}))
        self.assertEqual(scopes, ['providers.every.scopes: only "openid all" is ever asked of this provider'])

    def test_other_issuers_are_the_issuers(self) -> None:
        """Further spellings of an issuer apply under each name in the file, and not to a preset's other issuer."""
        self.patch(providers, "PRESETS", {"every": EVERYTHING})
        self.assertEqual(
            providers.accepted_issuers("https://every.example"),
            {"https://every.example", "every.example", "https://old.every.example"},
        )
        self.assertEqual(providers.accepted_issuers("http://localhost:9"), {"http://localhost:9"})

    def test_subject_form(self) -> None:
        """A preset of OAuth 2.0 chooses the form of its subject."""
        fake = FakeDiscord()
        fixture = ProviderFixture(fake, self.settings("forge", FORGE))
        for value in ("7", "anna", 7):
            fake.script("/api/v10/users/@me", Reply.json({"number": value}))
        self.assertEqual(self.successResultOf(fixture.identify()).subject, "7")
        for _ in range(2):
            self.failureResultOf(started(fixture.identify()), ProviderError)


def decisions(source: str) -> Iterator[str]:
    """Yield the names of providers that code compares, matches, or looks up in a table of its own."""
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            parts = [*node.keys]
        elif isinstance(node, ast.Subscript):
            parts = [node.slice]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            parts = [*node.args]
        for text in (text for part in parts if part is not None for text in _texts(part)):
            yield from (name for name in sorted(NAMES) if name in text.lower())


METHODS = {"get", "startswith", "endswith", "removeprefix"}


def _texts(part: ast.AST) -> Iterator[str]:
    for node in ast.walk(part):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


class NameTests(SynchronousTestCase):
    def test_names_of_providers(self) -> None:
        """No module beside the table of presets decides by the name or an address of a provider."""
        found = {
            module: names
            for module, source in package().items()
            if not module.startswith(EXCEPTED) and (names := sorted(decisions(source)))
        }
        self.assertEqual(found, {})
        self.assertLessEqual({"google", "discord"}, set(decisions(package()["gamed.config.providers"])))

    def test_planted_decisions(self) -> None:
        """Each way to decide by a name is found; a text that names a provider is not one."""
        for source in (
            'x = name == "google"',
            'x = "google" != name',
            'x = issuer == "https://accounts.google.com"',
            'x = name in ("other", "google")',
            'PROMPTS = {"google": "select_account"}',
            'x = prompts["google"]',
            'x = prompts.get("google")',
            'x = issuer.startswith("https://accounts.google")',
            'match name:\n    case "google":\n        pass',
            'match name:\n    case "other" | "google":\n        pass',
        ):
            self.assertEqual(list(decisions(source)), ["google"], source)
        self.assertEqual(list(decisions('problem("missing; such as discord or google")\nx = "google"')), [])
