"""The samples of examples/tickets check tickets of a real server; the first one of each is a bad one."""

import hmac
import json
import os
import shutil
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from clients.conformance.tests.test_godot3 import own_folders
from clients.csharp.tests.building import CLIENT, built, tool
from clients.godot4.tests.engine import godot4
from gamed.config.settings import KEY_FILE
from gamed.crypto import Secret, base64url, derive
from tests.e2e.cases import ServiceCase
from tests.e2e.client import gamed
from tests.e2e.other_origin import installed
from tests.e2e.wire import ask
from tests.proxies.programs import program
from tests.support.nodejs import NODE
from tests.support.ports import free_port
from tests.support.stores import MASTER_KEY, POSTGRESQL
from tests.test_spec import ROOT
from tests.tickets.fixtures import decoded, parts, sign

SAMPLES = ROOT / "examples" / "tickets"
SECRET = "m" * 40
PATIENCE_SECONDS = 60
DAY_SECONDS = 86_400
TOLERANCE_SECONDS = 30
"""The samples that verify signatures accept a ticket this long after its end."""
Case = tuple[str, str, str]
"""Nonce, ticket, and what is wrong with it: nothing if the sample must accept it. Without a nonce its text is empty."""
GODOT_MAIN = """
extends SceneTree

const TicketCheck = preload("res://ticket_check.gd")


func _initialize():
	var tickets = TicketCheck.new(OS.get_environment("SERVER"), OS.get_environment("GAMED_MATCH_SECRET"))
	root.add_child(tickets)
	await process_frame
	for line in FileAccess.open("res://lines.txt", FileAccess.READ).get_as_text().split("\\n", false):
		var words = line.split(" ")
		var player = await tickets.check(words[-1], words[0] if words.size() == 2 else "")
		print("ANSWER " + JSON.stringify({"refused": "empty"} if player.is_empty() else {"player": player["sub"]}))
	quit()
"""
GODOT_PEERS = """
extends SceneTree

const TicketCheck = preload("res://ticket_check.gd")


func _initialize():
	var tickets = TicketCheck.new(OS.get_environment("SERVER"), OS.get_environment("GAMED_MATCH_SECRET"))
	root.add_child(tickets)
	await process_frame
	var nonces = [tickets.new_nonce(7), tickets.new_nonce(8), tickets.new_nonce(9)]
	tickets.forget(9)
	for id in [7, 7, 7, 8, 8, 9, 10]:
		tickets.check_peer(id, "a.b.c")
	while tickets.get_child_count() > 0:
		await process_frame
	print("ANSWER " + JSON.stringify({"nonces": nonces}))
	quit()
"""
NGINX_MAIN = """
pid {folder}/nginx.pid;
error_log stderr;
daemon off;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/sample.conf;
}}
"""


