"""Each command about people beside a running service, whose very next request knows of it (docs/owners/players.md)."""

import json
import os
import re
from base64 import b64decode
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection
from secrets import token_bytes
from time import monotonic
from typing import Any
from urllib.parse import urlencode, urlsplit

from gamed.crypto import Keys, Secret
from gamed.database.connection import AUTH, Connection
from gamed.players import tables as player_tables
from gamed.players.names import new_player_id
from gamed.players.tables import create_player
from gamed.providers.base import ExternalIdentity
from tests.cli.process import CommandTestCase, get
from tests.config.fixtures import ENVIRON, KEY_TEXT, OAUTH
from tests.support.covers import covers
from tests.support.postgresql import cluster
from tests.support.stores import POSTGRESQL, address_of


def send(port: int, method: str, path: str, token: str = "", body: object = None) -> tuple[int, Any]:
    """Send a request; return its status and decoded body."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if body is not None:
        headers["Content-Type"] = "application/json"
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        raw = answer.read()
        return answer.status, json.loads(raw) if raw.startswith(b"{") else raw


class PeopleCase(CommandTestCase):
    """A service with two local players, Anna and ben."""

    def setUp(self) -> None:
        super().setUp()
        self.process, self.port = self.serve()
        self.anna, self.ben = (self.add(name) for name in ("Anna", "ben"))

    def add(self, name: str) -> str:
        return str(self.done("players", "add", name, "--password-stdin", stdin="correct horse")["id"])

    def done(self, *arguments: str, stdin: str = "") -> Any:
        """Return the JSON that the command printed."""
        code, out, err = self.gamed(*arguments, "--json", stdin=stdin)
        self.assertEqual((code, err), (0, ""), (arguments, out))
        return json.loads(out)

    def refused(self, *arguments: str, stdin: str = "", code: int = 1) -> str:
        """Run a command that fails; return its error, which is one sentence."""
        ended, out, err = self.gamed(*arguments, stdin=stdin)
        self.assertEqual((ended, out), (code, ""), err)
        self.assertNotIn("Traceback", err)
        return err

    def token(self, who: str) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self.done("players", "token", who)
        return answer

    def code(self, method: str, path: str, token: str = "", body: object = None) -> tuple[int, str | None]:
        status, answer = send(self.port, method, path, token, body)
        return status, answer.get("code") if isinstance(answer, dict) else None

    def log(self) -> list[str]:
        """Stop the service; return the security events of its log, without time and namespace."""
        self.assertEqual(self.stop(self.process), 0)
        return [line.partition("] ")[2] for line in self.log_lines()]

    def log_lines(self) -> list[str]:
        return [line for line in self.output().splitlines() if "[gamed.security#" in line]


class AdmissionTests(PeopleCase):
    def test_block(self) -> None:
        """Blocked and unblocked from the next request on, refreshing included; the session survives."""
        held = self.token("anna")
        self.assertEqual(self.done("players", "block", "ANNA"), {"id": self.anna, "state": "blocked"})
        self.assertEqual(self.code("GET", "/auth/sessions", held["access_token"]), (403, "player_blocked"))
        body = {"refresh_credential": held["refresh_credential"]}
        self.assertEqual(self.code("POST", "/auth/session/refresh", body=body), (403, "player_blocked"))
        self.assertIn("is blocked", self.refused("players", "token", "anna"))
        self.done("players", "unblock", self.anna)
        self.assertEqual(get(self.port, "/auth/sessions", held["access_token"])[0], 200)
        self.assertIn("not blocked", self.refused("players", "unblock", "anna"))
        self.assertIn("There is no player", self.refused("players", "block", "nobody"))

    def test_mistyped(self) -> None:
        """Name the players whose names are similar to a mistyped one, and change nothing."""
        for words in (("players", "block", "ana"), ("sessions", "revoke", "ANAN"), ("saves", "list", "anna1")):
            self.assertIn("Did you mean Anna?", self.refused(*words), words)
        self.assertIn(f"Did you mean {self.ben}?", self.refused("players", "block", self.ben[:-1]))
        self.assertNotIn("Did you mean", self.refused("players", "block", "completely different"))
        for odd in ("x" * 100_000, "\u202e\u0000"[:1], "a\u0301" * 3000):
            self.assertIn("There is no player", self.refused("players", "block", odd))
        self.assertEqual({each["state"] for each in self.done("players", "list")}, {"active"})

    def test_list(self) -> None:
        """Show each player under a heading, with the time of the last request or sign-in in words."""
        held = self.token("anna")
        self.assertEqual(get(self.port, "/auth/sessions", held["access_token"])[0], 200)
        headings, anna, ben, _ = self.gamed("players", "list")[1].splitlines()
        self.assertEqual(headings.split(), ["PLAYER", "NAME", "SHOWN", "AS", "STATE", "LAST", "SEEN", "CODE"])
        self.assertRegex(anna, rf"^{self.anna}  Anna  - +active  just now   -$")
        self.assertRegex(ben, rf"^{self.ben}  ben   - +active  never      -$")
        first, second = self.done("players", "list")
        self.assertRegex(first["last_seen_at"], r"^2\S+Z$")
        self.assertIsNone(second["last_seen_at"])

    def test_chosen(self) -> None:
        """Choose players by a part of a name or id, by state and by number, the newest; count all that match."""
        self.done("players", "block", "ben")
        tricia = self.add("triciamcmillan")  # a part of it that no random id has
        for options, ids in (
            (("--find", "CIAMCMI"), [tricia]),
            (("--find", self.ben[4:]), [self.ben]),
            (("--state", "blocked"), [self.ben]),
            (("--state", "active", "--find", self.ben), []),
            (("--limit", "1"), [tricia]),
        ):
            self.assertEqual([each["id"] for each in self.done("players", "list", *options)], ids, options)
        self.assertEqual(self.gamed("players", "list")[1].splitlines()[-1], "3 players: 2 active, 1 blocked")
        last = self.gamed("players", "list", "--limit", "1")[1].splitlines()[-1]
        self.assertEqual(last, "3 players: 2 active, 1 blocked; the newest 1 are shown")
        self.assertEqual(self.gamed("players", "list", "--find", "zaphodbeeblebrox")[1], "no such players\n")
        for wrong in (("--state", "odd"), ("--limit", "0"), ("--pending", "--state", "active")):
            self.assertEqual(self.gamed("players", "list", *wrong)[0], 2, wrong)

    def test_names(self) -> None:
        """Name players in texts wherever the key is there; JSON has their ids, and without the key so has the text."""
        self.done("owner", "claim", "anna")
        self.assertEqual(self.gamed("owner", "show")[1], "Anna\n")
        self.assertEqual(self.done("owner", "show"), {"owner": self.anna})
        self.assertIn("of ben ended", self.gamed("sessions", "revoke", self.ben)[1])
        self.assertRegex(self.gamed("events")[1], r" command +Anna +command=.owner claim")

    def test_only_newcomers(self) -> None:
        """Only newcomers are approved or rejected."""
        self.assertEqual(self.done("players", "list", "--pending"), [])
        self.assertEqual(self.gamed("players", "list", "--pending")[1], "no player waits for approval\n")
        for verb in ("approve", "reject"):
            self.assertIn("does not wait", self.refused("players", verb, "anna"))
            self.assertIn("waits for approval", self.refused("players", verb, "BKT-RVW"))


class ApprovalTests(PeopleCase):
    def setUp(self) -> None:
        CommandTestCase.setUp(self)
        self.write_config({"mode": "local", "login": {"registration": "approval"}})
        self.process, self.port = self.serve()

    def browse(self, path: str, cookie: str = "", form: Mapping[str, str] | None = None) -> tuple[str, str]:
        """Open a page and follow its redirects; return it, with the cookie that it sets or was requested with."""
        headers = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "document"}
        if form is None:
            headers["Sec-Fetch-Site"] = "none"
        else:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request("GET" if form is None else "POST", path, urlencode(form) if form else None, headers)
            answer = connection.getresponse()
            page = answer.read().decode()
            cookie = (answer.getheader("Set-Cookie") or cookie).partition(";")[0]
        if answer.status == 303:
            where = urlsplit(str(answer.getheader("Location")))
            return self.browse(f"{where.path}?{where.query}", cookie)
        return page, cookie

    def newcomer(self, name: str, *, create: bool = True) -> tuple[Mapping[str, Any], str]:
        """Create an account, or sign in; return what the game collects, and the page afterwards."""
        _, login = send(self.port, "POST", "/auth/login", body={})
        path = urlsplit(login["login_url"]).path
        page, cookie = self.browse(path)
        fields = dict(re.findall(r'name="(\w+)"[^>]*value="([^"]*)"', page))
        fields = {key: value for key, value in fields.items() if key != "create"}
        typed = {**fields, **({"create": "yes"} if create else {}), "name": name, "password": "correct horse"}
        page, cookie = self.browse(f"{path}/local", cookie, typed)
        [code] = re.findall(r"\b[A-Z]{3}-[A-Z]{3}\b", page)
        body = {"finish_code": code}
        _, answer = send(self.port, "POST", "/auth/login/collect", login["device_secret"], body)
        return answer, self.browse(f"/auth/login/done?login_id={login['login_id']}", cookie)[0]

    def test_a_newcomer(self) -> None:
        """Game and page show the code by which the operator approves or rejects a new player."""
        answer, page = self.newcomer("Carl")
        code = answer["problem"]["approval_code"]
        self.assertEqual((answer["status"], answer["problem"]["code"]), ("failed", "player_pending"))
        self.assertIn(code, page)
        self.assertIn(f"Tell them this code: {code}.", answer["problem"]["detail"])  # which every client shows
        [waiting] = self.done("players", "list", "--pending")
        self.assertEqual((waiting["name"], waiting["state"], waiting["code"]), ("Carl", "pending", code))
        self.assertIn(code, self.gamed("players", "list", "--pending")[1])
        self.assertRegex(code, "^[0-9]{6}$")
        typed = f"{code[:3]} {code[3:]}"
        self.assertEqual(self.done("players", "approve", typed), {"id": waiting["id"], "state": "active"})
        answer, _ = self.newcomer("carl", create=False)
        self.assertEqual((answer["status"], answer["player"]["id"]), ("complete", waiting["id"]))
        self.assertIn("does not wait", self.refused("players", "reject", "carl"))

        answer, _ = self.newcomer("Dora")
        self.assertEqual(self.done("players", "reject", answer["problem"]["approval_code"])["state"], "forgotten")
        self.assertEqual(self.done("players", "list", "--pending"), [])
        self.newcomer("Dora")
        self.done("players", "block", "dora")
        answer, _ = self.newcomer("dora", create=False)
        self.assertEqual(answer["problem"]["code"], "player_blocked")

    def test_a_mistyped_code(self) -> None:
        """Six digits name the player with that code, never one who chose such a name."""
        answer, _ = self.newcomer("Gil")
        code = answer["problem"]["approval_code"]
        wrong = f"{(int(code[0]) + 1) % 10}{code[1:]}"
        self.newcomer(wrong)
        self.assertIn("No player with the code", self.refused("players", "approve", wrong))
        self.assertEqual(len(self.done("players", "list", "--pending")), 2)
        for name in ("gil", wrong):
            waiting = {each["name"].lower(): each["id"] for each in self.done("players", "list", "--pending")}
            self.done("players", "reject", waiting[name])

    def test_unblocking_is_no_approval(self) -> None:
        """A newcomer who was blocked before being approved waits for approval again after `unblock`."""
        answer, _ = self.newcomer("Eve")
        [waiting] = self.done("players", "list", "--pending")
        self.done("players", "block", "eve")
        self.assertEqual(self.done("players", "list", "--pending"), [])
        self.assertIn("does not wait", self.refused("players", "approve", waiting["id"]))
        self.assertEqual(self.done("players", "unblock", "eve"), {"id": waiting["id"], "state": "pending"})
        self.assertEqual(self.done("players", "list", "--pending"), [waiting])
        self.assertIn("is pending", self.refused("players", "token", "eve"))
        answer, _ = self.newcomer("eve", create=False)
        self.assertEqual(answer["problem"]["code"], "player_pending")
        self.done("players", "approve", answer["problem"]["approval_code"])
        self.done("players", "block", "eve")
        self.assertEqual(self.done("players", "unblock", "eve")["state"], "active")
        self.assertEqual(self.newcomer("eve", create=False)[0]["status"], "complete")


@covers("5/13")
class SessionTests(PeopleCase):
    def test_list_and_revoke(self) -> None:
        """Listed by player and in all; ended one by one or all of a player's, nothing of another's."""
        first, second, bens = self.token("anna"), self.token("anna"), self.token("ben")
        listed = self.done("sessions", "list", "anna")
        self.assertEqual({line["session_id"] for line in listed}, {first["session_id"], second["session_id"]})
        self.assertEqual(len(self.done("sessions", "list")), 3)
        headings, *lines = self.gamed("sessions", "list")[1].splitlines()
        self.assertEqual(headings.split("  ")[0], "SESSION")
        for line in lines:
            self.assertRegex(line, r"^ses_\S+  ply_\S+  (Anna|ben ) +just now +gamed players token$")
        self.done("sessions", "revoke", first["session_id"])
        self.assertEqual(self.code("GET", "/auth/sessions", first["access_token"]), (401, "session_revoked"))
        self.assertEqual(get(self.port, "/auth/sessions", second["access_token"])[0], 200)
        self.assertIn("no such session", self.refused("sessions", "revoke", first["session_id"]))
        self.assertEqual(self.done("sessions", "revoke", "anna"), {"player": self.anna, "revoked": 1})
        self.assertEqual(self.code("GET", "/auth/sessions", second["access_token"]), (401, "session_revoked"))
        self.assertEqual(get(self.port, "/auth/sessions", bens["access_token"])[0], 200)
        self.assertEqual(self.done("sessions", "list", "anna"), [])

    def test_password(self) -> None:
        """A new password ends every session of the account."""
        held = self.token("anna")
        self.done("players", "password", "anna", "--password-stdin", stdin="battery staple\n")
        self.assertEqual(self.code("GET", "/auth/sessions", held["access_token"]), (401, "session_revoked"))
        self.assertIn("8 to 128", self.refused("players", "password", "anna", "--password-stdin", stdin="short"))
        self.assertIn("no player", self.refused("players", "password", "nobody", "--password-stdin", stdin="short"))


class WaitTests(PeopleCase):
    def setUp(self) -> None:
        CommandTestCase.setUp(self)
        self.write_config()
        (self.folder / "game.json").write_text('{"wait_seconds": 60}')
        self.process, self.port = self.serve()
        self.add("Anna")

    def test_waits_end(self) -> None:
        """A long poll ends at once when a command ends its session or blocks its player, long before its time."""
        for command, code in ((("sessions", "revoke"), "session_revoked"), (("players", "block"), "player_blocked")):
            token = self.token("anna")["access_token"]
            with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as waiting:
                headers = {"Authorization": f"Bearer {token}", "Prefer": "wait=60"}
                waiting.request("GET", "/game/saves?since=0.0", None, headers)
                self.done(*command, "anna")
                done = monotonic()
                answer = waiting.getresponse()
                self.assertEqual(json.loads(answer.read())["code"], code)
                self.assertLess(monotonic() - done, 30)


class OwnerTests(PeopleCase):
    def test_owner(self) -> None:
        """One owner, whom the game gets with its credentials and its saves; moved by a reset, and only on the host."""
        self.assertEqual(self.done("owner", "show"), {"owner": None})
        self.assertIn("There is no owner", self.refused("owner", "reset"))
        held = self.token("anna")
        self.assertFalse(held["player"]["owner"])
        for _ in range(2):
            self.assertEqual(self.done("owner", "claim", "anna"), {"owner": self.anna})
        self.assertEqual(send(self.port, "GET", "/game/", held["access_token"])[1]["player"]["owner"], True)
        self.assertTrue(self.token("anna")["player"]["owner"])
        self.assertIn(f"Anna ({self.anna}) is the owner", self.refused("owner", "claim", "ben"))
        self.assertEqual(self.done("owner", "show"), {"owner": self.anna})
        self.done("owner", "reset")
        self.assertEqual(send(self.port, "GET", "/game/", held["access_token"])[1]["player"]["owner"], False)
        self.done("owner", "claim", "ben")
        self.assertTrue(self.done("players", "show", "ben")["owner"])


class PersonTests(PeopleCase):
    def test_note_and_show(self) -> None:
        """A note is kept sealed, shown, replaced and removed; `show` has everything that is known."""
        self.assertEqual(self.done("players", "note", "anna", "my sister"), {"note": "my sister"})
        self.assertEqual(self.done("players", "note", "anna"), {"note": "my sister"})
        self.token("anna")
        shown = self.done("players", "show", "anna")
        self.assertEqual((shown["id"], shown["name"], shown["note"]), (self.anna, "Anna", "my sister"))
        self.assertEqual([way["provider"] for way in shown["identities"]], ["local"])
        self.assertEqual(len(shown["sessions"]), 1)
        answer = self.gamed("players", "show", "anna")[1].splitlines()
        self.assertIn("note: my sister", answer)
        self.assertIn("owner: no", answer)
        self.assertEqual(answer[-2], "signs in with: local  just now")
        self.assertRegex(answer[-1], r"^session: ses_\S+  just now  gamed players token$")
        for file in self.data.iterdir():
            self.assertNotIn(b"my sister", file.read_bytes() if file.is_file() else b"")
        self.assertEqual(self.done("players", "note", "anna", "--clear"), {"note": None})
        self.assertEqual(self.refused("players", "note", "anna", "x", "--clear", code=2).count("Error"), 1)

    def test_find_needs_a_provider(self) -> None:
        """Without that provider in the file no player is found."""
        self.assertIn("no provider", self.refused("players", "find", "--provider", "discord", "--subject", "1"))

    def test_log(self) -> None:
        """The service's log has each change with the user who ran it, in order, and no name."""
        self.done("players", "block", "anna")
        self.done("players", "unblock", "anna")
        self.done("owner", "claim", "ben")
        lines = [line for line in self.log() if line.startswith("command ")]
        answer = [line.rpartition(" at=")[0] for line in lines]
        by = f"by=uid:{os.getuid()}"
        self.assertEqual(
            answer,
            [
                f'command command="{command}" player={player} {by}'
                for command, player in (
                    ("players add", self.anna),
                    ("players add", self.ben),
                    ("players block", self.anna),
                    ("players unblock", self.anna),
                    ("owner claim", self.ben),
                )
            ],
        )
        self.assertNotIn("Anna", "".join(self.log_lines()))


