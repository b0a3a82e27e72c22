"""The cases of the samples in examples/tickets: tickets of a real server, and bad ones."""

import hmac
import json
import os
import subprocess
import time
from base64 import b64decode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gamed.config.settings import KEY_FILE
from gamed.crypto import Secret, base64url, derive
from tests.e2e.cases import ServiceCase
from tests.e2e.client import gamed
from tests.support.stores import MASTER_KEY, POSTGRESQL
from tests.test_spec import ROOT
from tests.tickets.tokens import decoded, parts, sign

SAMPLES = ROOT / "examples" / "tickets"
SECRET = "m" * 40
PATIENCE_SECONDS = 60
DAY_SECONDS = 86_400
TOLERANCE_SECONDS = 30
"""The samples that verify signatures accept a ticket this long after its end."""
Case = tuple[str, str, str]
"""Nonce, ticket, and what is wrong with it: nothing if the sample must accept it. Without a nonce its text is empty."""


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
