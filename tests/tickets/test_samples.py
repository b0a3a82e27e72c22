"""The samples of examples/tickets check tickets of a real server; the first one of each is a bad one.

Those for C# and Godot are tested with the clients.
"""

import shutil
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from tests.e2e.other_origin import installed
from tests.e2e.wire import ask
from tests.proxies.programs import program
from tests.support.nodejs import NODE
from tests.support.ports import free_port
from tests.tickets.samples import PATIENCE_SECONDS, SAMPLES, SECRET, FailingServer, SampleCase

NGINX_MAIN = """
pid {folder}/nginx.pid;
error_log stderr;
daemon off;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/sample.conf;
}}
"""


class PythonTests(SampleCase):
    def test_checks(self) -> None:
        """The Python server accepts the tickets of this connection alone."""
        cases = self.cases()
        command = [sys.executable, SAMPLES / "check_ticket.py", self.service.base, "match.example"]
        self.check(self.run_lines(command, cases), cases)

    def test_without_gamed(self) -> None:
        """Without the keys every ticket is refused, and one request in 30 seconds is made for them."""
        failing = FailingServer()
        self.addCleanup(failing.close)
        command = [sys.executable, SAMPLES / "check_ticket.py", failing.base, "match.example"]
        self.check(self.run_lines(command, self.unknown()), self.unknown())
        self.assertEqual(failing.paths, ["/auth/keys"])
        failing.close()
        self.check(self.run_lines(command, self.unknown()), self.unknown())


class NodeTests(SampleCase):
    def setUp(self) -> None:
        super().setUp()
        self.script = self.folder / "check-ticket.mjs"
        shutil.copy(SAMPLES / "check-ticket.mjs", self.script)
        (self.folder / "node_modules").symlink_to(installed() / "node_modules")

    def test_checks(self) -> None:
        """The Node server accepts the tickets of this connection alone."""
        cases = self.cases()
        self.check(self.run_lines([NODE, self.script, self.service.base, "match.example"], cases), cases)

    def test_without_gamed(self) -> None:
        """Without the keys every ticket is refused."""
        failing = FailingServer()
        self.addCleanup(failing.close)
        command = [NODE, self.script, failing.base, "match.example"]
        self.check(self.run_lines(command, self.unknown()), self.unknown())


class NginxTests(SampleCase):
    def setUp(self) -> None:
        super().setUp()
        self.arrived: list[str] = []
        arrived = self.arrived

        class Match(BaseHTTPRequestHandler):
            """The server behind nginx."""

            def do_GET(self) -> None:
                arrived.append(self.path)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        match = ThreadingHTTPServer(("127.0.0.1", 0), Match)
        Thread(target=match.serve_forever, daemon=True).start()
        self.addCleanup(match.server_close)
        self.addCleanup(match.shutdown)
        self.port, self.match_port = free_port(), match.server_port

    def serve(self, secret: str) -> None:
        """Run nginx with the sample, in which only addresses and the place of the secret differ."""
        folder = self.folder / "nginx"
        folder.mkdir()
        text = (SAMPLES / "nginx.conf").read_text("utf-8")
        for old, new in (
            ("127.0.0.1:8443", f"127.0.0.1:{self.port}"),
            ("http://127.0.0.1:7777", f"http://127.0.0.1:{self.match_port}"),
            ("https://play.example.org/", f"{self.service.base}/"),
            ("Host play.example.org", f"Host 127.0.0.1:{self.service.port}"),
            ("/etc/nginx/gamed-secret.conf", str(folder / "gamed-secret.conf")),
        ):
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, new)
        (folder / "sample.conf").write_text(text)
        (folder / "gamed-secret.conf").write_text(f'proxy_set_header Authorization "Bearer {secret}";\n')
        (folder / "nginx.conf").write_text(NGINX_MAIN.format(folder=folder))
        command = [program("nginx"), "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        limit = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                ask(self.port, "GET", "/")
            except OSError:
                self.assertLess(time.monotonic(), limit)
                time.sleep(0.02)
            else:
                break
        self.arrived.clear()

    def test_checks(self) -> None:
        """Only requests with a valid ticket reach the server behind nginx; a proxy compares no nonce."""
        self.serve(SECRET)
        for number, (_, ticket, wrong) in enumerate(self.cases()):
            refused = wrong and "nonce" not in wrong and "connection" not in wrong
            status = ask(self.port, "GET", f"/{number}", bearer=ticket).status
            self.assertEqual((status, f"/{number}" in self.arrived), (401, False) if refused else (204, True), wrong)
        count = len(self.arrived)
        for field in ("", "Basic YTpi", f"Bearer {self.ticket()}&token=x", f"Bearer {self.ticket()} "):
            status = ask(self.port, "GET", "/x", headers={"Authorization": field} if field else {}).status
            self.assertEqual(status in (400, 401), not field.endswith(" "), field)
        self.assertLessEqual(len(self.arrived), count + 1)

    def test_wrong_secret(self) -> None:
        """With a wrong secret nobody gets through."""
        self.serve("w" * 40)
        self.assertEqual(ask(self.port, "GET", "/", bearer=self.ticket()).status, 401)
        self.assertEqual(self.arrived, [])