class DepartureCase(PeopleCase):
    def save(self, token: str, slot: str, data: bytes) -> None:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            headers = {"Authorization": f"Bearer {token}", "If-None-Match": "*"}
            connection.request("PUT", f"/game/saves/{slot}", data, headers)
            self.assertEqual(connection.getresponse().status, 201)


class DepartureTests(DepartureCase):
    def test_erase(self) -> None:
        """Erased beside the service, with saves and sessions; asked first on a terminal, never without --yes."""
        anna, ben = self.token("anna")["access_token"], self.token("ben")["access_token"]
        self.save(anna, "auto", b"anna's")
        self.save(ben, "auto", b"ben's")
        self.refused("players", "erase", "anna", code=2)
        self.assertEqual(self.done("players", "erase", "anna", "--yes"), {"erased": self.anna})
        self.assertEqual(self.code("GET", "/game/", anna), (401, "token_invalid"))
        self.assertEqual([player["name"] for player in self.done("players", "list")], ["ben"])
        self.assertEqual(get(self.port, "/game/saves/auto", ben), (200, b"ben's"))
        self.assertIn("There is no player", self.refused("players", "erase", self.anna, "--yes"))

    def test_merge(self) -> None:
        """Saves follow to the other player, whose next request has them; the old player is gone, the name moved."""
        bo = self.add("bo")
        anna, ben = self.token("anna")["access_token"], self.token("ben")["access_token"]
        self.save(anna, "auto", b"anna's")
        done = self.done("players", "merge", "anna", "--into", "ben")
        self.assertEqual(done, {"from": self.anna, "to": self.ben, "moved": [], "left": ["local"]})
        self.assertEqual(get(self.port, "/game/saves/auto", ben), (200, b"anna's"))
        self.assertEqual(self.code("GET", "/game/", anna), (401, "token_invalid"))
        self.assertIn("the same player", self.refused("players", "merge", "ben", "--into", self.ben))
        names = "schema auth nor schema state" if POSTGRESQL else "auth.db nor state.db"
        self.assertIn(f"Neither {names} has a player", self.refused("players", "merge", "ply_lost", "--into", "ben"))
        self.assertEqual({player["id"] for player in self.done("players", "list")}, {self.ben, bo})


