"""Two servers on PostgreSQL, as on two machines: each has a data folder of its own, and nothing but the database is
shared."""

from collections.abc import Mapping
from typing import ClassVar

from tests.e2e.providers import DISCORD, FAKE_GOOGLE, KEY, SECRET
from tests.e2e.service import Service
from tests.processes.cases import MASTER_KEY, SharedCase
from tests.support.postgresql import cluster


class TwoHosts(SharedCase):
    """A test with two servers and one PostgreSQL database; PostgreSQL may log no deadlock."""

    environ: ClassVar[Mapping[str, str]] = {
        MASTER_KEY: KEY,
        **{stand.variable: SECRET for stand in (DISCORD, FAKE_GOOGLE)},
    }

    def setUp(self) -> None:
        self.place = cluster().database()
        self.addCleanup(cluster().drop, self.place.database)
        self.addCleanup(self._check_log, len(cluster().log()))
        super().setUp()

    def make_server(self, number: int) -> Service:
        admin = f"--admin=tcp:{self.admin_ports[number]}:interface=127.0.0.1"
        return Service(self.folder / f"host-{number}", None, self.environ, arguments=(admin,))

    def configuration(self) -> dict[str, object]:
        return {**super().configuration(), "store": self.place.url, "master_key_env": MASTER_KEY}

    def _check_log(self, begin: int) -> None:
        self.assertNotIn("deadlock", cluster().log()[begin:])
