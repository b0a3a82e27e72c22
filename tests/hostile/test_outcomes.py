"""Outcomes for game, player and owner when a provider fails repeatedly, asks to wait, or is misconfigured."""

from typing import Any

from gamed.outcomes import LoginFailure
from gamed.providers.circuit_breaker import FAILURES, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from tests.hostile.fake_provider import DISCORD_TOKEN, DISCORD_USER, DISCOVERY, KEYS, TOKEN, Reply
from tests.hostile.helpers import HostileCase
from tests.hostile.modes import error
from tests.support.covers import covers

UNAVAILABLE = LoginFailure.PROVIDER_UNAVAILABLE


class OutcomeCase(HostileCase):
    def fails(self, outcome: LoginFailure, cause: str = "", waits: float = 0) -> None:
        self.heard.clear()
        sign_in = self.depart()
        self.ends(sign_in, self.return_(sign_in, waits), outcome, cause)

    def turned_away(self) -> int:
        """Assert that a start is refused before a browser is opened; return the seconds to wait of header and body."""
        logins = self.server.rows("SELECT count(*) FROM login")
        answer = self.game(provider=self.name).answer
        self.assertEqual((answer.status, answer.code), (503, "provider_unavailable"))
        seconds = int(answer.headers["retry-after"])
        self.assertEqual(answer.json["retry_after"], seconds)
        self.assertEqual(self.server.rows("SELECT count(*) FROM login"), logins)
        return seconds


@covers("threats/21")
class BreakerTests(OutcomeCase):
    def setUp(self) -> None:
        self.serve_hostile("discord")

    def opened(self) -> None:
        for _ in range(FAILURES):
            self.fails(UNAVAILABLE)

    def test_opens_and_closes(self) -> None:
        """After five failures in a row new logins fail at the start; after the pause one success closes the circuit."""
        self.fake.always(DISCORD_TOKEN, Reply(500))
        self.opened()
        self.assertEqual(self.turned_away(), FIRST_PAUSE_SECONDS)
        asked = len(self.fake.seen)
        self.pass_time(FIRST_PAUSE_SECONDS - 1)
        self.assertEqual(self.turned_away(), 1)
        self.assertEqual(len(self.fake.seen), asked, "no provider was asked meanwhile")
        self.pass_time(1)
        self.repair()
        for _ in range(2):
            self.signs_in()

    def test_opens_again_for_longer(self) -> None:
        """One more failure after the pause is enough, for twice the time, up to five minutes."""
        self.fake.always(DISCORD_TOKEN, Reply(500))
        self.opened()
        pause = FIRST_PAUSE_SECONDS
        for _ in range(5):
            self.pass_time(pause)
            self.fails(UNAVAILABLE)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            self.assertEqual(self.turned_away(), pause)

    def test_who_is_under_way(self) -> None:
        """A browser that is at the provider when the circuit opens returns, is tried, and closes it."""
        early = self.depart()
        self.fake.always(DISCORD_TOKEN, Reply(500))
        self.opened()
        self.repair()
        self.turned_away()
        self.finishes(early)
        self.signs_in()

    def test_errors_are_no_failures(self) -> None:
        """A provider that responds with any status keeps getting requests."""
        self.fake.always(DISCORD_TOKEN, error("invalid_grant"))
        for _ in range(2 * FAILURES):
            self.fails(LoginFailure.PROVIDER_ERROR)
        self.repair()
        self.signs_in()

    def test_of_each_provider(self) -> None:
        """Each provider has its own circuit: one stays usable while another fails."""
        self.fake.always(DISCORD_TOKEN, Reply(500))
        self.opened()
        self.turned_away()
        self.enable("idp")
        self.signs_in()
        self.name = "discord"
        self.turned_away()


