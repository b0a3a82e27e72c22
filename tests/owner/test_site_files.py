"""The owner's page restores saves, moves channels and makes backups, as the commands do."""

import os
from contextlib import nullcontext
from errno import EIO, EROFS
from os import fsdecode
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.internet.task import Clock

from gamed.assets import channel_store
from gamed.assets.errors import AssetsBusy, AssetsReadOnly
from gamed.assets.publish import Publisher, PublishRequest
from gamed.assets.store import CHANNELS, FOLDER, NEW, AssetStore, channel_lock
from gamed.cli.data.backup import back_up, read_progress
from gamed.cli.paths import Paths
from gamed.config.model import Config
from gamed.database.backup_format import BackupProgress, folder_name, part_name
from gamed.database.errors import DatabaseCorrupt
from gamed.owner import backups, tables
from gamed.owner import site_sentences as sentences
from gamed.owner.backups import FAILED, list_backups
from gamed.owner.files import OwnerFiles
from gamed.owner.model import FilesChanged
from gamed.players import owner_tables
from tests.cli.process import CommandTestCase
from tests.login.fixtures import ANNA, done
from tests.owner.site_fixtures import BO, CLEO, HOME, SiteCase
from tests.support.databases import elsewhere
from tests.support.stores import POSTGRESQL, sqlite_files

BY = f"owner:{ANNA}"
ONE, TWO = b"\x01one", b"\x02two"


class SavesTests(SiteCase):
    def setUp(self) -> None:
        super().setUp()
        self.add(BO, "bo")
        self.game = self.play(BO)
        first = self.put(self.game, "auto", ONE)
        self.tag = self.put(self.game, "auto", TWO, If_Match=first.headers["etag"]).headers["etag"]
        self.begin()

    def test_totals(self) -> None:
        """The page has the totals and who uses most, and leads to a player's saves and versions."""
        page = self.open("/saves")
        self.assertIn("Saves 1 Current versions 4 B Older versions", page.text)
        page = self.browser.get(next(link for link in page.links if f"/saves/{BO}" in link))
        self.assertEqual(page.heading, "Saves of bo")
        page = self.open(f"/saves/{BO}/auto")
        self.assertIn("2 current", page.text)
        self.assertNotIn("two", page.text)

    def test_restore(self) -> None:
        """An old version is current again, the game reads it, and the event names the owner."""
        page = self.act(self.open(f"/saves/{BO}/auto").form("/restore", version="1"))
        self.assertIn(sentences.NOTICES["o-restore"].source, page.text)
        self.assertEqual(self.read(self.game, "auto"), ONE)
        self.assertEqual(self.events(), [("saves restore", BO, BY)])
        self.assertIn("bo got an earlier version of a save back from Anna", self.open("/activity").text)

    def test_undelete(self) -> None:
        """A deleted save is back as it was; a second tab finds it there."""
        self.site.request("DELETE", "/game/saves/auto", {**self.game, "If-Match": self.tag})
        form = self.open(f"/saves/{BO}").form("/undelete")
        page = self.act(form)
        self.assertIn(sentences.NOTICES["o-undelete"].source, page.text)
        self.assertEqual(self.read(self.game, "auto"), TWO)
        self.assertEqual(self.act(form).status, 409)
        self.assertEqual(self.events(), [("saves undelete", BO, BY)])

    def test_not_recorded(self) -> None:
        """A restore that auth.db cannot record any more has happened: the page says so, and the log has it."""
        form = self.open(f"/saves/{BO}/auto").form("/restore", version="1")
        with self.refusing():
            page = self.act(form)
        self.assertIn(sentences.NOTICES["o-restore"].source, page.text)
        self.assertEqual((self.read(self.game, "auto"), self.events()), (ONE, []))
        self.assertIn(f'command command="saves restore" player={BO} by={BY}', str(self.server.security))

    def test_turned_off_meanwhile(self) -> None:
        """Bytes may take seconds to check: if the page is turned off meanwhile, the save stays as it is."""
        form, blobs = self.open(f"/saves/{BO}/auto").form("/restore", version="1"), self.server.databases.blobs
        check = blobs.check

        async def check_late(blob_id: int) -> None:
            await check(blob_id)
            self.server.write(owner_tables.turn_off)

        blobs.check = check_late  # type: ignore[assignment,method-assign]
        self.assertEqual(self.act(form).status, 404)
        self.assertEqual((self.read(self.game, "auto"), self.events()), (TWO, []))

    def test_refused(self) -> None:
        """A version, a slot or a player that is not there changes nothing."""
        page = self.open()
        for fields in (
            {"player": BO, "slot": "auto", "version": "9"},
            {"player": BO, "slot": "auto", "version": "x"},
            {"player": BO, "slot": "never", "version": "1"},
            {"player": BO, "slot": "../x", "version": "1"},
            {"player": "ply_gone", "slot": "auto", "version": "1"},
            {"player": "\x00", "slot": "auto", "version": "1"},
        ):
            self.assertIn(self.post("restore", page, **fields).status, (400, 404, 409), fields)
        self.assertEqual(self.read(self.game, "auto"), TWO)
        self.assertEqual(self.events(), [])
        for wrong in (f"/saves/{CLEO}", f"/saves/{BO}/never", "/saves/x", f"/saves/{BO}/%2e%2e"):
            self.assertEqual(self.open(wrong).status, 404, wrong)

    def test_damaged_store(self) -> None:
        """With a damaged state.db the pages say so, people can be looked after, and nothing half is done."""
        forms = [
            self.open(f"/saves/{BO}/auto").form("/restore", version="1"),
            self.open(f"/people/{BO}/erase").form("/erase"),
        ]
        if POSTGRESQL:
            elsewhere(self.server.databases.state, "DROP SCHEMA state CASCADE")
        else:
            reads = self.server.databases.threads[0]
            self.successResultOf(reads.run(lambda connection: connection.execute("DETACH DATABASE state").close()))
        self.server.databases._state.unavailable_as = DatabaseCorrupt
        self.assertIn("The database of the saves does not respond or is damaged", self.open("/saves").text)
        self.assertIn("not known", self.open("/people").text)
        self.assertEqual(self.open(f"/saves/{BO}").status, 503)
        for form in forms:
            page = self.act(form)
            self.assertEqual(page.status, 503)
            self.assertIn("On the server run: gamed doctor", page.text)
        self.assertEqual((self.state(BO), self.events()), ("active", []))
        self.assertEqual(self.act(self.open(f"/people/{BO}").form("/block")).status, 200)

    def test_read_only(self) -> None:
        """While the database can only be read, an act says so and changes nothing."""
        form = self.open(f"/people/{BO}").form("/block")
        with self.refusing():
            page = self.act(form)
        self.assertEqual((page.status, self.state(BO)), (507, "active"))
        self.assertIn(sentences.READ_ONLY.source, page.text)


