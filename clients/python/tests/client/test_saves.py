"""Saves over an unreliable network (docs/protocol.md: Saves)."""

from dataclasses import replace
from hashlib import sha256
from socket import create_server, socket
from threading import Thread

from clients.python.tests.client.cases import ClientCase
from clients.python.tests.client.fake_server import LOST, Reply, Seen, etag, info, problem, served
from tests.support.python_client import gamed_client as gc

PLAIN = Seen("GET", "/game/saves/auto", {}, b"")


class SaveCase(ClientCase):
    """A client that is signed in."""

    def setUp(self) -> None:
        super().setUp()
        self.signed_in()


class Devices(SaveCase):
    def test_device(self) -> None:
        """A save has the name of the device that wrote it; one of an older server does not."""
        answer = info("auto", 1, b"1")
        for sent, read in (("ANNA-PC", "ANNA-PC"), (None, None), (7, None)):
            self.assertEqual(gc.SaveInfo.of({**answer, "device": sent}).device, read)
        self.assertIsNone(gc.SaveInfo.of(answer).device)


class Put(SaveCase):
    """Writes that are based on a save that was read."""

    def test_new(self) -> None:
        """A new slot is written only if it is empty; the request has bytes, type, digest and meta."""
        written = self.client.put("auto", b"level 1", base=None, content_type="x/y", meta={"title": "Käse"})
        self.assertEqual((written.slot, written.version, written.etag), ("auto", 1, etag(1, b"level 1")))
        sent = self.fake.requests("/game/saves/auto")[0].headers
        self.assertEqual(sent["If-None-Match"], "*")
        self.assertNotIn("If-Match", sent)
        self.assertEqual(sent["Content-Type"], "x/y")
        self.assertEqual(sent["Save-Meta"], '{"title":"K\\u00e4se"}')
        self.assertEqual(sent["Content-Digest"], gc.digest_field(b"level 1"))
        self.assertEqual(gc.digest_field(b""), "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:")

    def test_on_top(self) -> None:
        """The base may be a save that was read, the result of a write, its etag, or any existing version."""
        written = self.client.put("auto", b"1", base=None)
        written = self.client.put("auto", b"2", base=written)
        written = self.client.put("auto", b"3", base=self.client.get("auto"))
        written = self.client.put("auto", b"4", base=written.etag)
        self.client.put("auto", b"5", base="*")
        sent = [s.headers["If-Match"] for s in self.fake.requests("/game/saves/auto") if "If-Match" in s.headers]
        self.assertEqual(sent, [etag(1, b"1"), etag(2, b"2"), etag(3, b"3"), "*"])

    def test_conflict(self) -> None:
        """A write that is based on another version raises Conflict with both sides."""
        first = self.client.put("auto", b"1", base=None)
        self.client.put("auto", b"2", base=first)
        error = self.raised(gc.Conflict, "version_conflict", self.client.put, "auto", b"mine", base=first)
        self.assertEqual(error.status, 412)
        self.assertEqual((error.current.version, error.yours.sha256), (2, sha256(b"mine").hexdigest()))
        self.assertIsNone(error.base)

    def test_lost_answer(self) -> None:
        """A write without a response is sent again and is one version."""
        self.fake.after["PUT", "/game/saves/auto"].append(LOST)
        written = self.client.put("auto", b"1", base=None)
        self.assertEqual(written.version, 1)
        self.assertEqual(len(self.fake.requests("/game/saves/auto")), 2)

    def test_refused_early(self) -> None:
        """The client reads the response of a server that refuses an upload without reading it."""
        self.fake.scripted["PUT", "/game/saves/auto"].append(problem(413, "save_too_large", limit=1))
        error = self.raised(gc.QuotaExceeded, "save_too_large", self.client.put, "auto", b"x" * 5_000_000, base=None)
        self.assertEqual(error.problem["limit"], 1)

    def test_slot_names(self) -> None:
        """An invalid name is not sent."""
        for slot in ["", "..", "../x", "a/b", "A", "a?b", "ä", "a" * 65, "a\r\nX: y"]:
            self.raised(gc.Refused, "invalid_slot", self.client.put, slot, b"x", base=None)
        self.assertEqual(self.fake.seen, [])


