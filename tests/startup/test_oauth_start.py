"""What a start in oauth mode tells the owner, and that it needs no provider to be there (SPEC 4, PROTOCOL 3.2)."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from gamed.providers.discovery import IdentityNamespace
from tests.e2e.service import Service, free_port
from tests.e2e.wire import Answer, ask
from tests.startup.test_policy import OAUTH, SECRETS
from tests.support.covers import covers


class OAuthStart(SynchronousTestCase):
    def service(self, providers: Mapping[str, object]) -> Service:
        config = {**OAUTH, "public_url": "http://127.0.0.1", "providers": providers}
        service = Service(Path(self.mktemp()).absolute(), config, SECRETS)
        self.addCleanup(service.close)
        return service

    def start(self, service: Service, provider: str, **more: Any) -> Answer:
        return ask(service.port, "POST", "/auth/login", json_body={"provider": provider, **more})

    @covers("words/5", "4/9")
    def test_redirect_uris(self) -> None:
        """Each enabled provider's, exactly as it must be registered; no secret beside it."""
        service = Service(Path(self.mktemp()).absolute(), OAUTH, SECRETS)
        self.addCleanup(service.close)
        said = service.start().text()
        for name in ("google", "discord"):
            self.assertIn(f"redirect_uri provider={name} uri=https://play.example.org/auth/{name}/callback\n", said)
        self.assertEqual(said.count("/callback"), 2)
        for secret in SECRETS.values():
            self.assertNotIn(secret, said)

    def test_provider_down(self) -> None:
        """It starts and answers; a sign-in there ends at once, with a word to game, browser and owner."""
        issuer = f"http://127.0.0.1:{free_port()}"
        google = {"client_id": "google-id", "client_secret_env": "GOOGLE_SECRET", "issuer": issuer}
        service = self.service({"google": google}).start()
        self.assertEqual(ask(service.port, "GET", "/healthz").body, b"ok")
        login = self.start(service, "google", loopback_port=51004).json
        path = login["login_url"].removeprefix("http://127.0.0.1")
        answer = ask(service.port, "GET", path)
        self.assertEqual(answer.status, 303)
        cookie = answer.headers["set-cookie"].partition(";")[0]
        where = answer.headers["location"].removeprefix("http://127.0.0.1")
        done = ask(service.port, "GET", where, headers={"Cookie": cookie})
        self.assertEqual((done.status, b"does not answer" in done.body), (200, True))
        self.assertIn("sign_in_failed", service.text())
        self.assertIn(answer.headers["x-request-id"], service.text())
        told = ask(service.port, "POST", "/auth/login/collect", json_body={}, bearer=login["device_secret"])
        self.assertEqual(told.json["problem"]["code"], "provider_unavailable")

    def test_orphaned_identities(self) -> None:
        """The next start says how many accounts no provider of the file can sign in; it stops nobody."""
        discord = {"client_id": "discord-id", "client_secret_env": "DISCORD_SECRET"}
        service = self.service({"discord": discord}).start()
        self.assertNotIn("orphaned_identities count", service.text())
        service.terminate()
        with closing(sqlite3.connect(service.data / "auth.db")) as connection:
            for number in range(3):
                player = ("ply_" + str(number) * 22, "active", 0)
                connection.execute("INSERT INTO player (player_id, state, created_ms) VALUES (?, ?, ?)", player)
                row = (bytes([number]) * 32, player[0], "elsewhere", b"r" * 32)
                connection.execute("INSERT INTO identity VALUES (?, ?, ?, ?, 0, 0)", row)
            connection.commit()
        self.assertIn("orphaned_identities count=3", service.start().text())

    def test_no_word_in_local_mode(self) -> None:
        """Where there are no providers, nothing is said of them."""
        service = Service(Path(self.mktemp()).absolute(), {"mode": "local"})
        self.addCleanup(service.close)
        said = service.start().text()
        self.assertNotIn("callback", said)
        self.assertNotIn("orphaned_identities count", said)

    def test_realm_names_nothing(self) -> None:
        """What two realms have in common in a trace is their kind."""
        self.assertEqual(repr(IdentityNamespace("oidc", "https://id.example")), "Realm(kind='oidc')")
