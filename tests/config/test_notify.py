"""The members `notify` and `backup_interval`."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from gamed.config.authentication import LoadedConfiguration
from gamed.config.errors import ConfigError
from gamed.config.model import NotifyFormat
from gamed.config.notify import BACKUP_SECONDS, EXPECTED, load_notify
from gamed.config.validators import is_private
from tests.config.fixtures import LOCAL, changed, errors, load_config, no_file, reader

URL = "https://discord.com/api/webhooks/1/hush-hush"
NAME = "GAMED_NOTIFY_URL"
SECTION = {"url_env": NAME, "format": "discord"}
WITH = changed(LOCAL, notify=SECTION)


def load_with(url: str = URL, **options: Any) -> LoadedConfiguration:
    return load_config(WITH, {NAME: url}, **options)


class WebhookTests(SynchronousTestCase):
    def test_read(self) -> None:
        """The URL comes from its variable; names are left out by default."""
        notify = load_with().config.notify
        assert notify is not None
        self.assertEqual(
            (notify.url.reveal().decode(), notify.format, notify.names), (URL, NotifyFormat.DISCORD, False)
        )
        for form in NotifyFormat:
            config = load_config(changed(WITH, notify__format=form.value, notify__names=True), {NAME: URL}).config
            assert config.notify is not None
            self.assertEqual((config.notify.format, config.notify.names), (form, True))
        self.assertIsNone(load_config(LOCAL, {}).config.notify)

    def test_other_sources(self) -> None:
        """A file that the variable's _FILE form names, and a credential, are read as other secrets are."""
        for environ in ({f"{NAME}_FILE": "/run/url"}, {"CREDENTIALS_DIRECTORY": "/run/credentials"}):
            files = {"/run/url": f"{URL}\n".encode(), f"/run/credentials/{NAME}": URL.encode()}
            notify = load_config(WITH, environ, files).config.notify
            assert notify is not None
            self.assertEqual(notify.url.reveal().decode(), URL)

    def test_hidden(self) -> None:
        """No text of the configuration shows the URL; its variable is among those that are erased."""
        loaded = load_with()
        self.assertNotIn("hush", repr(loaded))
        self.assertEqual(loaded.secret_names, (NAME,))
        self.assertEqual(load_config(WITH, {}, providers=False).secret_names, (NAME,))

    def test_not_needed(self) -> None:
        """A command that needs no secrets of other servers reads the file without the variable."""
        notify = load_config(WITH, {}, providers=False).config.notify
        assert notify is not None
        self.assertEqual(notify.url.reveal(), b"")

    def test_missing(self) -> None:
        """Each missing or unknown member is named, and so is a variable that is not set."""
        self.assertEqual(errors(changed(LOCAL, notify={}), {}), ["notify.url_env: missing", "notify.format: missing"])
        [unset] = errors(WITH, {})
        self.assertIn(f"notify.url_env: {NAME} is not set", unset)
        [kind] = errors(changed(WITH, notify__format="matrix"), {NAME: URL})
        self.assertEqual(kind, 'notify.format: expected "discord" or "ntfy" or "slack" or "json"')
        [flag] = errors(changed(WITH, notify__names="yes"), {NAME: URL})
        self.assertIn("notify.names: expected true or false", flag)
        self.assertEqual(errors(changed(LOCAL, notify="discord"), {})[0], "notify: expected an object in { }")

    def test_url_in_the_file(self) -> None:
        """A URL in the file is refused in both places where a person may put it, and is not shown."""
        [member] = errors(changed(WITH, notify__url=URL), {NAME: URL})
        self.assertIn("notify.url: no such member here; the URL itself is never written to this file", member)
        [name] = errors(changed(WITH, notify__url_env=URL), {})
        self.assertIn("expected the NAME of an environment variable", name)
        self.assertNotIn("hush", member + name)

    def test_urls(self) -> None:
        """https is accepted for any host, and http for private addresses and for names, whose address is checked later.

        The error shows nothing of the URL.
        """
        for good in (
            *("https://ntfy.sh/topic", "https://[2001:db8::1]:8443/x?auth=y", "http://127.0.0.1:8080/hush"),
            *("http://[::1]/x", "http://10.0.0.7/x", "http://192.168.1.2/x", "http://[fd00::1]/x", "http://ntfy/x"),
            *("http://localhost/x", "http://ntfy.lan:80/x", "http://100.64.0.1/x", "https://203.0.113.9/x"),
        ):
            self.assertEqual(errors(WITH, {NAME: good}), [], good)
        for bad in (
            *("http://8.8.8.8/hush", "http://[2606:4700::1]/hush", "ftp://example.org/hush", "hush", "https:///hush"),
            *("https://user:hush@example.org/", "https://example.org/#hush", "https://example.org/hu sh", "//x/hush"),
            *("https://example.org:99999/hush", "https://example.org/hush\r\nX: y", "https://exa_mple.org/hush"),
            *("https://example.org/hüsh", "https://" + "h" * 3000, "http://[::ffff:8.8.8.8]/hush", "https://[::1/hush"),
        ):
            self.assertEqual(errors(WITH, {NAME: bad}), [f"notify.url_env: {NAME}: {EXPECTED}"], bad)

    def test_alone(self) -> None:
        """The webhook is read without the master key, with the problems of its own members only."""
        text = (
            '{"mode": "oauth", "master_key_env": "K", "server_name": "Home", "notify": {"url_env": "GAMED_NOTIFY_URL",'
        )
        notify, name, variable = load_notify(text + '"format": "ntfy"}}', {NAME: URL}, no_file, "a.json")
        assert notify is not None
        self.assertEqual((notify.url.reveal().decode(), name, variable), (URL, "Home", NAME))
        with self.assertRaises(ConfigError) as caught:
            load_notify(text + '"format": "x"}}', {NAME: URL}, reader({}), "a.json")
        self.assertEqual(len(caught.exception.problems), 1)
        self.assertEqual(load_notify('{"mode": "local"}', {}, no_file, "a.json"), (None, "", None))


