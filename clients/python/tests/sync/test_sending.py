"""Requests of a Sync, their time and number: the same write until it is answered.

See rules W1 and W5 of docs/internals/rules.md.
"""

from hashlib import sha256

from clients.python.tests.sync.cases import SAVE_BYTES, SyncCase
from clients.python.tests.sync.proxy import Fate, Request, problem
from tests.support.python_client import gamed_client as gc
from tests.support.python_client import gamed_sync as gs

LOSSES = [Fate.REQUEST_LOST, Fate.REQUEST_TORN, Fate.ANSWER_LOST, Fate.ANSWER_TORN]


class Losses(SyncCase):
    def fails(self, device) -> None:
        self.raised(gc.Unreachable, "unreachable", device.sync.send)

    def test_every_loss(self) -> None:
        """After any loss the same bytes are sent with the same condition until they are there, as one version."""
        desk = self.device()
        desk.sync.write(self.slot, b"first")
        desk.sync.send()
        for number, fate in enumerate(LOSSES):
            desk.proxy.seen.clear()
            data = b"save %d" % number
            desk.sync.write(self.slot, data)
            desk.proxy.next("PUT", fate)
            desk.proxy.next("GET", Fate.PASSES, fate)
            self.fails(desk)
            self.fails(desk)
            desk.restart()
            desk.sync.send()
            self.assertEqual((desk.state(self.slot), self.current(self.slot)), ("in_step", data))
            [sent] = {(request.condition, request.body) for request in desk.proxy.sent("PUT")}
            self.assertEqual(sent[1], data)
        self.assertEqual([version.kind for version in self.server.versions(self.slot)], ["write"] * 5)

    def test_newer_bytes_wait(self) -> None:
        """A write without a response is settled before a newer one is sent: a device never conflicts with itself."""
        for fate in LOSSES:
            desk, slot = self.device(fate.name), f"{self.slot}-{fate.value}"
            desk.sync.write(slot, b"sent")
            desk.proxy.next("PUT", fate)
            self.fails(desk)
            desk.sync.write(slot, b"newer")
            desk.sync.write(slot, b"newest")
            desk.restart()
            desk.sync.send()
            self.assertEqual((desk.sync.conflicts, self.current(slot)), ([], b"newest"))
            self.assertLessEqual(self.everywhere(slot), {b"sent", b"newest"})

    def test_superseded(self) -> None:
        """A write that was performed without a response, and that another device continued, is not a conflict."""
        desk, sofa = self.two()
        desk.sync.write(self.slot, b"mine")
        desk.proxy.next("PUT", Fate.ANSWER_LOST)
        self.fails(desk)
        sofa.sync.send()
        self.assertEqual(sofa.bytes(self.slot), b"mine")
        sofa.sync.write(self.slot, b"went on")
        sofa.sync.send()
        desk.sync.send()
        self.assertEqual((desk.sync.conflicts, desk.state(self.slot)), ([], "newer"))
        self.assertEqual(desk.bytes(self.slot), b"went on")

    def test_superseded_and_played_on(self) -> None:
        """If both devices have continued from it, it is a conflict."""
        desk, sofa = self.two()
        desk.sync.write(self.slot, b"mine")
        desk.proxy.next("PUT", Fate.ANSWER_LOST)
        self.fails(desk)
        sofa.sync.send()
        sofa.sync.read(self.slot)
        sofa.sync.write(self.slot, b"went on")
        sofa.sync.send()
        desk.sync.write(self.slot, b"me too")
        desk.sync.send()
        [conflict] = desk.sync.conflicts
        sides = [side.data for side in (conflict.base(), conflict.theirs(), conflict.mine())]
        self.assertEqual(sides, [b"mine", b"went on", b"me too"])

    def test_written_during_upload(self) -> None:
        """A save that the game writes during an upload stays pending, and is sent next."""
        desk = self.device()
        desk.sync.write(self.slot, b"one")

        def decide(request: Request) -> Fate:
            if request.method == "PUT" and request.body == b"one":
                desk.sync.write(self.slot, b"two")
                self.assertEqual(desk.state(self.slot), "waiting")
            return Fate.PASSES

        desk.proxy.decide = decide
        desk.sync.send()
        self.assertEqual([request.body for request in desk.proxy.sent("PUT")], [b"one", b"two"])
        self.assertEqual((desk.state(self.slot), self.current(self.slot)), ("in_step", b"two"))

    def test_list_first(self) -> None:
        """Nothing is written before the first list has arrived; a lost list is requested again."""
        desk = self.device()
        desk.sync.write(self.slot, b"one")
        desk.proxy.next("GET", *LOSSES)
        for _ in LOSSES:
            self.fails(desk)
        self.assertEqual(desk.proxy.sent("PUT"), [])
        desk.sync.send()
        self.assertEqual([request.method for request in desk.proxy.seen[4:6]], ["GET", "PUT"])

    def test_unknown_base(self) -> None:
        """The same bytes on two devices that never met are compared by hash: no upload, no conflict."""
        for data, conflicts in ((b"same", 0), (b"other", 1)):
            desk, sofa = self.device(f"desk {conflicts}"), self.device(f"sofa {conflicts}")
            slot = f"{self.slot}-{conflicts}"
            desk.sync.write(slot, b"same")
            sofa.sync.write(slot, data)
            desk.sync.send()
            sofa.sync.send()
            self.assertEqual((len(sofa.sync.conflicts), len(sofa.proxy.sent("PUT"))), (conflicts, conflicts))
        [conflict] = sofa.sync.conflicts
        self.assertEqual((conflict.base(), conflict.base_info), (None, None))

    def test_unseen(self) -> None:
        """A write is based on the version that the game has read, not on one that has arrived since."""
        desk, sofa = self.two()
        sofa.sync.write(self.slot, b"sofa")
        sofa.sync.send()
        desk.sync.send()
        self.assertEqual(desk.sync.peek(self.slot).data, b"sofa")
        desk.sync.write(self.slot, b"desk")
        desk.sync.send()
        self.assertEqual([c.theirs().data for c in desk.sync.conflicts], [b"sofa"])
        self.assertEqual(self.current(self.slot), b"sofa")

    def test_clocks(self) -> None:
        """No save is ordered by a clock: a device with a clock of another century works like any other."""
        desk, sofa = self.two()
        self.patch(gs.time, "gmtime", lambda: gs.time.struct_time((1970, 1, 1, 0, 0, 0, 3, 1, 0)))
        sofa.sync.write(self.slot, b"sofa")
        sofa.sync.send()
        desk.sync.send()
        self.assertEqual(desk.bytes(self.slot), b"sofa")

    def test_label(self) -> None:
        """Type and meta are stored; a change of only the meta is sent, too, without a conflict."""
        desk, sofa = self.device("desk"), self.device("sofa")
        desk.sync.write(self.slot, b"x", content_type="application/x-game", meta={"title": "Käse", "n": [1, 2.5]})
        desk.sync.send()
        sofa.sync.send()
        save = sofa.sync.read(self.slot)
        self.assertEqual((save.content_type, save.meta), ("application/x-game", {"title": "Käse", "n": [1, 2.5]}))
        sofa.sync.write(self.slot, b"x", content_type="application/x-game", meta={"title": "Brot"})
        sofa.sync.send()
        desk.sync.send()
        self.assertEqual((desk.state(self.slot), desk.sync.read(self.slot).meta), ("in_step", {"title": "Brot"}))

    def test_unchanged(self) -> None:
        """A round with nothing to do is one request."""
        desk, _ = self.two()
        desk.sync.write(self.slot, b"start")
        desk.sync.send()
        desk.proxy.seen.clear()
        self.assertEqual(desk.sync.send(), [])
        self.assertEqual([request.method for request in desk.proxy.seen], ["GET"])


