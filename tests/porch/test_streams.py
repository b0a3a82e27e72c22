"""Commands whose words nobody takes: what they do, and how they end, does not hang on it."""

from tests.porch.process import GAMED, PorchTestCase, free_port, get

WARNED = '{"mode": "local", "session": {"access_ttl": "30s"}}'
CLOSED, FULL = "2>&-", "2>/dev/full"


def with_stderr(redirection: str) -> tuple[str, ...]:
    """gamed with its stderr as a shell sets it up."""
    return ("sh", "-c", f'exec "$@" {redirection}', "sh", *GAMED)


class StreamTests(PorchTestCase):
    def test_stderr_closed_or_full(self) -> None:
        """A refusal keeps its exit code, a warning stops nothing, and stdout stays what scripts read."""
        for redirection in (CLOSED, FULL):
            gamed = with_stderr(redirection)
            self.config.write_text("{")
            self.assertEqual(self.run_command(*self.places, "check-config", of=gamed), (78, "", ""), redirection)
            self.config.write_text(WARNED)
            self.assertEqual(self.run_command(*self.places, "players", "list", of=gamed), (1, "", ""), redirection)
            code, out, _ = self.run_command(*self.places, "check-config", of=gamed)
            self.assertEqual((code, "warning" in out), (0, False), redirection)

    def test_a_start(self) -> None:
        """The server starts, too, when its warnings cannot be written."""
        self.config.write_text(WARNED)
        port = free_port()
        listen = f"--listen=tcp:{port}:interface=127.0.0.1"
        process = self.start(*with_stderr(FULL), *self.places, "serve", listen)
        self.await_answer(port, process)
        self.assertEqual(get(port, "/healthz"), (200, b"ok"))
        self.assertEqual(self.stop(process), 0)