class SampleCase(ServiceCase):
    """A server with tickets, a player who asks for them, and the key of the server to make what it would not sign."""

    config: ClassVar[Mapping[str, object] | None] = {
        "mode": "local",
        "ticket_audiences": {
            "match.example": {"name": True, "secret_env": "GAMED_MATCH_SECRET"},
            "lobby.example": {},
        },
    }
    environ: ClassVar[Mapping[str, str]] = {"GAMED_MATCH_SECRET": SECRET}

    def setUp(self) -> None:
        super().setUp()
        gamed(self.service, "players", "add", "anna", "--password-stdin", stdin="correct horse\n")
        self.token = json.loads(gamed(self.service, "players", "token", "anna", "--json"))["access_token"]
        self.player = self.ask("GET", "/game/", bearer=self.token).json["player"]["id"]
        raw = MASTER_KEY.encode() if POSTGRESQL else (self.service.data / KEY_FILE).read_bytes()
        self.key = Ed25519PrivateKey.from_private_bytes(derive(Secret(b64decode(raw)), b"gamed 1 ticket ed25519 1"))

    def ticket(self, nonce: str | None = "n1", audience: str = "match.example") -> str:
        asked = {"audience": audience, "nonce": nonce}
        return str(self.ask("POST", "/auth/tickets", json_body=asked, bearer=self.token).json["ticket"])

    def cases(self) -> list[Case]:
        """Return good and bad tickets, a bad one first."""
        good = self.ticket()
        header, claims = parts(good)
        first, second, third = good.split(".")
        [public] = self.ask("GET", "/auth/keys").json["keys"]
        stranger = Ed25519PrivateKey.from_private_bytes(bytes(32))
        jwk = {"kty": "OKP", "crv": "Ed25519", "x": base64url(stranger.public_key().public_bytes_raw())}
        hs256 = ".".join(base64url(json.dumps(part).encode()) for part in ({**header, "alg": "HS256"}, claims))
        mac = hmac.digest(decoded(public["x"]), hs256.encode(), sha256)
        now = int(time.time())

        def claiming(**changed: Any) -> str:
            return sign(header, claims | changed, self.key)

        def headed(text: str) -> str:
            return f"{base64url(text.encode())}.e30.AA"

        return [
            ("n1", f"{first}.{second}.{'A' if third[0] != 'A' else 'B'}{third[1:]}", "another signature"),
            ("n1", "not-a-ticket", "no ticket"),
            ("n1", sign({**header, "alg": "none"}, claims, self.key).rpartition(".")[0] + ".", "alg none"),
            ("n1", f"{hs256}.{base64url(mac)}", "HS256 with the public key"),
            ("n1", sign({**header, "kid": "unknown"}, claims, stranger), "an unknown kid"),
            ("n1", sign(header, claims, stranger), "another key"),
            ("n1", sign({**header, "jwk": jwk}, claims, stranger), "a key in the header"),
            ("n1", sign({"alg": "EdDSA", "kid": header["kid"]}, claims, self.key), "no typ"),
            ("n1", sign({**header, "typ": "JWT"}, claims, self.key), "another typ"),
            ("n1", claiming(iss="https://evil.example/auth"), "another issuer"),
            ("n1", self.ticket(audience="lobby.example"), "another audience"),
            ("n1", claiming(aud=["match.example", "lobby.example"]), "a list of audiences"),
            ("n1", claiming(iat=now - 100, exp=now - TOLERANCE_SECONDS - 1), "expired"),
            ("n1", claiming(iat=now + DAY_SECONDS, exp=now + DAY_SECONDS + 60), "issued while the clock was ahead"),
            ("n1", self.ticket(nonce=None), "no nonce"),
            ("", self.ticket(nonce=None), "no nonce sent on this connection"),
            ("", good, "a nonce, but none sent on this connection"),
            ("n2", good, "used again on another connection"),
            ("n1", self.token, "an access token"),
            ("n1", "a" * 5000, "too long"),
            ("n1", "\u00e4" * 4096, "characters that a form encodes as six each"),
            ("n1", headed('["alg"]'), "a list as the header"),
            ("n1", headed('"alg"'), "a text as the header"),
            ("n1", headed("[" * 3000), "a deep header"),
            ("n1", sign({**header, "crit": 5}, claims, self.key), "a number as crit"),
            ("n1", sign({**header, "crit": [[]]}, claims, self.key), "a list in crit"),
            ("n1", good, ""),
            ("n1", claiming(), ""),
            ("n3", self.ticket("n3"), ""),
        ]

    def unknown(self) -> list[Case]:
        """Return tickets of keys that no server has, each of another one."""
        header, claims = parts(self.ticket())
        return [("n1", sign({**header, "kid": f"kid{number}"}, claims, self.key), "a new kid") for number in range(3)]

    def run_lines(self, command: Sequence[object], cases: Sequence[Case], **environ: str) -> list[dict[str, Any]]:
        """Run a sample with these cases as its input; return its answers."""
        done = subprocess.run(
            [str(word) for word in command],
            input=lines(cases),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8", **environ},
            cwd=self.folder,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def check(self, answers: Sequence[Mapping[str, Any]], cases: Sequence[Case]) -> None:
        """Check that exactly the good tickets were accepted, as this player's."""
        self.assertNotEqual(cases[0][2], "")
        self.assertEqual(len(answers), len(cases))
        for answer, (*_, wrong) in zip(answers, cases, strict=True):
            self.assertEqual(answer.get("player"), None if wrong else self.player, f"{wrong}: {answer}")


class FailingServer:
    """A server that answers every request with 503, and counts them."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        paths = self.paths

        class Failing(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                paths.append(self.path)
                self.send_response(503)
                self.end_headers()

            do_POST = do_GET

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Failing)
        self.base = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def lines(cases: Sequence[Case]) -> str:
    """Return the input of a sample: nonce and ticket, or the ticket alone if no nonce was sent."""
    return "".join(f"{nonce} {ticket}".strip() + "\n" for nonce, ticket, _ in cases)


class PythonTests(SampleCase):
    def test_checks(self) -> None:
        """The Python server accepts the tickets of this connection alone."""
        cases = self.cases()
        command = [sys.executable, SAMPLES / "check_ticket.py", self.service.base, "match.example"]
        self.check(self.run_lines(command, cases), cases)

    def test_without_gamed(self) -> None:
        """Without the keys every ticket is refused, and one request in 30 seconds is made for them."""
        failing = FailingServer()
        self.addCleanup(failing.close)
        command = [sys.executable, SAMPLES / "check_ticket.py", failing.base, "match.example"]
        self.check(self.run_lines(command, self.unknown()), self.unknown())
        self.assertEqual(failing.paths, ["/auth/keys"])
        failing.close()
        self.check(self.run_lines(command, self.unknown()), self.unknown())


class NodeTests(SampleCase):
    def setUp(self) -> None:
        super().setUp()
        self.script = self.folder / "check-ticket.mjs"
        shutil.copy(SAMPLES / "check-ticket.mjs", self.script)
        (self.folder / "node_modules").symlink_to(installed() / "node_modules")

    def test_checks(self) -> None:
        """The Node server accepts the tickets of this connection alone."""
        cases = self.cases()
        self.check(self.run_lines([NODE, self.script, self.service.base, "match.example"], cases), cases)

    def test_without_gamed(self) -> None:
        """Without the keys every ticket is refused."""
        failing = FailingServer()
        self.addCleanup(failing.close)
        command = [NODE, self.script, failing.base, "match.example"]
        self.check(self.run_lines(command, self.unknown()), self.unknown())


class CSharpTests(SampleCase):
    def test_checks(self) -> None:
        """The C# server accepts the tickets of this connection alone."""
        cases = self.cases()
        program = built("CheckTicket", SAMPLES / "CheckTicket.cs")
        command = [tool("mono"), program, self.service.base]
        self.check(self.run_lines(command, cases, GAMED_MATCH_SECRET=SECRET), cases)
        self.assertIn(CLIENT[0].name, (SAMPLES / "CheckTicket.cs").read_text("utf-8"))
        failing = FailingServer()
        self.addCleanup(failing.close)
        for server, secret in ((failing.base, SECRET), (self.service.base, "w" * 40)):
            answers = self.run_lines([tool("mono"), program, server], self.unknown(), GAMED_MATCH_SECRET=secret)
            self.check(answers, self.unknown())


class GodotTests(SampleCase):
    def test_checks(self) -> None:
        """The Godot server accepts the tickets of this connection alone, and none without gamed."""
        cases = self.cases()
        project = self.project(GODOT_MAIN)
        (project / "lines.txt").write_text(lines(cases), "utf-8")
        self.check(self.played(project, self.service.base), cases)
        self.service.terminate()
        self.assertEqual({"player" in answer for answer in self.played(project, self.service.base)}, {False})

    def test_peers(self) -> None:
        """Each nonce is for one request to gamed, however often its peer calls meanwhile."""
        failing = FailingServer()
        self.addCleanup(failing.close)
        [answer] = self.played(self.project(GODOT_PEERS), failing.base)
        self.assertEqual(failing.paths, ["/auth/tickets/introspect"] * 2)
        self.assertEqual(len(set(answer["nonces"])), 3)
        for nonce in answer["nonces"]:
            self.assertRegex(nonce, "^[0-9a-f]{48}$")

    def project(self, main: str) -> Path:
        """Return a Godot project with the sample and a main script."""
        project = self.folder / "project"
        project.mkdir()
        shutil.copy(SAMPLES / "ticket_check.gd", project)
        (project / "project.godot").write_text("config_version=5\n")
        (project / "main.gd").write_text(main)
        return project

    def played(self, project: Path, server: str) -> list[dict[str, Any]]:
        command = [*own_folders(), godot4(), "--headless", "--path", str(project), "-s", "main.gd"]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            env={"PATH": os.environ["PATH"], "SERVER": server, "GAMED_MATCH_SECRET": SECRET},
            check=False,
        )
        said = done.stdout + done.stderr
        self.assertNotIn("SCRIPT ERROR", said)
        answers = [line.partition("ANSWER ")[2] for line in said.splitlines() if "ANSWER " in line]
        self.assertNotEqual(answers, [], said)
        return [json.loads(answer) for answer in answers]


