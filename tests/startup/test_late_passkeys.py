"""Passkeys and recovery codes import their modules at the first use; where there are some, soon after the start.

So both sign in after the server's virtual environment was deleted or replaced; and without them all pages work.
"""

import json
from collections.abc import Mapping
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

from gamed.crypto import Keys, Secret, base64url
from gamed.database.connection import AUTH
from gamed.passkeys import tables
from gamed.passkeys.ceremony import Ceremony, PasskeySite
from gamed.passkeys.model import PasskeyRegistration
from gamed.passkeys.passkey_rules import check_registration
from tests.account.page_fixtures import HOME, AccountBrowser
from tests.contract import live
from tests.e2e.cases import ServiceCase
from tests.e2e.client import gamed
from tests.e2e.service import Service
from tests.login.browser_fixtures import Page
from tests.passkeys.authenticator import Authenticator
from tests.passkeys.recovery_fixtures import CODES, shown_codes
from tests.startup.test_late_imports import Hooked, wait_for
from tests.support.folders import unused_path
from tests.support.http import Answer
from tests.support.stores import MASTER_KEY, store_of

PASSWORD = "correct horse"
ALWAYS = {"__init__", "ceremony", "errors", "limits", "ways_store", "ways_tables"}
"""The modules of gamed/passkeys that pages need on every server."""
VERIFYING = "passkey_rules"
_FILES = Path(tables.__file__).parent.glob("*.py")
LATE = frozenset(f"gamed.passkeys.{file.stem}" for file in _FILES if file.stem not in ALWAYS | {VERIFYING})
"""Those that a server without passkeys and recovery codes does not import, but for the one that verifies passkeys."""


class Wire:
    """The server's port, for AccountBrowser."""

    def __init__(self, port: int) -> None:
        self.port = port

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            fields = {name.lower(): value for name, value in answer.getheaders()}
            cookies = answer.headers.get_all("Set-Cookie") or []
            return Answer(answer.status, fields, answer.read(), cookies)
        finally:
            connection.close()

    def post_form(self, path: str, fields: str, headers: Mapping[str, str]) -> Answer:
        return self.request("POST", path, {**live.FORM, **headers}, fields.encode())