class Get(SaveCase):
    """Verified reads."""

    def test_bytes(self) -> None:
        """A read returns bytes, etag and meta; None for a slot that was never written."""
        self.fake.saves["auto"] = (3, b"\x00\xff" * 70_000)
        save = self.client.get("auto")
        self.assertEqual((save.data, save.etag), (b"\x00\xff" * 70_000, etag(3, b"\x00\xff" * 70_000)))
        self.assertEqual(save.meta, {"title": "Chapter 3"})
        self.assertIsNone(self.client.get("other"))

    def test_deleted(self) -> None:
        """A deleted slot differs from an empty one."""
        self.fake.scripted["GET", "/game/saves/auto"].append(problem(410, "deleted", last=3))
        self.raised(gc.Deleted, "deleted", self.client.get, "auto")

    def test_current(self) -> None:
        """Known bytes are not transferred again."""
        self.fake.saves["auto"] = (3, b"x")
        save = self.client.get("auto")
        self.raised(gc.NotModified, "not_modified", self.client.get, "auto", unless=save)

    def test_damaged_on_the_way(self) -> None:
        """Bytes that do not match their digest are fetched again, never returned."""
        self.fake.saves["auto"] = (1, b"right")
        good = served(1, b"right", PLAIN)
        wrong = Reply(200, b"wrong", good.headers)
        self.fake.scripted["GET", "/game/saves/auto"].extend([wrong])
        self.assertEqual(self.client.get("auto").data, b"right")
        self.fake.scripted["GET", "/game/saves/auto"].extend([wrong] * gc.TRIES)
        self.raised(gc.DownloadCorrupt, "download_corrupt", self.client.get, "auto")

    def test_no_digest(self) -> None:
        """A response without a digest, or with a malformed one, is refused."""
        for field in [{}, {"Repr-Digest": "sha-256=:=:"}, {"Repr-Digest": "md5=:AAAA:"}]:
            reply = Reply(200, b"x", {"Content-Type": "application/octet-stream", **field})
            self.fake.scripted["GET", "/game/saves/auto"].append(reply)
            self.raised(gc.NotGamed, "not_gamed", self.client.get, "auto")

    def test_torn(self) -> None:
        """An interrupted body is fetched again, never returned."""
        self.fake.saves["auto"] = (1, b"right")
        whole = served(1, b"right", PLAIN)
        self.fake.scripted["GET", "/game/saves/auto"].append(Reply(200, whole.body, whole.headers, torn=2))
        self.assertEqual(self.client.get("auto").data, b"right")

    def test_server_copy_damaged(self) -> None:
        """Damage at the server has its own error, and is not retried."""
        self.fake.scripted["GET", "/game/saves/auto"].append(problem(500, "corrupt_blob"))
        self.raised(gc.SaveCorrupt, "corrupt_blob", self.client.get, "auto")
        self.assertEqual(len(self.fake.requests("/game/saves/auto")), 1)


class ListAndDelete(SaveCase):
    """Lists and deletes."""

    def test_list(self) -> None:
        """The list has every slot with its etag."""
        self.fake.saves.update(a=(1, b"x"), b=(7, b"yy"))
        found = [(save.slot, save.version, save.etag, save.size) for save in self.client.list_saves()]
        self.assertEqual(found, [("a", 1, etag(1, b"x"), 1), ("b", 7, etag(7, b"yy"), 2)])

    def test_unknown_members(self) -> None:
        """Members of a later protocol are ignored."""
        self.assertEqual(gc.SaveInfo.of({**info("a", 1, b"x"), "colour": "blue"}).version, 1)

    def test_delete(self) -> None:
        """A delete is based on the version that was read."""
        self.fake.saves["auto"] = (3, b"x")
        self.client.delete("auto", base=self.client.get("auto"))
        self.assertEqual(self.fake.requests("/game/saves/auto")[-1].headers["If-Match"], etag(3, b"x"))
        self.assertEqual(self.fake.saves, {})

    def test_delete_lost_answer(self) -> None:
        """A delete without a response counts as done if its repetition finds its own delete, not another one."""
        gone = problem(412, "deleted", current=None)
        self.fake.scripted["DELETE", "/game/saves/auto"].extend([LOST, gone, gone])
        self.client.delete("auto", base="*")
        self.raised(gc.Conflict, "deleted", self.client.delete, "auto", base="*")

    def test_lost_answer_before_a_new_token(self) -> None:
        """A delete whose answer was lost is done, also if the repetition needs another token first."""
        replies = [LOST, problem(401, "token_expired"), problem(412, "deleted", current=None)]
        self.fake.scripted["DELETE", "/game/saves/auto"].extend(replies)
        self.client.delete("auto", base="*")
        self.assertEqual(len(self.fake.requests("/game/saves/auto")), 3)


