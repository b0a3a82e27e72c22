"""The suite fails the Python client if one rule is removed from its source, in the scenario of that rule."""

import sys
from shutil import copytree

from msgspec import Struct
from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.helpers import CLIENTS, ScenarioFailed, World, in_memory, lender, run, scenarios
from tests.support.folders import unused_path

UNTIL_SECONDS = 15.0
"""A defect that ends a loop makes a step `until` wait all this time; a client without it needs less than a second."""
CLIENT, SYNC, ASSETS = (f"gamed_client/{name}.py" for name in ("__init__", "sync", "assets"))


class Defect(Struct, frozen=True):
    """`wrong` replaces `right` in `file`; then `scenario` fails with `words`, or with one of several."""

    file: str
    right: str
    wrong: str
    scenario: str
    words: str | tuple[str, ...]


DEFECTS = {
    "forgets_too_much": Defect(
        CLIENT,
        "            if error.code in FORGET:\n",
        "            if True:\n",
        "session_keeps",
        "signed_in is False",
    ),
    "forgets_too_little": Defect(
        CLIENT,
        '"refresh_reused", "refresh_invalid", "session',
        '"refresh_invalid", "session',
        "session_forgets",
        "reused",
    ),
    "opens_any_link": Defect(
        CLIENT,
        'self._wire.origin.require(member(started, "login_url", str))',
        'member(started, "login_url", str)',
        "sign_in_hostile_login_url",
        "another server",
    ),
    "confirms_for_ever": Defect(
        CLIENT,
        "held is not None and held.session_id == self._known.too_old",
        "self._known.too_old is not None",
        "sign_in_confirms",
        "confirm",
    ),
    "takes_any_return": Defect(
        CLIENT,
        'values.get("login_id") != [login_id]',
        "login_id is None",
        "sign_in_foreign_return",
        "lgn_of_someone_else",
    ),
    "uses_before_it_writes": Defect(
        CLIENT, "        self._file.write(renewed)  # before its first use\n", "", "session_write_before_use", "no file"
    ),
    "stays_after_sign_out": Defect(
        CLIENT,
        '            if scope != "others":\n                self._file.delete()',
        '            if scope != "others":\n                pass',
        "sign_out",
        "is still in",
    ),
    "refreshes_all_at_once": Defect(
        CLIENT,
        "with self._file.locked(self._wire.cancellation):  # the first",
        "with contextlib.nullcontext():  # the first",
        "session_two_processes",
        "the number of POST /auth/session/refresh",
    ),
    "refreshes_before_each_request": Defect(
        CLIENT,
        "EARLY_SECONDS if self.access_lifetime is None else self.access_lifetime * EARLY_SHARE",
        "EARLY_SECONDS",
        "session_short_token",
        "the number of POST /auth/session/refresh",
    ),
    "does_not_wait": Defect(CLIENT, "if error.retry_after is not None:", "if False:", "retry_after", "pause"),
    "does_not_wait_to_refresh": Defect(
        CLIENT,
        "if error.retry_after is not None:",
        "if False:",
        "session_refresh_waits",
        "the number of POST /auth/session/refresh",
    ),
    "does_not_wait_to_collect": Defect(
        CLIENT,
        "            self._wire.pause(pause)\n            attempt = min(attempt + 1, 6)",
        "            self._wire.pause(0.1)\n            attempt = min(attempt + 1, 6)",
        "sign_in_waits",
        "the number of POST /auth/login/collect",
    ),
    "does_not_wait_in_a_download": Defect(
        ASSETS, "if self._stop.wait(pause):", "if self._stop.wait(0.1):", "assets_waits", "the number of GET /assets"
    ),
    "does_not_wait_in_the_loop": Defect(
        SYNC,
        "pause_after(error, attempt) if error else self._until_due(), heed",
        "0.1 if error else self._until_due(), heed",
        "loop_waits",
        ("the number of GET /game/saves", "rate_limited"),  # the code may be gone before it is read
    ),
    "restores_on_any_version": Defect(
        CLIENT,
        'return SaveInfo.of(self._game("POST", path, headers=condition(base)).json())',
        'return SaveInfo.of(self._game("POST", path, headers={"If-Match": "*"}).json())',
        "restore_lost_answer",
        "if-match",
    ),
    "dismisses_once": Defect(
        CLIENT,
        'with contextlib.suppress(NotFound):\n            self._game("DELETE"',
        "with contextlib.suppress(NotFound, Unreachable):\n"
        '            self.only(self._known.held.player_id, tries=1)._game("DELETE"',
        "put_conflict",
        "the number of DELETE",
    ),
    "loses_a_start": Defect(
        SYNC,
        "if self._closed or self._tried_starts == self._starts:",
        "if True:",
        "loop_second_sign_in",
        "'waiting'",
    ),
    "sends_after_the_first_page": Defect(
        SYNC,
        "        while self._hear_page(client, unlisted):\n            pass\n",
        "        self._hear_page(client, unlisted)\n",
        "sync_pages",
        "the number of GET /game/saves",
    ),
    "gives_up_at_once": Defect(CLIENT, "TRIES = 4", "TRIES = 1", "put_lost_answer", "unreachable"),
    "believes_any_bytes": Defect(
        CLIENT, "if expected != hashlib.sha256(answer.body).digest():", "if False:", "download_damaged", "level 2"
    ),
    "reads_without_end": Defect(CLIENT, "if size > limit:", "if False:", "bounded", "a client that reads"),
    "follows_a_name_anywhere": Defect(
        CLIENT, 'raise Refused("invalid_slot"', 'print("invalid_slot"', "slots", "route_not_found"
    ),
    "names_a_class": Defect(
        CLIENT,
        'f"{origin} does not answer. Check the address and the network."',
        'f"{origin} does not answer ({type(e).__name__})."',
        "no_server",
        "a text for players names a class",
    ),
    "shows_its_credential": Defect(
        CLIENT,
        "        self._known.held = fresh\n",
        "        self._known.held = fresh\n        say(fresh.access_token)\n",
        "two_servers",
        "a secret was printed",
    ),
    "lets_others_read": Defect(
        CLIENT,
        "        os.replace(temporary, path)\n",
        "        os.chmod(temporary, 0o644)\n        os.replace(temporary, path)\n",
        "two_servers",
        "has the mode 644",
    ),
    "asks_for_no_new_session": Defect(
        CLIENT,
        'if error.code in FORGET or error.code in ("token_invalid", "signed_out"):',
        "if False:",
        "ensure_expired",
        "problem is {'code': 'refresh_expired'",
    ),
    "ends_what_is_only_away": Defect(
        CLIENT,
        "return not isinstance(error, (PlayerBlocked, LocalDamaged))",
        "return False",
        "ensure_offline",
        "signed_in is False",
    ),
    "signs_in_beside_a_session": Defect(
        CLIENT,
        "            if not kept:\n",
        "            if True:\n",
        "ensure_kept",
        "signed_in is False",
    ),
    "shows_any_picture": Defect(
        CLIENT,
        "return self._wire.origin.require(url) if isinstance(url, str) else None",
        "return url",
        "qr_url_foreign",
        "evil.example",
    ),
    "opens_for_any_app": Defect(
        CLIENT,
        'values.get("login_id") != [login_id]',
        "login_id is None",
        "return_uri_foreign",
        ("a-ticket-of-someone-else", "the result of sign_in.player_id is 'ply_other'"),  # a race of its two links
    ),
    "believes_any_label": Defect(
        CLIENT, 'if error.code != "route_not_found":', "if False:", "providers_old_server", "providers gave"
    ),
    "keeps_a_deleted_player": Defect(
        CLIENT,
        "            self._forget(held.session_id)\n",
        "            pass\n",
        "delete_player",
        "signed_in is True",
    ),
    "takes_an_end_for_an_error": Defect(
        CLIENT, "if not (error.answer_lost_before and error.code in ENDED):", "if True:", "session_end_lost", "session_"
    ),
    "erases_whatever_is_there": Defect(
        CLIENT, 'headers={"If-Match": etag})', 'headers={"If-Match": "*"})', "erase_saves", "if-match"
    ),
    "stages_no_second_time": Defect(
        CLIENT, 'if error.code != "blob_missing":', "if True:", "commit_blob_missing", "blob_missing"
    ),
    "sends_what_is_there": Defect(
        CLIENT, "len(data) > ASK_FIRST_BYTES and self._staged(path)", "False", "commit", "the number of PUT /game/blobs"
    ),
    "begins_the_export_anew": Defect(
        CLIENT, "if start and self._tag else {}", "if False else {}", "export_interrupted", "range"
    ),
    "believes_any_export": Defect(
        CLIENT, 'if digest != f"sha-256=:', 'if False and f"sha-256=:', "export_damaged", "export gave"
    ),
    "drops_the_nonce": Defect(
        CLIENT, '{"audience": audience, "nonce": nonce}', '{"audience": audience}', "ticket", "nonce"
    ),
    "hides_the_language": Defect(CLIENT, "locale_tag(self._client.locale) or None", "None", "locale", "de-AT"),
    "hides_the_device": Defect(CLIENT, '"device_name": (socket', '"device": (socket', "device_names", "device_name"),
    "stands_on_what_only_arrived": Defect(
        SYNC,
        "return self._look(slot, take=False)",
        "return self._look(slot, take=True)",
        "sync_unseen",
        "expected 'conflict'",
    ),
    "sends_the_newer_first": Defect(
        SYNC,
        "lambda r: replace(r, sent=sent or Sent(r.local, r.base))",
        "lambda r: replace(r, sent=Sent(r.local, r.base))",
        "sync_repeats",
        "the number of PUT",
    ),
    "deletes_what_the_server_lost": Defect(
        SYNC,
        'reason = "changed" if current else "deleted" if deleted else "lost"\n        dispute',
        'reason = "changed" if current else "deleted"\n        dispute',
        "sync_lost_there",
        "expected 'lost'",
    ),
    "keeps_only_what_was_refused": Defect(
        SYNC,
        "return replace(record, unsent_copy=Sent(self.local, base))",
        "return record",
        "sync_newest_kept",
        "expected 'waiting'",
    ),
    "waits_after_the_end": Defect(
        SYNC,
        "client = self._client.only(self.player_id, tries=1).cancellable(over)\n        return client.changes",
        "client = self._client.only(self.player_id, tries=1)\n        return client.changes",
        "loop_wait_ends",
        "still waits",
    ),
    "lets_a_cancelled_call_wait": Defect(
        CLIENT,
        "with self.cancellation.ends(lambda: hang_up(sock, sends)):",
        "with contextlib.nullcontext():",
        "cancel_calls",
        "no answer to",
    ),
    "sends_after_a_cancel": Defect(
        CLIENT,
        "        return self._event.is_set()\n",
        "        return False\n",
        "cancel_pause",
        "whoami.code is 'busy'",
    ),
    "signs_out_at_a_cancel": Defect(
        CLIENT,
        "except SignInRequired as error:\n            if error.code in FORGET:\n                self._file.delete()",
        "except (SignInRequired, Cancelled):\n            if True:\n                self._file.delete()",
        "cancel_refresh",
        "signed_out",
    ),
    "downloads_after_a_cancel": Defect(
        ASSETS,
        "with over.ends(self._stop.set):",
        "with contextlib.nullcontext():",
        "cancel_download",
        "no answer to",
    ),
    "ends_after_the_round": Defect(
        SYNC,
        "client = self._client.only(self.player_id, tries=1).cancellable(over)\n        self._hear",
        "client = self._client.only(self.player_id, tries=1)\n        self._hear",
        "loop_stop_at_once",
        "no answer to",
    ),
    "replaces_by_adopting": Defect(
        SYNC,
        "local=local, base=None, dirty=True",
        "local=local, base=self.base, dirty=True",
        "sync_other_person",
        "the result of sync_conflicts",
    ),
    "forgets_what_was_adopted": Defect(
        SYNC,
        "deleted=local is None, dropped=dropped)",
        "deleted=local is None, dropped=dropped, offered=None)",
        "sync_adopt_unread",
        "level 40",
    ),
    "writes_anywhere": Defect(
        ASSETS,
        'if any(name in (b"", b".", b"..") for name in names):',
        "if False:",
        "assets_hostile_paths",
        "download failed",
    ),
    "begins_anew": Defect(
        ASSETS,
        "headers if wanted < file.size else {}",
        "{}",
        "assets_resume",
        "range",
    ),
}


