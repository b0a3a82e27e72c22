"""The session service authenticates, refreshes and ends sessions over the real queues (docs/protocol.md: Sessions)."""

from typing import Any

from twisted.internet.defer import ensureDeferred, gatherResults
from twisted.trial.unittest import TestCase

from gamed.database.connection import AUTH, Connection
from gamed.database.errors import DatabaseBusy, DiskFull
from gamed.players.model import State
from gamed.sessions import tables as session_tables
from gamed.sessions.credentials import SHARED_STORE_MS, AuthenticatedSession, LogoutScope
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
from gamed.sessions.service import MAX_FIRST_USES, EndedDevices
from gamed.timestamps import CLOCKS_MS
from tests.sessions.fixtures import ANNA, BERT, DAY_MS, NOW_MS, STRANGE_TOKEN, STRANGER
from tests.sessions.server import SessionServer, SessionTestCase, text
from tests.support.covers import covers
from tests.support.databases import data_folder, file_databases, open_databases, prepare_files, unwritable
from tests.support.stores import store_of

CALLERS = 30
DEVICE = '{"device":"Anna\'s phone"}'


class AuthenticateTests(SessionTestCase):
    """A request's Bearer token."""

    def test_first_use(self) -> None:
        """The first use is written before the caller is known; after it, authenticating writes nothing."""
        caller = self.wait(self.sessions.authenticate(text(self.pair.access)))
        self.assertEqual(caller, AuthenticatedSession(ANNA, self.session_id, False, NOW_MS, 1))
        self.assertEqual(self.used(), [(1, 1)])
        self.server.databases.auth.pause()
        self.assertIsNone(self.wait(self.sessions.authenticate(text(self.pair.access))).first_use_of)

    def test_first_use_waits_for_the_disk(self) -> None:
        """Until the first use is on disk the request has no caller, hence no effect."""
        self.server.databases.auth.pause()
        work = ensureDeferred(self.sessions.authenticate(text(self.pair.access)))
        self.assertNoResult(work)
        self.server.databases.auth.resume()
        self.assertEqual(self.successResultOf(work).player_id, ANNA)

    def test_busy(self) -> None:
        """If the first use cannot be written the request is rejected, and the use is not marked."""
        self.fill()
        self.refused(self.sessions.authenticate(text(self.pair.access)), DatabaseBusy)
        self.assertEqual(self.used(), [(1, 0)])

    def test_unwritable(self) -> None:
        """While the disk cannot be written, a request that reads is authenticated, and one that writes is rejected."""
        writable = unwritable(self.server.databases.auth)
        for _ in range(2):
            caller = self.wait(self.sessions.authenticate(text(self.pair.access), reading=True))
            self.assertEqual(caller.player_id, ANNA)
            self.refused(self.sessions.authenticate(text(self.pair.access)), DiskFull)
        self.assertEqual((self.used(), len(self.server.uses)), ([(1, 0)], 1))
        self.refused(self.sessions.write_first_uses(), DiskFull)
        self.wait(self.sessions.close())
        writable()
        self.wait(self.sessions.write_first_uses())
        self.assertEqual((self.used(), len(self.server.uses)), ([(1, 1)], 0))

    def test_written_by_a_write(self) -> None:
        """A write of the same session commits the first use as soon as the disk can be written again."""
        writable = unwritable(self.server.databases.auth)
        self.wait(self.sessions.authenticate(text(self.pair.access), reading=True))
        writable()
        self.wait(self.sessions.authenticate(text(self.pair.access)))
        self.assertEqual((self.used(), len(self.server.uses)), ([(1, 1)], 0))

    def test_used_in_memory_and_refreshed(self) -> None:
        """A refresh sees a first use in memory: an older credential does not get the pair in use."""
        old = text(self.pair.refresh)
        now = self.wait(self.sessions.refresh(old))
        writable = unwritable(self.server.databases.auth)
        self.wait(self.sessions.authenticate(str(now["access_token"]), reading=True))
        self.refused(self.sessions.refresh(old), DiskFull)
        writable()
        self.server.now_ms += SHARED_STORE_MS + CLOCKS_MS + 1
        self.refused(self.sessions.refresh(old), RefreshReused)
        self.assertEqual(len(self.server.uses), 0)

    def test_ended_meanwhile(self) -> None:
        """The use of a session that ends before it is written is discarded."""
        writable = unwritable(self.server.databases.auth)
        self.wait(self.sessions.authenticate(text(self.pair.access), reading=True))
        writable()
        self.revoke()
        self.wait(self.sessions.write_first_uses())
        self.assertEqual((self.used(), len(self.server.uses)), ([(1, 0)], 0))

    def test_so_many(self) -> None:
        """The number of uses in memory is limited; a read with one more is rejected like a write."""
        for number in range(MAX_FIRST_USES):
            self.server.uses.add(f"ses_{number}", 1)
        unwritable(self.server.databases.auth)
        self.refused(self.sessions.authenticate(text(self.pair.access), reading=True), DiskFull)

    def test_busy_reading(self) -> None:
        """While the database is busy, reads are rejected too, so that the client retries."""
        self.fill()
        self.refused(self.sessions.authenticate(text(self.pair.access), reading=True), DatabaseBusy)

    def test_record_first_use(self) -> None:
        """A caller that asked the store itself records the first use the same way, once."""
        for unused in (1, 1, None):
            self.wait(
                self.sessions.record_first_use(AuthenticatedSession(ANNA, self.session_id, False, NOW_MS, unused))
            )
            self.assertEqual(self.used(), [(1, 1)])

    def test_refusals(self) -> None:
        """Missing, malformed, wrong, expired and revoked tokens each raise their own error."""
        self.refused(self.sessions.authenticate(None), TokenMissing)
        for token in ("", "gat_", text(self.pair.refresh), text(self.pair.access) + "x", "é" * 53):
            self.refused(self.sessions.authenticate(token), TokenInvalid)
        self.server.now_ms = self.pair.access_expires_ms
        self.refused(self.sessions.authenticate(text(self.pair.access)), TokenExpired)
        self.revoke()
        self.refused(self.sessions.authenticate(text(self.pair.access)), SessionRevoked)

    def test_malformed_reads_no_database(self) -> None:
        """Form and checksum are checked before the server reads a database."""
        self.server.databases.reads.pause()
        self.server.databases.auth.pause()
        self.refused(self.sessions.authenticate("gat_nonsense"), TokenInvalid)
        self.refused(self.sessions.refresh("grc_nonsense"), RefreshInvalid)
        self.refused(self.sessions.log_out("gat_nonsense", None, LogoutScope.THIS), TokenInvalid)
        self.refused(self.sessions.log_out(None, "grc_nonsense", LogoutScope.ALL), RefreshInvalid)


