"""Changes and history through the reference client, at the real service.

See docs/protocol.md: Saves; docs/developers/saves.md: History.
"""

from clients.python.tests.sync.cases import SyncCase
from tests.support.python_client import gamed_client as gc


class History(SyncCase):
    def setUp(self) -> None:
        super().setUp()
        self.one = self.server.put(self.slot, b"one", base=None, meta={"title": "1"})
        self.two = self.server.put(self.slot, b"two", base=self.one)

    def test_versions(self) -> None:
        """Versions are listed newest first, with kind and parent; each can be read; a delete is one of them."""
        self.server.delete(self.slot, base=self.two)
        found = self.server.versions(self.slot)
        self.assertEqual(
            [(v.version, v.kind, v.parent) for v in found], [(3, "delete", 2), (2, "write", 1), (1, "write", None)]
        )
        self.assertEqual((found[0].save, found[2].save.etag), (None, self.one.etag))
        save = self.server.version(self.slot, 1)
        self.assertEqual((save.data, save.meta), (b"one", {"title": "1"}))
        self.raised(gc.NotFound, "version_gone", self.server.version, self.slot, 9)
        self.raised(gc.NotFound, "save_not_found", self.server.versions, self.slot + "-none")

    def test_restore(self) -> None:
        """A restore is based on the current version, or on none after a delete; any other base is a conflict."""
        three = self.server.restore(self.slot, 1, base=self.two)
        self.assertEqual((three.version, self.current(self.slot)), (3, b"one"))
        self.raised(gc.Conflict, "superseded", self.server.restore, self.slot, 2, base=self.one)
        self.server.delete(self.slot, base=three)
        self.assertEqual(self.server.restore(self.slot, 2, base=None).version, 5)

    def test_dismiss(self) -> None:
        """A dismissed conflict copy is deleted, and only that; a second dismissal is not an error."""
        error = self.raised(gc.Conflict, "version_conflict", self.server.put, self.slot, b"other", base=self.one)
        number = error.yours.version
        self.assertEqual([save.conflicts for save in self.server.list_saves()], [(number,)])
        self.server.dismiss(self.slot, number)
        self.server.dismiss(self.slot, number)
        self.assertEqual([save.conflicts for save in self.server.list_saves()], [()])
        self.raised(gc.Refused, "version_protected", self.server.dismiss, self.slot, 2)

    def test_changes(self) -> None:
        """Report all saves first, then changes and deletions; report all again when the epoch has changed."""
        whole = self.server.changes()
        self.assertEqual((whole.whole, [s.etag for s in whole.saves if s.slot == self.slot]), (True, [self.two.etag]))
        self.assertEqual(self.server.changes(whole.cursor), gc.Changes(whole.cursor, [], False))
        self.server.delete(self.slot, base=self.two)
        since = self.server.changes(whole.cursor, wait=5)
        self.assertEqual((since.whole, since.saves), (False, [gc.Deletion(self.slot, 3)]))
        self.assertTrue(self.server.changes("other.1").whole)
