"""The namespace of a provider's subjects follows from its issuer or origin, not from its name in the file."""

from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import Keys, Secret
from gamed.providers.base import IdentityNamespace
from gamed.providers.discovery import identity_namespace, identity_of, namespace_indexes
from tests.config.fixtures import KEY, OAUTH, changed, load_config

TENANT = "8eaef023-2b34-4da1-9baa-8bc8c9d6a490"


class RealmTests(SynchronousTestCase):
    def realms(self, **members: str) -> dict[str, IdentityNamespace]:
        """Return the namespaces of the providers, with members of discord set."""
        if "userinfo_endpoint" in members:
            members |= {f"{name}_endpoint": "https://mirror.example/" for name in ("authorization", "token")}
        file = changed(OAUTH, **{f"providers__discord__{name}": value for name, value in members.items()})
        return {name: identity_namespace(provider) for name, provider in load_config(file).config.providers.items()}

    def test_presets(self) -> None:
        """Discord by its origin, Google by its issuer."""
        realms = self.realms()
        self.assertEqual(realms["discord"], IdentityNamespace("oauth2", "https://discord.com"))
        self.assertEqual(realms["google"], IdentityNamespace("oidc", "https://accounts.google.com"))

    def test_tenants(self) -> None:
        """All tenants of Microsoft are one namespace: other tenants that may sign in change no account."""
        for tenants in ("consumers", "common", "contoso.onmicrosoft.com"):
            own = {"client_id": "1", "client_secret_env": "DISCORD_CLIENT_SECRET"}
            issuer = f"https://login.microsoftonline.com/{tenants}/v2.0"
            config = load_config(changed(OAUTH, providers={"microsoft": {**own, "issuer": issuer}})).config
            self.assertEqual(
                identity_namespace(config.providers["microsoft"]),
                IdentityNamespace("oidc", "https://login.microsoftonline.com/{tenantid}/v2.0"),
            )

    def test_tenants_before_the_preset(self) -> None:
        """An account of one tenant is the same player as when its issuer was configured without the preset."""
        issuer, number = f"https://login.microsoftonline.com/{TENANT}/v2.0", "HKZpfaHyWadeOouYlitjrI"
        own = {"client_id": "1", "client_secret_env": "DISCORD_CLIENT_SECRET", "issuer": issuer}
        config = load_config(changed(OAUTH, providers={"contoso": own, "microsoft": own})).config
        before, after = config.providers["contoso"], config.providers["microsoft"]
        indexer = Keys.of(Secret(KEY), bytes).indexer
        old = identity_of(before, number)
        for tenants in (issuer, issuer.replace(TENANT, "common"), issuer.replace(TENANT, "consumers")):
            new = identity_of(replace(after, issuer=tenants), f"{TENANT}/{number}")
            self.assertEqual(old.index(indexer), new.index(indexer))
            self.assertIn(new.namespace_index(indexer), namespace_indexes(indexer, [replace(after, issuer=tenants)]))
        self.assertIn(old.namespace_index(indexer), namespace_indexes(indexer, [after]))
        other = identity_of(after, f"{TENANT.replace('8', '9')}/{number}")
        self.assertNotEqual(other.index(indexer), old.index(indexer))

    def test_steam(self) -> None:
        """Steam's accounts are what its claimed ids have in common, by a kind of its own."""
        for members, namespace in (
            ({}, "https://steamcommunity.com/openid/id/"),
            (
                {"authorization_endpoint": "http://127.0.0.1:8081/steam/openid/login"},
                "http://127.0.0.1:8081/steam/openid/id/",
            ),
        ):
            config = load_config(changed(OAUTH, providers={"steam": members})).config
            self.assertEqual(identity_namespace(config.providers["steam"]), IdentityNamespace("openid2", namespace))

    def test_another_host(self) -> None:
        """A preset asked at another host names other people: no account is handed over."""
        realms = self.realms(userinfo_endpoint="https://mirror.example/users/@me")
        self.assertEqual(realms["discord"], IdentityNamespace("oauth2", "https://mirror.example"))

    def test_moved_by_the_owner(self) -> None:
        """The same people at a new address, if the owner says so."""
        realms = self.realms(userinfo_endpoint="https://mirror.example/me", identity_namespace="https://discord.com")
        self.assertEqual(realms["discord"], IdentityNamespace("oauth2", "https://discord.com"))