def test_of(defect: Defect):
    def test(self: "CanFail") -> None:
        words, failure = defect.words, self.failing(defect)
        self.assertTrue(any(each in failure for each in ([words] if isinstance(words, str) else words)), failure)

    test.__doc__ = f"{defect.scenario} fails."
    return test


class CanFail(SynchronousTestCase):
    def failing(self, defect: Defect) -> str:
        """Return the failure that the suite reports for a client with this defect."""
        folder = unused_path(self) / "clients"
        copytree(CLIENTS / "python", folder / "python")
        copytree(CLIENTS / "conformance" / "drivers", folder / "conformance" / "drivers")
        source = (folder / "python" / defect.file).read_text("utf-8")
        self.assertEqual(source.count(defect.right), 1)
        (folder / "python" / defect.file).write_text(source.replace(defect.right, defect.wrong), "utf-8")
        driver = [sys.executable, str(folder / "conformance" / "drivers" / "python_driver.py")]
        world = World(driver, lender=lender(), until_seconds=UNTIL_SECONDS, parent=in_memory())
        self.addCleanup(world.close)
        [scenario] = [scenario for scenario in scenarios() if scenario.name == defect.scenario]
        return str(self.assertRaises(ScenarioFailed, run, world, scenario))


for name, defect in DEFECTS.items():
    setattr(CanFail, f"test_{name}", test_of(defect))
