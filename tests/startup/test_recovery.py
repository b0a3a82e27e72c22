"""Another program holds auth.db while the service starts; the recovery of interrupted sign-ins is tried again."""

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from tests.startup.exchanges import ServiceTestCase, begin_exchange
from tests.support.databases import hold

POLL_SECONDS = 0.1


class Recovery(ServiceTestCase):
    async def test_held_at_the_start(self) -> None:
        """The start succeeds; the interrupted sign-in ends soon after the file is free, and no traceback is logged."""
        service = self.build()
        login = self.auth(begin_exchange)
        release = hold(service._context.databases.auth)
        try:
            service.startService()
            self.addCleanup(service.stopService)
            await self.wait_seconds(6)
            self.assertEqual(self.stages(), {login: "exchanging"})
        finally:
            release()
        while self.stages() != {login: "failed"}:
            await self.wait_seconds(POLL_SECONDS)
        self.assertEqual(self.flushLoggedErrors(), [])

    def wait_seconds(self, seconds: float) -> Deferred[None]:
        return deferLater(reactor, seconds, lambda: None)