class RefreshTests(SessionTestCase):
    """Exchanging the refresh credential."""

    def test_answer(self) -> None:
        """The response has exactly the members of the protocol, and its access token is valid.

        See docs/protocol.md: Sessions.
        """
        answer = self.wait(self.sessions.refresh(text(self.pair.refresh)))
        self.assertEqual(
            set(answer),
            {"token_type", "access_token", "expires_in", "refresh_credential", "refresh_expires_in", "session_id"},
        )
        self.assertEqual((answer["expires_in"], answer["refresh_expires_in"]), (900, 2_592_000))
        self.assertEqual(self.wait(self.sessions.authenticate(str(answer["access_token"]))).session_id, self.session_id)

    def test_at_once(self) -> None:
        """30 callers with one credential: one rotation, 30 equal answers."""
        self.server.databases.auth.pause()
        work = [ensureDeferred(self.sessions.refresh(text(self.pair.refresh))) for _ in range(CALLERS)]
        self.server.databases.auth.resume()
        answers = [self.successResultOf(each) for each in work]
        self.assertEqual(answers, [answers[0]] * CALLERS)
        self.assertEqual(self.used(), [(2, 0)])
        self.assertEqual(self.wait(self.server.rows("SELECT count(*) FROM credential WHERE refreshes = 1")), [(2,)])

    def test_busy(self) -> None:
        """A busy database changes nothing: the same credential still rotates afterwards."""
        self.fill()
        self.refused(self.sessions.refresh(text(self.pair.refresh)), DatabaseBusy)
        self.assertEqual(self.used(), [(1, 0)])
        self.server.databases.auth.resume()
        self.wait(self.sessions.refresh(text(self.pair.refresh)))
        self.assertEqual(self.used(), [(2, 0)])

    def test_reuse_ends_the_session(self) -> None:
        """The rejection of a reused credential ends the session, and wakes the player's long polls once."""
        second = self.wait(self.sessions.refresh(text(self.pair.refresh)))
        self.wait(self.sessions.refresh(str(second["refresh_credential"])))
        self.assertEqual(self.server.revoked, [])
        self.refused(self.sessions.refresh(text(self.pair.refresh)), RefreshReused)
        self.assertEqual(self.server.revoked, [ANNA])
        self.assertEqual(self.server.audit.lines, [f"refresh_reused player={ANNA} session={self.session_id}"])
        self.refused(self.sessions.refresh(text(self.pair.refresh)), SessionRevoked)
        self.refused(self.sessions.authenticate(str(second["access_token"])), SessionRevoked)
        self.assertEqual(self.server.revoked, [ANNA])

    def test_blocked(self) -> None:
        """A blocked player is rejected everywhere until the block is lifted."""
        refusals: tuple[tuple[State, type[Exception]], ...] = ("blocked", PlayerBlocked), ("erasing", SessionRevoked)
        for state, error in refusals:
            self.set_state(state)
            self.refused(self.sessions.refresh(text(self.pair.refresh)), error)
            self.refused(self.sessions.authenticate(text(self.pair.access)), error)
        self.set_state("active")
        self.wait(self.sessions.refresh(text(self.pair.refresh)))


