"""The addresses that a player may enter, and those that a server may send."""

from twisted.trial.unittest import SynchronousTestCase

from tests.support.covers import covers
from tests.support.python_client import gamed_client as gc


class Entered(SynchronousTestCase):
    """The address of the server, as typed."""

    def test_usual_forms(self) -> None:
        """A name is https, this machine's own names are http; case, a final slash and default ports do not count."""
        forms = {
            "play.example.org": "https://play.example.org",
            " https://Play.Example.org/ ": "https://play.example.org",
            "https://play.example.org:443": "https://play.example.org",
            "https://play.example.org.": "https://play.example.org",
            "play.example.org:8443": "https://play.example.org:8443",
            "https://bücher.example": "https://xn--bcher-kva.example",
            "https://[2001:db8::1]:8443": "https://[2001:db8::1]:8443",
            "127.0.0.1:8080": "http://127.0.0.1:8080",
            "localhost:8080": "http://localhost:8080",
            "http://[::1]:8080": "http://[::1]:8080",
            "https://localhost": "https://localhost",
        }
        self.assertEqual({form: str(gc.Origin.entered(form)) for form in forms}, forms)

    @covers("threats/64")
    def test_refused_forms(self) -> None:
        """Plain http over a network, other schemes, and names with a user, a path or garbage are refused."""
        for form in [
            "http://play.example.org",
            "http://192.168.1.5:8080",
            "http://127.0.0.1.example.org",
            "http://localhost.example.org",
            "ftp://play.example.org",
            "javascript://play.example.org",
            "file:///etc/passwd",
            "https://user@play.example.org",
            "https://user:pass@play.example.org",
            "https://play.example.org/game",
            "https://play.example.org?x",
            "https://play.example.org#x",
            "https://play.example.org:99999",
            "https://play.example.org:0",
            "https://play.example.org:x",
            "https://[::1",
            "https://a b.example.org",
            "https://a..example.org",
            "https://-$(id).example.org",
            "https://",
            "",
        ]:
            error = self.assertRaises(gc.UntrustedAddress, gc.Origin.entered, form)
            self.assertEqual(error.code, "untrusted_address", form)


class Required(SynchronousTestCase):
    """A URL of the server is used only if it has the server's own origin."""

    origin = gc.Origin.entered("https://play.example.org")

    def test_same_authority(self) -> None:
        """Scheme, host and port are equal, in whatever spelling."""
        for url in ["https://play.example.org/auth/login/x", "https://PLAY.example.org:443/auth/login/x?y=1#z"]:
            self.assertEqual(self.origin.require(url), url)

    @covers("threats/29")
    def test_another_authority(self) -> None:
        """Another host, port or scheme, a user part, and characters with a meaning in a shell are refused."""
        for url in [
            "https://evil.example/auth/login/x",
            "https://play.example.org.evil.example/x",
            "https://play.example.org:8443/x",
            "https://sub.play.example.org/x",
            "http://play.example.org/x",
            "http://127.0.0.1/x",
            "https://play.example.org@evil.example/x",
            "https://evil.example@play.example.org/x",
            "https://play.example.org\\@evil.example/x",
            "https://play.example.org/x`id`",
            'https://play.example.org/x"y',
            "https://play.example.org/x y",
            "https://play.example.org/x\n",
            "https://play.example.org/x|id",
            "https://play.example.org/x<y>",
            "//play.example.org/x",
            "/auth/login/x",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "mailto:a@play.example.org",
            "-https://play.example.org/",
        ]:
            self.assertRaises(gc.UntrustedAddress, self.origin.require, url)

    def test_says_which_to_enter(self) -> None:
        """The error for another name of the right server names the server's own name."""
        error = self.assertRaises(gc.UntrustedAddress, self.origin.require, "https://games.example.org/x")
        self.assertIn("https://games.example.org", error.detail)
