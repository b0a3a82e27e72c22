"""`gamed doctor --public` explains the answers of the public address.

See SPEC 1/3, 2.4, 4; docs/protocol.md: Conventions, Signing in; docs/internals/rules.md: Callbacks.
"""

import json

from twisted.trial.unittest import SynchronousTestCase

from gamed.ops import doctor_public
from gamed.ops.findings import CertificateTimes, FailureCause, HttpFailure, HttpReply, Level

OK, SKIPPED, WARNING, PROBLEM = Level.OK, Level.SKIPPED, Level.WARNING, Level.PROBLEM
URL = "https://play.example.org"
REFUSED, SILENT = (
    HttpFailure(FailureCause.REFUSED, "Connection refused"),
    HttpFailure(FailureCause.TIMEOUT, "timed out"),
)
NOBODY = HttpFailure(FailureCause.NAME, "Name or service not known")
STRANGER = HttpFailure(FailureCause.CERTIFICATE, "certificate verify failed")
GAMED = {"gamed-instance": "0a1b2c3d", "gamed-store": "00112233445566ff"}
NOW_MS, HOUR_MS, DAY_MS = 1_800_000_000_000, 3_600_000, 86_400_000


def policy(members: object, status: int = 200, **headers: str) -> HttpReply:
    fields = {"cache-control": "no-store", "x-request-id": "a"}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpReply(status, {**fields, **given}, json.dumps(members).encode())


class AddressTests(SynchronousTestCase):
    def test_unreached(self) -> None:
        """A refused or silent address may be a network that cannot reach itself, and the advice says how to tell."""
        for cause, words in (
            (REFUSED, "hairpin NAT"),
            (SILENT, f"{URL}/healthz"),
            (HttpFailure(FailureCause.NO_WAY, "No route to host"), "hairpin NAT"),
            (NOBODY, "DNS"),
            (STRANGER, "certificate for this name"),
            (HttpFailure(FailureCause.OTHER, "reset"), "public_url"),
        ):
            finding = doctor_public.check_unreached(URL, cause)
            self.assertEqual((finding.level, cause.detail in finding.text), (PROBLEM, True))
            self.assertIn(words, finding.advice)
        at_home = doctor_public.check_unreached("http://localhost:8080", REFUSED)
        self.assertIn("Start gamed", at_home.advice)

    def test_health(self) -> None:
        """Only gamed's own ok is good; each other answer leads to what its cause would be."""
        for answer, level, advice in (
            (HttpReply(200, GAMED, b"ok"), OK, ""),
            (HttpReply(200, {}, b"ok"), PROBLEM, "Forward /healthz"),
            (HttpReply(200, GAMED, b"<html>"), PROBLEM, "Forward /healthz"),
            (HttpReply(301, {"location": "/"}), PROBLEM, "Forward /healthz"),
            (HttpReply(404), PROBLEM, "Forward /healthz"),
            (HttpReply(421), PROBLEM, "Host"),
            (HttpReply(502), PROBLEM, "Start gamed"),
            (HttpReply(504), PROBLEM, "Start gamed"),
        ):
            finding = doctor_public.check_health(answer)
            self.assertEqual(finding.level, level, answer)
            self.assertIn(advice, finding.advice)

    def test_instance(self) -> None:
        """It is a server of this folder, another, one of a copied folder, or that is not known."""
        beside, elsewhere = GAMED | {"gamed-instance": "ffffffff"}, GAMED | {"gamed-store": "ffffffffffffffff"}
        for theirs, ours, lives_here, level in (
            (GAMED, GAMED, False, OK),
            (GAMED, beside, True, OK),
            (GAMED, beside, False, PROBLEM),
            (GAMED, elsewhere, True, PROBLEM),
            ({}, GAMED, True, PROBLEM),
            ({}, {}, True, PROBLEM),
            (GAMED, None, False, SKIPPED),
        ):
            local = None if ours is None else HttpReply(200, ours)
            found = doctor_public.check_instance(HttpReply(200, theirs), local, lives_here=lives_here)
            self.assertEqual(found.level, level, (theirs, ours, lives_here))

    def test_certificate(self) -> None:
        """A certificate of months is a warning in its last two weeks, with the days or hours it has left."""
        for hours, level, text in (
            (90 * 24, OK, "90 days"),
            (14 * 24, OK, "14 days"),
            (14 * 24 - 1, WARNING, "13 days"),
            (48, WARNING, "2 days"),
            (47, WARNING, "47 hours"),
            (1, WARNING, "1 hour"),
            (0, WARNING, "0 hours"),
        ):
            ends_ms = NOW_MS + hours * HOUR_MS
            found = doctor_public.check_certificate(CertificateTimes(ends_ms - 90 * DAY_MS, ends_ms), NOW_MS)
            self.assertEqual((found.level, found.text), (level, f"valid for {text}"))
        self.assertEqual(doctor_public.check_certificate(None, NOW_MS).level, SKIPPED)

    def test_short_certificate(self) -> None:
        """A certificate of less than ten days, which a proxy renews, is a warning in the last third of its time."""
        for lifetime, left, level, text in (
            (12, 11, OK, "11 hours"),
            (12, 4, OK, "4 hours"),
            (12, 3, WARNING, "3 hours"),
            (144, 120, OK, "5 days"),
            (144, 47, WARNING, "47 hours"),
            (239, 80, OK, "3 days"),
            (240, 239, WARNING, "9 days"),
        ):
            ends_ms = NOW_MS + left * HOUR_MS
            found = doctor_public.check_certificate(CertificateTimes(ends_ms - lifetime * HOUR_MS, ends_ms), NOW_MS)
            self.assertEqual((found.level, found.text), (level, f"valid for {text}"))

    def test_plain(self) -> None:
        """Without encryption no server answers, or it redirects to https of the same name."""
        for answer, level in (
            (REFUSED, OK),
            (SILENT, OK),
            (HttpReply(301, {"location": f"{URL}/healthz"}), OK),
            (HttpReply(308, {"location": f"{URL}/"}), OK),
            (HttpReply(301, {"location": "https://elsewhere.example/"}), WARNING),
            (HttpReply(301, {"location": "https://play.example.org.evil.example/"}), WARNING),
            (HttpReply(404), WARNING),
            (HttpReply(200, GAMED, b"ok"), PROBLEM),
        ):
            self.assertEqual(doctor_public.check_plain("play.example.org", answer).level, level, answer)


