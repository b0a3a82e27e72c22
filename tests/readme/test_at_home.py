"""The commands of docs/owners/at-home.md work as printed: without a proxy, and with Caddy's own certificates."""

import os
import re
import subprocess
import sys
import time
from shutil import copyfile

from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.service import ROOT, Service
from tests.proxies.programs import START_SECONDS, program
from tests.readme.test_transcript import bash
from tests.support.folders import unused_path
from tests.support.ports import free_port
from tests.test_page_commands import blocks

PAGE = "docs/owners/at-home.md"
NAME = "gamed.home.arpa"
ROOT_CERTIFICATE = "caddy/pki/authorities/local/root.crt"
GLOBAL = """{{
	admin off
	skip_install_trust
	default_bind 127.0.0.1
	http_port {plain}
"""
"""Settings that keep the test from the ports and the certificates of this machine."""
ACCEPT = "update-ca-certificates() {{ export SSL_CERT_FILE='{folder}/gamed-ca.crt'; }}"
"""Instead of Debian's command, which changes the certificates of this machine."""


def marked() -> list[str]:
    """Return the blocks of the page that this module runs: only this machine, Caddyfile, doctor."""
    found = blocks(PAGE, (ROOT / PAGE).read_text("utf-8"))
    return [block.text for block in found if block.how == "run by" and block.word == __name__]


class AtHomeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = unused_path(self)
        self.here, self.sample, self.check = marked()

    def serve(self, **config: object) -> Service:
        """Run a server with these members in its configuration until the test ends."""
        service = Service(self.folder, {"mode": "local", **config})
        self.addCleanup(service.close)
        return service.start()

    def run_printed(self, service: Service, script: str) -> str:
        """Run commands with `gamed` for this server; return the output, also if a command fails."""
        places = f"--config '{service.config}' --data '{service.data}'"
        command = f"PYTHONPATH='{ROOT}' '{sys.executable}' -m gamed {places}"
        exports = "".join(f"export {name}='{value}'\n" for name, value in service.environ.items())
        done = bash(f'{exports}gamed() {{ {command} "$@"; }}\n{script}', service.folder)
        return f"{done.stdout}{done.stderr}exit {done.returncode}"

    def test_only_this_machine(self) -> None:
        """doctor finds no problem at the address on this machine."""
        service = self.serve()
        self.assertIn("http://127.0.0.1:8080", self.here)
        printed = self.run_printed(service, self.here.replace("http://127.0.0.1:8080", service.base))
        self.assertIn("\n0 problems, ", printed)

    def test_own_authority(self) -> None:
        """With the Caddyfile and the root certificate of the page doctor finds no problem, and accepts a certificate of
        twelve hours; without it, the certificate is the problem.

        The name is localhost here, since `gamed.home.arpa` needs a router.
        """
        port = free_port()
        service = self.serve(public_url=f"https://localhost:{port}")
        self.start_caddy(port, service)
        [copied] = re.findall(r"(?m)^cp (\S+) gamed-ca.crt$", self.sample)
        self.assertTrue(copied.endswith(ROOT_CERTIFICATE))
        copyfile(self.folder / ROOT_CERTIFICATE, self.folder / "gamed-ca.crt")
        there = self.check.replace("/usr/local/share/ca-certificates", str(self.folder / "accepted"))
        (self.folder / "accepted").mkdir()
        printed = self.run_printed(service, f"{ACCEPT.format(folder=self.folder / 'accepted')}\n{there}")
        self.assertIn("\n0 problems, ", printed)
        self.assertIn("\nok       certificate: valid for 11 hours\n", printed)
        self.assertIn("CERTIFICATE_VERIFY_FAILED", self.run_printed(service, self.check.splitlines()[-1]))

    def start_caddy(self, port: int, service: Service) -> None:
        """Write the Caddyfile as `gamed setup` does for a home network, and run Caddy until the test ends."""
        self.assertIn(f"the answers `home` and `{NAME}`", (ROOT / PAGE).read_text("utf-8"))
        file = self.folder / "Caddyfile"
        printed = self.run_printed(service, "gamed caddy --internal")
        text = printed.removesuffix("exit 0").replace("{\n", GLOBAL.format(plain=free_port()), 1)
        self.assertIn(f"\nlocalhost:{port} {{\n\ttls internal\n", text)
        self.assertIn(f"reverse_proxy 127.0.0.1:{service.port} {{", text)
        text = text.replace("/var/log/caddy", str(self.folder))
        file.write_text(text, "utf-8")
        process = subprocess.Popen(
            [program("caddy"), "run", "--config", file],
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        limit = time.monotonic() + START_SECONDS
        while not (self.folder / "caddy/certificates/local/localhost/localhost.crt").is_file():
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.02)

    def test_refused_at_home(self) -> None:
        """The Python client refuses the plain address that the page names, and gamed refuses to listen there."""
        text = (ROOT / PAGE).read_text("utf-8")
        self.assertIn("`http://192.168.1.20:8080` (`untrusted_address`)", text)
        script = "import gamed_client; gamed_client.GamedClient('http://192.168.1.20:8080', app='a')"
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT / "clients/python", capture_output=True, text=True, check=False
        )
        self.assertIn("UntrustedAddress", done.stderr)
        service = self.serve()
        printed = self.run_printed(service, f"gamed serve --listen tcp:{free_port()}")
        self.assertIn("without encryption", printed)
        self.assertTrue(printed.endswith("exit 78"), printed)
