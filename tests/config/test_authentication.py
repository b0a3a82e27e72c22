from ipaddress import ip_network

from joserfc.jwk import ECKey, RSAKey
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.model import (
    LOOPBACK,
    AuthLimits,
    LoginSettings,
    Mode,
    ProviderProtocol,
    Registration,
    ReturnProofSetting,
    SessionLifetimes,
)
from tests.config.fixtures import ENVIRON, GONE, KEY, LOCAL, OAUTH, changed, complaints, errors, load_config
from tests.support.covers import covers


class WholeFileTests(SynchronousTestCase):
    @covers("2.1/26", "8/8")
    def test_local(self) -> None:
        """The smallest file: local mode, every other member at its default."""
        loaded = load_config(LOCAL, {})
        config = loaded.config
        self.assertEqual(config.mode, Mode.LOCAL)
        self.assertEqual((config.public_url, config.master_key, config.server_name), (None, None, None))
        self.assertEqual(config.providers, {})
        self.assertEqual(config.session, SessionLifetimes(900, 2592000, 600, None))
        self.assertEqual(config.login, LoginSettings(ReturnProofSetting.REQUIRED, Registration.OPEN))
        self.assertEqual(config.limits, AuthLimits())
        self.assertEqual(config.trusted_proxies, LOOPBACK)
        self.assertEqual(config.cors_origins, ())
        self.assertEqual((loaded.warnings, loaded.secret_names), ((), ()))

    @covers("2.1/18", "2.1/19")
    def test_oauth(self) -> None:
        """The file of oauth mode in the specification is loaded with its secrets (SPEC 2.1, 2.2)."""
        loaded = load_config(OAUTH)
        config = loaded.config
        self.assertEqual(config.mode, Mode.OAUTH)
        self.assertEqual(config.public_url, "https://play.example.org")
        assert config.master_key is not None
        self.assertEqual(config.master_key.reveal(), KEY)
        self.assertEqual(list(config.providers), ["discord", "google"])
        self.assertEqual(config.providers["discord"].client_secret.reveal(), b"discord-hush")
        self.assertEqual(loaded.secret_names, ("GAMED_MASTER_KEY", "DISCORD_CLIENT_SECRET", "GOOGLE_CLIENT_SECRET"))
        self.assertEqual(loaded.warnings, ())

    @covers("threats/51")
    def test_secrets_stay_hidden(self) -> None:
        """The `repr` of a configuration shows no secret."""
        text = repr(load_config(OAUTH))
        self.assertNotIn("hush", text)
        self.assertNotIn(ENVIRON["GAMED_MASTER_KEY"], text)
        self.assertNotIn(repr(KEY), text)

    @covers("2.1/27")
    def test_optional_members(self) -> None:
        """Every optional member is read."""
        config = load_config(
            changed(
                LOCAL,
                server_name=" Anna's server ",
                trusted_proxies=["10.0.0.2", "2001:db8::/32"],
                cors_origins=["https://Game.example.org:443", "http://localhost:3000"],
                session__max_lifetime="90d",
                login__return_proof="required",
                login__registration="approval",
                limits__starts_per_minute=0,
                limits__passwords_per_minute=7,
            ),
            {},
        ).config
        self.assertEqual(config.server_name, "Anna's server")
        self.assertEqual(config.trusted_proxies, (ip_network("10.0.0.2"), ip_network("2001:db8::/32")))
        self.assertEqual(config.cors_origins, ("https://game.example.org", "http://localhost:3000"))
        self.assertEqual(config.session.max_lifetime_seconds, 90 * 86400)
        self.assertEqual(config.login.registration, Registration.APPROVAL)
        self.assertEqual((config.limits.starts_per_minute, config.limits.live_logins), (0, 20000))
        self.assertEqual(config.limits.passwords_per_minute, 7)


