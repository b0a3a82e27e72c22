"""A browser shows the QR code of a link, as a web game on another origin does (docs/protocol.md: Start)."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

from playwright.sync_api import Page

from tests.e2e.cases import ServiceCase
from tests.support.qr import read_pixels

PAGE = '<!DOCTYPE html><title>A game</title><img src="{}" alt="">'
LOADED = "() => { const e = document.images[0]; return e.decode().then(() => e.naturalWidth, () => 0) }"
PIXELS = """() => {
    const image = document.images[0], canvas = document.createElement('canvas');
    canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
    return [...data].filter((_, place) => place % 4 === 0);
}"""


class Shown(ServiceCase):
    config: ClassVar = {"mode": "local"}

    def origin(self, content_type: str, body: bytes) -> str:
        """Serve these bytes on their own origin, to pages that embed only resources with an explicit permission."""

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                for name, value in {
                    "Content-Type": content_type,
                    "Content-Length": str(len(body)),
                    "Cross-Origin-Embedder-Policy": "require-corp",
                }.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/"

    def width_at(self, image: str) -> int:
        """Return the width that the image has on a page of another origin; 0 if the browser refuses it."""
        address = self.origin("text/html", PAGE.format(image).encode())
        return self.window().step(lambda page: (page.goto(address), page.evaluate(LOADED))[1])

    def test_decoded(self) -> None:
        """The image that a browser draws, PNG or SVG, decodes to the link, and does not open it."""
        login, window = self.start(), self.window()
        address = f"{self.service.base}/game.html"
        for image in (login["qr_url"], login["qr_url"].replace(".png", ".svg")):

            def show(page: Page, image: str = image) -> tuple[int, list[int]]:
                page.unroute_all()
                page.route(address, lambda route: route.fulfill(body=PAGE.format(image), content_type="text/html"))
                page.goto(address)
                return page.evaluate(LOADED), page.evaluate(PIXELS)

            width, grey = window.step(show)
            pixels = [grey[start : start + width] for start in range(0, len(grey), width)]
            self.assertEqual(read_pixels(pixels), login["login_url"])
        self.assertEqual(self.collect(login).json["stage"], "waiting_for_browser")

    def test_other_origin(self) -> None:
        """A web game on another origin may show it, even if it embeds only resources with an explicit permission."""
        login = self.start()
        self.assertGreater(self.width_at(login["qr_url"]), 200)
        image = self.ask("GET", login["qr_url"].removeprefix(self.service.base)).body
        self.assertEqual(self.width_at(self.origin("image/png", image)), 0)