class Weather(SaveCase):
    """Retries."""

    def test_passing(self) -> None:
        """A temporary failure is retried a few times with random, growing pauses."""
        for reply in [LOST, problem(503, "busy"), Reply(502, b"<html>"), Reply(504), problem(408, "request_timeout")]:
            self.pauses.clear()
            self.fake.scripted["GET", "/game/"].extend([reply] * (gc.TRIES - 1))
            self.client.whoami()
            self.assertEqual(len(self.pauses), gc.TRIES - 1)
            self.assertEqual(len(set(self.pauses)), gc.TRIES - 1)
            self.assertTrue(all(0 < pause <= 8 for pause in self.pauses))

    def test_gives_up(self) -> None:
        """After some tries the game gets the error."""
        self.fake.scripted["GET", "/game/"].extend([problem(503, "busy", 1)] * 99)
        error = self.raised(gc.Busy, "busy", self.client.whoami)
        self.assertEqual((len(self.pauses), error.retry_after), (gc.TRIES - 1, 1.0))

    def test_retry_after(self) -> None:
        """The pause is never shorter than Retry-After; a long one is left to the game."""
        self.fake.scripted["GET", "/game/"].append(problem(429, "rate_limited", 12))
        self.client.whoami()
        self.assertGreaterEqual(self.pauses[0], 12)
        self.pauses.clear()
        self.fake.scripted["GET", "/game/"].append(problem(429, "rate_limited", 300))
        error = self.raised(gc.RateLimited, "rate_limited", self.client.whoami)
        self.assertEqual((self.pauses, error.retry_after), ([], 300.0))

    def test_final(self) -> None:
        """A permanent failure is not retried."""
        for status, code, kind in [
            (507, "storage_full", gc.StorageFull),
            (500, "internal_error", gc.Refused),
            (403, "player_blocked", gc.PlayerBlocked),
            (400, "bad_meta", gc.Refused),
            (422, "blank_save", gc.Refused),
            (428, "precondition_required", gc.BaseRequired),
            (412, "superseded", gc.Conflict),
        ]:
            self.fake.scripted["PUT", "/game/saves/auto"].append(problem(status, code))
            self.raised(kind, code, self.client.put, "auto", b"x", base=None)
        self.assertEqual(self.pauses, [])

    def test_unreachable(self) -> None:
        """A missing server raises Unreachable."""
        self.fake.stop()
        self.raised(gc.Unreachable, "unreachable", self.client.whoami)
        self.fake.start()

    def test_broken_off(self) -> None:
        """A response that ends within its head or its body is retried, whatever its status is."""
        whole = b"HTTP/1.1 412 X\r\nContent-Type: application/problem+json\r\nContent-Length: 2\r\n\r\n{}"
        cuts = [whole[:5], whole[:16], whole[:40], whole[:70], whole[:-1]]
        with create_server(("127.0.0.1", 0)) as listener:
            Thread(target=self.cut_off, args=(listener, cuts), daemon=True).start()
            client = gc.GamedClient(f"http://127.0.0.1:{listener.getsockname()[1]}", folder=self.folder)
            client._wire = replace(client._wire, tries=1)
            for _ in cuts:
                self.raised(gc.Unreachable, "unreachable", client.policy)

    def cut_off(self, listener: socket, answers: list[bytes]) -> None:
        for answer in answers:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)
