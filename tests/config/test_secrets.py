from base64 import b64encode, urlsafe_b64encode

from twisted.trial.unittest import SynchronousTestCase

from gamed.config.authentication import load
from gamed.config.errors import ConfigError, InvalidValue
from gamed.config.secrets import variable_name
from tests.config.fixtures import ENVIRON, KEY, KEY_TEXT, LOCAL, OAUTH, changed, load_config
from tests.support.covers import covers

KEYED = changed(LOCAL, master_key_env="GAMED_MASTER_KEY")


def complaint(value: str) -> str:
    """Return the complaint about this master key without its position, or "" for a valid key."""
    try:
        load_config(KEYED, {"GAMED_MASTER_KEY": value})
    except ConfigError as e:
        return str(e).split(": ", 2)[2]
    return ""


@covers("2.2/2")
class MasterKeyTests(SynchronousTestCase):
    @covers("8/2")
    def test_strict_base64(self) -> None:
        """32 bytes in the one Base64 spelling they have; every other text is refused and not repeated (SPEC 2.2)."""
        self.assertEqual(complaint(KEY_TEXT), "")
        url_safe = urlsafe_b64encode(KEY).decode()
        self.assertNotEqual(url_safe, KEY_TEXT)
        cases = {
            "": "is not set",
            KEY_TEXT + " ": "white space",
            "\t" + KEY_TEXT: "white space",
            KEY_TEXT + "\n": "white space",
            KEY.hex(): "hexadecimal",
            url_safe: "is not Base64",
            KEY_TEXT[:10] + "\n" + KEY_TEXT[10:]: "is not Base64",
            f'"{KEY_TEXT}"': "is not Base64",
            KEY_TEXT.rstrip("="): "incomplete Base64",
            KEY_TEXT[1:]: "incomplete Base64",
            KEY_TEXT + "=": "Base64",
            KEY_TEXT[:-2] + chr(ord(KEY_TEXT[-2]) + 1) + "=": "last character",
            b64encode(KEY[:31]).decode(): "31 bytes long",
            b64encode(KEY + b"x").decode(): "33 bytes long",
            b64encode(b"").decode() + "====": "Base64",
            "é" * 44: "is not Base64",
            "\udcff" * 44: "is not Base64",
        }
        for text, expected in cases.items():
            said = complaint(text)
            self.assertIn(expected, said, repr(text))
            self.assertFalse(text and text.strip() in said, said)

    def test_hardly_random(self) -> None:
        """A constant key, or readable text, is used, with a warning."""
        for raw, expected in ((bytes(32), "one byte repeated"), (b"correct horse battery staple ok!", "readable text")):
            [warning] = load_config(KEYED, {"GAMED_MASTER_KEY": b64encode(raw).decode()}).warnings
            self.assertIn(f"master_key_env: the master key is {expected}", warning)