class FindTests(CommandTestCase):
    def test_find(self) -> None:
        """The player of an account at a provider, by the realm that is configured now, without any client secret."""
        self.write_config(OAUTH)
        self.environ = dict(ENVIRON)
        process, _ = self.serve()
        keys = Keys.of(Secret(b64decode(KEY_TEXT)), token_bytes)
        anna = new_player_id(token_bytes)
        identity = ExternalIdentity("oauth2", "https://discord.com", "80351110224678912")

        def unit(connection: Connection) -> None:
            create_player(connection, anna, 1)
            realm = identity.namespace_index(keys.indexer)
            index = identity.index(keys.indexer)
            player_tables.insert_identity(
                connection, index=index, namespace=realm, player_id=anna, provider="discord", now_ms=1
            )

        self.run_transaction(AUTH, unit)
        self.environ = {"GAMED_MASTER_KEY": KEY_TEXT}
        found = ("players", "find", "--provider", "discord", "--subject")
        code, out, err = self.gamed(*found, "80351110224678912", "--json")
        self.assertEqual((code, err, json.loads(out)["id"]), (0, "", anna))
        code, out, err = self.gamed(*found, "80351110224678913")
        self.assertEqual((code, out), (1, ""))
        self.assertNotIn("80351110224678913", err)
        self.stop(process)
        self.assertNotIn("8035111022467891", self.output())


