"""A sign-in and saves work through each proxy, and its logs have no secrets (SPEC 1, 4, 5)."""

import re
import time
from random import Random
from urllib.parse import parse_qs, urlsplit

from tests.cli.process import folder_of
from tests.e2e.by_hand import HandCase
from tests.e2e.service import free_port
from tests.e2e.wire import Answer
from tests.login.browser_fixtures import Page
from tests.login.test_browser_routes import code
from tests.proxies.cases import in_front
from tests.proxies.programs import HOST, Proxy
from tests.proxies.samples import Caddy
from tests.proxies.test_players import hidden
from tests.support.covers import covers

BASE = f"https://{HOST}"
SAVE = Random(1).randbytes(16 * 1024 * 1024)
"""A save of the largest size, without repetition."""
META = '{"title":"' + "x" * 2036 + '"}'
ROUTES = (
    ("/auth/login/{token}/continue", "/auth/{provider}/callback", "/auth/login/done", "/game/saves/{slot}"),
    ('"/auth/login"', '"/auth/discord/callback"', '"/auth/login/done"', '"/game/saves"'),
)
"""The names of the places in each log."""
SLOW_SECONDS = 0.5
TICKET = re.compile(r"ticket=([A-Za-z0-9_-]+)")


class SignInTests(HandCase):
    proxy: Proxy

    def prepare(self) -> None:
        super().prepare()
        self.service.base = BASE

    def redirect_uri(self, stand: object) -> str:
        return f"{BASE}/auth/{stand.name}/callback"

    def setUp(self) -> None:
        super().setUp()
        self.proxies = in_front(self, folder_of(self), f"127.0.0.1:{self.service.port}")

    def ask(self, method: str, path: str, **how: object) -> Answer:
        return self.proxy.ask(method, path, **how)

    @covers("threats/49")
    def test_whole(self) -> None:
        """Sign-ins with a finish code and a ticket leave no secret and no query in any log."""
        for proxy, routes in zip(self.proxies, ROUTES, strict=True):
            self.proxy = proxy
            seen = [*self.signed_in(), *self.signed_in(loopback_port=free_port())]
            self.saves(seen[-1])
            proxy.close()
            self.assertTrue(all(len(secret) >= 6 for secret in seen), seen)
            hidden(self, proxy, [*seen, "gat_", "grc_", "gds_", "lgn_"])
            written = proxy.log.read_text("utf-8")
            self.assertEqual([route for route in routes if route not in written], [], proxy.name)
            self.assertNotIn("127.0.0.1", written)

    def signed_in(self, **members: object) -> list[str]:
        """Return the secrets of a sign-in, the access token last."""
        self.cookie = ""
        login = self.start(provider="discord", **members)
        opened = self.visit(login["login_url"])
        self.assertTrue(login["login_url"].startswith(f"{BASE}/auth/login/"))
        sent = opened if members else self.press(Page(opened))
        self.assertEqual(sent.status, 303, sent.body)
        callback = self.choose(sent.headers["location"])
        back = self.visit(callback)
        self.assertEqual((back.status, back.headers["cache-control"]), (303, "no-store"))
        done = self.visit(back.headers["location"])
        [ticket] = set(TICKET.findall(done.headers.get("refresh", ""))) or {""}
        shown = "" if ticket else code(Page(done))
        pair = self.collect(login, **({"ticket": ticket} if ticket else {"finish_code": shown})).json
        self.assertEqual(pair["status"], "complete")
        query = parse_qs(urlsplit(callback).query)
        secrets = [login["device_secret"], login["login_url"].rpartition("/")[2], login["login_id"]]
        secrets += [*query["code"], *query["state"], self.cookie.partition("=")[2]]
        secrets += [ticket] if ticket else [shown, shown.replace("-", "")]
        return [*secrets, pair["refresh_credential"], pair["access_token"]]

    def saves(self, token: str) -> None:
        """The largest save with the longest metadata passes, with conditions and ranges."""

        def ask(method: str, body: bytes | None = None, **headers: str) -> Answer:
            fields = {name.replace("_", "-"): value for name, value in headers.items()}
            return self.ask(method, f"/game/saves/{self.proxy.name}", body=body, bearer=token, headers=fields)

        written = ask("PUT", SAVE, Save_Meta=META)
        self.assertEqual(written.status, 201, written.body)
        tag = written.json["etag"]
        read = ask("GET", Accept_Encoding="gzip, br")
        self.assertEqual((read.status, read.headers["etag"], read.headers["save-meta"]), (200, tag, META))
        self.assertTrue(read.body == SAVE)
        self.assertEqual(ask("GET", If_None_Match=tag).status, 304)
        part = ask("GET", Range="bytes=1000-1999", If_Range=tag)
        self.assertEqual((part.status, part.body), (206, SAVE[1000:2000]))
        self.assertEqual(part.headers["content-range"], f"bytes 1000-1999/{len(SAVE)}")
        self.assertEqual(ask("HEAD").headers["content-length"], str(len(SAVE)))
        self.assertEqual(ask("PUT", b"two", If_Match=tag).status, 200)
        self.assertEqual(ask("PUT", b"three", If_Match=tag).json["code"], "version_conflict")
        self.assertEqual(ask("PUT", b"four").json["code"], "precondition_required")
        self.read_slowly(token)
        self.refused(token)
        self.expects(token)
        self.assertEqual(self.proxy.kept(), [])

    def read_slowly(self, token: str) -> None:
        """A slow client reads an old version, and the proxy does not buffer it."""
        line = self.proxy.line()
        path = f"/game/saves/{self.proxy.name}/versions/1"
        line.request("GET", path, headers={"Host": HOST, "Authorization": f"Bearer {token}"})
        time.sleep(SLOW_SECONDS)
        self.assertTrue(line.getresponse().read() == SAVE)
        line.close()

    def refused(self, token: str) -> None:
        """A refusal of a body passes the proxy."""
        for bearer, body, said in ((token, SAVE + b"!", "save_too_large"), ("gat_x", SAVE, "token_invalid")):
            answer = self.ask("PUT", "/game/saves/refused", body=body, bearer=bearer)
            self.assertEqual(answer.json["code"], said, self.proxy.name)

    def expects(self, token: str) -> None:
        """`Expect: 100-continue` gets 100 or the refusal."""
        for bearer, status in ((token, b"201"), ("gat_x", b"401")):
            head = f"PUT /game/saves/asked-{self.proxy.name} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n"
            asks = f"Authorization: Bearer {bearer}\r\nContent-Length: 7\r\nExpect: 100-continue\r\n\r\n"
            received = self.proxy.raw(f"{head}{asks}".encode(), b"level 3")
            self.assertIn(b"HTTP/1.1 %s " % status, received, self.proxy.name)
            first = b"401" if isinstance(self.proxy, Caddy) and status == b"401" else b"100"
            self.assertTrue(received.startswith(b"HTTP/1.1 %s " % first), received)  # nginx answers 100 to all