class PathTests(SynchronousTestCase):
    def test_policy(self) -> None:
        """Two members and no third, with what the file says, in its order."""
        names = ("discord", "google")
        good = {"mode": "oauth", "providers": list(names)}
        for answer, level in (
            (policy(good), OK),
            (policy({**good, "client_id": "1"}), PROBLEM),
            (policy({"mode": "oauth"}), PROBLEM),
            (policy({**good, "providers": ["google", "discord"]}), PROBLEM),
            (policy({**good, "mode": "local"}), PROBLEM),
            (policy([]), PROBLEM),
            (policy(good, status=404), PROBLEM),
            (HttpReply(200, {}, b"<html>"), PROBLEM),
        ):
            self.assertEqual(doctor_public.check_policy(answer, "oauth", names).level, level, answer)

    def test_caching(self) -> None:
        """An answer out of a cache is found by its age, its mark, a repeated request id, or the missing no-store."""
        for first, second, level in (
            (policy({}), policy({}, x_request_id="b"), OK),
            (policy({}), policy({}), PROBLEM),
            (policy({}), policy({}, x_request_id="b", age="0"), PROBLEM),
            (policy({}), policy({}, x_request_id="b", x_cache="HIT from edge"), PROBLEM),
            (policy({}), policy({}, x_request_id="b", x_cache="MISS"), OK),
            (policy({}, cache_control="max-age=60"), policy({}, x_request_id="b"), PROBLEM),
            (HttpReply(200, {"cache-control": "no-store"}), policy({}), PROBLEM),
        ):
            finding = doctor_public.check_caching(first, second)
            self.assertEqual((finding.level, bool(finding.advice)), (level, level is PROBLEM))

    def test_forged(self) -> None:
        """A forged X-Forwarded-For changes nothing for the client that sends it."""
        for answer, level in ((HttpReply(200), OK), (HttpReply(403), PROBLEM), (SILENT, PROBLEM)):
            self.assertEqual(doctor_public.check_forged(answer).level, level)

    def test_families(self) -> None:
        """A path came through where gamed's request id comes back, whatever it answers."""
        for answer, level in (
            (HttpReply(401, {"x-request-id": "a"}), OK),
            (HttpReply(404), PROBLEM),
            (SILENT, PROBLEM),
        ):
            self.assertEqual(doctor_public.check_family("/game/saves", answer).level, level)

    def test_callback(self) -> None:
        """A callback reaches gamed, and no proxy redirects it, not even with gamed's id on the answer."""
        for answer, level, words in (
            (HttpReply(400, {"x-request-id": "a"}), OK, "without a redirect"),
            (HttpReply(404, {"x-request-id": "a"}), OK, "without a redirect"),
            (HttpReply(301), PROBLEM, "redirected"),
            (HttpReply(308, {"x-request-id": "a"}), PROBLEM, "redirected"),
            (HttpReply(404), PROBLEM, "does not reach gamed"),
            (SILENT, PROBLEM, "does not reach gamed"),
        ):
            finding = doctor_public.check_callback("google", answer)
            self.assertEqual((finding.level, words in finding.text), (level, True), answer)

    def test_shut(self) -> None:
        """Only the owner sees the numbers."""
        for answer, level in (
            (HttpReply(404), OK),
            (HttpReply(200), PROBLEM),
            (HttpReply(401), WARNING),
            (REFUSED, OK),
        ):
            self.assertEqual(doctor_public.check_operator_only("/metrics", answer).level, level)