@covers("threats/21")
class PatienceTests(OutcomeCase):
    def setUp(self) -> None:
        self.serve_hostile("discord")

    def test_a_moment_is_waited_for(self) -> None:
        """A pause of up to 3 s is waited for, once, for repeatable requests; the player does not notice it."""
        for seconds in ("1", "3"):
            self.fake.script(DISCORD_USER, Reply(429, headers={"Retry-After": seconds}))
            sign_in = self.depart()
            connection = self.site.send("GET", self.callback(sign_in), sign_in.browser.headers())
            self.assertEqual(connection.answers, [])
            asked = len(self.fake.calls(DISCORD_USER))
            self.pass_time(int(seconds) - 0.1)
            self.assertEqual(len(self.fake.calls(DISCORD_USER)), asked)
            self.pass_time(0.1)
            self.assertEqual(len(self.fake.calls(DISCORD_USER)), asked + 1)
            self.assertEqual(connection.answer.status, 303)
            self.assertEqual(self.owner_lines(), [])
        self.sent_once()

    def test_a_second_refusal_ends_it(self) -> None:
        """After a second refusal the sign-in ends: there is one wait, not a loop."""
        self.fake.always(DISCORD_USER, Reply(503, headers={"Retry-After": "1"}))
        self.fails(UNAVAILABLE, "userinfo_endpoint: answered 503", waits=1)
        self.assertEqual(len(self.fake.calls(DISCORD_USER)), 2)

    def test_a_code_is_never_sent_twice(self) -> None:
        """A code is never sent twice, also if the token endpoint asks for that."""
        self.fake.always(DISCORD_TOKEN, Reply(503, headers={"Retry-After": "1"}))
        self.fails(UNAVAILABLE, "token_endpoint: answered 503")
        self.assertEqual(len(self.fake.calls(DISCORD_TOKEN)), 1)

    def test_more_than_a_moment(self) -> None:
        """While the provider asks to wait, by seconds or by date, no request is sent, and new logins fail."""
        for asked, seconds in (("90", 90), ("Fri, 15 Jan 2027 08:04:00 GMT", None), ("9999999", 3600)):
            self.serve_hostile("discord")
            self.fake.always(DISCORD_TOKEN, Reply(429, headers={"Retry-After": asked}))
            early = self.depart()
            self.fails(UNAVAILABLE, "token_endpoint: answered 429")
            wait = self.turned_away()
            self.assertEqual(wait, seconds or wait)
            calls = len(self.fake.seen)
            self.heard.clear()
            self.ends(early, self.return_(early), UNAVAILABLE, "asked us to wait")
            self.assertEqual(len(self.fake.seen), calls)
            self.repair()
            self.pass_time(wait)
            self.signs_in()

    def test_nonsense(self) -> None:
        """An invalid Retry-After is ignored."""
        for asked in ("", "-1", "soon", "1.5", "1e3", "\u0663".encode().decode("latin-1"), "1, 2", "0x10"):
            self.serve_hostile("discord")
            self.fake.always(DISCORD_TOKEN, Reply(503, headers={"Retry-After": asked}))
            self.fails(UNAVAILABLE, "answered 503")
            self.repair()
            self.signs_in()


class ClockTests(OutcomeCase):
    """Tests with this machine's clock wrong by so many seconds; the provider's is right."""

    def late(self, seconds: int, date: bool = True) -> None:
        self.serve_hostile()
        true_ms = lambda: self.server.now_ms() - seconds * 1000  # noqa: E731
        self.fake.now_ms = true_ms
        if date:
            self.fake.clock_ms = true_ms

    def test_measured(self) -> None:
        """The owner reads the difference and its direction; game and player get a code and a text of their own."""
        for seconds in (-86_400, -3_700, -121, 800, 4_000, 86_400):
            self.late(seconds)
            side = "ahead of" if seconds > 0 else "behind"
            self.fails(LoginFailure.SERVER_CLOCK_SKEW, f"clock is {abs(seconds)} s {side} the provider's; correct it")
            self.nothing_leaks()

    def test_small(self) -> None:
        """A difference of two minutes has no effect."""
        for seconds in (-120, -60, 60, 120):
            self.late(seconds)
            self.signs_in()

    def test_not_measured(self) -> None:
        """Without a Date the wrong clock is unknown: the sign-in ends with the provider's error."""
        for seconds in (-3_700, 4_000):
            self.late(seconds, date=False)
            self.fails(LoginFailure.PROVIDER_ERROR)

    def test_not_an_excuse(self) -> None:
        """A wrong Date does not excuse a token that is invalid by that Date, too."""
        self.late(0)
        self.fake.clock_ms = lambda: self.server.now_ms() - 7_200_000
        self.fake.changes["exp"] = self.fake.now_ms() // 1000 - 50_000
        self.fails(LoginFailure.PROVIDER_ERROR, "exp has passed")

    def test_set_right(self) -> None:
        """Once the clock is right, players can sign in: the clock does not count as the provider's failure."""
        self.late(4_000)
        for _ in range(FAILURES + 1):
            self.fails(LoginFailure.SERVER_CLOCK_SKEW)
        self.repair()
        self.signs_in()


