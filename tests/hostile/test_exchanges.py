"""Codes at a misbehaving provider: a code for the game, a sentence for the player, the cause for the owner."""

from tests.hostile.fake_provider import PERSONAL, TOKEN, WORK, settings_of, tenant_issuer
from tests.hostile.helpers import HostileCase, tests_of
from tests.hostile.modes import (
    APPLE,
    CLAIMS,
    EXCHANGES,
    GITHUB,
    KEY_SETS,
    MICROSOFT,
    SIGNATURES,
    TOKENS,
    TWITCH,
    USERS,
    Mode,
)
from tests.support.covers import covers


class ExchangeCase(HostileCase):
    def tried(self, mode: Mode) -> None:
        """Sign in once while the provider is as `mode` sets it, and once after it."""
        self.serve_hostile(mode.provider)
        if mode.primed is not None:
            self.signs_in()
            self.pass_time(mode.primed)
        self.heard.clear()
        before, saves = self.lasting(), self.saves()
        if mode.late_seconds:
            self.fake.clock_ms = lambda: self.server.now_ms() - mode.late_seconds * 1000
            self.fake.now_ms = self.fake.clock_ms
        mode.twist(self.fake)
        sign_in = self.depart()
        if mode.outcome is None:
            self.finishes(sign_in)
        else:
            self.ends(sign_in, self.return_(sign_in, mode.waits), mode.outcome, mode.cause)
            self.assertEqual(self.lasting(), before)
        self.assertEqual(self.saves(), saves)
        self.sent_once()
        self.nothing_leaks()
        self.repair()
        self.pass_time(mode.heals)
        self.signs_in()


@covers("threats/16")
class Signatures(ExchangeCase): ...


@covers("threats/16")
class Claims(ExchangeCase): ...


@covers("threats/16")
class KeySets(ExchangeCase): ...


@covers("threats/17", "threats/20")
class Tokens(ExchangeCase): ...


@covers("threats/17")
class Users(ExchangeCase): ...


@covers("threats/17")
class GitHub(ExchangeCase): ...


@covers("threats/16")
class Twitch(ExchangeCase): ...


@covers("threats/16")
class Microsoft(ExchangeCase):
    def test_tenants_are_apart(self) -> None:
        """The same `sub` in two tenants is two players."""
        self.serve_hostile("microsoft")
        players = []
        for tenant in (WORK, PERSONAL, WORK):
            self.fake.changes = {"iss": tenant_issuer(tenant), "tid": tenant}
            self.signs_in()
            players.append(len(self.server.rows("SELECT player_id FROM player")))
        self.assertEqual([count - players[0] for count in players], [0, 1, 1])


@covers("threats/16")
class Apple(ExchangeCase):
    def test_key_stays_here(self) -> None:
        """The key signs a new secret for each token request, and is itself in no request, page, log or row."""
        self.serve_hostile("apple")
        self.signs_in()
        self.pass_time(1)
        self.signs_in()
        secrets = {call.form["client_secret"] for call in self.fake.calls(TOKEN)}
        self.assertEqual(len(secrets), 2)
        pem = settings_of("apple").client_secret.reveal().decode()
        texts = [repr(call) for call in self.fake.seen] + [str(self.site.log.lines), repr(self.heard)]
        for line in pem.splitlines():
            self.assertEqual([text for text in texts if line in text], [])
        self.nothing_leaks()


for _case, _modes in (
    (Signatures, SIGNATURES),
    (Claims, CLAIMS),
    (KeySets, KEY_SETS),
    (Tokens, TOKENS),
    (Users, USERS),
    (GitHub, GITHUB),
    (Twitch, TWITCH),
    (Microsoft, MICROSOFT),
    (Apple, APPLE),
):
    tests_of(_case, _modes, ExchangeCase.tried)
del _case  # a second name for a class makes trial run its tests twice


class Table(ExchangeCase):
    def test_names(self) -> None:
        """The names of all modes differ."""
        self.assertEqual(len({mode.name for mode in EXCHANGES}), len(EXCHANGES))
        self.assertGreater(len(EXCHANGES), 80)
