"""Credentials are read from one Authorization field only (docs/protocol.md: Conventions)."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.http.bodies import RequestHead
from gamed.http.parser import RequestHeaders
from gamed.http.request import credential_sent
from gamed.sessions.credentials import bearer


def fields(headers: dict[str, list[str]]) -> RequestHeaders:
    lines = [f"{name}: {value}\r\n" for name, values in headers.items() for value in values]
    return RequestHeaders("".join(lines))


def head(headers: dict[str, list[str]]) -> RequestHead:
    return RequestHead("GET", "/", b"", {}, fields(headers), 0, "192.0.2.1")


class BearerTests(SynchronousTestCase):
    def test_found(self) -> None:
        """The scheme is case-insensitive, the credential is unchanged."""
        for value in ("Bearer gat_x", "bearer gat_x", "BEARER   gat_x "):
            self.assertEqual(bearer(head({"Authorization": [value]}).single), "gat_x")

    def test_not_found(self) -> None:
        """Other schemes, an empty or repeated field and cookies are not credentials."""
        nothing: dict[str, list[str]] = {}
        for headers in (
            nothing,
            {"Authorization": ["Basic gat_x"]},
            {"Authorization": ["Bearer"]},
            {"Authorization": ["Bearer "]},
            {"Authorization": ["gat_x"]},
            {"Authorization": ["Bearer gat_x", "Bearer gat_x"]},
            {"Cookie": ["authorization=Bearer gat_x"]},
        ):
            with self.subTest(headers):
                self.assertIsNone(bearer(head(headers).single))

    def test_credential_sent(self) -> None:
        """Something beside the scheme was sent; an empty field and a bare `Bearer` are the same as no field."""
        for values in ([], [""], [" \t"], ["Bearer"], ["bearer "], ["", ""]):
            self.assertFalse(credential_sent(fields({"Authorization": values})), values)
        for values in (["Bearer gat_x"], ["gat_x"], ["Basic YTpi"], ["", "Bearer gat_x"]):
            self.assertTrue(credential_sent(fields({"Authorization": values})), values)
