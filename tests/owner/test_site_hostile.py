"""Each form of the owner's page is void outside its page, its browser and its session; what it is sent is only text."""

from typing import Any
from urllib.parse import urlencode

from gamed.login.csrf import FIELD
from gamed.owner.act_routes import _ACTS
from gamed.players import tables as player_tables
from tests.login.fixtures import ANNA, PASSWORD
from tests.owner.site_fixtures import BO, CLEO, HOME, SiteCase
from tests.support.covers import covers

HOSTILE = (
    "<script>alert(1)</script>",
    "</bdi><img src=x onerror=alert(1)>",
    "\"'><b>&amp;",
    "{when}%s{0}{{ 7 * 7 }}",
    "\u202e\u0627\u0644\u0639",
)
FIELDS: dict[str, dict[str, str]] = {
    "approve": {"player": CLEO, "state": "pending"},
    "reject": {"player": CLEO, "state": "pending"},
    "block": {"player": BO, "state": "active"},
    "unblock": {"player": BO, "state": "blocked"},
    "note": {"player": BO, "note": "x"},
    "sign-out": {"player": BO},
    "end-device": {"player": BO, "session": "ses_1"},
    "reset-link": {"player": BO},
    "merge": {"player": BO, "heir": CLEO},
    "erase": {"player": BO},
    "invite": {"name": "", "days": "7"},
    "revoke-invite": {"invite": "inv_1"},
    "restore": {"player": BO, "slot": "auto", "version": "1"},
    "undelete": {"player": BO, "slot": "auto"},
    "point": {"channel": "stable", "release": "r" + "1" * 16, "before": "r" + "2" * 16},
    "rollback": {"channel": "stable", "release": "r" + "1" * 16},
    "backup": {},
}


