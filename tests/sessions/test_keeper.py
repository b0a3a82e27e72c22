"""The work of staying signed in, over the real lanes (PROTOCOL 3.7)."""

from typing import Any

from twisted.internet.defer import ensureDeferred, gatherResults
from twisted.trial.unittest import TestCase

from gamed.database.databases import Databases
from gamed.database.errors import DatabaseBusy, DiskFull
from gamed.database.migrations import prepare_files
from gamed.database.offline import run_transaction
from gamed.players.tables import State
from gamed.sessions import tables as session_tables
from gamed.sessions.credentials import AuthenticatedSession, LogoutScope
from gamed.sessions.errors import (
    PlayerBlocked,
    RefreshInvalid,
    RefreshReused,
    SessionNotFound,
    SessionRevoked,
    TokenExpired,
    TokenInvalid,
    TokenMissing,
)
from gamed.sessions.rotation import SHARED_STORE_MS
from gamed.sessions.service import MOST
from tests.sessions.fixtures import ANNA, BERT, DAY_MS, NOW_MS
from tests.sessions.server import House, HouseCase, text
from tests.support.covers import covers
from tests.support.databases import data_folder, file_databases, unwritable

CALLERS = 30


class AuthenticateTests(HouseCase):
    """A request's Bearer token."""

    def test_first_use(self) -> None:
        """The first use is written before the caller is known; after it, authenticating writes nothing."""
        caller = self.wait(self.keeper.authenticate(text(self.pair.access)))
        self.assertEqual(caller, AuthenticatedSession(ANNA, self.session_id, False, NOW_MS, 1))
        self.assertEqual(self.used(), [(1, 1)])
        self.house.stores.auth.pause()
        self.assertIsNone(self.wait(self.keeper.authenticate(text(self.pair.access))).unused)

    def test_first_use_waits_for_the_disk(self) -> None:
        """Until the first use is on disk the request has no caller, hence no effect."""
        self.house.stores.auth.pause()
        work = ensureDeferred(self.keeper.authenticate(text(self.pair.access)))
        self.assertNoResult(work)
        self.house.stores.auth.resume()
        self.assertEqual(self.successResultOf(work).player_id, ANNA)

    def test_busy(self) -> None:
        """When the first use cannot be written the request is refused, and the use is not taken for granted."""
        self.fill()
        self.refused(self.keeper.authenticate(text(self.pair.access)), DatabaseBusy)
        self.assertEqual(self.used(), [(1, 0)])

    def test_unwritable(self) -> None:
        """Where the disk cannot be written, a request that reads has its caller, one that writes is refused."""
        writable = unwritable(self.house.stores.auth)
        for _ in range(2):
            caller = self.wait(self.keeper.authenticate(text(self.pair.access), reading=True))
            self.assertEqual(caller.player_id, ANNA)
            self.refused(self.keeper.authenticate(text(self.pair.access)), DiskFull)
        self.assertEqual((self.used(), len(self.house.uses)), ([(1, 0)], 1))
        self.refused(self.keeper.write_first_uses(), DiskFull)
        self.wait(self.keeper.close())
        writable()
        self.wait(self.keeper.write_first_uses())
        self.assertEqual((self.used(), len(self.house.uses)), ([(1, 1)], 0))

    def test_written_by_a_write(self) -> None:
        """A write of the same session commits the first use as ever, once that can be done."""
        writable = unwritable(self.house.stores.auth)
        self.wait(self.keeper.authenticate(text(self.pair.access), reading=True))
        writable()
        self.wait(self.keeper.authenticate(text(self.pair.access)))
        self.assertEqual((self.used(), len(self.house.uses)), ([(1, 1)], 0))

    def test_used_in_memory_and_refreshed(self) -> None:
        """A first use that is kept in memory counts for a refresh: an older credential does not get the pair in use."""
        old = text(self.pair.refresh)
        now = self.wait(self.keeper.refresh(old))
        writable = unwritable(self.house.stores.auth)
        self.wait(self.keeper.authenticate(str(now["access_token"]), reading=True))
        self.refused(self.keeper.refresh(old), DiskFull)
        writable()
        self.house.now_ms += SHARED_STORE_MS + 1
        self.refused(self.keeper.refresh(old), RefreshReused)
        self.assertEqual(len(self.house.uses), 0)

    def test_ended_meanwhile(self) -> None:
        """The use of a session that ends before it is written is forgotten."""
        writable = unwritable(self.house.stores.auth)
        self.wait(self.keeper.authenticate(text(self.pair.access), reading=True))
        writable()
        self.revoke()
        self.wait(self.keeper.write_first_uses())
        self.assertEqual((self.used(), len(self.house.uses)), ([(1, 0)], 0))

    def test_so_many(self) -> None:
        """Only so many uses are kept; one more is refused as a write is."""
        for number in range(MOST):
            self.house.uses.add(f"ses_{number}", 1)
        unwritable(self.house.stores.auth)
        self.refused(self.keeper.authenticate(text(self.pair.access), reading=True), DiskFull)

    def test_busy_reading(self) -> None:
        """A store that is only busy is asked again by the client, for reads too."""
        self.fill()
        self.refused(self.keeper.authenticate(text(self.pair.access), reading=True), DatabaseBusy)

    def test_settle(self) -> None:
        """A door that asked the store itself settles the first use the same way, once."""
        for unused in (1, 1, None):
            self.wait(self.keeper.settle(AuthenticatedSession(ANNA, self.session_id, False, NOW_MS, unused)))
            self.assertEqual(self.used(), [(1, 1)])

    def test_refusals(self) -> None:
        """Missing, malformed, unknown kinds, expired and revoked tokens each have their error."""
        self.refused(self.keeper.authenticate(None), TokenMissing)
        for token in ("", "gat_", text(self.pair.refresh), text(self.pair.access) + "x", "é" * 53):
            self.refused(self.keeper.authenticate(token), TokenInvalid)
        self.house.now_ms = self.pair.access_expires_ms
        self.refused(self.keeper.authenticate(text(self.pair.access)), TokenExpired)
        self.revoke()
        self.refused(self.keeper.authenticate(text(self.pair.access)), SessionRevoked)

    def test_malformed_asks_no_store(self) -> None:
        """Form and checksum are judged before any store is asked."""
        self.house.stores.reads.pause()
        self.house.stores.auth.pause()
        self.refused(self.keeper.authenticate("gat_nonsense"), TokenInvalid)
        self.refused(self.keeper.refresh("grc_nonsense"), RefreshInvalid)
        self.refused(self.keeper.log_out("gat_nonsense", None, LogoutScope.THIS), TokenInvalid)
        self.refused(self.keeper.log_out(None, "grc_nonsense", LogoutScope.ALL), RefreshInvalid)


