"""`gamed unit`, `nginx` and `caddy` print configurations that these programs accept, for this server."""

import re
import shutil
import subprocess
from pathlib import Path

from cryptography.x509 import DNSName

from gamed.cli.errors import CommandFailed
from gamed.cli.setup.samples import UNITS, quoted
from tests.cli.process import GAMED, WAIT_SECONDS, CommandTestCase
from tests.proxies.programs import program
from tests.support.certificates import certificate

LOCAL = '{"mode": "local"}'
PUBLIC = '{"mode": "local", "public_url": "https://spiel.example.net:8443"}'
OAUTH = """{"mode": "oauth", "public_url": "https://spiel.example.net", "master_key_env": "GAMED_MASTER_KEY",
"providers": {"discord": {"client_id": "1024", "client_secret_env": "DISCORD_SECRET"}}}"""

STORED = """{"mode": "local", "public_url": "https://spiel.example.net", "master_key_env": "GAMED_MASTER_KEY",
"store": "postgresql://gamed@127.0.0.1/gamed", "store_password_env": "GAMED_STORE_PASSWORD"}"""


class SampleCase(CommandTestCase):
    """A server that was not started yet; each test writes its configuration."""

    def printed(self, config: str, *command: str) -> str:
        """Return what the command prints for this configuration."""
        self.config.write_text(config)
        self.config.chmod(0o600)
        code, out, err = self.gamed_here(*command)
        self.assertEqual((code, err), (0, ""), out)
        return out

    def listens(self, *endpoints: str) -> None:
        """Record the endpoints as those of the last start."""
        self.data.mkdir(exist_ok=True)
        (self.data / "gamed.listeners").write_text("".join(f"{text}\n" for text in endpoints))

    def accepted(self, *command: str) -> str:
        """Return the output of a program that has to accept its configuration."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr


class UnitTests(SampleCase):
    def verified(self, config: str, *parts: str) -> dict[str, str]:
        """Return the units for a configuration, which systemd has to accept without a warning."""
        folder = self.folder / "units"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        texts = {part: self.printed(config, "unit", part) for part in parts}
        for part, text in texts.items():
            (folder / UNITS[part]).write_text(text)
        said = self.accepted("systemd-analyze", "verify", *(str(folder / UNITS[part]) for part in parts))
        self.assertEqual(said, "")
        return texts

    def test_public(self) -> None:
        """With a public_url systemd accepts all units, and the socket has the address of the last start."""
        self.listens("tcp:8090:interface=127.0.0.1")
        units = self.verified(PUBLIC, *UNITS)
        self.assertIn("\nListenStream=127.0.0.1:8090\n", units["socket"])
        self.assertIn("\nRequires=gamed.socket\n", units["service"])
        self.assertIn(" serve --share --log-format journal\n", units["instance"])
        for part in ("service", "instance", "backup"):
            self.assertIn(f"\nEnvironment=GAMED_CONFIG={self.config}\n", units[part])
            self.assertIn(f"\nReadWritePaths={self.data}\n", units[part])
            self.assertNotIn("/opt/gamed", units[part])
        self.assertNotIn("LoadCredential", units["service"])

    def test_local(self) -> None:
        """Without a public_url the service listens itself, and a socket unit is refused with the reason."""
        text = self.verified(LOCAL, "service")["service"]
        self.assertIn(" --listen tcp:8080:interface=127.0.0.1\n", text)
        self.assertNotIn("gamed.socket", text)
        for part in ("socket", "instance"):
            code, out, err = self.gamed_here("unit", part)
            self.assertEqual((code, out), (1, ""))
            self.assertIn("needs a public_url", err)

    def test_secrets(self) -> None:
        """The variables of the configuration become credentials, and none of their values is needed or printed."""
        text = self.verified(OAUTH, "service", "socket")["service"]
        folder = self.config.parent / "credentials"
        lines = re.findall(r"(?m)^LoadCredential=(.+)$", text)
        self.assertEqual(lines, [f"GAMED:{folder}", f"DISCORD_SECRET:{folder}/DISCORD_SECRET"])

    def test_notify(self) -> None:
        """The URL of the webhook is a credential, too, and is not needed to print the unit."""
        hook = '{"mode": "local", "notify": {"url_env": "GAMED_HOOK", "format": "ntfy"}}'
        text = self.verified(hook, "service")["service"]
        self.assertIn(f"\nLoadCredential=GAMED:{self.config.parent}/credentials\n", text)

    def test_ticket_audiences(self) -> None:
        """The secrets of servers that check tickets are credentials, too, whatever their names begin with."""
        own, other = ("play.example", "GAMED_MATCH_SECRET"), ("match.example", "MATCH_SECRET")
        audiences = ", ".join(f'"{name}": {{"secret_env": "{secret}"}}' for name, secret in (own, other))
        text = self.verified(f'{{"mode": "local", "ticket_audiences": {{{audiences}}}}}', "service")["service"]
        folder = self.config.parent / "credentials"
        lines = re.findall(r"(?m)^LoadCredential=(.+)$", text)
        self.assertEqual(lines, [f"GAMED:{folder}", f"MATCH_SECRET:{folder}/MATCH_SECRET"])

    def test_linked_assets(self) -> None:
        """Published files behind a link can be written from inside the sandbox, and need not be mounted."""
        self.data.mkdir()
        (self.folder / "published").mkdir()
        (self.data / "assets").symlink_to(self.folder / "published")
        units = self.verified(PUBLIC, *UNITS)
        line = f"\nReadWritePaths=-{self.folder}/published\n"
        self.assertEqual([part for part in units if line in units[part]], ["service", "instance"])
        (self.data / "assets").unlink()
        (self.data / "assets").mkdir()
        self.assertNotIn("ReadWritePaths=-", self.printed(PUBLIC, "unit", "service"))

    def test_for_caddys_own_certificate(self) -> None:
        """With --internal Caddy signs the certificate; the sample of a certificate is left out."""
        text = self.printed(OAUTH, "caddy", "--internal")
        self.assertIn("\nspiel.example.net {\n\ttls internal\n", text)
        self.assertEqual(text.count("\ttls internal\n"), 1)

    def test_postgresql(self) -> None:
        """With a store in PostgreSQL the backup reaches the network and gets the password, and no other secret."""
        units = self.verified(STORED, "service", "socket", "backup")
        folder = self.config.parent / "credentials"
        self.assertIn(f"\nLoadCredential=GAMED:{folder}\n", units["service"])
        self.assertIn(f"\nLoadCredential=GAMED_STORE_PASSWORD:{folder}/STORE_PASSWORD\n", units["backup"])
        self.assertEqual(units["backup"].count("LoadCredential"), 1)
        self.assertIn("\nRestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n", units["backup"])
        for closed in ("PrivateNetwork", "IPAddressDeny"):
            self.assertNotIn(closed, units["backup"])
        path = str(self.folder / "units" / UNITS["backup"])
        self.accepted("systemd-analyze", "security", "--offline=true", "--threshold=13", path)

    def test_user(self) -> None:
        """The unit runs as the owner of the data."""
        self.data.mkdir()
        shutil.chown(self.data, "nobody", "nogroup")
        self.config.write_text(LOCAL)
        self.config.chmod(0o644)
        self.assertIn("\nUser=nobody\nGroup=nogroup\n", self.gamed("unit")[1])

    def test_special_characters(self) -> None:
        """Spaces, percent signs, quotes and dollars in a path are quoted; systemd accepts the unit."""
        self.config, self.data = (self.folder / 'a b%c"d$e' / name for name in ("authentication.json", "data"))
        self.config.parent.mkdir()
        text = self.verified(LOCAL, "service")["service"]
        self.assertIn('Environment="GAMED_DATA=', text)
        self.assertIn("a b%%c", text)

    def test_words(self) -> None:
        """A line end cannot become part of a unit."""
        self.assertEqual(quoted("/srv/gamed"), "/srv/gamed")
        self.assertEqual(quoted("/a $b", command=True), '"/a $$b"')
        self.assertRaises(CommandFailed, quoted, "/a\nExecStart=/bin/sh")

    def test_usual_places(self) -> None:
        """At the usual places the unit is the sample, but for its program and user."""
        places = ["--config", "/etc/gamed/authentication.json", "--data", "/var/lib/gamed"]
        if Path(places[1]).exists() or Path(places[3]).exists():
            return
        code, out, err = self.run_command(*places, "unit", "backup")
        self.assertEqual((code, err), (0, ""))
        sample = (Path(__file__).parents[2] / "etc/systemd/gamed-backup.service").read_text("utf-8")
        other = set(out.splitlines()) ^ set(sample.splitlines())
        self.assertEqual({line for line in other if not line.startswith(("ExecStart=", "#"))}, set())


class ProxyTests(SampleCase):
    def nginx(self, config: str, *options: str) -> str:
        """Return the configuration that nginx has to accept."""
        text = self.printed(config, "nginx", *options)
        pair = certificate(self.folder, DNSName("spiel.example.net"))
        known = re.sub(r"/etc/ssl/spiel\.example\.net/\w+\.pem", str(pair), text)
        (self.folder / "gamed.conf").write_text(known.replace("/var/log/nginx", str(self.folder)))
        main = f"pid {self.folder}/pid;\nevents {{}}\nhttp {{ include {self.folder}/gamed.conf; }}\n"
        (self.folder / "nginx.conf").write_text(main)
        self.accepted(
            program("nginx"), "-t", "-p", str(self.folder), "-e", "stderr", "-c", str(self.folder / "nginx.conf")
        )
        return text

    def caddy(self, config: str) -> str:
        """Return the configuration that Caddy has to accept."""
        text = self.printed(config, "caddy")
        (self.folder / "Caddyfile").write_text(text.replace("/var/log/caddy", str(self.folder)))
        self.accepted(
            program("caddy"), "validate", "--adapter", "caddyfile", "--config", str(self.folder / "Caddyfile")
        )
        return text

    def test_nginx(self) -> None:
        """nginx accepts the configuration, with host and port of public_url and the address of the last start."""
        self.listens("tcp:8090:interface=127.0.0.1")
        text = self.nginx(PUBLIC)
        for line in (
            "server_name spiel.example.net;",
            "listen 8443 ssl;",
            "    server 127.0.0.1:8090 fail_timeout=1s;",
            "limit_conn gamed_clients 64;",
        ):
            self.assertIn(line, text)
        self.assertNotIn("play.example.org", text)
        self.assertNotIn(":80;", text)

    def test_nginx_assets(self) -> None:
        """With --assets nginx knows the folder, unless only players may read it or its name is one to quote."""
        plain = self.nginx(PUBLIC)
        code, out, err = self.gamed("nginx", "--assets")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("Move the published files out of it", err)
        elsewhere = self.folder.resolve() / "published"
        self.data.mkdir(exist_ok=True)
        (self.data / "assets").symlink_to(elsewhere)
        text = self.nginx(PUBLIC, "--assets")
        self.assertIn(f"        alias {elsewhere}/objects/$gamed_first/", text)
        added = iter(text.splitlines()[1:])
        self.assertTrue(all(line in added for line in plain.splitlines()[1:]), "nothing else is changed")
        game = self.config.with_name("game.json")
        game.write_text('{"assets": {"access": "players"}}')
        code, out, err = self.gamed("nginx", "--assets")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("Only players may read", err)
        game.unlink()
        (self.data / "assets").unlink()
        (self.data / "assets").symlink_to(self.folder / "a b")
        code, out, err = self.gamed("nginx", "--assets")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("special characters", err)

    def test_nginx_limits(self) -> None:
        """Both servers of the printed upstream are tried again soon, and each client has a limit."""
        text = self.nginx(PUBLIC)
        self.assertIn("    limit_conn gamed_clients 64;\n", text)
        self.assertEqual(text.count(" fail_timeout=1s;"), 2)

    def test_caddy(self) -> None:
        """Caddy accepts the configuration, with host and port of public_url and the address of the last start."""
        self.listens("tcp:8090:interface=127.0.0.1")
        text = self.caddy(PUBLIC)
        self.assertIn("\nspiel.example.net:8443 {\n", text)
        self.assertIn("reverse_proxy 127.0.0.1:8090 {", text)
        self.assertNotIn("play.example.org", text)

    def test_socket(self) -> None:
        """Both forward to the unix socket of the last start; the usual port is not repeated."""
        self.listens("unix:/run/gamed/http.sock")
        text = self.nginx(OAUTH)
        self.assertIn("    server unix:/run/gamed/http.sock fail_timeout=1s;", text)
        self.assertIn("\n    listen 80;\n", text)
        text = self.caddy(OAUTH)
        self.assertIn("reverse_proxy unix//run/gamed/http.sock {", text)
        self.assertIn("\nspiel.example.net {\n", text)

    def test_no_address(self) -> None:
        """Without an https public_url both refuse, and name the setting and the file."""
        self.config.write_text(LOCAL)
        self.config.chmod(0o600)
        for command in ("nginx", "caddy"):
            code, out, err = self.gamed(command)
            self.assertEqual((code, out), (1, ""))
            self.assertIn(f"Set public_url in {self.config}", err)

    def test_damaged_configuration(self) -> None:
        """Errors of the configuration are reported as everywhere, with exit code 78."""
        self.config.write_text('{"mode": "locl"}')
        code, out, err = self.run_command(*self.places, "nginx", of=GAMED)
        self.assertEqual((code, out), (78, ""))
        self.assertIn("mode: ", err)
