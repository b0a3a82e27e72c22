"""Places without secrets (SPEC 2.2, 5/15; docs/protocol.md: Conventions)."""

import re
from base64 import b64encode, urlsafe_b64decode
from hashlib import sha256
from time import time
from typing import ClassVar

from tests.e2e.cases import ServiceCase
from tests.e2e.service import free_port
from tests.support.covers import covers
from tests.support.postgresql import cluster
from tests.support.stores import POSTGRESQL, address_of

NAME, PASSWORD = "Trillian-McMillan", "nine-lives-of-a-purple-cat"
KEY = sha256(b"the master key of this test").digest()
KEY_TEXT = b64encode(KEY).decode()
BACK = re.compile(r"http://127\.0\.0\.1:\d+/gamed/return\?.*")
"""The browser's return to the game; it stays on its page when the response is 204."""


def forms(secret: str) -> list[bytes]:
    """Return the forms of a secret: as it is, in hex, and, for a credential, its decoded bytes."""
    text = secret.encode()
    found = [text, text.hex().encode()]
    if re.match(r"g[dar][stc]_", secret):
        found.append(urlsafe_b64decode(secret[4:47] + "="))
    elif re.fullmatch(r"[A-Za-z0-9_-]{22,}", secret):
        found.append(urlsafe_b64decode(secret + "=" * (-len(secret) % 4)))
    return found


class Secrets(ServiceCase):
    """Secrets after a complete sign-in, a save and a refresh."""

    config: ClassVar = {
        "mode": "local",
        "master_key_env": "GAMED_MASTER_KEY",
        "login": {"app_links": ["com.example.game:"]},
    }
    environ: ClassVar = {"GAMED_MASTER_KEY": KEY_TEXT}
    forked = False

    def setUp(self) -> None:
        self.began = time()
        super().setUp()
        self.moments: list[dict[str, bytes]] = []
        self.look = self.window()
        self.secrets = self.everything()

    def everything(self) -> dict[str, str]:
        """Run one login of each kind to the end; return every secret of them."""
        by_ticket = self.signed_in("ticket", loopback_port=free_port())
        by_app = self.signed_in("app", return_uri="com.example.game:/signin")
        by_code = self.signed_in("code")
        return {"password": PASSWORD, "name": NAME, "master key": KEY_TEXT, **by_ticket, **by_app, **by_code}

    def signed_in(self, kind: str, **members: object) -> dict[str, str]:
        window, login = self.look, self.start(**members)
        window.step(lambda page: page.context.route(BACK, lambda route: route.fulfill(status=204)))
        window.open(login["login_url"])
        if kind == "ticket":
            window.create_account(NAME, PASSWORD)
        else:
            window.sign_in(NAME, PASSWORD)
        if members:
            [ticket] = set(re.findall(r"ticket=([A-Za-z0-9_-]+)", window.html))
            proof = {"ticket": ticket}
        else:
            proof = {"finish_code": window.code()}
        self.moments.append(self.service.files())  # ready: the result waits
        pair = self.collect(login, **proof).json
        self.session_id = pair["session_id"]
        self.moments.append(self.service.files())  # delivered: it can still be had again
        saved = self.ask("PUT", f"/game/saves/{kind}", body=b"level 1", bearer=pair["access_token"])
        self.assertEqual(saved.status, 201, saved.body)
        refresh = {"refresh_credential": pair["refresh_credential"]}
        successor = self.ask("POST", "/auth/session/refresh", json_body=refresh).json
        self.assertEqual(self.ask("GET", "/game/", bearer=successor["access_token"]).status, 200)
        window.open(f"{self.service.base}/auth/login/done?login_id={login['login_id']}")
        proofs = {kind: proof.get("ticket") or proof["finish_code"]}
        if kind == "code":
            proofs["code without dash"] = proof["finish_code"].replace("-", "")
        named = {
            "device secret": login["device_secret"],
            "login token": login["login_url"].rpartition("/")[2],
            "access token": pair["access_token"],
            "refresh credential": pair["refresh_credential"],
            "next access token": successor["access_token"],
            "next refresh credential": successor["refresh_credential"],
            "cookie": window.cookies["gl"],
        }
        return {**{f"{name} ({kind})": value for name, value in named.items()}, **proofs}

    def assertHidden(self, place: str, content: bytes) -> None:
        for name, secret in self.secrets.items():
            for form in forms(secret):
                self.assertFalse(form in content, f"the {name} is in {place}")
        self.assertFalse(KEY in content, f"the master key's bytes are in {place}")

    @covers("threats/47")
    def test_machine(self) -> None:
        """No file (databases, their write-ahead logs, configuration), log, environment or command line has one."""
        self.assertEqual(len(self.secrets), 3 + 3 * 7 + 4)  # the hunt knows what it looks for
        self.assertTrue(all(len(secret) >= 6 for secret in self.secrets.values()))
        shown = self.service.environment()
        self.assertIn(b"gamed", shown)
        self.assertHidden("/proc/<pid>/environ", shown)
        files = self.service.files()
        if POSTGRESQL:
            files |= self.server_files()
        else:
            self.assertTrue({"data/auth.db", "data/state.db", "data/auth.db-wal"} <= set(files), sorted(files))
        self.assertEqual(self.service.terminate(), 0)
        self.service.start()
        for moment in (*self.moments, files, self.service.files()):
            for path, content in moment.items():
                self.assertHidden(path, content)
        self.assertIn("/auth/login/{token}", self.service.text())  # it speaks of routes, not of paths

    def server_files(self) -> dict[str, bytes]:
        """Return the files of PostgreSQL's server: the database, its log, and this test's write-ahead log."""
        server, database = cluster(), address_of(self.service.data).database
        server.execute("CHECKPOINT")
        [(folder,)] = server.execute(f"SELECT oid FROM pg_database WHERE datname = '{database}'")
        parts = {
            "rows": list((server.data / f"base/{folder}").iterdir()),
            "ahead": [file for file in (server.data / "pg_wal").glob("0*") if file.stat().st_mtime >= self.began],
        }
        for part, files in parts.items():
            self.assertTrue(any(self.session_id.encode() in file.read_bytes() for file in files), part)
        return {str(file): file.read_bytes() for file in [*parts["rows"], *parts["ahead"], server.folder / "log"]}

    def test_pages(self) -> None:
        """No page has one, except the ticket in the link back to the game and, until delivery, the code on its page."""
        for url, html in self.look.seen:
            for name, secret in self.secrets.items():
                shown = html
                if name == "ticket" and "/gamed/return?" in html:
                    shown = re.sub(r"http://127\.0\.0\.1:\d+/gamed/return\?[^\"]*", "", html)
                if name == "app":
                    shown = re.sub(r"com\.example\.game:/signin\?[^\"]*", "", html)
                if name in ("code", "code without dash") and 'class="code"' in html:
                    continue
                if name.startswith("login token"):
                    shown = re.sub(r'(action|href)="[^"]*"', "", html)  # the page's own address
                if name == "name":
                    continue  # the person's own words come back to them in a refused form
                self.assertFalse(secret in shown, f"the {name} is in the page {url.partition('?')[0]}")

        url, last = self.look.seen[-1]
        self.assertIn("/auth/login/done", url)
        self.assertNotIn('class="code"', last)
        self.assertNotIn("ticket=", last)
        [cookie] = self.look.step(lambda page: page.context.cookies())
        self.assertEqual((cookie["name"], cookie["httpOnly"], cookie["sameSite"]), ("gl", True, "Lax"))