@covers("2.1/12")
class SourceTests(SynchronousTestCase):
    def test_one_of_three(self) -> None:
        """A variable, the file that its _FILE form names, or a systemd credential supplies the key."""
        file, credential = {"/run/key": f"{KEY_TEXT}\n".encode()}, {"/creds/GAMED_MASTER_KEY": KEY_TEXT.encode()}
        worlds = [
            ({"GAMED_MASTER_KEY": KEY_TEXT}, {}),
            ({"GAMED_MASTER_KEY": KEY_TEXT, "GAMED_MASTER_KEY_FILE": ""}, {}),
            ({"GAMED_MASTER_KEY": "", "GAMED_MASTER_KEY_FILE": "/run/key"}, file),
            ({"CREDENTIALS_DIRECTORY": "/creds"}, credential),
            ({"CREDENTIALS_DIRECTORY": "/elsewhere", "GAMED_MASTER_KEY_FILE": "/run/key"}, file | credential),
        ]
        for environ, files in worlds:
            key = load_config(KEYED, environ, files).config.master_key
            assert key is not None
            self.assertEqual(key.reveal(), KEY)

    def test_two_at_once(self) -> None:
        """Two sources are rejected even if they agree."""
        files = {"/run/key": KEY_TEXT.encode(), "/creds/GAMED_MASTER_KEY": KEY_TEXT.encode()}
        variable = {"GAMED_MASTER_KEY": KEY_TEXT}
        file = {"GAMED_MASTER_KEY_FILE": "/run/key"}
        credential = {"CREDENTIALS_DIRECTORY": "/creds"}
        for environ in (variable | file, variable | credential, file | credential, variable | file | credential):
            error = self.assertRaises(ConfigError, load_config, KEYED, environ, files)
            self.assertIn("GAMED_MASTER_KEY is supplied twice; keep one", str(error))

    def test_newline_of_files(self) -> None:
        """One line end at the end of a file is no part of the value; anything more is."""
        environ = {"GAMED_MASTER_KEY_FILE": "/run/key"}
        for end in (b"", b"\n", b"\r\n"):
            load_config(KEYED, environ, {"/run/key": KEY_TEXT.encode() + end})
        for end in (b"\n\n", b" \n", b"\r", b"\r\n\r\n"):
            error = self.assertRaises(ConfigError, load_config, KEYED, environ, {"/run/key": KEY_TEXT.encode() + end})
            self.assertIn("white space", str(error))

    def test_unreadable_file(self) -> None:
        """A named file that is not readable is reported with the reason."""
        error = self.assertRaises(ConfigError, load_config, KEYED, {"GAMED_MASTER_KEY_FILE": "/run/key"})
        self.assertIn("GAMED_MASTER_KEY's _FILE form names cannot be read: No such file or directory", str(error))

        def forbidden(path: str) -> bytes:
            raise PermissionError(13, "Permission denied")

        environ = {"CREDENTIALS_DIRECTORY": "/creds"}
        text = '{"mode": "local", "master_key_env": "GAMED_MASTER_KEY"}'
        error = self.assertRaises(ConfigError, load, text, environ, forbidden)
        self.assertIn("credential that GAMED_MASTER_KEY names cannot be read: Permission denied", str(error))

    def test_a_refused_value_names_its_source(self) -> None:
        """A complaint about a secret names the variable, the file or the credential that it came from, and never
        shows the value."""
        wrong = KEY_TEXT + " "
        for environ, files, origin in (
            ({"GAMED_MASTER_KEY": wrong}, {}, "GAMED_MASTER_KEY"),
            (
                {"GAMED_MASTER_KEY_FILE": "/run/key"},
                {"/run/key": wrong.encode()},
                "the file /run/key that GAMED_MASTER_KEY's _FILE form names",
            ),
            (
                {"GAMED_MASTER_KEY_FILE": "/run/k\ney"},
                {"/run/k\ney": wrong.encode()},
                "the file '/run/k\\ney' that GAMED_MASTER_KEY's _FILE form names",
            ),
            (
                {"CREDENTIALS_DIRECTORY": "/creds"},
                {"/creds/GAMED_MASTER_KEY": wrong.encode()},
                "the credential that GAMED_MASTER_KEY names",
            ),
        ):
            error = str(self.assertRaises(ConfigError, load_config, KEYED, environ, files))
            self.assertIn(f"master_key_env: {origin}: the master key has white space around it", error)
            self.assertNotIn(KEY_TEXT, error)

    def test_where_the_key_was_found(self) -> None:
        """The configuration has the source of the key, for messages about a key that does not belong to auth.db."""
        for environ, files, origin in (
            ({"GAMED_MASTER_KEY": KEY_TEXT}, {}, "GAMED_MASTER_KEY"),
            (
                {"GAMED_MASTER_KEY_FILE": "/run/key"},
                {"/run/key": KEY_TEXT.encode()},
                "the file /run/key that GAMED_MASTER_KEY's _FILE form names",
            ),
        ):
            self.assertEqual(load_config(KEYED, environ, files).config.master_key_origin, origin)
        self.assertEqual(load_config(LOCAL).config.master_key_origin, "")

    @covers("2.1/20")
    def test_client_secrets(self) -> None:
        """Client secrets have the same sources, and contain no space or line end."""
        environ = {**ENVIRON, "DISCORD_CLIENT_SECRET": "", "DISCORD_CLIENT_SECRET_FILE": "/run/discord"}
        config = load_config(OAUTH, environ, {"/run/discord": b"from-file\n"}).config
        self.assertEqual(config.providers["discord"].client_secret.reveal(), b"from-file")
        for secret in ("a b", "a\n", "é", "x" * 513):
            error = self.assertRaises(ConfigError, load_config, OAUTH, {**ENVIRON, "DISCORD_CLIENT_SECRET": secret})
            self.assertIn("discord.client_secret_env: DISCORD_CLIENT_SECRET: the client secret must be", str(error))
            self.assertNotIn(secret, str(error))

    @covers("2.1/16", "2.1/17", "2.2/5")
    def test_only_enabled_providers(self) -> None:
        """Leaving a provider's entry out means its variable need not be set (SPEC 2.2)."""
        environ = {name: value for name, value in ENVIRON.items() if not name.startswith("GOOGLE")}
        providers = {"discord": OAUTH["providers"]["discord"]}
        self.assertEqual(list(load_config(changed(OAUTH, providers=providers), environ).config.providers), ["discord"])