class FilesTests(SiteCase):
    def setUp(self) -> None:
        super().setUp()
        self.store = AssetStore(self.data / FOLDER)
        (self.data.parent / "build").mkdir()
        self.releases = [self.publish(text) for text in ("one", "two")]
        self.begin()

    def publish(self, text: str) -> str:
        source = self.data.parent / "build"
        (source / "game.pak").write_text(text)
        publisher = Publisher(
            store=self.store,
            progress=_silent,
            now_ms=self.server.now_ms,
            min_free_bytes=0,
            keep_releases=5,
        )
        published = publisher.publish(PublishRequest(source, "stable", text, {}, {}, hidden=False, repair=False))
        return published.release or ""

    def pointer(self) -> str:
        return self.store.pointer("stable").release

    def test_roll_back(self) -> None:
        """A channel is rolled back; a second tab that shows the release before changes nothing."""
        page = self.open("/files")
        self.assertIn("Channels 1 Releases 2", page.text)
        form = page.form("/rollback")
        page = self.act(form)
        self.assertIn(sentences.NOTICES["o-rollback"].source, page.text)
        self.assertEqual(self.pointer(), self.releases[0])
        self.assertEqual(self.act(form).status, 409)
        self.assertEqual(self.pointer(), self.releases[0])
        self.assertEqual(self.events(), [("assets rollback", "", BY)])

    def test_two_at_once(self) -> None:
        """Two forms that come at once roll back once; the second one changes nothing."""
        self.releases.append(self.publish("three"))
        files = OwnerFiles(None, self.data, 5, self.server.now_ms, maybeDeferred)
        results: list[object] = []

        def roll_back() -> None:
            try:
                results.append(files._roll_back("stable", self.releases[2]).release)
            except FilesChanged:
                results.append(FilesChanged)

        threads = [Thread(target=roll_back) for _ in range(2)]
        with channel_lock(self.store.folder):
            for thread in threads:
                thread.start()
            sleep(0.2)  # both have looked at the channel by then
        for thread in threads:
            thread.join()
        self.assertCountEqual(results, [self.releases[1], FilesChanged])
        self.assertEqual(self.pointer(), self.releases[1])

    def test_not_recorded(self) -> None:
        """A channel that was moved is shown as moved, also if auth.db cannot record it any more."""
        form = self.open("/files").form("/rollback")
        with self.refusing():
            page = self.act(form)
        self.assertIn(sentences.NOTICES["o-rollback"].source, page.text)
        self.assertEqual((self.pointer(), self.events()), (self.releases[0], []))
        self.assertIn(f'command command="assets rollback" player=- by={BY}', str(self.server.security))

    def test_looked_at_twice(self) -> None:
        """Two pages that are opened at once show the same look at the folder."""
        begun: list[Deferred[Any]] = []

        def in_thread(work: Any) -> Deferred[Any]:
            begun.append(Deferred())
            return begun[-1].addCallback(lambda _: work())

        files = OwnerFiles(self.server.clock, self.data, 5, self.server.now_ms, in_thread)
        looks = [Deferred.fromCoroutine(files.overview()) for _ in range(2)]
        self.assertEqual(len(begun), 1)
        begun[0].callback(None)
        for look in looks:
            found = done(look)
            assert found is not None
            self.assertEqual(len(found.releases), 2)

    def test_disk_away(self) -> None:
        """One of two changes on a disk that does not respond waits in a thread, and the other is refused at once."""
        begun: list[Deferred[Any]] = []

        def in_thread(work: Any) -> Deferred[Any]:
            begun.append(Deferred())
            return begun[-1].addCallback(lambda _: work())

        files = OwnerFiles(self.server.clock, self.data, 5, self.server.now_ms, in_thread)
        first = Deferred.fromCoroutine(files.roll_back("stable", self.releases[1]))
        for change in (files.roll_back("stable", self.releases[1]), files.point("stable", *self.releases)):
            self.failureResultOf(Deferred.fromCoroutine(change), AssetsBusy)
        begun[0].callback(None)
        self.assertTrue(done(first))
        self.assertEqual(self.pointer(), self.releases[0])
        again = Deferred.fromCoroutine(files.point("stable", self.releases[1], self.releases[0]))
        begun[1].callback(None)
        self.assertTrue(done(again))

    def test_point(self) -> None:
        """A channel is pointed at another release; names that cannot be are refused."""
        page = self.open("/files")
        form = page.form("/point", release=self.releases[0])
        for wrong in ({"release": "../x"}, {"channel": "never"}, {"channel": "../x"}, {"before": "r" + "0" * 16}):
            self.assertEqual(self.browser.post({**form, "fields": {**form["fields"], **wrong}}).status, 409, wrong)
        self.assertEqual((self.pointer(), self.events()), (self.releases[1], []))
        page = self.act(form)
        self.assertIn(sentences.NOTICES["o-point"].source, page.text)
        self.assertEqual(self.pointer(), self.releases[0])
        self.assertIn("Anna pointed a channel at another release", self.open("/activity").text)

    def test_read_only(self) -> None:
        """A folder that cannot be written changes nothing, and the page says so."""
        (self.store.folder / CHANNELS / NEW).mkdir()  # root may write anywhere, but not in place of a folder
        page = self.act(self.open("/files").form("/rollback"))
        self.assertEqual((page.status, self.pointer(), self.events()), (507, self.releases[1], []))
        self.assertIn(sentences.FILES_READ_ONLY.source, page.text)

    def test_failing_disk(self) -> None:
        """An error of the disk is not taken for a missing right: what was changed is not known."""
        for code, kind in ((EROFS, AssetsReadOnly), (EIO, OSError)):
            error = OSError(code, os.strerror(code))
            files = OwnerFiles(Clock(), self.data, 1, lambda: 0, lambda work, error=error: fail(error))
            reason = self.failureResultOf(Deferred.fromCoroutine(files.roll_back("stable", self.releases[1])))
            self.assertIs(reason.type, kind)

    def test_damaged(self) -> None:
        """A release without one of its files cannot be pointed at, and the page says so."""
        form = self.open("/files").form("/point", release=self.releases[0])
        for path in (self.data / FOLDER / "objects").rglob("*"):
            if path.is_file() and path.read_text() == "one":
                path.unlink()
        page = self.act(form)
        self.assertEqual((page.status, self.pointer()), (500, self.releases[1]))
        self.assertIn("gamed assets verify", page.text)
        self.assertEqual(self.events(), [])

    def test_unreadable(self) -> None:
        """A folder that cannot be read is named on the page."""
        (self.data / FOLDER).rename(self.data / "elsewhere")
        (self.data / FOLDER).write_text("no folder")
        self.assertIn("The folder of the game files cannot be read.", self.open("/files").text)

    def test_none(self) -> None:
        """Without channels the page says how to publish."""
        channel_store.delete_channel(self.store, "stable", 5, self.server.now_ms())
        self.assertIn("gamed assets publish DIR", self.open("/files").text)