class EndTests(SessionTestCase):
    """Signing out, listing, ending."""

    def test_log_out(self) -> None:
        """A logout works by either credential, repeatedly, and wakes long polls once."""
        self.wait(self.sessions.log_out(text(self.pair.access), None, LogoutScope.THIS))
        self.refused(self.sessions.authenticate(text(self.pair.access)), SessionRevoked)
        self.wait(self.sessions.log_out(text(self.pair.access), text(self.pair.refresh), LogoutScope.THIS))
        self.assertEqual(self.server.revoked, [ANNA])
        self.refused(self.sessions.log_out(None, None, LogoutScope.THIS), TokenMissing)

    def test_log_out_unknown(self) -> None:
        """A credential that nobody has is answered by reads alone: anyone may send one, as often as they like."""
        self.server.databases.auth.pause()
        access, refresh = text(STRANGE_TOKEN), text(STRANGER)
        for shown in ((access, None), (None, refresh), (access, refresh)):
            self.wait(self.sessions.log_out(*shown, LogoutScope.THIS))
        for scope in (LogoutScope.OTHERS, LogoutScope.ALL):
            self.refused(self.sessions.log_out(access, None, scope), TokenInvalid)
            self.refused(self.sessions.log_out(None, refresh, scope), RefreshInvalid)
            self.refused(self.sessions.log_out(access, refresh, scope), RefreshInvalid)
        self.assertEqual(self.server.databases.auth.waiting, 0)
        known = ensureDeferred(self.sessions.log_out(access, text(self.pair.refresh), LogoutScope.THIS))
        self.assertEqual(self.server.databases.auth.waiting, 1)
        self.server.databases.auth.resume()
        self.successResultOf(known)
        self.assertEqual(self.server.revoked, [ANNA])

    def test_log_out_others_and_all(self) -> None:
        """`others` spares the requesting session, `all` does not, and neither ends another player's."""
        other_id, _ = self.wait(self.server.open())
        _, berts = self.wait(self.server.open(BERT))
        self.wait(self.sessions.log_out(text(self.pair.access), None, LogoutScope.OTHERS))
        caller = self.wait(self.sessions.authenticate(text(self.pair.access)))
        self.assertNotIn(other_id, [row.session_id for row in self.wait(self.sessions.list(caller))])
        self.wait(self.sessions.log_out(text(self.pair.access), None, LogoutScope.ALL))
        self.refused(self.sessions.log_out(text(self.pair.access), None, LogoutScope.ALL), SessionRevoked)
        self.wait(self.sessions.authenticate(text(berts.access)))
        self.assertEqual(self.server.revoked, [ANNA, ANNA])

    def test_list_and_end(self) -> None:
        """A player lists and ends own sessions; another player's and unknown ones raise the same error."""
        bert_id, _ = self.wait(self.server.open(BERT))
        caller = self.wait(self.sessions.authenticate(text(self.pair.access)))
        self.assertEqual([row.session_id for row in self.wait(self.sessions.list(caller))], [self.session_id])
        for session_id in (bert_id, "ses_unknown"):
            self.refused(self.sessions.end(caller, session_id), SessionNotFound)
        self.assertEqual(self.server.revoked, [])
        for _ in range(2):  # what had ended before is no event
            self.wait(self.sessions.end(caller, self.session_id))
        self.assertEqual(self.server.revoked, [ANNA])
        self.assertEqual(self.server.audit.lines, [f"session_revoked player={ANNA} session={self.session_id}"])
        self.refused(self.sessions.authenticate(text(self.pair.access)), SessionRevoked)

    def test_sweep(self) -> None:
        """A cleanup runs transactions until no old rows are left."""
        for number in range(300):
            self.wait(self.server.open(f"ply_{number % 3:022}"))
        self.server.now_ms += 60 * DAY_MS
        self.assertEqual(self.wait(self.sessions.clean_up()), 903)
        self.assertEqual(self.wait(self.sessions.clean_up()), 0)

    def test_ended_devices(self) -> None:
        """A cleanup erases the devices of sessions that an older version ended, and of no other session."""
        ended = sorted(self.wait(self.server.open(BERT))[0] for _ in range(3))
        expected = {self.session_id: DEVICE, **dict.fromkeys(ended, "{}")}

        def end(connection: Connection) -> None:
            connection.execute("UPDATE session SET client = :client", {"client": DEVICE})
            connection.execute("UPDATE session SET revoked_ms = 1 WHERE player_id = :player_id", {"player_id": BERT})

        for _ in range(2):  # an older process beside this one goes on
            self.wait(self.server.databases.auth.submit(end))
            self.assertEqual(self.wait(self.sessions.clean_up()), 3)
            self.assertEqual(dict(self.wait(self.server.rows("SELECT session_id, client FROM session"))), expected)
            self.assertEqual(self.wait(self.sessions.clean_up()), 0)
        self.wait(self.server.databases.auth.submit(end))
        devices = EndedDevices()
        erased = [self.wait(devices.erase(self.sessions.store, 2)) for _ in range(4)]
        self.assertEqual(sum(erased[:3]), 3)  # 2 rows, 2 rows, and that those were the last
        self.assertLessEqual(max(erased), 2)
        self.assertEqual(erased[3], 0)


