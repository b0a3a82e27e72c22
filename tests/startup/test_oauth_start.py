"""A start in oauth mode logs the redirect URIs, and needs no reachable provider (SPEC 4; docs/owners/providers.md)."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from gamed.database.connection import AUTH, Connection
from gamed.providers.base import IdentityNamespace
from tests.e2e.service import Service, free_port
from tests.e2e.wire import Answer, ask
from tests.startup.test_policy import OAUTH, SECRETS
from tests.support.covers import covers
from tests.support.folders import unused_path
from tests.support.stores import store_of


class OAuthStart(SynchronousTestCase):
    def service(self, providers: Mapping[str, object]) -> Service:
        config = {**OAUTH, "public_url": "http://127.0.0.1", "providers": providers}
        service = Service(unused_path(self), config, SECRETS)
        self.addCleanup(service.close)
        return service

    def start(self, service: Service, provider: str, **more: Any) -> Answer:
        return ask(service.port, "POST", "/auth/login", json_body={"provider": provider, **more})

    @covers("words/5", "4/9")
    def test_redirect_uris(self) -> None:
        """The log has the redirect URI of each enabled provider as it must be registered, and no secret."""
        service = Service(unused_path(self), OAUTH, SECRETS)
        self.addCleanup(service.close)
        log = service.start().text()
        for name in ("google", "discord"):
            self.assertIn(f"redirect_uri provider={name} uri=https://play.example.org/auth/{name}/callback\n", log)
        self.assertEqual(log.count("/callback"), 2)
        for secret in SECRETS.values():
            self.assertNotIn(secret, log)

    def test_provider_down(self) -> None:
        """While a provider is down the server runs; a sign-in there fails at once, for game, browser and log."""
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
        collected = ask(service.port, "POST", "/auth/login/collect", json_body={}, bearer=login["device_secret"])
        self.assertEqual(collected.json["problem"]["code"], "provider_unavailable")

    def test_orphaned_identities(self) -> None:
        """The next start logs how many accounts have no configured provider, and starts."""
        discord = {"client_id": "discord-id", "client_secret_env": "DISCORD_SECRET"}
        service = self.service({"discord": discord}).start()
        self.assertNotIn("orphaned_identities count", service.text())
        service.terminate()

        def add_players(connection: Connection) -> None:
            for number in range(3):
                player = ("ply_" + str(number) * 22, "active", 0)
                connection.execute("INSERT INTO player (player_id, state, created_ms) VALUES (?, ?, ?)", player)
                row = (bytes([number]) * 32, player[0], "elsewhere", b"r" * 32)
                connection.execute("INSERT INTO identity VALUES (?, ?, ?, ?, 0, 0)", row)

        with closing(store_of(service.data)) as store:
            store.run_transaction(AUTH, add_players)
        self.assertIn("orphaned_identities count=3", service.start().text())

    def test_no_word_in_local_mode(self) -> None:
        """Local mode logs nothing about providers."""
        service = Service(unused_path(self), {"mode": "local"})
        self.addCleanup(service.close)
        log = service.start().text()
        self.assertNotIn("callback", log)
        self.assertNotIn("orphaned_identities count", log)

    def test_namespace_shows_only_its_kind(self) -> None:
        """The text of an identity namespace, as in a traceback, shows only its kind."""
        self.assertEqual(repr(IdentityNamespace("oidc", "https://id.example")), "IdentityNamespace(kind='oidc')")
