"""The two requests of the startup check reveal only what is public (SPEC 2.4, 4, operational)."""

from base64 import b64encode
from collections.abc import Mapping

from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.service import Service, ServiceDied
from tests.e2e.wire import ask
from tests.support.covers import covers
from tests.support.folders import unused_path

KEY = b64encode(bytes(range(32))).decode()
OAUTH = {
    "mode": "oauth",
    "public_url": "https://play.example.org",
    "master_key_env": "GAMED_MASTER_KEY",
    "providers": {
        "google": {"client_id": "google-id", "client_secret_env": "GOOGLE_SECRET"},
        "discord": {"client_id": "discord-id", "client_secret_env": "DISCORD_SECRET"},
    },
}
SECRETS = {"GAMED_MASTER_KEY": KEY, "GOOGLE_SECRET": "google-secret", "DISCORD_SECRET": "discord-secret"}


class StartupTests(SynchronousTestCase):
    def service(self, config: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None) -> Service:
        service = Service(unused_path(self), config, environ)
        self.addCleanup(service.close)
        return service

    @covers("4/2", "operational/6")
    def test_health(self) -> None:
        """`GET /healthz` returns only the text `ok`, which is not cached."""
        answer = ask(self.service().start().port, "GET", "/healthz")
        self.assertEqual((answer.status, answer.body), (200, b"ok"))
        self.assertTrue(answer.headers["content-type"].startswith("text/plain"))
        self.assertEqual(answer.headers["cache-control"], "no-store")

    @covers("2.4/2", "4/3")
    def test_policy_of_local_mode(self) -> None:
        """In local mode `GET /auth/config` has two members, and no provider."""
        answer = ask(self.service().start().port, "GET", "/auth/config")
        self.assertEqual((answer.status, answer.json), (200, {"mode": "local", "providers": []}))

    @covers("words/5", "2.4/2", "2.4/3", "2.4/4", "2.4/5", "4/3", "operational/7")
    def test_policy_of_oauth_mode(self) -> None:
        """`GET /auth/config` has the names of the enabled providers in the order of the file, and no other setting."""
        answer = ask(self.service(OAUTH, SECRETS).start().port, "GET", "/auth/config")
        self.assertEqual((answer.status, answer.json), (200, {"mode": "oauth", "providers": ["google", "discord"]}))
        self.assertEqual(answer.headers["cache-control"], "no-store")
        shown = repr(answer).lower()
        hidden = [*SECRETS, *SECRETS.values(), "google-id", "discord-id", "play.example.org"]
        self.assertEqual([word for word in hidden if word.lower() in shown], [])

    @covers("2.4/5")
    def test_labels(self) -> None:
        """`GET /auth/providers` has name and label of each provider, and no other setting."""
        providers = OAUTH["providers"]
        config = {**OAUTH, "providers": {**providers, "discord": {**providers["discord"], "label": "The Guild"}}}
        answer = ask(self.service(config, SECRETS).start().port, "GET", "/auth/providers")
        expected = [{"name": "google", "label": "Google"}, {"name": "discord", "label": "The Guild"}]
        self.assertEqual((answer.status, answer.json), (200, {"providers": expected}))
        self.assertEqual(answer.headers["cache-control"], "no-store")

    def test_one_provider(self) -> None:
        """A provider without an entry is disabled; its variable need not be set."""
        config = {**OAUTH, "providers": {"discord": OAUTH["providers"]["discord"]}}
        environ = {name: SECRETS[name] for name in ("GAMED_MASTER_KEY", "DISCORD_SECRET")}
        answer = ask(self.service(config, environ).start().port, "GET", "/auth/config")
        self.assertEqual(answer.json["providers"], ["discord"])

    @covers("5/14", "7/3")
    def test_missing_variable(self) -> None:
        """The service does not start without the variable of the master key or of an enabled provider."""
        for name in SECRETS:
            environ = {other: value for other, value in SECRETS.items() if other != name}
            service = self.service(OAUTH, environ)
            error = self.assertRaises(ServiceDied, service.start)
            self.assertIn(f"{name} is not set", str(error))
            self.assertFalse((service.data / "auth.db").exists())

    @covers("4/8", "threats/30")
    def test_base(self) -> None:
        """URLs of the service begin with `public_url`, whatever the request's host is."""
        service = self.service({"mode": "local", "public_url": "https://play.example.org"}).start()
        answer = ask(service.port, "POST", "/auth/login", json_body={})
        self.assertEqual(answer.status, 201, answer.body)
        self.assertTrue(answer.json["login_url"].startswith("https://play.example.org/auth/login/"))
        self.assertEqual(answer.json["poll"]["url"], "https://play.example.org/auth/login/collect")