class FormTests(SiteCase):
    def setUp(self) -> None:
        super().setUp()
        self.add(BO, "bo")
        self.add(CLEO, "cleo", code="111222")
        self.begin()
        self.page = self.open()
        self.field = self.page.forms[0]["fields"][FIELD]

    def form(self, action: str, **more: str) -> dict[str, Any]:
        path = f"{HOME}/find" if action == "find" else f"{HOME}/do/{action}"
        fields = {"wanted": "bo"} if action == "find" else FIELDS[action]
        return {"action": path, "fields": {FIELD: self.field, **fields, **more}}

    def unchanged(self, message: str) -> None:
        self.assertEqual((self.state(BO), self.state(CLEO), self.events()), ("active", "pending", []), message)
        self.assertEqual(self.server.rows("SELECT count(*) FROM invite"), [(0,)], message)
        self.assertEqual(self.made, [])

    def test_all_forms(self) -> None:
        """Every form of the page is tested here."""
        self.assertEqual(FIELDS.keys(), _ACTS.keys())

    def test_foreign_forms(self) -> None:
        """A form of another site, frame or session, without its field or with a wrong one, is refused: 403."""
        other = self.new_account_browser()
        other.sign_in()
        theirs = other.get(HOME).forms[0]["fields"][FIELD]
        for action in (*FIELDS, "find"):
            for headers in (
                {"Sec_Fetch_Site": "cross-site"},
                {"Sec_Fetch_Site": "same-site"},
                {"Sec_Fetch_Site": "none"},
                {"Sec_Fetch_Dest": "iframe"},
            ):
                self.assertEqual(self.browser.post(self.form(action), **headers).status, 403, (action, headers))
            for wrong in ("", "x" * 43, theirs, self.field[:-1]):
                self.assertEqual(self.browser.post(self.form(action, **{FIELD: wrong})).status, 403, (action, wrong))
            self.unchanged(action)

    def test_prefetch(self) -> None:
        """A browser that prefetches gets neither a page nor an act."""
        for action in (*FIELDS, "find"):
            refused = self.browser.post(self.form(action), Sec_Purpose="prefetch")
            self.assertEqual((refused.status, refused.headers["retry-after"]), (503, "5"), action)
            self.unchanged(action)
        self.assertEqual(self.browser.ask("GET", HOME, Sec_Purpose="prefetch").status, 503)

    def test_without_session(self) -> None:
        """A form without the cookie, of a session that has ended, or by a game's token, does nothing."""
        game = self.play(ANNA)
        for action in (*FIELDS, "find"):
            form, fresh = self.form(action), self.new_account_browser()
            refused = fresh.post(form)
            self.assertEqual((refused.status, refused.heading), (403, "Your server"), action)
            answer = self.site.post_form(form["action"], urlencode(form["fields"]), game)
            self.assertEqual(answer.status, 403, action)
            self.unchanged(action)

    def test_after_sign_out(self) -> None:
        """A page that stayed open after the sign-out, or after a new sign-in, does nothing."""
        cookies = dict(self.browser.cookies)
        self.browser.post(self.page.form("/account/do/sign-out"))
        self.browser.cookies = cookies
        for action in FIELDS:
            self.assertEqual(self.browser.post(self.form(action)).status, 403, action)
        self.browser.cookies = {}
        self.browser.sign_in()
        for action in FIELDS:
            self.assertEqual(self.browser.post(self.form(action)).status, 403, action)
        self.unchanged("")

    @covers("threats/71")
    def test_signed_out_meanwhile(self) -> None:
        """An act whose session ends after its form was accepted, but before it is carried out, does nothing."""
        reads = self.server.databases.reads
        submit = reads.submit

        def use(last_used_ms: int) -> None:
            update = "UPDATE browser_session SET last_used_ms = :last_used_ms"
            self.server.write(lambda c: c.execute(update, {"last_used_ms": last_used_ms}).close())

        def submit_and_end(work: Any, *args: Any, **kwargs: Any) -> Any:
            found = submit(work, *args, **kwargs)
            if "authenticate" in getattr(work, "__qualname__", ""):
                found.addCallback(lambda result: (use(0), result)[1])
            return found

        for action in FIELDS:
            reads.submit = submit_and_end  # type: ignore[method-assign]
            refused = self.browser.post(self.form(action))
            reads.submit = submit  # type: ignore[method-assign]
            self.assertEqual((refused.status, refused.heading), (403, "Your server"), action)
            use(self.server.now_ms())
            self.unchanged(action)

    def test_other_methods(self) -> None:
        """An act is a POST of a form: nothing else does it."""
        for action in FIELDS:
            for method in ("GET", "HEAD", "PUT", "DELETE"):
                self.assertEqual(self.browser.ask(method, f"{HOME}/do/{action}").status, 405, (method, action))
        self.assertEqual(self.post("approve-all", self.page).status, 404)
        json = self.site.request("POST", f"{HOME}/do/block", {"Content-Type": "application/json"}, b"{}")
        self.assertEqual(json.status, 415)
        self.unchanged("")

    def test_other_players(self) -> None:
        """A player who is signed in and not the owner gets 404 for each form, whatever it holds."""
        self.server.write(lambda c: player_tables.clear_owner(c, ANNA))
        for action in (*FIELDS, "find"):
            self.assertEqual(self.browser.post(self.form(action)).status, 404, action)
        self.unchanged("")

    def test_odd_fields(self) -> None:
        """Fields that are missing, long, or of other characters are refused, and the log has no error."""
        for action, fields in FIELDS.items():
            for name in fields:
                for odd in ("", "\x00", "x" * 5000, "ply_" + "\u0661" * 22, "../../etc", "ply_gone", "-1", *HOSTILE):
                    if (action, name) in {("note", "note"), ("invite", "name")}:
                        continue
                    page = self.browser.post(self.form(action, **{name: odd}))
                    self.assertIn(page.status, (400, 403, 404, 409), (action, name, odd))
                    self.assertNotIn("script", page.tags)
        self.unchanged("")

    def test_longest_note(self) -> None:
        """A note may have 2000 characters of any script: a form needs up to twelve bytes for each."""
        for sign in ("x", "\u0436", "\u6f22", "\U0001f600"):
            self.assertEqual(self.browser.post(self.form("note", note=sign * 2000)).status, 200, sign)
            self.assertIn(sign * 2000, self.open(f"/people/{BO}").html)
            self.assertEqual(self.browser.post(self.form("note", note=sign * 2001)).status, 400, sign)
        self.assertEqual(self.browser.post(self.form("note", note="x" * 32 * 1024)).status, 413)

    def test_odd_place(self) -> None:
        """The place of the next players of a search is an id, or the search is refused."""
        self.assertEqual(self.browser.post(self.form("find", after="")).status, 200)
        self.assertEqual(self.browser.post(self.form("find", after=BO)).status, 200)
        for odd in ("\x00", "x", "ply_\x00", f"{BO}\n", "x" * 5000, *HOSTILE):
            self.assertEqual(self.browser.post(self.form("find", after=odd)).status, 400, odd)

    def test_words(self) -> None:
        """Names, notes and searches are text wherever the page shows them."""
        for number, words in enumerate(HOSTILE):
            player = self.add(f"ply_{number:022}", shown=words)
            self.browser.post(self.form("note", player=player, note=words))
            self.browser.post(self.form("invite", name=words[:32]))
            found = self.browser.post(self.form("find", wanted=words))
            for page in (
                self.open(f"/people/{player}"),
                found,
                self.open("/people"),
                self.open("/invites"),
                self.open("/activity"),
                self.open(f"/people/{player}/merge/{BO}"),
            ):
                self.assertEqual(page.status, 200)
                self.assertEqual(page.tags & {"script", "img"}, set())
                self.assertNotIn("49", page.heading)

    def test_nothing_in_the_log(self) -> None:
        """No name, note, search, code, link or form field is in a log line."""
        self.browser.post(self.form("note", note="a secret note"))
        self.browser.post(self.form("find", wanted="somebody"))
        link = self.browser.post(self.form("invite", name="Penny"))
        token = next(word for word in link.text.split() if "/auth/invite/" in word).rpartition("/")[2]
        self.browser.post(self.form("erase", code="12345678"))
        lines = f"{self.site.log.lines} {self.site.events} {self.server.security}"
        for secret in ("a secret note", "somebody", "Penny", token, "12345678", self.field, PASSWORD):
            self.assertNotIn(secret, lines)