class Refusals(SyncCase):
    """A rejected save stays on the device, and the game gets the reason."""

    def test_own_limits(self) -> None:
        """A save over the limits and an empty one are typed errors, not sent again at once; a smaller one is sent."""
        desk = self.device()
        desk.sync.write(self.slot, b"small")
        desk.sync.send()
        cases = [(b"x" * (SAVE_BYTES + 1), gc.QuotaExceeded, "save_too_large"), (bytes(9), gc.Refused, "blank_save")]
        for data, kind, code in cases:
            desk.sync.write(self.slot, data)
            [status] = desk.sync.send()
            self.assertEqual((status.state, type(status.problem), status.problem.code), ("refused", kind, code))
            count = len(desk.proxy.sent("PUT"))
            desk.sync.send()
            self.assertEqual((desk.bytes(self.slot), len(desk.proxy.sent("PUT"))), (data, count))
        desk.sync.write(self.slot, b"smaller")
        desk.sync.send()
        self.assertEqual((desk.state(self.slot), self.current(self.slot)), ("in_step", b"smaller"))

    def test_others_go_on(self) -> None:
        """A refused slot does not delay another."""
        desk = self.device()
        desk.sync.write(self.slot, b"")
        desk.sync.write(self.slot + "-z", b"fine")
        desk.sync.send()
        self.assertEqual((desk.state(self.slot), self.current(self.slot + "-z")), ("refused", b"fine"))

    def test_disk_of_the_owner(self) -> None:
        """507 is retried with the same bytes, not before Retry-After."""
        desk = self.device()
        desk.sync.write(self.slot, b"x")
        desk.proxy.next("PUT", problem(507, "storage_full", 300))
        [status] = desk.sync.send()
        self.assertEqual((status.state, type(status.problem)), ("refused", gc.StorageFull))
        self.assertEqual(status.problem.retry_after, 300)
        desk.sync.write(self.slot, b"y")
        desk.sync.send()
        self.assertEqual(len(desk.proxy.sent("PUT")), 1)
        clock = gs.time.monotonic
        self.patch(gs.time, "monotonic", lambda: clock() + 301)
        desk.sync.send()
        self.assertEqual([request.body for request in desk.proxy.sent("PUT")], [b"x", b"x", b"y"])

    def test_weather(self) -> None:
        """429 and 503 end a round with the server's pause; the next one continues."""
        for status, code, kind in ((429, "rate_limited", gc.RateLimited), (503, "busy", gc.Busy)):
            desk = self.device(code)
            desk.sync.write(self.slot, code.encode())
            desk.proxy.next("PUT", problem(status, code, 7))
            error = self.raised(kind, code, desk.sync.send)
            self.assertEqual((error.retry_after, desk.state(self.slot)), (7, "waiting"))
            self.assertEqual(desk.sync.problem, error)

    def test_session(self) -> None:
        """An ended session ends the round; nothing is lost, and the next sign-in of the player continues."""
        desk = self.device()
        desk.sync.write(self.slot, b"x")
        desk.proxy.next("GET", problem(401, "session_revoked"))
        self.raised(gc.SignInRequired, "session_revoked", desk.sync.send)
        self.raised(gc.SignInRequired, "signed_out", desk.sync.send)
        self.assertEqual(desk.bytes(self.slot), b"x")
        desk.sync._client.keep(desk.credentials)
        desk.sync.send()
        self.assertEqual(self.current(self.slot), b"x")

    def test_other_player(self) -> None:
        """No save is written in the name of another player who has signed in since."""
        desk = self.device()
        desk.sync.write(self.slot, b"x")
        other = {**desk.credentials, "player": {"id": "ply_other"}}
        desk.sync._client.keep(other)
        self.raised(gc.PlayerChanged, "player_changed", desk.sync.send)
        self.assertEqual((desk.proxy.seen, desk.bytes(self.slot)), ([], b"x"))
        theirs = gs.Sync(desk.sync._client)
        self.addCleanup(theirs.close)
        self.raised(gs.NotKnown, "not_known", theirs.read, self.slot)
        self.assertEqual(theirs.slots(), [])

    def test_wrong_use(self) -> None:
        """An invalid slot or meta is rejected at once, and not stored."""
        desk = self.device()
        for slot in ("", "A", "../x", "nul.sav", "a.", "a/b"):
            self.raised(gc.Refused, "invalid_slot", desk.sync.write, slot, b"x")
            self.raised(gc.Refused, "invalid_slot", desk.sync.read, slot)
        for meta in ({"x": object()}, {"x": float("nan")}, [1]):
            self.raised(gc.Refused, "bad_meta", desk.sync.write, self.slot, b"x", meta=meta)
        self.assertEqual(desk.sync.slots(), [])

    def test_damaged_on_the_way(self) -> None:
        """The game never gets bytes with another hash than the listed one."""
        desk, sofa = self.two()
        sofa.sync.write(self.slot, b"right")
        sofa.sync.send()
        digest = sha256(b"right").digest()
        wrong = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nRepr-Digest: sha-256=:%s:\r\n\r\nwrong"
        lists = ("/game/saves?", f"/game/saves/{self.slot}/versions?")
        desk.proxy.decide = lambda request: (
            Fate.PASSES if request.path.startswith(lists) else wrong % gc.base64.b64encode(digest)
        )
        desk.sync.send()
        self.assertEqual((desk.bytes(self.slot), desk.state(self.slot)), (b"start", "refused"))
        desk.proxy.decide = lambda request: Fate.PASSES
        desk.sync.write(self.slot, b"went on")
        desk.sync.send()
        self.assertEqual([conflict.theirs().data for conflict in desk.sync.conflicts], [b"right"])
