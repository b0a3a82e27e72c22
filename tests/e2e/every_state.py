"""Every page of the galleries, in all its states, in Firefox and WebKit: `.venv/bin/python -m tests.e2e.every_state`.

Each page is loaded as the service sends it. The command prints a line for each finding: a style that is not applied, an
element that is cut off at 360 px, an error of the console, or something that the page's policy has blocked. It exits
with 1 if there are any. Engines, a language and dark pages can be chosen, and a folder for pictures:
`.venv/bin/python -m tests.e2e.every_state webkit --language ar --dark --folder /tmp/webkit`.
"""

import json
import sys
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from gamed.pages.languages import Languages
from gamed.pages.render import built_in_mark
from tests.e2e.engines import ENGINES, Engine
from tests.e2e.screenshots import file_name, pages
from tests.e2e.test_pages import CUT
from tests.login.gallery import RENDERER

WIDTH, HEIGHT = 360, 640
REPORT = "/report"
STYLED = "() => getComputedStyle(document.querySelector('.card, .top')).backgroundColor"
UNSTYLED = "rgba(0, 0, 0, 0)"
REPORT_SECONDS = 1.0


class PageSite:
    """A web server with these pages by their names; browsers send it what a page's policy has blocked."""

    def __init__(self, shown: Mapping[str, bytes]) -> None:
        self.blocked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                with suppress(ConnectionError):  # a browser that ends
                    super().handle()

            def do_GET(self) -> None:
                html = shown.get(self.path.removeprefix("/"))
                if html is None:
                    self._send(built_in_mark().content, {"Content-Type": built_in_mark().content_type})
                    return
                policy = f"{RENDERER.headers['Content-Security-Policy']}; report-uri {REPORT}"
                self._send(html, {**RENDERER.headers, "Content-Security-Policy": policy})

            def do_POST(self) -> None:
                report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["csp-report"]
                site.blocked.append(f"{report['document-uri'].rpartition('/')[2]}: {report['violated-directive']}")
                self._send(b"", {})

            def _send(self, body: bytes, headers: Mapping[str, str]) -> None:
                self.send_response(200)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def findings(engine: Engine, shown: Mapping[str, bytes], folder: Path | None = None) -> list[str]:
    """Return what is wrong with these pages in this engine, a line each; draw them into the folder."""
    site, found = PageSite(shown), []
    try:
        engine.resize(WIDTH, HEIGHT)
        for name in shown:
            engine.open(f"{site.base}/{name}")
            if engine.evaluate(STYLED) == UNSTYLED:
                found.append(f"{name}: no style")
            found += [f"{name}: cut off: {element}" for element in engine.evaluate(CUT)]
            found += [f"{name}: {error}" for error in engine.errors()]
            if folder is not None:
                engine.draw(folder / f"{name}.png")
        time.sleep(REPORT_SECONDS)  # a report comes when the browser has time
        return found + site.blocked
    finally:
        site.close()


def main() -> None:
    options = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("engines", nargs="*", default=["firefox", "webkit"], choices=[[], *ENGINES])
    options.add_argument("--language", default="en")
    options.add_argument("--dark", action="store_true")
    options.add_argument("--folder", type=Path, help="draws the pages into a folder for each engine")
    given = options.parse_args()
    language, wrong = Languages().get(given.language), False
    shown = {file_name(name): page.spoken(language) for name, page in pages().items()}
    for name in given.engines:
        folder = given.folder and given.folder / name
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
        engine = ENGINES[name]("dark" if given.dark else "light")
        try:
            found = findings(engine, shown, folder)
        finally:
            engine.close()
        print(f"{name}: {len(shown)} pages, {len(found)} findings", *found, sep="\n  ")
        wrong = wrong or bool(found)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