class ComplaintTests(SynchronousTestCase):
    def test_form(self) -> None:
        """A complaint has file, line, column, member and what was expected; the position is that of the value."""
        text = '{\n  "mode": "local",\n\n  "session": {\n    "refresh_ttl": "1h",\n    "access_ttl": "soon"\n  }\n}'
        self.assertEqual(
            complaints(text), ['authentication.json:6:19: session.access_ttl: expected a duration such as "15m"']
        )

    def test_all_at_once(self) -> None:
        """Syntax errors, unknown names, wrong values and missing secrets are one list in the order of the file."""
        text = """{
          "mode": "oauth",
          "public_ur": "https://x.example", // my address
          "master_key_env": "GAMED_MASTER_KEY",
          "providers": {
            "discord": {"client_id": 7, "client_secret_env": "DISCORD_CLIENT_SECRET"},
          },
          "session": {"access_ttl": "15", "refresh_ttl": "1y"},
          "limits": {"connections": -1}
        }"""
        self.assertEqual(
            [line.removeprefix("authentication.json:") for line in complaints(text, {})],
            [
                '1:1: public_url: missing; oauth mode needs it, as "https://play.example.org"',
                "3:11: public_ur: no such member here; did you mean public_url?",
                "3:45: JSON has no comments; remove this one",
                "4:29: master_key_env: GAMED_MASTER_KEY is not set; nor is its _FILE form, "
                "nor a credential of that name",
                "6:38: providers.discord.client_id: expected text, in quotes",
                "6:62: providers.discord.client_secret_env: DISCORD_CLIENT_SECRET is not set; nor is its _FILE form, "
                "nor a credential of that name",
                "6:86: providers: no comma may stand before the closing }",
                '8:37: session.access_ttl: expected a duration such as "15m"',
                '8:58: session.refresh_ttl: expected a duration such as "15m"',
                "9:37: limits.connections: expected a whole number from 0 to 1000000000 without quotes",
            ],
        )

    def test_given_name(self) -> None:
        """The complaint begins with the name of the file that the caller gave."""
        from gamed.config.errors import ConfigError

        error = self.assertRaises(ConfigError, load_config, {}, file="/etc/gamed/authentication.json")
        self.assertEqual(str(error), '/etc/gamed/authentication.json:1:1: mode: missing; expected "oauth" or "local"')

    def test_not_an_object(self) -> None:
        """A file with another JSON value than an object is one complaint, not a list of missing members."""
        for text in ("[]", '"local"', "1", "null"):
            self.assertEqual(
                complaints(text), ['authentication.json:1:1: expected an object, such as {"mode": "local"}']
            )

    def test_did_you_mean(self) -> None:
        """An unknown name is reported with the similar known name, or with all known names."""
        cases = {
            "Mode": "did you mean mode?",
            "publicUrl": "did you mean public_url?",
            "public-url": "did you mean public_url?",
            "master_key_evn": "did you mean master_key_env?",
            "provider": "did you mean providers?",
            "zzz": "known are mode, public_url, master_key_env, store, store_password_env, checkpoints, providers, "
            "session, server_name, look, trusted_proxies, cors_origins, login, limits, notify, backup_interval, "
            "ticket_audiences",
        }
        for name, meant in cases.items():
            self.assertEqual(errors(changed(LOCAL, **{name: 1})), [f"{name}: no such member here; {meant}"])
        self.assertEqual(
            errors(changed(LOCAL, session__acces_ttl="15m")),
            ["session.acces_ttl: no such member here; did you mean access_ttl?"],
        )

    @covers("2.1/13", "2.1/21", "2.2/4", "threats/51")
    def test_a_secret_in_the_wrong_place(self) -> None:
        """A secret written into the file, as value or name, is refused with advice and never repeated."""
        secret = ENVIRON["GAMED_MASTER_KEY"]
        config = changed(
            OAUTH,
            master_key=secret,
            master_key_env=secret,
            providers__discord__client_secret="discord-hush-9",
            providers__google__client_secret_env="GOCSPX-hush-hush-hush",
            **{secret: 1},
        )
        text = "\n".join(complaints(config))
        self.assertNotIn(secret, text)
        self.assertNotIn("hush", text)
        self.assertIn("master_key: no such member here; the key itself is never written to this file", text)
        self.assertIn("discord.client_secret: no such member here; the secret itself is never written", text)
        self.assertEqual(len(complaints(config)), 5)


