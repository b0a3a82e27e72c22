"""Bad input over a real socket: a typed answer, no 5xx, no traceback, nothing stored (docs/protocol.md: Errors)."""

import json
import time
from base64 import b64encode
from hashlib import sha256
from typing import ClassVar

from tests.e2e.cases import PASSWORD, ServiceCase
from tests.e2e.wire import Answer, parse, raw
from tests.support.covers import covers

DEEP = '{"a":' * 9 + "1" + "}" * 9
UNLIMITED = {"starts_per_minute": 0, "entries_per_minute": 0, "refreshes_per_minute": 0, "passwords_per_minute": 0}


def request(
    line: str, *fields: str, body: bytes = b"", host: str | None = "Host: 127.0.0.1", length: bool = True
) -> bytes:
    """Return a request as bytes, with the fields of a careful client unless the test sets others."""
    lines = [f"{line} HTTP/1.1", *([host] if host else []), *fields]
    if body and length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + body


def as_json(text: str | bytes, *fields: str, path: str = "/auth/login") -> bytes:
    body = text if isinstance(text, bytes) else text.encode()
    return request(f"POST {path}", "Content-Type: application/json", *fields, body=body)


class BadInput(ServiceCase):
    """Every case of a table against one running service; afterwards its stores are unchanged."""

    config: ClassVar = {"mode": "local", "limits": UNLIMITED}

    def answered(self, name: str, sent: bytes, status: int, code: str | None) -> Answer:
        """Send one case. Without `code` the route is a browser's, and responds with a page."""
        received = raw(self.service.port, sent)
        self.assertTrue(received.startswith(b"HTTP/1.1 "), f"{name}: {received[:80]!r}")
        answer = parse(received)
        self.assertEqual(answer.status, status, f"{name}: {answer.body[:300]!r}")
        self.assertNotIn(b"Traceback", answer.body)
        self.assertNotIn("server", answer.headers, name)
        self.assertIn("x-request-id", answer.headers, name)
        self.assertEqual(answer.headers["x-content-type-options"], "nosniff", name)
        if sent.startswith(b"HEAD"):
            return answer
        if code is None:
            self.assertTrue(answer.headers["content-type"].startswith("text/html"), name)
        else:
            self.assertEqual(answer.headers["content-type"], "application/problem+json", name)
            self.assertEqual((answer.json["code"], answer.json["status"]), (code, status), name)
            self.assertEqual(answer.json["type"], f"urn:gamed:problem:{code}")
            self.assertTrue(answer.json["detail"] and answer.json["title"], name)
        return answer

    def table(self, *cases: tuple[str, bytes, int, str | None]) -> None:
        before = self.service.rows()
        wrong = []
        for case in cases:
            try:
                self.answered(*case)
            except self.failureException as e:
                wrong.append(str(e))
        self.assertEqual(wrong, [])
        self.assertEqual(self.service.rows(), before)
        self.assertEqual([path for path in self.service.files() if "/tmp/" in path], [])
        self.assertEqual(self.ask("GET", "/auth/config").status, 200)

    def player(self) -> str:
        """Return an access token."""
        window, login = self.window(), self.start()
        window.open(login["login_url"])
        window.create_account("Ford", PASSWORD)
        return self.collect(login, finish_code=window.code()).json["access_token"]

    def test_json(self) -> None:
        """Bodies that are not one JSON object in UTF-8 within its size and depth are refused."""
        cases = {
            "cut off": b'{"client":',
            "not an object": b"[]",
            "a number": b"7",
            "two objects": b"{}{}",
            "duplicate members": b'{"client":{},"client":{}}',
            "duplicate members within": b'{"client":{"name":"a","name":"b"}}',
            "NaN": b'{"a":NaN}',
            "Infinity": b'{"a":-Infinity}',
            "lone surrogate": b'{"client":{"name":"\\ud800"}}',
            "not UTF-8": b'{"a":"\xff"}',
            "UTF-16": "{}".encode("utf-16"),
            "too deep": DEEP.encode(),
            "far too deep": b"[" * 8000,
            "control character": b'{"a":"\x01"}',
            "wrong type": b'{"client":7}',
            "wrong type within": b'{"client":{"name":7}}',
            "port as text": b'{"loopback_port":"51004"}',
            "port too low": b'{"loopback_port":80}',
            "port too high": b'{"loopback_port":65536}',
            "port with a fraction": b'{"loopback_port":51004.5}',
            "unknown intent": b'{"intent":"become"}',
            "name too long": json.dumps({"client": {"name": "x" * 65}}).encode(),
        }
        typed = "Content-Type: application/json"
        self.table(
            *(
                (name, request("POST /auth/login", typed, body=body), 400, "invalid_request")
                for name, body in cases.items()
            ),
            ("no body", request("POST /auth/session/refresh", typed), 400, "invalid_request"),
            ("no type", request("POST /auth/login", body=b"{}"), 415, "unsupported_media_type"),
            (
                "form",
                request("POST /auth/login", "Content-Type: text/plain", body=b"{}"),
                415,
                "unsupported_media_type",
            ),
            ("provider", as_json('{"provider":"discord"}'), 400, "provider_unknown"),
            ("too long", as_json('{"a":"' + "x" * 8192 + '"}'), 413, "body_too_large"),
            ("said too long", as_json("{}").replace(b"Length: 2", b"Length: 99999999999"), 413, "body_too_large"),
        )

    def test_heads(self) -> None:
        """Heads that are not HTTP, or that two parsers could read differently, are refused."""
        get = "GET /auth/config"
        cases = [
            ("no host", request(get, host=None), 400, "bad_request"),
            ("two hosts", request(get, "Host: localhost"), 400, "bad_request"),
            ("the same host twice", request(get, "Host: 127.0.0.1"), 400, "bad_request"),
            ("malformed host", request(get, host="Host: 127.0.0.1:x"), 400, "bad_request"),
            ("host with a path", request(get, host="Host: 127.0.0.1/x"), 400, "bad_request"),
            ("host with a user", request(get, host="Host: a@127.0.0.1"), 400, "bad_request"),
            ("another host", request(get, host="Host: evil.example"), 421, "misdirected_request"),
            ("folded field", request(get, "X-A: b\r\n c"), 400, "bad_request"),
            ("field without a colon", request(get, "nonsense"), 400, "bad_request"),
            ("blank before the colon", request(get, "X-A : b"), 400, "bad_request"),
            ("NUL in a field", request(get, "X-A: b\0c"), 400, "bad_request"),
            ("two lengths", as_json("{}", "Content-Length: 3"), 400, "bad_request"),
            ("length of -1", as_json("{}").replace(b"Length: 2", b"Length: -1"), 400, "bad_request"),
            ("length of +2", as_json("{}").replace(b"Length: 2", b"Length: +2"), 400, "bad_request"),
            ("length of 2, 2", as_json("{}").replace(b"Length: 2", b"Length: 2, 2"), 400, "bad_request"),
            ("length and chunks", as_json("{}", "Transfer-Encoding: chunked"), 400, "bad_request"),
            ("identity", request(get, "Transfer-Encoding: identity"), 400, "bad_request"),
            ("unknown coding", request(get, "Transfer-Encoding: gzip, chunked"), 400, "bad_request"),
            ("no version", b"GET /auth/config\r\n\r\n", 400, "bad_request"),
            ("HTTP/2.0", b"GET /auth/config HTTP/2.0\r\nHost: 127.0.0.1\r\n\r\n", 400, "bad_request"),
            ("nonsense", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "bad_request"),
            ("two blanks", b"GET  /auth/config HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400, "bad_request"),
            ("long field", request(get, "X-A: " + "b" * 17_000), 431, "head_too_large"),
            ("long line", request("GET /" + "b" * 17_000), 431, "head_too_large"),
            ("many fields", request(get, *(f"X-{n}: b" for n in range(70))), 431, "head_too_large"),
        ]
        self.table(*cases)

    def test_routes(self) -> None:
        """Invalid paths and wrong methods are refused."""
        routes = ["/", "/auth", "/auth/", "/auth/config/", "//auth/config", "/auth//config", "/auth/%2e%2e/healthz"]
        routes += ["/auth/nothing", "/game", "/healthz/", "/assets", "/%00", "/auth/config%00", "/AUTH/config", "/*"]
        cases = [(path, request(f"GET {path}"), 404, "route_not_found") for path in routes]
        cases.append(("/assets/x", request("GET /assets/x"), 404, "channel_not_found"))
        for method in ("PATCH", "TRACE", "BREW", "PROPFIND", "get"):
            cases.append((method, request(f"{method} /auth/config"), 405, "method_not_allowed"))
        for method, path in [("PUT", "/auth/login"), ("GET", "/auth/login"), ("GET", "/auth/session/refresh")]:
            cases.append((f"{method} {path}", request(f"{method} {path}"), 405, "method_not_allowed"))
        for method, path in [("POST", "/game/saves/auto"), ("PATCH", "/game/"), ("DELETE", "/healthz")]:
            cases.append((f"{method} {path}", request(f"{method} {path}"), 405, "method_not_allowed"))
        self.table(*cases)
        allow = self.answered("allow", request("BREW /auth/config"), 405, "method_not_allowed").headers["allow"]
        self.assertEqual({"GET", "HEAD"} <= {method.strip() for method in allow.split(",")}, True)

    def test_browser_routes(self) -> None:
        """Browser routes respond with pages to unknown links, wrong methods, and forms without their field."""
        login = self.start()
        path = login["login_url"].removeprefix(self.service.base)
        form = "Content-Type: application/x-www-form-urlencoded"
        fields = b"name=Ford&password=towel-towel"
        self.table(
            ("unknown token", request("GET /auth/login/AAAAAAAAAAAAAAAAAAAAAA"), 404, None),
            ("head", request(f"HEAD {path}"), 405, None),
            ("odd method", request(f"PUT {path}"), 405, None),
            ("no cookie", request(f"POST {path}/local", form, body=fields), 403, None),
            ("no form", request(f"POST {path}/decline", form, body=b"x"), 403, None),
            ("in a frame", request(f"GET {path}", "Sec-Fetch-Dest: iframe"), 403, None),
            ("prefetch", request(f"GET {path}", "Sec-Purpose: prefetch"), 503, None),
            ("foreign site", request(f"POST {path}/local", form, "Sec-Fetch-Site: cross-site", body=fields), 403, None),
            ("unknown login", request("GET /auth/login/done?login_id=lgn_AAAAAAAAAAAAAAAAAAAAAA"), 404, None),
            ("no login", request("GET /auth/login/done"), 404, None),
            ("bad escapes", request("GET /auth/login/done?login_id=%ff%zz&%00"), 400, None),
            ("long body", request(f"POST {path}/local", form, body=b"a" * 9000), 413, None),
        )
        self.assertEqual(self.collect(login).json["stage"], "waiting_for_browser")

    @covers("5/15")
    def test_credentials(self) -> None:
        """Missing, misspelt, misplaced secrets, and those of another kind, are refused."""
        access, device, refresh = (f"{kind}_{'A' * 43}AAAAAA" for kind in ("gat", "gds", "grc"))
        refreshing = "/auth/session/refresh"
        self.table(
            ("no token", request("GET /game/"), 401, "token_missing"),
            ("basic", request("GET /game/", "Authorization: Basic QTpC"), 401, "token_missing"),
            ("nonsense", request("GET /game/", "Authorization: Bearer x"), 401, "token_invalid"),
            ("checksum", request("GET /game/", f"Authorization: Bearer {access}"), 401, "token_invalid"),
            ("another kind", request("GET /game/", f"Authorization: Bearer {refresh}"), 401, "token_invalid"),
            ("in the query", request(f"GET /game/?access_token={access}"), 401, "token_missing"),
            ("no secret", as_json("{}", path="/auth/login/collect"), 401, "device_secret_invalid"),
            (
                "unknown secret",
                as_json("{}", f"Authorization: Bearer {device}", path="/auth/login/collect"),
                401,
                "device_secret_invalid",
            ),
            ("cancel", request("POST /auth/login/cancel"), 401, "device_secret_invalid"),
            ("refresh nothing", as_json("{}", path=refreshing), 400, "invalid_request"),
            ("refresh number", as_json('{"refresh_credential":7}', path=refreshing), 400, "invalid_request"),
            ("refresh nonsense", as_json('{"refresh_credential":"x"}', path=refreshing), 401, "refresh_invalid"),
            ("refresh kind", as_json(f'{{"refresh_credential":"{access}"}}', path=refreshing), 401, "refresh_invalid"),
            ("sessions", request("GET /auth/sessions"), 401, "token_missing"),
        )

    def test_saves(self) -> None:
        """Refused uploads leave nothing: no version, no conflict copy, no spool file."""
        token = f"Authorization: Bearer {self.player()}"
        slot = "PUT /game/saves/auto"
        wrong = "Content-Digest: sha-256=:" + b64encode(sha256(b"other").digest()).decode() + ":"
        large = b"x" * (17 << 20)
        self.table(
            ("slot", request("PUT /game/saves/AUTO", token, body=b"x"), 400, "invalid_slot"),
            ("device", request("PUT /game/saves/con", token, body=b"x"), 400, "invalid_slot"),
            ("dots", request("PUT /game/saves/..", token, body=b"x"), 400, "invalid_slot"),
            ("escape", request("PUT /game/saves/%2e%2e%2fx", token, body=b"x"), 404, "route_not_found"),
            ("gzip", request(slot, token, "Content-Encoding: gzip", body=b"x"), 415, "content_encoding"),
            ("part", request(slot, token, "Content-Range: bytes 0-0/2", body=b"x"), 400, "bad_range_put"),
            ("no length", request(slot, token), 411, "length_required"),
            ("blank", request(slot, token, body=b"\0" * 100), 422, "blank_save"),
            ("empty", request(slot, token, "Content-Length: 0"), 422, "blank_save"),
            ("digest", request(slot, token, wrong, body=b"x"), 400, "digest_mismatch"),
            (
                "two conditions",
                request(slot, token, "If-Match: *", "If-None-Match: *", body=b"x"),
                400,
                "bad_precondition",
            ),
            ("unquoted", request(slot, token, "If-Match: 1-abc", body=b"x"), 400, "bad_precondition"),
            ("weak", request(slot, token, 'If-Match: W/"1-abc"', body=b"x"), 412, "weak_validator"),
            ("meta", request(slot, token, "Save-Meta: [1]", body=b"x"), 400, "bad_meta"),
            ("long meta", request(slot, token, f'Save-Meta: {{"a":"{"x" * 2100}"}}', body=b"x"), 400, "bad_meta"),
            ("not there", request(slot, token, 'If-Match: "1-abc"', body=b"x"), 412, "version_conflict"),
            ("said large", request(slot, token, "Content-Length: 17825792"), 413, "save_too_large"),
            ("large", request(slot, token, body=large), 413, "save_too_large"),
            ("no save", request("GET /game/saves/auto", token), 404, "save_not_found"),
            ("delete", request("DELETE /game/saves/auto", token), 404, "save_not_found"),
        )

    def test_torn(self) -> None:
        """Interrupted uploads, and clients that never finish a request, leave nothing and delay no other client."""
        token = f"Authorization: Bearer {self.player()}"
        before = self.service.rows()
        half = request("PUT /game/saves/auto", token, "Content-Length: 1000000") + b"x" * 600_000
        chunked = request("PUT /game/saves/auto", token, "Transfer-Encoding: chunked") + b"5\r\nhello\r\n"
        for sent in (half, half[:-300_000], chunked, as_json('{"a":1}')[:-3], b"GET /auth/con", b"\r\n\r\n", b""):
            raw(self.service.port, sent, half_close=True)
            self.assertEqual(self.ask("GET", "/auth/config").status, 200)
        limit = time.monotonic() + 60
        while any("/tmp/" in path for path in self.service.files()) and time.monotonic() < limit:
            time.sleep(0.05)
        self.assertEqual([path for path in self.service.files() if "/tmp/" in path], [])
        self.assertEqual(self.service.rows(), before)
        self.assertEqual(self.ask("GET", "/game/saves", bearer=token.rpartition(" ")[2]).json["saves"], [])
