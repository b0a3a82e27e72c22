"""`gamed doctor` beside a real service, and through a real proxy."""

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.x509 import DNSName

import gamed.cli.checks.doctor
import gamed.cli.commands  # what the other user has to be able to import, too
import gamed.service  # noqa: F401
from gamed.database.backup_format import stamp
from gamed.database.connection import AUTH, STATE
from tests.cli.other_user import python_for_all
from tests.cli.process import GAMED, CommandTestCase
from tests.config.fixtures import KEY_TEXT
from tests.proxies.samples import Nginx
from tests.support.certificates import certificate
from tests.support.ports import free_port
from tests.support.stores import sqlite_files, store_of

OTHER = 54321
"""A user whom this machine has no name for."""
GAME = {"wait_seconds": 1, "min_free_bytes": 0}


class FarProvider:
    """An issuer on this machine whose clock stands in 1999."""

    def __init__(self) -> None:
        asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                tenants = {"issuer": f"{base}/{{tenantid}}/v2.0"} if self.path.startswith("/common/") else {}
                body = json.dumps(document | tenants).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def date_time_string(self, timestamp: float | None = None) -> str:
                return "Fri, 31 Dec 1999 23:59:59 GMT"

            def log_message(self, *_: object) -> None:
                """Discard the line."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        base = f"http://127.0.0.1:{self._server.server_port}"
        self.base, self.asked = base, asked
        names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        document = {"issuer": self.base, **{name: f"{self.base}/{path}" for name, path in names.items()}}
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class DoctorTests(CommandTestCase):
    python = sys.executable

    def gamed(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        command = (self.python, *GAMED[1:])
        return self.run_command(*self.places, *arguments, of=command, stdin=stdin)

    def doctor(self, *options: str) -> tuple[int, dict[str, list[dict[str, str]]], str]:
        """Exit code, findings by their level, stderr."""
        code, out, err = self.gamed("doctor", "--json", *options)
        found: dict[str, list[dict[str, str]]] = {"ok": [], "skipped": [], "warning": [], "problem": []}
        for finding in json.loads(out)["findings"]:
            found[finding["level"]].append(finding)
        return code, found, err

    def configure(self, **config: object) -> None:
        self.write_config({"mode": "local", **config})
        self.config.with_name("game.json").write_text(json.dumps(GAME))

    def count(self, table: str) -> int:
        [(number,)] = self.rows(STATE if table.startswith("save") else AUTH, f"SELECT count(*) FROM {table}")
        return int(number)

    def databases(self) -> set[str]:
        """Return the names of both databases."""
        return {store_of(self.data).name(database) for database in (AUTH, STATE)}

    def serve_once(self) -> None:
        """Let a server make everything."""
        self.configure()
        process, _port = self.serve()
        self.assertEqual(self.stop(process), 0)

    def let_everybody_enter(self) -> None:
        """Let every user enter the folder, and run a Python that every user can run."""
        self.folder.chmod(0o755)
        self.python, environ = python_for_all()
        self.environ |= environ

    def change_owner(self) -> None:
        """Give the data folder to another user, if the tests run as root."""
        for path in (self.data, *self.data.rglob("*")):
            os.chown(path, OTHER if os.geteuid() == 0 else -1, -1)

    def test_local(self) -> None:
        """The doctor finds no problem beside a running server."""
        self.configure()
        process, _port = self.serve()
        code, found, err = self.doctor()
        self.assertEqual((code, found["problem"], err), (0, [], ""))
        checks = {finding["check"] for finding in found["ok"]}
        self.assertLessEqual({"configuration", "data", *self.databases(), "server", "key", "disk"}, checks)
        self.assertIn("no provider", found["skipped"][0]["text"])
        self.assertEqual(self.stop(process), 0)

    @sqlite_files("a key file; PostgreSQL needs a master key")
    def test_open_key_file(self) -> None:
        """A key file that others can read is a problem."""
        self.configure()
        process, _port = self.serve()
        (self.data / "auth.key").chmod(0o644)
        code, found, err = self.doctor()
        self.assertEqual((code, [each["check"] for each in found["problem"]]), (1, ["auth.key"]))
        self.assertIn("1 problem", err)
        self.assertEqual(self.stop(process), 0)

    def test_folder_of_another_user(self) -> None:
        """Root finds no problem in another user's folder, unless that user cannot enter it."""
        self.serve_once()
        self.change_owner()
        code, found, err = self.doctor()
        self.assertEqual({each["check"] for each in found["problem"]} - {"access"}, set())
        self.assertEqual(code, 1 if found["problem"] else 0)
        self.let_everybody_enter()
        code, out, err = self.gamed("doctor")
        self.assertEqual((code, out.splitlines()[-1].startswith("0 problems"), err), (0, True, ""))

    @sqlite_files("files that are lost or damaged; tests.cli.test_postgresql has PostgreSQL's damage")
    def test_lost_and_damaged(self) -> None:
        """A lost key and a damaged store are problems; so is a wrong configuration, which prevents no other finding."""
        self.serve_once()
        self.change_owner()
        self.let_everybody_enter()
        (self.data / "auth.key").rename(self.folder / "elsewhere")
        state = self.data / "state.db"
        state.write_bytes(b"not a database at all" * 1000)
        code, found, _err = self.doctor()
        self.assertEqual((code, {each["check"] for each in found["problem"]}), (1, {"key", "state.db"}))
        said = {each["check"]: each["text"] for each in found["warning"]}
        self.assertIn("does not answer", said["server"])

        self.configure(mode="oaut", public_url="ftp://x")
        _code, found, _err = self.doctor()
        self.assertIn("auth.db", {each["check"] for each in found["ok"]})

    def test_old_copies(self) -> None:
        """Copies that upgrades, restores and moves left are named after thirty days."""
        self.serve_once()
        old = time.time() - 31 * 86_400
        left = stamp(int(old * 1000))
        names = ["auth.db.v6", f"state.db.before-restore-{left}", f"state.db.moved-{left}"]
        for name in names:
            (self.data / name).write_bytes(b"")
        self.assertEqual(self.copies(), [])
        for name in names:
            os.utime(self.data / name, (0, old))
        text = f"{self.data} has copies of databases that are older than 30 days: {', '.join(names)}"
        self.assertEqual(self.copies(), [text])

    def test_new_copies_of_old_files(self) -> None:
        """Databases that nothing wrote for a month are no old copies once a restore has put them aside."""
        self.serve_once()
        for name in ("auth", "state"):
            aside = self.data / f"{name}.db.before-restore-{stamp(int(time.time() * 1000))}"
            aside.write_bytes(b"")
            os.utime(aside, (0, time.time() - 40 * 86_400))
        self.assertEqual(self.copies(), [])

    def copies(self) -> list[str]:
        """Return the texts of the warnings of copies."""
        return [each["text"] for each in self.doctor()[1]["warning"] if each["check"] == "copies"]

    def test_wrong_configuration(self) -> None:
        """A wrong configuration ends with 78, and with the findings that do not need it."""
        self.serve_once()
        self.configure(mode="oaut", public_url="ftp://x")
        code, found, _err = self.doctor()
        self.assertEqual((code, len([each for each in found["problem"] if each["check"] == "configuration"])), (78, 2))
        self.assertLessEqual({"data", *self.databases()}, {each["check"] for each in found["ok"]})

    def test_public(self) -> None:
        """Through nginx as the sample has it: nothing is sent but questions until --write, whose player is gone
        afterwards; then an address that refuses, and a proxy without a server behind it."""
        port, trusted = free_port(), certificate(self.folder, DNSName("localhost"))
        proxy = Nginx(self.folder / "nginx", trusted, f"127.0.0.1:{port}")
        self.addCleanup(proxy.close)
        self.environ["SSL_CERT_FILE"] = str(trusted)
        self.configure(public_url=f"https://localhost:{proxy.port}")
        process, _port = self.serve(port=port)
        code, found, err = self.doctor("--public")
        self.assertEqual((code, found["problem"], found["warning"], err), (0, [], [], ""))
        self.assertIn("--write", found["skipped"][-1]["advice"])
        self.assertEqual(self.count("player"), 0)

        code, found, err = self.doctor("--public", "--write")
        self.assertEqual((code, found["problem"], err), (0, [], ""))
        checks = {finding["check"] for finding in found["ok"]}
        self.assertLessEqual({"save of 2 MiB", "ETag", "If-Match", "If-None-Match", "ranges", "wait"}, checks)
        self.assertEqual([self.count(table) for table in ("player", "session", "save_version")], [0, 0, 0])

        code, found, err = self.doctor("--public", f"https://localhost:{free_port()}", "--write")
        self.assertEqual((code, [each["check"] for each in found["problem"]]), (1, ["address"]))
        self.assertIn("Start gamed", found["problem"][0]["advice"])
        self.assertEqual(self.stop(process), 0)
        code, found, err = self.doctor("--public")
        self.assertEqual((code, "Start gamed" in found["problem"][0]["advice"]), (1, True))

    def test_providers(self) -> None:
        """A provider is asked for its document and its page; its clock is compared. One that does not answer, or is
        another issuer than the file says, is a problem."""
        far = FarProvider()
        self.addCleanup(far.close)
        self.environ |= {"GAMED_MASTER_KEY": KEY_TEXT, "PROVIDER_SECRET": "hush"}
        client = {"client_id": "1", "client_secret_env": "PROVIDER_SECRET"}
        silent = f"http://127.0.0.1:{free_port()}"
        self.configure(
            mode="oauth",
            public_url="https://play.example.org",
            master_key_env="GAMED_MASTER_KEY",
            providers={
                "good": {**client, "issuer": far.base},
                "slash": {**client, "issuer": f"{far.base}/"},
                "silent": {**client, "issuer": silent},
                "microsoft": {**client, "issuer": f"{far.base}/common/v2.0"},
                "steam": {"authorization_endpoint": f"{far.base}/openid/login"},
            },
        )
        code, found, _err = self.doctor()
        problems = {each["check"]: each["text"] for each in found["problem"]}
        self.assertEqual((code, set(problems)), (1, {"provider slash", "provider silent", "data", "clock"}))
        self.assertIn("another issuer", problems["provider slash"])
        self.assertIn("does not answer", problems["provider silent"])
        self.assertIn("ahead of", problems["clock"])
        said = [each["text"] for each in found["ok"] if each["check"] == "provider good"]
        uri = "the redirect URI to register there is https://play.example.org/auth/good/callback"
        self.assertEqual(said, [uri, "discovery answers", "the sign-in page answers"])
        said = [each["text"] for each in found["ok"] if each["check"] == "provider microsoft"]
        self.assertEqual(said[1:], ["discovery answers", "the sign-in page answers"])
        said = [each["text"] for each in found["ok"] if each["check"] == "provider steam"]
        uri = "nothing is registered there; browsers return to https://play.example.org/auth/steam/callback"
        self.assertEqual(said, [uri, "the sign-in page answers"])
        document = "/.well-known/openid-configuration"
        self.assertEqual(set(far.asked), {document, f"/common/v2.0{document}", "/authorize", "/openid/login"})

    def test_missing_client_secret(self) -> None:
        """A configuration is not called good while the variable of a client secret is missing: the finding names it,
        the exit code is 78 as of `serve`, and everything that needs no secret is still checked."""
        self.environ["GAMED_MASTER_KEY"] = KEY_TEXT
        issuer = f"http://127.0.0.1:{free_port()}"
        self.configure(
            mode="oauth",
            public_url="https://play.example.org",
            master_key_env="GAMED_MASTER_KEY",
            providers={"home": {"client_id": "1", "client_secret_env": "PROVIDER_SECRET", "issuer": issuer}},
        )
        code, found, err = self.doctor()
        self.assertEqual(code, 78, err)
        [configuration] = [each for each in found["problem"] if each["check"] == "configuration"]
        self.assertIn("PROVIDER_SECRET is not set", configuration["text"])
        self.assertIn("gamedctl", configuration["advice"])
        self.assertNotIn("configuration", {each["check"] for each in found["ok"]})
        self.assertIn("provider home", {each["check"] for each in found["problem"]})

        self.environ["PROVIDER_SECRET"] = "hush"
        code, found, err = self.doctor()
        self.assertIn("configuration", {each["check"] for each in found["ok"]})
        self.assertEqual(code, 1, err)

    @sqlite_files("an auth.db that is missing or empty; tests.cli.test_postgresql has an empty database")
    def test_no_store_to_compare_the_key_with(self) -> None:
        """Without a data folder, or with an auth.db that holds nothing yet, no key is said to fit."""
        self.environ["GAMED_MASTER_KEY"] = KEY_TEXT
        self.configure(master_key_env="GAMED_MASTER_KEY")
        for make in (lambda: None, self.data.mkdir, (self.data / "auth.db").touch):
            make()
            _code, found, _err = self.doctor()
            [key] = [each for level in found.values() for each in level if each["check"] == "key"]
            self.assertEqual((key["level"], "no auth.db yet" in key["text"]), ("skipped", True), key)

    def test_usage(self) -> None:
        """--write alone, an address that is none, and no address at all."""
        self.configure()
        for options, words in (
            (["--write"], "--write needs --public"),
            (["--public", "play.example.org"], "expected an address"),
            (["--public"], "no public_url"),
        ):
            code, out, err = self.gamed("doctor", *options)
            self.assertEqual((code, out, words in err), (2, "", True), err)