@covers("2.1/8")
class ModeTests(SynchronousTestCase):
    @covers("1/5")
    def test_values(self) -> None:
        """The mode is exactly `oauth` or `local`."""
        for value in ("OAuth", "LOCAL", "", " local", "none", None, 1, True, ["local"], {}):
            self.assertEqual(errors({"mode": value})[:1], ['mode: expected "oauth" or "local"'], value)

    def test_missing(self) -> None:
        """The mode is never guessed: without it the service does not start."""
        self.assertEqual(errors({}), ['mode: missing; expected "oauth" or "local"'])

    @covers("2.1/9", "2.1/12", "2.1/14", "7/2")
    def test_oauth_needs_all(self) -> None:
        """In oauth mode URL, key and providers are required, and reported together (SPEC 7)."""
        self.assertEqual(
            errors({"mode": "oauth"}),
            [
                'public_url: missing; oauth mode needs it, as "https://play.example.org"',
                "master_key_env: missing; oauth mode needs the name of the variable that holds the master key "
                "(`gamed key new` makes one)",
                "providers: missing; oauth mode needs at least one provider, such as discord or google",
            ],
        )

    def test_local_ignores_providers(self) -> None:
        """Providers left in a local file are checked for their form, need no secret, and are not enabled."""
        config = changed(OAUTH, mode="local")
        environ = {"GAMED_MASTER_KEY": ENVIRON["GAMED_MASTER_KEY"]}
        loaded = load_config(config, environ)
        self.assertEqual(loaded.config.providers, {})
        self.assertIsNotNone(loaded.config.master_key)
        self.assertIn("DISCORD_CLIENT_SECRET", loaded.secret_names)
        wrong = changed(config, providers__discord__client_id=GONE)
        self.assertEqual(errors(wrong, environ), ["providers.discord.client_id: missing"])

    def test_without_providers(self) -> None:
        """A command that talks to no provider needs the master key alone; the providers have no secret then."""
        environ = {"GAMED_MASTER_KEY": ENVIRON["GAMED_MASTER_KEY"]}
        config = load_config(OAUTH, environ, providers=False).config
        self.assertEqual({provider.client_secret.reveal() for provider in config.providers.values()}, {b""})
        self.assertIsNotNone(config.master_key)


class DurationTests(SynchronousTestCase):
    @covers("8/4", "8/5", "8/6", "8/8")
    def test_bounds(self) -> None:
        """Each duration is accepted up to its bounds and rejected beyond them (SPEC 8)."""
        cases = [
            ("access_ttl", ["1s", "15m", "24h", "1d", "0015m"], ["0s", "86401s", "25h", "2d", "999999999999d"]),
            ("refresh_ttl", ["901s", "720h", "8760h", "365d"], ["9s", "8761h", "366d"]),
            ("device_transaction_ttl", ["5s", "10m", "1h"], ["4s", "3601s", "2h", "1d"]),
            ("max_lifetime", ["900s", "3650d"], ["9s", "3651d"]),
        ]
        for name, good, bad in cases:
            for text in good:
                self.assertEqual(errors(changed(LOCAL, **{f"session__{name}": text})), [], (name, text))
            for text in bad:
                [complaint] = errors(changed(LOCAL, **{f"session__{name}": text}))
                self.assertTrue(complaint.startswith(f"session.{name}: expected a duration from "), complaint)

    @covers("2.1/25")
    def test_form(self) -> None:
        """A duration is a number and one of s, m, h, d, with nothing around it."""
        for value in (
            "",
            "15",
            "m",
            "15 m",
            " 15m",
            "15m ",
            "15M",
            "15min",
            "1h30m",
            "-15m",
            "+15m",
            "1.5h",
            "15ms",
            "१५m",
            "15m\n",
            15,
            15.0,
            None,
            True,
            ["15m"],
            {},
        ):
            self.assertEqual(
                errors(changed(LOCAL, session__access_ttl=value)),
                ['session.access_ttl: expected a duration such as "15m"'],
                value,
            )

    def test_refresh_outlives_access(self) -> None:
        """A refresh credential must live longer than its access token, and the maximum lifetime must not be shorter."""
        for access, refresh in (("15m", "15m"), ("24h", "10s")):
            config = changed(LOCAL, session__access_ttl=access, session__refresh_ttl=refresh)
            self.assertEqual(errors(config), ["session.refresh_ttl: must be longer than access_ttl"])
        self.assertEqual(
            errors(changed(LOCAL, session__max_lifetime="14m")),
            ["session.max_lifetime: must not be shorter than access_ttl"],
        )

    def test_one_error_is_reported_once(self) -> None:
        """An invalid duration is not compared with another one."""
        config = changed(LOCAL, session__access_ttl="soon", session__refresh_ttl="10s")
        self.assertEqual(errors(config), ['session.access_ttl: expected a duration such as "15m"'])

    def test_short_ones_warn(self) -> None:
        """Below a minute is allowed, with a warning that names the member."""
        warnings = load_config(
            changed(LOCAL, session__access_ttl="59s", session__device_transaction_ttl="1m"), {}
        ).warnings
        self.assertEqual(
            [warning.split(": ", 1)[1] for warning in warnings],
            ["session.access_ttl: is shorter than 1m; use such a short time only for tests"],
        )