class LeakedKeyTests(DepartureCase):
    def set_accounts_aside(self) -> None:
        """Do what the message for a lost key advises."""
        if POSTGRESQL:
            cluster().execute("ALTER SCHEMA auth RENAME TO auth_aside", address_of(self.data).database)
            self.environ["GAMED_MASTER_KEY"] = KEY_TEXT
            return
        old = self.folder / "leaked"
        old.mkdir()
        for file in (*self.data.glob("auth.db*"), self.data / "auth.key"):
            file.rename(old / file.name)

    def test_new_key_new_accounts(self) -> None:
        """The way of the operations page: a new key and a new auth.db, then each old id's saves to its new player."""
        self.save(self.token("anna")["access_token"], "auto", b"anna's")
        self.stop(self.process)
        self.set_accounts_aside()
        self.process, self.port = self.serve()
        self.assertEqual(self.done("players", "list"), [])
        new = self.add("Anna")
        token = self.token("anna")["access_token"]
        self.assertEqual(self.code("GET", "/game/saves/auto", token), (404, "save_not_found"))
        self.done("players", "merge", self.anna, "--into", "anna")
        self.assertEqual(get(self.port, "/game/saves/auto", token), (200, b"anna's"))
        self.assertNotEqual(new, self.anna)


class OwnAccountTests(PeopleCase):
    def test_over_the_wire(self) -> None:
        """A player sees what signs them in, cannot unlink the last of it, and leaves for good; the log has it."""
        token, bens = self.token("anna")["access_token"], self.token("ben")["access_token"]
        status, answer = send(self.port, "GET", "/auth/identities", token)
        [identity] = answer["identities"]
        self.assertEqual((status, identity["provider"], identity["can_sign_in"]), (200, "local", True))
        self.assertEqual(self.code("DELETE", "/auth/identities/local", token), (409, "last_identity"))
        self.assertEqual(send(self.port, "DELETE", "/auth/player", token), (204, b""))
        self.assertEqual(self.code("GET", "/auth/identities", token), (401, "token_invalid"))
        self.assertEqual(get(self.port, "/auth/identities", bens)[0], 200)
        self.assertEqual([player["name"] for player in self.done("players", "list")], ["ben"])
        answer = [line for line in self.log() if not line.startswith("command ")]
        self.assertEqual(answer, [f"erase_started player={self.anna}", f"erased player={self.anna}"])