class RefreshTests(HouseCase):
    """Exchanging the refresh credential."""

    def test_answer(self) -> None:
        """Exactly the members of PROTOCOL 3.7; the access token in them works."""
        answer = self.wait(self.keeper.refresh(text(self.pair.refresh)))
        self.assertEqual(
            set(answer),
            {"token_type", "access_token", "expires_in", "refresh_credential", "refresh_expires_in", "session_id"},
        )
        self.assertEqual((answer["expires_in"], answer["refresh_expires_in"]), (900, 2_592_000))
        self.assertEqual(self.wait(self.keeper.authenticate(str(answer["access_token"]))).session_id, self.session_id)

    def test_at_once(self) -> None:
        """30 callers with one credential: one rotation, 30 equal answers."""
        self.house.stores.auth.pause()
        work = [ensureDeferred(self.keeper.refresh(text(self.pair.refresh))) for _ in range(CALLERS)]
        self.house.stores.auth.resume()
        answers = [self.successResultOf(each) for each in work]
        self.assertEqual(answers, [answers[0]] * CALLERS)
        self.assertEqual(self.used(), [(2, 0)])
        self.assertEqual(self.wait(self.house.rows("SELECT count(*) FROM refresh_credential")), [(2,)])

    def test_busy(self) -> None:
        """A store that is busy changes nothing: the same credential still rotates afterwards."""
        self.fill()
        self.refused(self.keeper.refresh(text(self.pair.refresh)), DatabaseBusy)
        self.assertEqual(self.used(), [(1, 0)])
        self.house.stores.auth.resume()
        self.wait(self.keeper.refresh(text(self.pair.refresh)))
        self.assertEqual(self.used(), [(2, 0)])

    def test_reuse_is_kept_and_told(self) -> None:
        """The refusal of a stolen credential leaves the session ended, and whoever waits hears of it."""
        second = self.wait(self.keeper.refresh(text(self.pair.refresh)))
        self.wait(self.keeper.refresh(str(second["refresh_credential"])))
        self.assertEqual(self.house.waits.told, [])
        self.refused(self.keeper.refresh(text(self.pair.refresh)), RefreshReused)
        self.assertEqual(self.house.waits.told, [ANNA])
        self.assertEqual(self.house.audit.lines, [f"refresh_reused player={ANNA} session={self.session_id}"])
        self.refused(self.keeper.refresh(text(self.pair.refresh)), SessionRevoked)
        self.refused(self.keeper.authenticate(str(second["access_token"])), SessionRevoked)
        self.assertEqual(self.house.waits.told, [ANNA])

    def test_blocked(self) -> None:
        """A blocked player is refused everywhere; unblocked, all goes on."""
        refusals: tuple[tuple[State, type[Exception]], ...] = ("blocked", PlayerBlocked), ("erasing", SessionRevoked)
        for state, error in refusals:
            self.set_state(state)
            self.refused(self.keeper.refresh(text(self.pair.refresh)), error)
            self.refused(self.keeper.authenticate(text(self.pair.access)), error)
        self.set_state("active")
        self.wait(self.keeper.refresh(text(self.pair.refresh)))