@covers("2.1/13")
class VariableNameTests(SynchronousTestCase):
    def test_names(self) -> None:
        """Each name that a shell accepts is accepted, up to 128 characters."""
        names = ["GAMED_MASTER_KEY", "gamed_key", "K", "_X", "KEY2", "GamedMasterKey", "GAMED_MASTER_KEY_OF_SERVER_2"]
        for name in (*names, "DISCORD_APPLICATION_CLIENT_SECRET_2026"):
            self.assertEqual(variable_name(name), name)

    def test_not_a_name(self) -> None:
        """Other text is rejected with what was expected."""
        for value in ("2KEY", "MY KEY", "MY-KEY", "$GAMED_MASTER_KEY", "${KEY}", "KEY=abc", "Ключ", "K" * 129, "a.b"):
            self.assertIn("NAME of an environment variable", str(self.assertRaises(InvalidValue, variable_name, value)))
        for value in ("", 1, None, ["KEY"]):
            self.assertIn("expected the name of an env", str(self.assertRaises(InvalidValue, variable_name, value)))
        self.assertIn("without _FILE", str(self.assertRaises(InvalidValue, variable_name, "GAMED_MASTER_KEY_FILE")))

    def test_secrets_are_recognised(self) -> None:
        """Keys and client secrets in every common spelling are refused where a name belongs, and not repeated."""
        secrets = [
            KEY_TEXT,
            KEY.hex(),
            KEY.hex().upper(),
            "f" + KEY.hex()[1:],
            "GOCSPX-9l8xWqFz0yTn3vK1dRbQeYh2",
            "aB3dEfGh1jKlMn0pQrStUvWx",
            "xYzAbCdEfGhQwErTyUiOpAsDfGhJkLzXc",
            "q7w8e9r0t1y2u3i4o5p6a7s8d9f0g1h2",
        ]
        for secret in secrets:
            said = str(self.assertRaises(InvalidValue, variable_name, secret))
            self.assertIn("never the secret itself", said)
            self.assertNotIn(secret, said)

    def test_odd_names_are_not_shown(self) -> None:
        """A variable's name that could be a secret after all is left out of complaints about it."""
        error = self.assertRaises(ConfigError, load_config, changed(LOCAL, master_key_env="Sesame9Open"), {})
        self.assertIn("the variable named here is not set", str(error))
        self.assertNotIn("Sesame", str(error))
