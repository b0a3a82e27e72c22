"""Two servers sign one player in: a credential, a code and a state count once (docs/protocol.md: Signing in)."""

from tests.e2e.providers import DISCORD, FAKE_GOOGLE
from tests.e2e.wire import Answer
from tests.login.browser_fixtures import Page
from tests.login.test_browser_routes import code
from tests.processes.cases import ScriptedBrowser, SharedCase, SharedProviderCase, collect
from tests.processes.wire import Request, bearer, json_request

CREDENTIALS = ("access_token", "refresh_credential", "session_id")


class RefreshRaces(SharedCase):
    def test_same_refresh_credential(self) -> None:
        """Two refreshes with one credential: the session has one new generation, and both answers hold it."""
        [player] = self.players(1)
        credential = player.refresh

        def each(number: int) -> None:
            nonlocal credential
            request = json_request("POST", "/auth/session/refresh", {"refresh_credential": credential})
            answers = self.race(request, request)
            self.assertEqual([answer.status for answer in answers], [200, 200], answers)
            [pair] = {(answer.json["access_token"], answer.json["refresh_credential"]) for answer in answers}
            for server in (0, 1):
                self.ask(server, Request("GET", "/game/", bearer(pair[0])), 200)
            credential = pair[1]

        self.rounds(each)


class SignInRaces(SharedProviderCase):
    def sessions(self, token: str) -> int:
        return len(self.ask(0, Request("GET", "/auth/sessions", bearer(token)), 200).json["sessions"])

    def test_same_finish_code(self) -> None:
        """Two collects with the right code: one session, and both answers hold its credentials."""
        first = self.sign_in(DISCORD, "anna")

        def each(number: int) -> None:
            browser = ScriptedBrowser(self)
            login, callback = self.begin(browser, DISCORD, "anna")
            request = collect(login, finish_code=self.finish_code(browser, callback))
            answers = self.race(request, request)
            self.assertEqual([answer.status for answer in answers], [200, 200], answers)
            self.assertEqual([answer.json["status"] for answer in answers], ["complete"] * 2)
            [given] = {tuple(answer.json[name] for name in CREDENTIALS) for answer in answers}
            self.assertEqual(self.sessions(first), 2)
            self.ask(0, json_request("POST", "/auth/session/logout", {}, **bearer(given[0])), 204)

        self.rounds(each)

    def test_wrong_finish_codes(self) -> None:
        """Each of two wrong codes counts: after both, three are left."""

        def each(number: int) -> int:
            browser = ScriptedBrowser(self)
            login, callback = self.begin(browser, DISCORD, "anna")
            right = self.finish_code(browser, callback)
            wrong = [typed for typed in ("BBB-BBB", "CCC-CCC", "DDD-DDD") if typed != right][:2]
            answers = self.race(*(collect(login, finish_code=typed) for typed in wrong))
            self.assertEqual([answer.json["code"] for answer in answers], ["invalid_proof"] * 2)
            left = [answer.json["attempts_left"] for answer in answers]
            self.assertEqual(sorted(left), [3, 4])
            self.assertEqual(self.ask(0, collect(login, finish_code=right), 200).json["status"], "complete")
            return left.index(4)

        self.rounds(each)

    def test_same_callback_state(self) -> None:
        """Two callbacks with one state: the provider gets the code once, and both pages lead to the result."""
        recorder = self.recorders["discord"]

        def each(number: int) -> int:
            browser = ScriptedBrowser(self)
            login, callback = self.begin(browser, DISCORD, "anna")
            del recorder.exchanges[:]
            answers = self.race(*[browser.request(callback)] * 2)
            won = self.winner(answers, 303, 409)
            redeemed = [exchange for exchange in recorder.exchanges if exchange.path == DISCORD.token]
            self.assertEqual(len(redeemed), 1)
            done = answers[won].headers["location"]
            self.assertEqual(answers[1 - won].headers["refresh"], f"0; url={done}")
            [shown] = {code(Page(browser.visit(server, done))) for server in (0, 1)}
            self.assertEqual(self.ask(1, collect(login, finish_code=shown), 200).json["status"], "complete")
            return won

        self.rounds(each)

    def test_one_account_for_two_players(self) -> None:
        """Two players link one account: one gets it, the other's login fails with `identity_in_use`."""
        tokens = [self.sign_in(FAKE_GOOGLE, person) for person in ("anna", "bo")]

        def each(number: int) -> int:
            requests = []
            for token in tokens:
                browser = ScriptedBrowser(self)
                login, callback = self.begin(browser, DISCORD, "anna", token, intent="link")
                requests.append(collect(login, finish_code=self.finish_code(browser, callback)))
            answers = self.race(*requests)
            won = self.linked(answers)
            for server in (0, 1):
                for player, token in enumerate(tokens):
                    answer = self.ask(server, Request("GET", "/auth/identities", bearer(token)), 200)
                    names = {each["provider"] for each in answer.json["identities"]}
                    self.assertEqual(names, {"google", "discord"} if player == won else {"google"})
            self.ask(0, Request("DELETE", "/auth/identities/discord", bearer(tokens[won])), 204)
            return won

        self.rounds(each)

    def linked(self, answers: list[Answer]) -> int:
        """Return the player who got the account; check both answers."""
        self.assertEqual([answer.status for answer in answers], [200, 200], answers)
        [won] = [number for number, answer in enumerate(answers) if answer.json["status"] == "complete"]
        self.assertEqual(answers[won].json["linked"], {"provider": "discord"})
        self.assertEqual(answers[1 - won].json["problem"]["code"], "identity_in_use")
        return won