class EndTests(HouseCase):
    """Signing out, listing, ending."""

    def test_log_out(self) -> None:
        """By either credential, repeatable; waits end with it."""
        self.wait(self.keeper.log_out(text(self.pair.access), None, LogoutScope.THIS))
        self.refused(self.keeper.authenticate(text(self.pair.access)), SessionRevoked)
        self.wait(self.keeper.log_out(text(self.pair.access), text(self.pair.refresh), LogoutScope.THIS))
        self.assertEqual(self.house.waits.told, [ANNA])
        self.refused(self.keeper.log_out(None, None, LogoutScope.THIS), TokenMissing)

    def test_log_out_others_and_all(self) -> None:
        """`others` spares the asking session, `all` nothing of this player, neither anything of another."""
        other_id, _ = self.wait(self.house.open())
        _, berts = self.wait(self.house.open(BERT))
        self.wait(self.keeper.log_out(text(self.pair.access), None, LogoutScope.OTHERS))
        caller = self.wait(self.keeper.authenticate(text(self.pair.access)))
        self.assertNotIn(other_id, [row.session_id for row in self.wait(self.keeper.list(caller))])
        self.wait(self.keeper.log_out(text(self.pair.access), None, LogoutScope.ALL))
        self.refused(self.keeper.log_out(text(self.pair.access), None, LogoutScope.ALL), SessionRevoked)
        self.wait(self.keeper.authenticate(text(berts.access)))
        self.assertEqual(self.house.waits.told, [ANNA, ANNA])

    def test_list_and_end(self) -> None:
        """A player sees and ends own sessions; another's and unknown ones are not found alike."""
        bert_id, _ = self.wait(self.house.open(BERT))
        caller = self.wait(self.keeper.authenticate(text(self.pair.access)))
        self.assertEqual([row.session_id for row in self.wait(self.keeper.list(caller))], [self.session_id])
        for session_id in (bert_id, "ses_unknown"):
            self.refused(self.keeper.end(caller, session_id), SessionNotFound)
        self.assertEqual(self.house.waits.told, [])
        for _ in range(2):  # what had ended before is no event
            self.wait(self.keeper.end(caller, self.session_id))
        self.assertEqual(self.house.waits.told, [ANNA])
        self.assertEqual(self.house.audit.lines, [f"session_revoked player={ANNA} session={self.session_id}"])
        self.refused(self.keeper.authenticate(text(self.pair.access)), SessionRevoked)

    def test_sweep(self) -> None:
        """A sweep takes batch after batch until nothing is left to forget."""
        for _ in range(300):
            self.wait(self.house.open(BERT))
        self.house.now_ms += 60 * DAY_MS
        self.assertEqual(self.wait(self.keeper.sweep()), 903)
        self.assertEqual(self.wait(self.keeper.sweep()), 0)


class ThreadTests(TestCase):
    """The same over files and threads, as in service."""

    def open_house(self, data: Any = None) -> House:
        from twisted.internet import reactor

        return House(file_databases(self, reactor, data=data))

    async def test_at_once(self) -> None:
        """30 callers with one credential over real threads: one rotation, 30 equal answers."""
        house = self.open_house()
        _, pair = await house.open()
        work = [ensureDeferred(house.sessions.refresh(text(pair.refresh))) for _ in range(CALLERS)]
        answers = await gatherResults(work)
        self.assertEqual(answers, [answers[0]] * CALLERS)
        self.assertEqual(await house.rows("SELECT generation, used FROM session"), [(2, 0)])

    async def test_restart(self) -> None:
        """A rotation and a revocation survive the end of the process."""
        from twisted.internet import reactor

        data = data_folder(self)
        prepare_files(data)
        house = House(Databases.open(reactor, data, lambda: 0))
        _, pair = await house.open()
        _, ended = await house.open()
        answer = await house.sessions.refresh(text(pair.refresh))
        await house.sessions.log_out(text(ended.access), None, LogoutScope.THIS)
        await house.stores.close()
        house = self.open_house(data)
        self.assertEqual(await house.sessions.refresh(text(pair.refresh)), answer)
        with self.assertRaises(SessionRevoked):
            await house.sessions.refresh(text(ended.refresh))

    @covers("threats/24")
    async def test_revoked_by_a_command(self) -> None:
        """What another process revokes holds from the next request."""
        data = data_folder(self)
        house = self.open_house(data)
        session_id, pair = await house.open()
        await house.sessions.authenticate(text(pair.access))
        run_transaction(data / "auth.db", lambda connection: session_tables.revoke(connection, session_id, NOW_MS))
        with self.assertRaises(SessionRevoked):
            await house.sessions.authenticate(text(pair.access))
        with self.assertRaises(SessionRevoked):
            await house.sessions.refresh(text(pair.refresh))