class PrivateTests(SynchronousTestCase):
    def test_addresses(self) -> None:
        """An address is private if no router of the internet forwards it; a name is neither."""
        for address in ("127.0.0.1", "10.1.2.3", "172.16.0.1", "169.254.1.1", "::1", "fe80::1%eth0", "::ffff:10.0.0.1"):
            self.assertIs(is_private(address), True, address)
        for address in ("8.8.8.8", "172.32.0.1", "2606:4700::1", "::ffff:8.8.8.8"):
            self.assertIs(is_private(address), False, address)
        self.assertIsNone(is_private("example.org"))


class BackupIntervalTests(SynchronousTestCase):
    def test_default(self) -> None:
        """A backup is too old after two days, but not where other tools make the backups."""
        self.assertEqual(load_config(LOCAL, {}).config.backup_seconds, BACKUP_SECONDS)
        external = load_config(changed(LOCAL, checkpoints="external"), {}).config
        self.assertIsNone(external.backup_seconds)

    def test_set(self) -> None:
        """The interval is a duration of an hour to a year, or off."""
        self.assertEqual(load_config(changed(LOCAL, backup_interval="8d"), {}).config.backup_seconds, 8 * 86400)
        self.assertIsNone(load_config(changed(LOCAL, backup_interval="off"), {}).config.backup_seconds)
        external = changed(LOCAL, checkpoints="external", backup_interval="8d")
        self.assertEqual(load_config(external, {}).config.backup_seconds, 8 * 86400)
        for bad in ("1m", "9999d", 5, "never", None):
            [line] = errors(changed(LOCAL, backup_interval=bad), {})
            self.assertTrue(line.startswith("backup_interval: expected a duration"), line)
