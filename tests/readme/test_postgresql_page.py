"""The commands and configurations of docs/owners/postgresql.md work with a real PostgreSQL, as that page says."""

import json
import shutil
import sys
from base64 import b64encode
from http.client import HTTPConnection

import psycopg
from cryptography.x509 import DNSName
from twisted.trial.unittest import SynchronousTestCase

from gamed.cli.context import DRIVER
from gamed.cli.paths import read_file
from gamed.config.authentication import load
from tests.e2e.service import ROOT, START_SECONDS, Service
from tests.readme.test_transcript import bash
from tests.support.certificates import certificate
from tests.support.folders import unused_path
from tests.support.postgresql import PASSWORD, ROLE, SUPERUSER, Cluster, programs
from tests.test_guides import blocks as blocks_of
from tests.test_page_commands import blocks

PAGE = "docs/owners/postgresql.md"
STORE = "postgresql://gamed@db.example.org/gamed"
SECRETS = {"GAMED_MASTER_KEY": b64encode(bytes(range(100, 132))).decode(), "GAMED_STORE_PASSWORD": PASSWORD}
SAVE = b"level 3"
# As the person who runs the commands of the page: createuser asks for the password twice.
SUDO = """
sudo() {{
    shift 2
    if [ "$1" = sh ]; then
        PGHOST={host} PGPORT={port} PGUSER={superuser} PGPASSWORD='{password}' PATH="{programs}:$PATH" "$@"
        return
    fi
    local program=$1
    shift
    printf '%s\\n' '{password}' '{password}' | setsid -w "{programs}/$program" --host={host} --port={port} \\
        --username={superuser} "$@"
}}
"""


class PageTests(SynchronousTestCase):
    def test_configurations(self) -> None:
        """gamed accepts each configuration of the page, and each address of the table."""
        stored, external = blocks_of(PAGE, "json")
        self.assertEqual(load(external, {}, read_file, "the page").config.checkpoints, "external")
        rows = (ROOT / PAGE).read_text("utf-8").partition("| PostgreSQL is | `store` |\n")[2].partition("\n\n")[0]
        shown = [part for part in rows.split("`") if part.startswith("postgresql://")]
        self.assertEqual(len(shown), 2)
        for address in (STORE, *shown):
            found = load(stored.replace(STORE, address), SECRETS, read_file, "the page").config.store
            assert found is not None
            self.assertEqual(found.conninfo["dbname"], "gamed")

    def test_libraries(self) -> None:
        """The page installs the libraries that gamed asks for if they are missing."""
        command = f"/opt/gamed/bin/pip install --require-hashes -r /path/to/the/checkout/{DRIVER}\n"
        self.assertIn(command, (ROOT / PAGE).read_text("utf-8"))


class MovingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(tcp=True)
        self.addCleanup(self.cluster.close)
        self.cluster.execute(f"DROP ROLE {ROLE}")
        self.folder = unused_path(self)
        self.service = self.machine("one")
        found = blocks(PAGE, (ROOT / PAGE).read_text("utf-8"))
        marked = [block.text for block in found if block.how == "run by" and block.word == __name__]
        self.create, self.admit, move, self.restored, self.amcheck = marked
        self.backup, self.move = move.splitlines()

    def machine(self, name: str) -> Service:
        """Return a server that is not started, with a folder and a port of its own, and a master key."""
        service = Service(self.folder / name, None, SECRETS)
        self.addCleanup(service.close)
        self.use_files(service)
        return service

    def use_files(self, service: Service) -> None:
        """Write a configuration without a store, whatever store this run of the tests has."""
        service.config.write_text('{"mode": "local", "master_key_env": "GAMED_MASTER_KEY"}')

    def moved(self, text: str) -> str:
        """Return a text of the page with the addresses and places of this test."""
        text = text.replace("https://play.example.org", self.service.base).replace("/mnt/disk", str(self.folder))
        return text.replace("db.example.org", f"127.0.0.1:{self.cluster.port}")

    def run_printed(self, commands: str) -> str:
        """Run commands of the page for the first machine; return the output."""
        place = self.cluster.address()
        sudo = SUDO.format(
            password=PASSWORD, programs=programs(), host=place.host, port=place.port, superuser=SUPERUSER
        )
        places = f"--config '{self.service.config}' --data '{self.service.data}'"
        gamed = f"gamed() {{ PYTHONPATH='{ROOT}' '{sys.executable}' -m gamed {places} \"$@\"; }}\n"
        secrets = "".join(f"export {name}='{value}'\n" for name, value in SECRETS.items())
        done = bash(f"{sudo}{secrets}{gamed}{self.moved(commands)}", self.service.folder)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        return done.stdout

    def configure(self, service: Service) -> None:
        """Write the configuration of the page, with the address of this machine."""
        [text] = [text for text in blocks_of(PAGE, "json") if STORE in text]
        service.config.write_text(self.moved(text).replace(self.service.base, service.base))

    def token(self) -> str:
        return str(json.loads(self.run_printed("gamed players token anna --json"))["access_token"])

    def ask(self, service: Service, method: str, token: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", service.port, timeout=START_SECONDS)
        condition = {} if body is None else {"If-None-Match": "*"}
        connection.request(method, "/game/saves/auto", body, {"Authorization": f"Bearer {token}", **condition})
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    def connects(self) -> bool:
        """Return whether PostgreSQL admits gamed by TLS, as from another machine."""
        place = self.cluster.address("gamed", tcp=True)
        try:
            psycopg.connect(place.conninfo, password=PASSWORD, sslmode="require").close()
        except psycopg.OperationalError:
            return False
        return True

    def test_other_machine(self) -> None:
        """A PostgreSQL as it is installed accepts no other machine; after the commands of the page and a restart it
        accepts the one that is named."""
        self.run_printed(self.create)
        lists = self.cluster.data / "pg_hba.conf"
        lists.write_text("local all all trust\n")
        both = certificate(self.cluster.data, DNSName("db.example.org"))
        shutil.chown(both, lists.owner())
        both.chmod(0o600)
        files = dict.fromkeys(("ssl_cert_file", "ssl_key_file"), str(both))
        self.cluster.configure({"listen_addresses": "", "ssl": "on", **files})
        self.cluster.restart()
        self.assertFalse(self.connects())
        listen, admit = self.admit.splitlines()
        self.run_printed(listen)
        self.cluster.restart()
        self.assertFalse(self.connects())
        self.assertIn("192.0.2.7/32", admit)
        self.run_printed(admit)
        self.cluster.restart()
        self.assertFalse(self.connects(), "another machine than the one that is named")
        self.run_printed(admit.replace("192.0.2.7", "127.0.0.1"))
        self.cluster.restart()
        self.assertTrue(self.connects())

    def test_amcheck(self) -> None:
        """With the commands of the page `gamed check data` reads the indexes, which it does not without them."""
        self.run_printed(self.create)
        self.configure(self.service)
        self.service.start()
        self.assertIn("amcheck", self.run_printed("gamed check data 2>&1"))
        self.run_printed(self.amcheck)
        self.assertNotIn("amcheck", self.run_printed("gamed check data 2>&1"))

    def test_blocked_after_backup(self) -> None:
        """A player who was blocked after the backup plays again after `gamed restored`, until blocked again."""
        self.run_printed(self.create)
        self.configure(self.service)
        self.service.start()
        self.run_printed("echo 'correct horse battery' | gamed players add anna --password-stdin")
        place = self.cluster.address("gamed", user=SUPERUSER)
        dump = f"'{programs()}/pg_dump' --format=custom --file='{self.folder}/dump' '{place.conninfo}'"
        self.run_printed(dump)
        self.run_printed("gamed players block anna")
        self.service.terminate()
        self.run_printed(f"'{programs()}/pg_restore' --clean --dbname='{place.conninfo}' '{self.folder}/dump'")
        self.service.begin()
        self.assertEqual(self.service.wait(), 78)
        self.run_printed(self.restored)
        self.service.start()
        self.assertEqual(self.ask(self.service, "GET", self.token())[0], 404)
        self.run_printed("gamed players block anna")

    def test_page(self) -> None:
        """A server moves from SQLite to PostgreSQL, where a second machine joins it, and back, with all it has."""
        self.run_printed(self.create)
        self.service.start()
        self.run_printed("echo 'correct horse battery' | gamed players add anna --password-stdin")
        token = self.token()
        self.assertEqual(self.ask(self.service, "PUT", token, SAVE)[0], 201)
        self.service.terminate()
        self.run_printed(self.backup)
        printed = self.run_printed(self.move)
        self.assertIn(f'"store": "{self.moved(STORE)}"', printed)
        self.configure(self.service)
        other = self.machine("two")
        self.configure(other)
        for service in (self.service, other):
            service.start()
            self.assertEqual(self.ask(service, "GET", token), (200, SAVE))
        self.run_printed(self.backup)
        other.terminate()
        self.service.terminate()
        self.run_printed(self.restored)
        self.service.start()
        self.assertEqual(self.ask(self.service, "GET", token)[0], 401)
        self.assertEqual(self.ask(self.service, "GET", self.token()), (200, SAVE))
        self.service.terminate()
        [back] = [
            part for part in (ROOT / PAGE).read_text("utf-8").split("`") if part.startswith("gamed move-store --to sq")
        ]
        self.run_printed(back)
        self.use_files(self.service)
        self.service.start()
        self.assertEqual(self.ask(self.service, "GET", self.token()), (200, SAVE))