def _silent(label: str, length: int) -> Any:
    return nullcontext(lambda done: None)


class BackupTests(SiteCase):
    def test_nowhere(self) -> None:
        """Without a folder the page names the command; a form that comes anyway makes none."""
        self.begin()
        page = self.open("/backups")
        self.assertIn("gamed owner page on --backups DIR", page.text)
        self.assertEqual(self.post("backup", page).status, 409)
        self.assertEqual((self.made, self.events()), ([], []))

    def test_made(self) -> None:
        """A backup is made in the folder that the host named; the list has it with age and size, and no link to it."""
        self.backups.mkdir()
        self.begin()
        self.turn_on(str(self.backups))
        page = self.act(self.open("/backups").form("/backup"))
        self.assertIn(sentences.NOTICES["o-backup"].source, page.text)
        self.assertEqual((self.made, self.events()), ([self.backups], [("backup", "", BY)]))
        name = folder_name(self.server.now_ms(), [])
        (self.backups / name).mkdir()
        (self.backups / name / "manifest.json").write_text("{}")
        page = self.open("/backups")
        self.assertIn(f"damaged {name}", page.text)
        self.assertEqual([link for link in page.links if name in link], [])

    def test_failed(self) -> None:
        """The page says why the last backup was not made; the words of the reason are text."""
        self.begin()
        self.turn_on(str(self.backups))
        self.backup_answer = lambda folder: "<b>no room</b> " + "x" * 900
        page = self.act(self.open("/backups").form("/backup"))
        self.assertIn("was not made: <b>no room</b>", page.text)

        def fail(folder: Path) -> str:
            raise RuntimeError("a defect with /a/path")

        self.backup_answer = fail
        page = self.act(page.form("/backup"))
        self.assertIn(FAILED, page.text)
        self.assertNotIn("/a/path", page.html)

    def test_one_at_a_time(self) -> None:
        """While a process makes one, neither this nor another process begins another."""
        self.begin()
        self.turn_on(str(self.backups))
        form = self.open("/backups").form("/backup")
        waiting: Deferred[None] = Deferred()
        self.slow = waiting
        page = self.act(form)
        self.assertIn("A backup is being made, begun just now", page.text)
        self.assertEqual(self.act(form).status, 409)
        waiting.callback(None)
        self.assertNotIn("A backup is being made, begun", self.open("/backups").text)

    def test_progress(self) -> None:
        """Meanwhile the page says how much is copied: of files as a percentage, of a dump in bytes, which grow."""
        self.begin()
        self.turn_on(str(self.backups))
        self.slow = Deferred()
        page = self.act(self.open("/backups").form("/backup"))
        self.assertIn("A backup is being made", page.text)
        self.assertNotIn("Copied", page.text)
        for copied, whole, shown in (
            (0, 4000, "Copied so far: 0 %."),
            (1000, 4000, "Copied so far: 25 %."),
            (3999, 4000, "Copied so far: 99 %."),
            (5000, 4000, "Copied so far: 100 %."),  # the databases were written to meanwhile
            (2**21, None, "Copied so far: 2 MiB "),
        ):
            self.progress = BackupProgress(copied, whole)
            self.assertIn(shown, self.open("/backups").text)
        self.slow.callback(None)
        self.assertNotIn("Copied", self.open("/backups").text)

    def test_interrupted(self) -> None:
        """A backup of a process that has ended is shown as interrupted, and another one can begin."""
        self.begin()
        self.turn_on(str(self.backups))
        self.server.write(lambda c: tables.begin_run(c, "gone0000", self.server.now_ms()))
        page = self.open("/backups")
        self.assertIn("was interrupted", page.text)
        self.act(page.form("/backup"))
        self.assertEqual(self.made, [self.backups])

    def test_other_folder(self) -> None:
        """A folder that the host names meanwhile is the one that is used."""
        self.begin()
        self.turn_on(str(self.backups / "old"))
        form, auth = self.open("/backups").form("/backup"), self.server.databases.auth
        submit = auth.submit

        def submit_late(work: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(work, "func", None) is backups._begin:
                auth.submit = submit  # type: ignore[method-assign]
                self.turn_on(str(self.backups))
            return submit(work, *args, **kwargs)

        auth.submit = submit_late  # type: ignore[method-assign]
        self.act(form)
        self.assertEqual(self.made, [self.backups])

    def test_foreign_names(self) -> None:
        """Folders that are no backups by their names are left out, and hinder nobody."""
        mine = folder_name(self.server.now_ms(), [])
        for name in (mine.encode(), b"gamed-Z", b"gamed-\xffZ", b"gamed-<b>Z", b"gamed-20260101T000000ZZ"):
            path = Path(fsdecode(bytes(self.backups) + b"/" + name))
            path.mkdir(parents=True)
            (path / "manifest.json").write_text("{}")
        self.assertEqual([each.name for each in list_backups(self.backups)], [mine])
        self.begin()
        self.turn_on(str(self.backups))
        page = self.open("/backups")
        self.assertEqual((page.status, page.text.count("damaged")), (200, 1))

    def test_many(self) -> None:
        """Only the newest are listed."""
        for number in range(53):
            path = self.backups / f"gamed-20260101T0000{number:02}Z"
            path.mkdir(parents=True)
            (path / "manifest.json").write_text("{}")
        self.begin()
        self.turn_on(str(self.backups))
        self.assertIn("3 older ones are not shown.", self.open("/backups").text)
        self.assertEqual(self.open("/backups").text.count("damaged"), 50)


@sqlite_files("the copies are files; tests.cli.test_postgresql_backup has the dump")
class RealBackupTests(CommandTestCase):
    def test_as_the_command(self) -> None:
        """The service makes the same backup as the command, and says in words why it cannot."""
        self.serve()
        folder, where = self.folder / "backups", Paths(self.config, self.data)
        self.assertIn("There is no folder", back_up(Config(), where, folder) or "")
        folder.mkdir()
        self.assertIsNone(back_up(Config(), where, folder))
        [kept] = list_backups(folder)
        self.assertGreater(kept.bytes, 10_000)
        self.assertGreater(kept.made_ms, 0)
        self.assertIn("is in the data folder", back_up(Config(), where, self.data) or "")

    def test_progress(self) -> None:
        """The progress counts the files of a backup that is not complete, of any process, and those to be copied."""
        self.serve()
        folder, where = self.folder / "backups", Paths(self.config, self.data)
        folder.mkdir()
        self.assertIsNone(read_progress(Config(), where, folder))
        self.assertIsNone(back_up(Config(), where, folder))
        self.assertIsNone(read_progress(Config(), where, folder), "a complete backup is none that is being made")
        [made] = folder.iterdir()
        (made / "manifest.json").unlink()
        (made / "state.db").unlink()
        made.rename(folder / part_name(made.name))
        progress = read_progress(Config(), where, folder)
        assert progress is not None and progress.whole is not None
        self.assertEqual(progress.copied, (folder / part_name(made.name) / "auth.db").stat().st_size)
        self.assertGreater(progress.whole, progress.copied)


__all__ = ["HOME"]