class ThreadTests(TestCase):
    """The same over files and threads, as in the service."""

    def open_server(self, data: Any = None) -> SessionServer:
        from twisted.internet import reactor

        return SessionServer(file_databases(self, reactor, data=data))

    async def test_at_once(self) -> None:
        """30 callers with one credential over real threads: one rotation, 30 equal answers."""
        server = self.open_server()
        _, pair = await server.open()
        work = [ensureDeferred(server.sessions.refresh(text(pair.refresh))) for _ in range(CALLERS)]
        answers = await gatherResults(work)
        self.assertEqual(answers, [answers[0]] * CALLERS)
        self.assertEqual(await server.rows("SELECT generation, used FROM session"), [(2, 0)])

    async def test_restart(self) -> None:
        """A rotation and a revocation survive the end of the process."""
        from twisted.internet import reactor

        data = data_folder(self)
        prepare_files(data)
        server = SessionServer(open_databases(reactor, data))
        _, pair = await server.open()
        _, ended = await server.open()
        answer = await server.sessions.refresh(text(pair.refresh))
        await server.sessions.log_out(text(ended.access), None, LogoutScope.THIS)
        await server.databases.close()
        server = self.open_server(data)
        self.assertEqual(await server.sessions.refresh(text(pair.refresh)), answer)
        with self.assertRaises(SessionRevoked):
            await server.sessions.refresh(text(ended.refresh))

    @covers("threats/24")
    async def test_revoked_by_a_command(self) -> None:
        """Refuse a session that another process has revoked from the next request on."""
        data = data_folder(self)
        server = self.open_server(data)
        session_id, pair = await server.open()
        await server.sessions.authenticate(text(pair.access))
        store = store_of(data)
        store.run_transaction(AUTH, lambda connection: session_tables.revoke(connection, session_id, NOW_MS))
        store.close()
        with self.assertRaises(SessionRevoked):
            await server.sessions.authenticate(text(pair.access))
        with self.assertRaises(SessionRevoked):
            await server.sessions.refresh(text(pair.refresh))
