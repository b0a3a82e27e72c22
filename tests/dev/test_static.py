"""The page beside `gamed dev`: its own files, to browsers on this machine, and nothing else."""

import json
from pathlib import Path
from typing import Any

from treq.testing import StubTreq
from twisted.trial.unittest import SynchronousTestCase

from gamed.dev.servers import origins
from gamed.dev.static_files import MAX_NAME, MAX_PATH, StaticFiles, path_segments
from tests.support.covers import covers


@covers("threats/61")
class StaticTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.page, self.shared = self.folder / "page", self.folder / "shared"
        for name, text in (
            ("page/index.html", "<p>hello"),
            ("page/a b/gruß.js", "1"),
            ("page/.git/config", "hidden"),
            ("page/notes.txt", "plain"),
            ("shared/gamed.mjs", "export"),
            ("shared/notes.txt", "behind"),
            ("secret", "outside"),
        ):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        self.http = StubTreq(StaticFiles(8082, [self.page, self.shared], "http://127.0.0.1:9000"))

    def get(self, path: str, host: str = "127.0.0.1:8082", method: str = "GET") -> tuple[Any, str]:
        url = f"http://127.0.0.1:8082{path}"
        answer: Any = self.successResultOf(
            self.http.request(method, url, headers={"Host": host}, allow_redirects=False)
        )
        return answer, self.successResultOf(answer.text())

    def kind(self, answer: Any) -> str:
        [kind] = answer.headers.getRawHeaders("content-type")
        return str(kind)

    def test_files(self) -> None:
        """With the types that browsers insist on; a folder's index; folders laid over each other; nothing is cached."""
        for path, text, kind in (
            ("/", "<p>hello", "text/html; charset=utf-8"),
            ("/index.html?x=1", "<p>hello", "text/html; charset=utf-8"),
            ("/a%20b/gru%C3%9F.js", "1", "text/javascript; charset=utf-8"),
            ("/gamed.mjs", "export", "text/javascript; charset=utf-8"),
            ("/notes.txt", "plain", "text/plain"),
        ):
            answer, found = self.get(path)
            self.assertEqual((answer.code, found, self.kind(answer)), (200, text, kind), path)
            self.assertEqual(answer.headers.getRawHeaders("cache-control"), ["no-store"])
        answer, found = self.get("/", method="HEAD")
        self.assertEqual((answer.code, found), (200, ""))

    def test_server_address(self) -> None:
        """A page reads the server's address from a JSON file beside it; a file of that name in a folder wins."""
        answer, found = self.get("/gamed-dev.json")
        self.assertEqual((answer.code, self.kind(answer)), (200, "application/json"))
        self.assertEqual(json.loads(found), {"server": "http://127.0.0.1:9000"})
        self.assertEqual(self.get("/a%20b/gamed-dev.json")[0].code, 404)
        (self.page / "gamed-dev.json").write_text("mine")
        self.assertEqual(self.get("/gamed-dev.json")[1], "mine")

    def test_folder_without_slash(self) -> None:
        """Its relative links would lead elsewhere."""
        answer, _ = self.get("/a%20b")
        self.assertEqual((answer.code, answer.headers.getRawHeaders("location")), (308, ["/a%20b/"]))

    def test_not_found(self) -> None:
        """Answer 404 for paths that are hidden, above the folders, or do not exist."""
        tricks = ("/secret", "/../secret", "/%2e%2e/secret", "/..%2fsecret", "/.git/config", "/a%20b/", "/%00", "/%ff")
        for path in (*tricks, "//etc/passwd", "/C:/x", "/..%5csecret", "/" + "x" * 300, "/" + "x/" * 1000):
            answer, found = self.get(path)
            self.assertEqual((answer.code, found), (404, "There is no such file.\n"), path)
        self.assertEqual(self.get("/", method="POST")[0].code, 405)

    def test_only_this_machine(self) -> None:
        """A web site that points its own name at this machine reads nothing."""
        self.assertEqual(self.get("/", host="localhost:8082")[0].code, 200)
        for host in ("evil.example:8082", "127.0.0.1", "127.0.0.1:8080"):
            self.assertEqual(self.get("/", host=host)[0].code, 421, host)
        self.assertEqual(origins(8082), ("http://127.0.0.1:8082", "http://localhost:8082"))

    def test_names(self) -> None:
        self.assertEqual(path_segments("/a/b"), ["a", "b"])
        self.assertEqual(path_segments("/a/"), ["a", ""])
        self.assertEqual(path_segments("/" + "x" * MAX_NAME), ["x" * MAX_NAME])
        self.assertIsNone(path_segments("/" + "%C3%9F" * 128))
        self.assertIsNone(path_segments("/a" * MAX_PATH))