class NginxTests(SampleCase):
    def setUp(self) -> None:
        super().setUp()
        self.arrived: list[str] = []
        arrived = self.arrived

        class Match(BaseHTTPRequestHandler):
            """The server behind nginx."""

            def do_GET(self) -> None:
                arrived.append(self.path)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        match = ThreadingHTTPServer(("127.0.0.1", 0), Match)
        Thread(target=match.serve_forever, daemon=True).start()
        self.addCleanup(match.server_close)
        self.addCleanup(match.shutdown)
        self.port, self.match_port = free_port(), match.server_port

    def serve(self, secret: str) -> None:
        """Run nginx with the sample, in which only addresses and the place of the secret differ."""
        folder = self.folder / "nginx"
        folder.mkdir()
        text = (SAMPLES / "nginx.conf").read_text("utf-8")
        for old, new in (
            ("127.0.0.1:8443", f"127.0.0.1:{self.port}"),
            ("http://127.0.0.1:7777", f"http://127.0.0.1:{self.match_port}"),
            ("https://play.example.org/", f"{self.service.base}/"),
            ("Host play.example.org", f"Host 127.0.0.1:{self.service.port}"),
            ("/etc/nginx/gamed-secret.conf", str(folder / "gamed-secret.conf")),
        ):
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, new)
        (folder / "sample.conf").write_text(text)
        (folder / "gamed-secret.conf").write_text(f'proxy_set_header Authorization "Bearer {secret}";\n')
        (folder / "nginx.conf").write_text(NGINX_MAIN.format(folder=folder))
        command = [program("nginx"), "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        limit = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                ask(self.port, "GET", "/")
            except OSError:
                self.assertLess(time.monotonic(), limit)
                time.sleep(0.02)
            else:
                break
        self.arrived.clear()

    def test_checks(self) -> None:
        """Only requests with a valid ticket reach the server behind nginx; a proxy compares no nonce."""
        self.serve(SECRET)
        for number, (_, ticket, wrong) in enumerate(self.cases()):
            refused = wrong and "nonce" not in wrong and "connection" not in wrong
            status = ask(self.port, "GET", f"/{number}", bearer=ticket).status
            self.assertEqual((status, f"/{number}" in self.arrived), (401, False) if refused else (204, True), wrong)
        count = len(self.arrived)
        for field in ("", "Basic YTpi", f"Bearer {self.ticket()}&token=x", f"Bearer {self.ticket()} "):
            status = ask(self.port, "GET", "/x", headers={"Authorization": field} if field else {}).status
            self.assertEqual(status in (400, 401), not field.endswith(" "), field)
        self.assertLessEqual(len(self.arrived), count + 1)

    def test_wrong_secret(self) -> None:
        """With a wrong secret nobody gets through."""
        self.serve("w" * 40)
        self.assertEqual(ask(self.port, "GET", "/", bearer=self.ticket()).status, 401)
        self.assertEqual(self.arrived, [])