class OtherMemberTests(SynchronousTestCase):
    def test_sections_are_objects(self) -> None:
        """Texts, numbers and lists in place of an object are reported once."""
        for name in ("session", "login", "limits", "providers"):
            for value in ("x", 1, None, True):
                self.assertEqual(errors(changed(LOCAL, **{name: value})), [f"{name}: expected an object in {{ }}"])
        for name in ("session", "login", "limits"):
            self.assertEqual(errors(changed(LOCAL, **{name: []})), [f"{name}: expected an object in {{ }}"])

    def test_trusted_proxies(self) -> None:
        """Addresses and networks are accepted; host bits, names, zones and duplicates are not; 0.0.0.0/0 warns."""
        expected = 'expected an address or network such as "10.0.0.2" or "10.0.0.0/24"'
        for value in ("proxy", "10.0.0.0/33", "10.0.0", "fe80::1%eth0", "", 1, None, 167772162):
            self.assertEqual(
                errors(changed(LOCAL, trusted_proxies=[value])), [f"trusted_proxies[0]: {expected}"], value
            )
        self.assertEqual(
            errors(changed(LOCAL, trusted_proxies=["10.0.0.0/8", "10.0.0.1/8"])),
            ["trusted_proxies[1]: this network has host bits set; did you mean 10.0.0.0/8?"],
        )
        self.assertEqual(
            errors(changed(LOCAL, trusted_proxies=["10.0.0.1", "10.0.0.1/32"])), ["trusted_proxies[1]: given twice"]
        )
        self.assertEqual(
            errors(changed(LOCAL, trusted_proxies="10.0.0.1")), ["trusted_proxies: expected a list in [ ]"]
        )
        self.assertEqual(load_config(changed(LOCAL, trusted_proxies=[])).config.trusted_proxies, ())
        [warning] = load_config(changed(LOCAL, trusted_proxies=["0.0.0.0/0"])).warnings
        self.assertIn("trusted_proxies: trusts every address", warning)

    def test_cors_origins(self) -> None:
        """Origins are exact https origins or loopback http; wildcards, `null` and paths are rejected."""
        for value in ("*", "null", "https://*.example.org", "https://x.example/", "http://x.example", "x.example", 1):
            [complaint] = errors(changed(LOCAL, cors_origins=[value]))
            self.assertTrue(complaint.startswith("cors_origins[0]: "), complaint)
        self.assertEqual(
            errors(changed(LOCAL, cors_origins=["https://x.example", "https://X.example:443"])),
            ["cors_origins[1]: given twice"],
        )

    def test_server_name(self) -> None:
        """The name has 1 to 64 visible characters."""
        for value in ("", "   ", "x" * 65):
            self.assertEqual(
                errors(changed(LOCAL, server_name=value)), ["server_name: expected text of 1 to 64 characters"], value
            )
        for value in (1, None):
            self.assertEqual(
                errors(changed(LOCAL, server_name=value)), ["server_name: expected text, in quotes"], value
            )
        for value in ("a\nb", "a\u202eb", "a\u0000b", "a\u200bb"):
            self.assertEqual(
                errors(changed(LOCAL, server_name=value)),
                ["server_name: expected text on one line, without hidden characters"],
            )

    def test_app_links(self) -> None:
        """Apps are https origins in canonical form, or schemes of two parts or more; the empty list is the default."""
        links = ["com.example.game:", "https://App.example.org:443", "HTTPS://b\u00fccher.example:8443", "org.x-1+2.3:"]
        expected = (links[0], "https://app.example.org", "https://xn--bcher-kva.example:8443", links[3])
        self.assertEqual(load_config(changed(LOCAL, login__app_links=links)).config.login.app_links, expected)
        self.assertEqual(load_config(LOCAL).config.login.app_links, ())

    def test_wrong_app_links(self) -> None:
        """Each other text is one complaint that says what was expected, and shows nothing of the text."""
        parts = "a scheme has two parts or more"
        whole = "expected only the scheme and its colon"
        for value, expected in (
            ("com.example.game", "expected a colon after a scheme"),
            ("app.example.org", 'or "https://" in front of an origin'),
            ("com.example.game:/signin", whole),
            ("com.example.game://", whole),
            ("app.example.org:8443", whole),
            ("Com.Example.Game:", "expected a scheme in small letters"),
            ("http://app.example.org", "must begin with https://"),
            ("HTTP://localhost", "must begin with https://"),
            ("https://app.example.org/", "without a path, not even a slash"),
            ("https://app.example.org/x?y", "without a query"),
            ("https://anna@app.example.org", "without a user or password"),
            ("https://*.example.org", "expected a host of letters, digits and hyphens"),
            ("https://", "the host is missing"),
            ("game:", parts),
            ("mygame://signin", parts),
            ("https:", parts),
            ("javascript:", parts),
            ("data:", parts),
            ("file:", parts),
            ("intent:", parts),
            ("*", parts),
            ("", parts),
            (".example.game:", parts),
            ("com..game:", parts),
            ("com.example.:", parts),
            ("1com.example:", parts),
            ("com.exam_ple.game:", parts),
            ("com.ex\u00e4mple.game:", parts),
            ("com.example.game:\n", whole),
            (" com.example.game:", parts),
            (f"com.{'a' * 64}:", parts),
            (f"com{'.a' * 9}:", parts),
            (7, parts),
            (None, parts),
        ):
            [complaint] = errors(changed(LOCAL, login__app_links=[value]))
            self.assertTrue(complaint.startswith("login.app_links[0]: "), complaint)
            self.assertIn(expected, complaint, value)
            self.assertNotIn("signin", complaint)

    def test_app_links_as_a_whole(self) -> None:
        """The list is a list without repetitions, and has nothing of this server's own address."""
        own = "login.app_links[1]: is this server's own address; expected the address of an app's own site"
        links = ["com.example.game:", "https://PLAY.example.org:443"]
        self.assertEqual(errors(changed(OAUTH, login__app_links=links)), [own])
        twice = ["https://x.example", "com.example.game:", "https://X.example:443"]
        self.assertEqual(errors(changed(LOCAL, login__app_links=twice)), ["login.app_links[2]: given twice"])
        one = changed(LOCAL, login__app_links="com.example.game:")
        self.assertEqual(errors(one), ["login.app_links: expected a list in [ ]"])
        [unknown] = errors(changed(LOCAL, login__app_link=[]))
        self.assertEqual(unknown, "login.app_link: no such member here; did you mean app_links?")
        misplaced = errors(changed(LOCAL, app_links=[]))
        self.assertEqual(misplaced, ["app_links: no such member here; it belongs into login"])

    def test_login(self) -> None:
        """The members of `login` are checked, and disabling the return proof is a warning."""
        self.assertEqual(
            errors(changed(LOCAL, login__return_proof=False, login__registration="invite")),
            [
                'login.return_proof: expected "required" or "off"',
                'login.registration: expected "open" or "approval" or "closed"',
            ],
        )
        [warning] = load_config(changed(LOCAL, login__return_proof="off")).warnings
        self.assertIn("login.return_proof: is off", warning)

    def test_limits(self) -> None:
        """Limits are whole numbers from 0; values of other types are rejected."""
        for value in (-1, 1.0, "5", True, None, 10**10):
            self.assertEqual(
                errors(changed(LOCAL, limits__live_logins=value)),
                ["limits.live_logins: expected a whole number from 0 to 1000000000 without quotes"],
                value,
            )


