"""A passkey signs in after the server's virtual environment was deleted or replaced, also the first one."""

import json
from collections.abc import Mapping
from functools import partial
from http.client import HTTPConnection

from gamed.crypto import Keys, Secret, base64url
from gamed.database.connection import AUTH
from gamed.passkeys import tables
from gamed.passkeys.model import Ceremony, PasskeyRegistration, PasskeySite
from gamed.passkeys.passkey_rules import check_registration
from tests.account.page_fixtures import HOME, AccountBrowser
from tests.contract import live
from tests.e2e.cases import ServiceCase
from tests.e2e.client import gamed
from tests.e2e.service import Service
from tests.login.browser_fixtures import Page
from tests.passkeys.authenticator import Authenticator
from tests.startup.test_late_imports import Hooked, wait_for
from tests.support.folders import unused_path
from tests.support.http import Answer
from tests.support.stores import MASTER_KEY, store_of

PASSWORD = "correct horse"


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
        form = self.page(HOME).form("/sign-in")
        self.follow(self.browser.post_only(form, {"name": "anna", "password": PASSWORD}))
        self.assertNotIn("fido2", self.service.text())
        form = self.page(f"{HOME}/passkeys/new").form("/add-passkey")
        self.assertIn("fido2", self.service.text())
        self.hooked.refuse(self.service)
        fields = {"passkey_name": "Phone", **self.device.create(form["options"], **self.here)}
        self.assertIn("The passkey is added", self.follow(self.browser.post_only(form, fields)).text)
        self.assertEqual(self.hooked.read(), "")
