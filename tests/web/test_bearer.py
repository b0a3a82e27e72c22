"""Credentials come in one way only (PROTOCOL 1)."""

from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

from gamed.web.bearer import bearer


class BearerTests(SynchronousTestCase):
    def test_found(self) -> None:
        """The scheme in any case, the credential as it is."""
        for value in ("Bearer gat_x", "bearer gat_x", "BEARER   gat_x "):
            self.assertEqual(bearer(Headers({"Authorization": [value]})), "gat_x")

    def test_not_found(self) -> None:
        """Other schemes, nothing, two fields, cookies."""
        for headers in (
            {},
            {"Authorization": ["Basic gat_x"]},
            {"Authorization": ["Bearer"]},
            {"Authorization": ["Bearer "]},
            {"Authorization": ["gat_x"]},
            {"Authorization": ["Bearer gat_x", "Bearer gat_x"]},
            {"Cookie": ["authorization=Bearer gat_x"]},
        ):
            with self.subTest(headers):
                self.assertIsNone(bearer(Headers(headers)))