@covers("2.1/14")
class ProviderTests(SynchronousTestCase):
    def test_presets(self) -> None:
        """Discord and Google need only an id and a secret (SPEC 4/13)."""
        discord, google = load_config(OAUTH).config.providers.values()
        self.assertEqual(
            (discord.protocol, discord.label, discord.scopes), (ProviderProtocol.OAUTH2, "Discord", ("identify",))
        )
        self.assertEqual(discord.authorization_endpoint, "https://discord.com/oauth2/authorize")
        self.assertEqual(discord.token_endpoint, "https://discord.com/api/v10/oauth2/token")
        self.assertEqual(discord.userinfo_endpoint, "https://discord.com/api/v10/users/@me")
        self.assertEqual((discord.subject_field, discord.identity_namespace), ("id", None))
        self.assertEqual((google.protocol, google.label, google.scopes), (ProviderProtocol.OIDC, "Google", ("openid",)))
        self.assertEqual((google.issuer, google.token_endpoint), ("https://accounts.google.com", None))

    def test_presets_can_be_changed(self) -> None:
        """A preset's endpoints or issuer may be replaced, on loopback without TLS."""
        config = changed(
            OAUTH,
            providers__discord__authorization_endpoint="http://127.0.0.1:9000/authorize",
            providers__discord__token_endpoint="http://127.0.0.1:9000/token?x=1",
            providers__discord__userinfo_endpoint="http://127.0.0.1:9000/user",
            providers__discord__label="Test",
            providers__google__issuer="http://localhost:9001/realm/",
        )
        discord, google = load_config(config).config.providers.values()
        self.assertEqual(discord.token_endpoint, "http://127.0.0.1:9000/token?x=1")
        self.assertEqual(discord.authorization_endpoint, "http://127.0.0.1:9000/authorize")
        self.assertEqual((discord.label, google.issuer), ("Test", "http://localhost:9001/realm/"))

    def test_others(self) -> None:
        """Any other provider needs an issuer (OpenID Connect), or endpoints and a subject field (OAuth 2.0)."""
        own = {"client_id": "1", "client_secret_env": "DISCORD_CLIENT_SECRET"}
        endpoints = {f"{kind}_endpoint": f"https://p.example/{kind}" for kind in ("authorization", "token", "userinfo")}
        providers = {
            "keycloak": {**own, "issuer": "https://k.example/realms/x", "scopes": ["openid", "roles"]},
            "forge-1": {**own, **endpoints, "subject_field": "id", "scopes": ["read:user"]},
        }
        keycloak, forge = load_config(changed(OAUTH, providers=providers)).config.providers.values()
        self.assertEqual((keycloak.protocol, keycloak.scopes), (ProviderProtocol.OIDC, ("openid", "roles")))
        self.assertEqual(
            (forge.protocol, forge.scopes, forge.label), (ProviderProtocol.OAUTH2, ("read:user",), "forge-1")
        )

    def test_gaps_and_contradictions(self) -> None:
        """Missing and contradicting members of a provider are reported by name."""
        own = {"client_id": "1", "client_secret_env": "DISCORD_CLIENT_SECRET"}
        needs = "authorization_endpoint, token_endpoint, userinfo_endpoint and subject_field"
        cases = [
            ("x", own, [f"providers.x: needs issuer (OpenID Connect), or {needs} (OAuth 2.0)"]),
            (
                "x",
                {**own, "token_endpoint": "https://x.example", "subject_field": "id"},
                [
                    f"providers.x.{gap}: missing; an OAuth 2.0 provider needs {needs}"
                    for gap in ("authorization_endpoint", "userinfo_endpoint")
                ],
            ),
            (
                "x",
                {**own, "issuer": "https://x.example", "subject_field": "id"},
                ["providers.x.subject_field: not for OpenID Connect, where the issuer defines it; leave it out"],
            ),
            (
                "discord",
                {**own, "issuer": "https://x.example"},
                ["providers.discord.issuer: not for OAuth 2.0; leave it out"],
            ),
            (
                "discord",
                {**own, "reauthentication": "prompt"},
                ["providers.discord.reauthentication: not for OAuth 2.0; leave it out"],
            ),
            (
                "x",
                {**own, "issuer": "https://x.example", "reauthentication": "always"},
                ['providers.x.reauthentication: expected "auth_time" or "prompt" or "none"'],
            ),
            *(
                (
                    "google",
                    {**own, "reauthentication": kind},
                    ["providers.google.reauthentication: Google cannot be made to ask again; leave it out"],
                )
                for kind in ("prompt", "auth_time")
            ),
            ("google", {**own, "reauthentication": "none"}, []),
            ("google", {**own, "issuer": "https://id.example", "reauthentication": "prompt"}, []),
            ("microsoft", {**own, "reauthentication": "auth_time"}, []),
            (
                "twitch",
                {**own, "reauthentication": "prompt"},
                ["providers.twitch.reauthentication: Twitch cannot be made to ask again; leave it out"],
            ),
            (
                "google",
                {**own, "scopes": ["openid", "email"]},
                ['providers.google.scopes: only "openid" is ever asked of this provider'],
            ),
            (
                "x",
                {**own, "issuer": "http://x.example/?realm"},
                [
                    "providers.x.issuer: expected an issuer without a query",
                    "providers.x.issuer: must begin with https://; "
                    "http:// is allowed for localhost, 127.0.0.1 and [::1] only",
                ],
            ),
            ("x", {**own, "issuer": "https://x.example", "scopes": ["a"]}, ['providers.x.scopes: must hold "openid"']),
            *(
                (
                    "microsoft",
                    {**own, "issuer": issuer},
                    [
                        "providers.microsoft.issuer: expected an issuer such as "
                        '"https://login.microsoftonline.com/consumers/v2.0", or with another tenant in it'
                    ],
                )
                for issuer in (
                    "https://login.microsoftonline.com/common",
                    "https://login.microsoftonline.com/common/v2.0/",
                    "https://login.microsoftonline.com//v2.0",
                    "https://login.microsoftonline.com/v2.0",
                    "https://login.microsoftonline.com",
                )
            ),
            (
                "twitch",
                {**own, "scopes": ["openid", "user:read:email"]},
                ['providers.twitch.scopes: only "openid" is ever asked of this provider'],
            ),
            (
                "github",
                {**own, "scopes": ["read:user"]},
                ["providers.github.scopes: no scope is ever asked of this provider"],
            ),
            *(
                (
                    name,
                    {**own, "subject_field": field},
                    [f'providers.{name}.subject_field: only "id" identifies an account here; leave it out'],
                )
                for name, field in (("github", "login"), ("github", "node_id"), ("discord", "username"))
            ),
            ("github", {**own, "subject_field": "id"}, []),
            (
                "github",
                {**own, "authorization_endpoint": "https://g.example/a", "userinfo_endpoint": "https://g.example/u"},
                [
                    "providers.github.token_endpoint: missing; set all of "
                    "authorization_endpoint, token_endpoint, userinfo_endpoint, or none"
                ],
            ),
        ]
        for name, provider, expected in cases:
            self.assertEqual(errors(changed(OAUTH, providers={name: provider})), expected)

    def test_steam(self) -> None:
        """Steam needs no member at all, and takes only a label and the address of an emulation."""
        without = {"GAMED_MASTER_KEY": ENVIRON["GAMED_MASTER_KEY"]}
        steam = load_config(changed(OAUTH, providers={"steam": {}}), without).config.providers["steam"]
        self.assertEqual((steam.label, steam.protocol, steam.client_id), ("Steam", ProviderProtocol.OPENID2, ""))
        self.assertEqual(steam.authorization_endpoint, "https://steamcommunity.com/openid/login")
        self.assertFalse(steam.asks_again)
        emulated = {
            "label": "Steam (development)",
            "authorization_endpoint": "http://127.0.0.1:8081/steam/openid/login",
        }
        steam = load_config(changed(OAUTH, providers={"steam": emulated})).config.providers["steam"]
        self.assertEqual([steam.label, steam.authorization_endpoint], [*emulated.values()])
        for member, value in (
            ("client_id", "123"),
            ("client_secret_env", "DISCORD_CLIENT_SECRET"),
            ("issuer", "https://steamcommunity.com/openid"),
            ("scopes", ["openid"]),
            ("token_endpoint", "https://steamcommunity.com/openid/login"),
            ("reauthentication", "prompt"),
            ("team_id", "DEF123GHIJ"),
        ):
            self.assertEqual(
                errors(changed(OAUTH, providers={"steam": {member: value}})),
                [f"providers.steam.{member}: not for OpenID 2.0, where nothing is registered; leave it out"],
            )
        [complaint] = errors(
            changed(OAUTH, providers={"steam": {"authorization_endpoint": "http://steam.example/login"}})
        )
        self.assertTrue(complaint.startswith("providers.steam.authorization_endpoint: must begin with https://"))
        for endpoint in ("https://steam.example/openid/login", "https://steamcommunity.com/openid/login/"):
            self.assertEqual(
                errors(changed(OAUTH, providers={"steam": {"authorization_endpoint": endpoint}})),
                [
                    "providers.steam.authorization_endpoint: only for a test of Steam on this machine; leave it out",
                ],
            )

    def test_apple(self) -> None:
        """Apple needs a key on P-256 with its names, and a public_url with https and a domain name."""
        pem = ECKey.generate_key("P-256").as_pem(private=True)
        own = {
            "client_id": "org.example.play",
            "client_secret_env": "GAMED_APPLE_KEY",
            "team_id": "DEF123GHIJ",
            "key_id": "ABC123DEFG",
        }
        environ = {**ENVIRON, "GAMED_APPLE_KEY": pem.decode()}
        right = changed(OAUTH, providers={"apple": own})
        apple = load_config(right, environ).config.providers["apple"]
        self.assertEqual((apple.client_secret.reveal(), apple.team_id, apple.key_id), (pem, "DEF123GHIJ", "ABC123DEFG"))
        self.assertNotIn("PRIVATE", repr(apple))
        files = {"/run/key.p8": pem}
        named = {**ENVIRON, "GAMED_APPLE_KEY_FILE": "/run/key.p8"}
        self.assertEqual(
            load_config(right, named, files).config.providers["apple"].client_secret.reveal(), pem.rstrip()
        )
        for url in ("http://localhost:8080", "https://localhost", "https://203.0.113.7", "https://[2001:db8::7]"):
            self.assertEqual(
                errors({**right, "public_url": url}, environ),
                ["providers.apple: Apple takes only a public_url with https and a domain name"],
            )
        at_home = {**LOCAL, "public_url": "http://localhost:8080", "providers": {"apple": own}}
        self.assertEqual(errors(at_home, environ), [])
        emulated = changed(
            right, public_url="http://127.0.0.1:8080", providers__apple__issuer="http://127.0.0.1:8081/a"
        )
        self.assertEqual(errors(emulated, environ), [])

    def test_apple_mistakes(self) -> None:
        """Another key, a missing name, or these names at another provider are reported, never the key itself."""
        p256 = ECKey.generate_key("P-256")
        own = {
            "client_id": "a",
            "client_secret_env": "GAMED_APPLE_KEY",
            "team_id": "DEF123GHIJ",
            "key_id": "ABC123DEFG",
        }
        file = changed(OAUTH, providers={"apple": own})
        wrong = "the signing key is not the whole content of a .p8 file: PEM of an EC key on P-256"
        for key in (
            b"discord-hush",
            p256.as_pem(private=False),
            p256.as_pem(private=True)[:-40],
            p256.as_pem(private=True, password="x"),
            ECKey.generate_key("P-384").as_pem(private=True),
            RSAKey.generate_key(2048).as_pem(private=True),
            p256.as_pem(private=True) + b" " * 4096,
            p256.as_pem(private=False) + p256.as_pem(private=True),
            p256.as_pem(private=True) + p256.as_pem(private=False),
            b"# not the PUBLIC one\n" + p256.as_pem(private=True),
        ):
            self.assertEqual(
                errors(file, {**ENVIRON, "GAMED_APPLE_KEY": key.decode()}),
                [f"providers.apple.client_secret_env: GAMED_APPLE_KEY: {wrong}"],
            )
        environ = {**ENVIRON, "GAMED_APPLE_KEY": p256.as_pem(private=True).decode()}
        self.assertEqual(
            errors(changed(file, providers__apple__key_id=GONE), environ), ["providers.apple.key_id: missing"]
        )
        for team in ("def123ghij", "DEF123GHI", "DEF123GHIJK", 7, "DEF123GH\n"):
            [complaint] = errors(changed(file, providers__apple__team_id=team), environ)
            self.assertIn("expected 10 capital letters and digits", complaint)
        self.assertEqual(
            errors(changed(OAUTH, providers__google__team_id="DEF123GHIJ")),
            ["providers.google.team_id: only for a provider whose client secret is signed with a key; leave it out"],
        )

    def test_names(self) -> None:
        """A provider's name has small letters, digits and hyphens, and is no path or other way in of the service."""
        own = OAUTH["providers"]["discord"]
        for name in (
            "Discord",
            "1up",
            "a_b",
            "-a",
            "a" * 33,
            "",
            "a/b",
            "login",
            "session",
            "sessions",
            "identities",
            "providers",
            "invite",
            "config",
            "player",
            "account",
            "errors",
            "local",
            "passkey",
        ):
            complaints = errors(changed(OAUTH, providers={name: own, "discord": own}))
            self.assertEqual(len(complaints), 1, name)
            self.assertIn("expected a name of small letters, digits and hyphens", complaints[0])

    def test_urls(self) -> None:
        """Endpoints are https, or http on loopback, and carry no user, fragment or space."""
        for url in (
            "http://p.example/t",
            "p.example",
            "",
            "https://u:p@p.example/t",
            "https://p.example/#t",
            "https://",
            "https://p.example/a b",
            "https://p.example\\t",
            "https://[::1/t",
            1,
            None,
            "ftp://p.example/",
        ):
            others = {
                f"providers__discord__{name}_endpoint": "https://p.example" for name in ("authorization", "userinfo")
            }
            [complaint] = errors(changed(OAUTH, providers__discord__token_endpoint=url, **others))
            self.assertTrue(complaint.startswith("providers.discord.token_endpoint: "), complaint)
        [complaint] = errors(changed(OAUTH, providers__google__issuer="https://p.example?x"))
        self.assertEqual(complaint, "providers.google.issuer: expected an issuer without a query")

    @covers("2.1/15")
    def test_form(self) -> None:
        """`providers` is an object of objects, not a list of names, and not empty (SPEC 2.1)."""
        expected = 'providers: expected an object with one member per provider, such as {"discord": {...}}'
        self.assertEqual(errors(changed(OAUTH, providers=["discord"])), [expected])
        self.assertEqual(
            errors(changed(OAUTH, providers={})),
            ["providers: missing; oauth mode needs at least one provider, such as discord or google"],
        )
        self.assertEqual(
            errors(changed(OAUTH, providers={"discord": True}))[0], "providers.discord: expected an object in { }"
        )

    def test_master_key_goes_to_nobody(self) -> None:
        """A provider may not be given the master key's variable as its secret."""
        self.assertEqual(
            errors(changed(OAUTH, providers__discord__client_secret_env="GAMED_MASTER_KEY")),
            [
                "providers.discord.client_secret_env: names the master key's variable; name another variable",
            ],
        )