@covers("7/5")
class MisconfiguredTests(OutcomeCase):
    """Misconfigurations: only the owner's log names the setting."""

    def tried(self, name: str, path: str, reply: Reply, *words: str) -> None:
        self.serve_hostile(name)
        self.fake.always(path, reply)
        self.fails(LoginFailure.PROVIDER_MISCONFIGURED)
        [line] = self.owner_lines()
        for word in words:
            self.assertIn(word, line)
        for page in self.sign_ins[0].pages:
            for word in ("client_id", "client_secret", "redirect", "console", "endpoint", "invalid_", "scope"):
                self.assertNotIn(word, page.html)
        self.nothing_leaks()

    def test_named(self) -> None:
        """The log names client_id, the secret's variable, the redirect URI or the scopes."""
        for name, path in (("discord", DISCORD_TOKEN), ("idp", TOKEN)):
            for reply, words in (
                (error("invalid_client", 401), ("client_id", "client_secret_env")),
                (Reply(401, b"nonsense"), ("client_id", "client_secret_env")),
                (error("unauthorized_client"), ("client_id",)),
                (error("redirect_uri_mismatch"), ("redirect URI",)),
                (error("invalid_scope"), ("scopes",)),
                (error("unsupported_grant_type"), ("client_id", "console")),
            ):
                self.tried(name, path, reply, *words)

    def test_heard_by_every_game(self) -> None:
        """Two games wait for providers with different faults: each gets its own outcome."""
        self.serve_hostile()
        sign_ins = [self.depart() for _ in range(2)]
        for sign_in, (path, reply, outcome) in zip(
            sign_ins,
            (
                (TOKEN, error("invalid_client", 401), LoginFailure.PROVIDER_MISCONFIGURED),
                (KEYS, Reply(500), UNAVAILABLE),
            ),
            strict=True,
        ):
            self.repair()
            self.fake.visited(sign_in.url)
            self.fake.always(path, reply)
            self.heard.clear()
            self.ends(sign_in, self.return_(sign_in), outcome, "")

    def test_discovery_once(self) -> None:
        """Many browsers at a failing provider cause one request at a time, and every game gets the outcome."""
        self.serve_hostile()
        self.fake.always(DISCOVERY, Reply(hang=True))
        waiting: list[Any] = []
        games: list[Any] = []
        for _ in range(20):
            game, browser = self.game(provider="idp", client={"name": "x"}), self.new_browser()
            form = browser.get(game.url).form("/continue")
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            sent = browser.headers(Sec_Fetch_Site="same-origin", Sec_Fetch_Dest="document")
            body = "&".join(f"{name}={value}" for name, value in form["fields"].items()).encode()
            waiting.append(self.site.send("POST", form["action"], {**sent, **kind}, body))
            games.append(game.wait(wait=25))
        self.assertEqual(len(self.fake.calls(DISCOVERY)), 1)
        self.pass_time(10)
        self.assertEqual({connection.answer.status for connection in waiting}, {303})
        result = {connection.answer.json["problem"]["code"] for connection in games}
        self.assertEqual(result, {UNAVAILABLE.value})
