from twisted.trial.unittest import SynchronousTestCase

from gamed.config.errors import InvalidValue
from gamed.config.validators import parse_public_url
from tests.config.fixtures import LOCAL, OAUTH, changed, errors, load_config
from tests.support.covers import covers

GOOD = {
    "https://play.example.org": "https://play.example.org",
    "https://PLAY.Example.ORG": "https://play.example.org",
    "HTTPS://play.example.org": "https://play.example.org",
    "https://play.example.org:8443": "https://play.example.org:8443",
    "https://play.example.org:443": "https://play.example.org",
    "https://play.example.org:80": "https://play.example.org:80",
    "https://play.example.org:1": "https://play.example.org:1",
    "https://play.example.org:65535": "https://play.example.org:65535",
    "https://gamehost": "https://gamehost",
    "https://a-b.c-d.example": "https://a-b.c-d.example",
    "https://1-up.example": "https://1-up.example",
    "https://192.0.2.7": "https://192.0.2.7",
    "https://192.0.2.7:8443": "https://192.0.2.7:8443",
    "https://[2001:db8::1]": "https://[2001:db8::1]",
    "https://[2001:0DB8:0:0:0:0:0:1]:8443": "https://[2001:db8::1]:8443",
    "https://bücher.example": "https://xn--bcher-kva.example",
    "https://BÜCHER.example": "https://xn--bcher-kva.example",
    "https://xn--bcher-kva.example": "https://xn--bcher-kva.example",
    "https://例え.テスト": "https://xn--r8jz45g.xn--zckzah",
    "https://play。example": "https://play.example",
    "https://straße.example": "https://xn--strae-oqa.example",
    "https://localhost": "https://localhost",
    "http://localhost": "http://localhost",
    "http://localhost:8080": "http://localhost:8080",
    "http://LOCALHOST:80": "http://localhost",
    "http://127.0.0.1": "http://127.0.0.1",
    "http://127.0.0.1:8080": "http://127.0.0.1:8080",
    "http://[::1]:8080": "http://[::1]:8080",
    "http://[0:0:0:0:0:0:0:1]": "http://[::1]",
}
BAD = {
    "without scheme": [
        "play.example.org",
        "play.example.org:8443",
        "//play.example.org",
        "localhost:8080",
        "",
        "https",
    ],
    "other schemes": ["ftp://play.example.org", "wss://play.example.org", "javascript://x", "file:///etc", "urn:x"],
    "half a scheme": ["https:play.example.org", "https:/play.example.org", "https//play.example.org", "://x"],
    "no host": ["https://", "https://:8443", "https:///path"],
    "http elsewhere": [
        "http://play.example.org",
        "http://192.168.1.5:8080",
        "http://127.0.0.2",
        "http://0.0.0.0",
        "http://[::2]",
        "http://[::ffff:127.0.0.1]",
        "http://localhost.example",
        "http://a.localhost",
    ],
    "path": ["https://x.example/", "https://x.example/game", "https://x.example//", "http://localhost:8080/"],
    "query": ["https://x.example?", "https://x.example?a=b", "https://x.example/?a"],
    "fragment": ["https://x.example#", "https://x.example#top"],
    "user": [
        "https://anna@x.example",
        "https://anna:pw@x.example",
        "https://@x.example",
        "https://x.example@evil.example",
    ],
    "port": [
        "https://x.example:",
        "https://x.example:0",
        "https://x.example:65536",
        "https://x.example:99999999999",
        "https://x.example:0443",
        "https://x.example:+443",
        "https://x.example:-1",
        "https://x.example:https",
        "https://x.example:١٢",
        "https://x.example:80:80",
    ],
    "space": [
        " https://x.example",
        "https://x.example ",
        "https://x.example\n",
        "https://x .example",
        "https://x.example\t",
        "https://x.example\u00a0",
        "https://x\u200b.example",
        "https://x.example\x00",
    ],
    "backslash and percent": [
        "https:\\\\x.example",
        "https://x.example\\",
        "https://%78.example",
        "https://x%2fexample",
    ],
    "dots": [
        "https://x.example.",
        "https://localhost.",
        "https://.example",
        "https://x..example",
        "https://.",
        "https://x。",
    ],
    "labels": [
        "https://-x.example",
        "https://x-.example",
        "https://my_server.example",
        "https://" + "a" * 64 + ".example",
        "https://" + ".".join(["a" * 60] * 5),
        "https://x*.example",
        "https://*.example",
        "https://x,y.example",
        "https://xn--.example",
        "https://xn--a.example",
        "https://☃️.example!",
    ],
    "numbers that are no addresses": [
        "https://2130706433",
        "https://127.1",
        "https://0177.0.0.1",
        "https://0x7f.0.0.1",
        "https://0x7f000001",
        "https://256.0.0.1",
        "https://1.2.3.4.5",
        "https://1.2.3",
        "https://play.example.1",
    ],
    "brackets": [
        "https://2001:db8::1",
        "https://[2001:db8::1",
        "https://2001:db8::1]",
        "https://[2001:db8::1]x",
        "https://[]",
        "https://[::1%25eth0]",
        "https://[fe80::1%eth0]",
        "https://[192.0.2.7]",
        "https://[::ffff:192.0.2.7]",
        "https://[v1.x]",
        "https://[[::1]]",
        "https://[::1]8443",
    ],
    "nowhere": ["https://0.0.0.0", "https://[::]", "https://224.0.0.1", "https://[ff02::1]"],
}


