"""Faults of a provider while a player links it, or adopts an account: typed errors, and nothing is stored."""

from typing import Any, ClassVar

from gamed.login.transaction import LoginIntent
from tests.hostile.helpers import HostileCase, tests_of
from tests.hostile.modes import EXCHANGES, Mode
from tests.login.browser_fixtures import Game, Page, PageBrowser
from tests.login.fixtures import ANNA, PASSWORD
from tests.login.test_browser_routes import code as code_on
from tests.support.covers import covers

OTHER, OF_OTHER = "discord", "idp"
"""The provider at which a player has signed in before linking another one, and that of Discord's own modes."""
SESSION_SECONDS = 900
EVERY = 12
_BAD = [mode for mode in EXCHANGES if mode.outcome and mode.primed is None and mode.heals < SESSION_SECONDS]
MODES = tuple(dict.fromkeys([*{mode.outcome: mode for mode in _BAD}.values(), *_BAD[::EVERY]]))


class IntentCase(HostileCase):
    intent: LoginIntent
    token: str | None = None
    typed: ClassVar[dict[str, str]]

    def begin(self) -> tuple[Game, PageBrowser, Page]:
        """Start a login of this player, with this intent."""
        game = self.game(token=self.token, provider=self.name, intent=self.intent.value)
        browser = self.new_browser()
        return game, browser, browser.post(browser.get(game.url).form("/continue"), self.typed)

    def prepared(self, mode: Mode) -> str:
        """Return the player whom the account at the provider would sign in."""
        raise NotImplementedError

    def people(self) -> list[Any]:
        return [self.server.rows(f"SELECT player_id FROM {table} ORDER BY 1") for table in ("player", "local_account")]

    def tried(self, mode: Mode) -> None:
        """Assert that the intent is refused; at a correct provider it then succeeds for the right player."""
        player_id = self.prepared(mode)
        if mode.late_seconds:
            self.fake.clock_ms = lambda: self.server.now_ms() - mode.late_seconds * 1000
            self.fake.now_ms = self.fake.clock_ms
        mode.twist(self.fake)
        sign_in = self.depart()
        before, people, saves = self.lasting(), self.people(), self.saves()
        assert mode.outcome is not None
        self.ends(sign_in, self.return_(sign_in, mode.waits), mode.outcome, mode.cause)
        self.assertEqual(sign_in.game.collect(finish_code="BBB-BBB").json["status"], "failed")
        self.assertEqual((self.lasting(), self.saves()), (before, saves))
        self.sent_once()
        self.nothing_leaks()
        self.repair()
        self.pass_time(mode.heals)
        self.signs_in()
        self.assertEqual(self.people(), people)
        rows = self.server.rows("SELECT player_id FROM identity WHERE provider = :name", name=self.name)
        self.assertEqual(rows, [(player_id,)])


@covers("threats/11")
class Linking(IntentCase):
    intent = LoginIntent.LINK
    typed: ClassVar = {}

    def prepared(self, mode: Mode) -> str:
        """Prepare a player who signed in at the other provider a moment ago."""
        self.serve_hostile(OF_OTHER if mode.provider == OTHER else OTHER)
        self.intent = LoginIntent.LOGIN
        sign_in = self.depart()
        complete = sign_in.game.collect(finish_code=code_on(self.return_(sign_in))).json
        self.intent, self.token = LoginIntent.LINK, complete["access_token"]
        self.enable(mode.provider)
        return str(complete["player"]["id"])


@covers("threats/11")
class Adopting(IntentCase):
    intent = LoginIntent.ADOPT
    typed: ClassVar = {"name": "Anna", "password": PASSWORD}

    def prepared(self, mode: Mode) -> str:
        """Create Anna, who has an account from local mode."""
        self.serve_hostile(mode.provider)
        return ANNA


tests_of(Linking, MODES, IntentCase.tried)
tests_of(Adopting, MODES, IntentCase.tried)


class Table(HostileCase):
    def test_enough(self) -> None:
        """The modes are a few dozen, with every outcome."""
        self.assertGreater(len(MODES), 24)
        self.assertEqual({mode.outcome for mode in MODES}, {mode.outcome for mode in EXCHANGES} - {None})