class LatePasskeyTests(ServiceCase):
    """A server at `http://localhost` that imports nothing more, and the device of a player."""

    def prepare(self) -> None:
        self.folder = unused_path(self)
        self.hooked = Hooked(self.folder)
        environ = {**self.hooked.environ, "GAMED_MASTER_KEY": MASTER_KEY}
        self.service = Service(self.folder / "gamed", environ=environ, forked=False)
        self.base = f"http://localhost:{self.service.port}"
        config = {"mode": "local", "public_url": self.base, "master_key_env": "GAMED_MASTER_KEY"}
        self.service.configure(config)
        self.addCleanup(self._end)
        self.service.start()
        added = gamed(self.service, "players", "add", "anna", "--password-stdin", "--json", stdin=f"{PASSWORD}\n")
        self.player_id = json.loads(added)["id"]
        self.service.terminate()
        self.service.log.write_text("")
        self.device = Authenticator()
        self.browser = AccountBrowser(Wire(self.service.port))  # type: ignore[arg-type]
        self.here = {"client_data": {"origin": self.base}, "rp_id": "localhost"}

    def setUp(self) -> None:
        self.prepare()

    def start(self) -> None:
        self.service.start()
        self.hooked.refuse(self.service)

    def insert(self) -> None:
        """Store the passkey of the device before the server starts."""
        ceremony = Ceremony(bytes(32), 0, b"h" * 32)
        public = {"challenge": base64url(ceremony.challenge), "user": {"id": base64url(ceremony.user_handle)}}
        fields = self.device.create(json.dumps({"publicKey": public}), **self.here)
        new = check_registration(PasskeyRegistration.of(fields), ceremony, PasskeySite("localhost", self.base))
        keys = Keys.of(Secret(bytes(range(32))), bytes)
        named = {"passkey_id": f"pky_{'P' * 22}", "player_id": self.player_id, "rp_id": "localhost", "name": "Phone"}
        store = store_of(self.service.data)
        store.run_transaction(AUTH, partial(tables.insert, keys=keys, new=new, **named, now_ms=1))
        store.close()

    @property
    def imported(self) -> frozenset[str]:
        """The modules of LATE that the server has imported, if its log has each one."""
        lines = self.service.text().splitlines()
        return LATE & {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}

    def sign_in(self) -> Page:
        """Sign the browser in to the account with the password."""
        form = self.page(HOME).form("/sign-in")
        return self.follow(self.browser.post_only(form, {"name": "anna", "password": PASSWORD}))

    def page(self, path: str) -> Page:
        return Page(self.browser.ask("GET", path))

    def follow(self, answer: Answer) -> Page:
        """Follow the redirects after a form."""
        while answer.status == 303:
            answer = self.browser.ask("GET", answer.headers["location"].removeprefix(self.base))
        return Page(answer)

    def test_sign_in(self) -> None:
        """A passkey that is there at the start signs in, and no module is missing."""
        self.insert()
        self.start()
        form = self.page(HOME).form("/account/passkey")
        signed = self.follow(self.browser.post_only(form, self.device.get(form["options"], **self.here)))
        self.assertIn("Hello, anna", signed.text)
        self.assertEqual(self.hooked.read(), "")

    def test_first_passkey(self) -> None:
        """A server without passkeys has not loaded what verifies them; the page that makes the first one loads it."""
        self.service.environ["PYTHONPROFILEIMPORTTIME"] = "1"  # the log then names each module
        self.service.start()
        wait_for(lambda: "modules_imported" in self.service.text())
        self.sign_in()
        self.assertNotIn("fido2", self.service.text())
        self.assertEqual(self.imported, set())
        form = self.page(f"{HOME}/passkeys/new").form("/add-passkey")
        self.assertIn("fido2", self.service.text())
        self.assertEqual(self.imported, LATE)
        self.hooked.refuse(self.service)
        fields = {"passkey_name": "Phone", **self.device.create(form["options"], **self.here)}
        self.assertIn("The passkey is added", self.follow(self.browser.post_only(form, fields)).text)
        self.assertEqual(self.hooked.read(), "")

    def test_first_codes(self) -> None:
        """The form that makes the first recovery codes imports what they need, not what verifies passkeys."""
        self.service.environ["PYTHONPROFILEIMPORTTIME"] = "1"
        self.service.start()
        wait_for(lambda: "modules_imported" in self.service.text())
        self.sign_in()
        self.assertEqual(self.imported, set())
        codes = shown_codes(self.follow(self.browser.post_only(self.page(CODES).form("/make-codes"))))
        self.assertEqual((len(codes), self.imported), (10, LATE))
        self.assertNotIn("fido2", self.service.text())

    def test_code(self) -> None:
        """A code that was made before the start signs in, and no module is missing."""
        self.service.start()
        self.sign_in()
        [code, *_] = shown_codes(self.follow(self.browser.post_only(self.page(CODES).form("/make-codes"))))
        self.service.terminate()
        self.service.log.write_text("")
        self.start()
        self.browser = AccountBrowser(Wire(self.service.port))  # type: ignore[arg-type]
        form = self.page(HOME).form("/account/recovery")
        signed = self.follow(self.browser.post_only(form, {"name": "anna", "recovery_code": code}))
        self.assertIn("Recovery codes left: 9", signed.text)
        self.assertEqual(self.hooked.read(), "")

    def test_without_any(self) -> None:
        """Without passkeys and codes the pages of every player work, and no module is missing."""
        self.start()
        self.assertIn("Hello, anna", self.sign_in().text)
        form = self.page(HOME).form("/do/password")
        changed = self.follow(self.browser.post_only(form, {"old": PASSWORD, "new": f"{PASSWORD} 2"}))
        self.assertIn("Your password is changed", changed.text)
        self.assertIn(b"me.json", self.browser.ask("GET", f"{HOME}/export").body)
        self.assertEqual(self.hooked.read(), "")