@covers("2.1/9", "8/3")
class PublicUrlTests(SynchronousTestCase):
    def test_canonical_form(self) -> None:
        """Scheme, host and optional port are accepted, and every spelling of one address becomes the same text."""
        for text, canonical in GOOD.items():
            self.assertEqual(str(parse_public_url(text)), canonical, text)
            self.assertEqual(str(parse_public_url(canonical)), canonical)

    @covers("2.1/10")
    def test_refused(self) -> None:
        """Anything more, less or other than scheme, host and optional port is refused (SPEC 2.1, 8)."""
        for kind, texts in BAD.items():
            for text in texts:
                try:
                    url = parse_public_url(text)
                except InvalidValue:
                    continue
                self.fail(f"{kind}: {text!r} was accepted as {url}")

    @covers("2.1/11", "5/11", "7/4", "threats/64")
    def test_http_is_for_loopback(self) -> None:
        """Plain HTTP for other hosts is reported as such (SPEC 7)."""
        expected = "must begin with https://; http:// is allowed for localhost, 127.0.0.1 and [::1] only"
        for config in (OAUTH, LOCAL):
            wrong = changed(config, public_url="http://play.example.org")
            self.assertEqual(errors(wrong), [f"public_url: {expected}"])

    def test_everything_at_once(self) -> None:
        """One error does not hide another: each has a line of its own."""
        https = "must begin with https://; http:// is allowed for localhost, 127.0.0.1 and [::1] only"
        only = "expected only scheme, host and optional port, without"
        port = "expected a port from 1 to 65535 after the colon"
        labels = "expected a host of letters, digits and hyphens between dots"
        for text, expected in (
            ("http://play.example.org/", [f"{only} a path, not even a slash at its end", https]),
            ("http://play.example.org/game?a=b", [f"{only} a query", https]),
            ("http://anna:pw@play.example.org", [f"{only} a user or password", https]),
            ("http://play.example.org:0", [port, https]),
            ("http://my_server.example:0/#top", [f"{only} a fragment", labels, port, https]),
            ("http://localhost:8080/", [f"{only} a path, not even a slash at its end"]),
            ("https://x.example:https/", [f"{only} a path, not even a slash at its end", port]),
        ):
            lines = [f"public_url: {message}" for message in expected]
            self.assertEqual(errors(changed(LOCAL, public_url=text)), lines, text)
            lines = [f"cors_origins[0]: {message}" for message in expected]
            self.assertEqual(errors(changed(LOCAL, cors_origins=[text])), lines, text)

    def test_no_value_is_shown(self) -> None:
        """A password pasted into the address does not end up in the complaint."""
        for text in ("https://anna:sesame@x.example", "https://x.example/sesame", "https://x.example?sesame", "sesame"):
            self.assertNotIn("sesame", str(self.assertRaises(InvalidValue, parse_public_url, text)))

    def test_in_the_configuration(self) -> None:
        """The configuration holds the canonical form; other types than text are refused."""
        loaded = load_config(changed(OAUTH, public_url="HTTPS://Play.Example.org:443"))
        self.assertEqual(loaded.config.public_url, "https://play.example.org")
        for value in (None, 1, True, [], {}, ["https://x.example"]):
            [complaint] = errors(changed(OAUTH, public_url=value))
            self.assertTrue(complaint.startswith("public_url: expected an address"), complaint)
