"""Each check of PROTOCOL 3.3 dropped once, as an edit of the source."""

from tests.mutants.mutant import Mutant

CALLBACK = "gamed/login/callback.py"
SPENDING = "gamed/storage/auth/callbacks.py"
JUDGE, WHOLE = "tests.login.test_callback", "tests.login.test_returning"


def _drop(name: str, file: str, old: str, new: str, noticed_by: str = JUDGE) -> Mutant:
    return Mutant(name, file, old, new, noticed_by)


ONCE = "if name in PARAMETERS and name in found:"
CODE, ERROR = 'not _printable(code or error or "")', 'not _NOT_IN_AN_ERROR.isdisjoint(error or "")'
EITHER = "if (code is None) == (error is None):"
BROWSER = "if known.browser is None or not compare_digest(attempt.browser_index, known.browser):"
PROVIDER = "if attempt.provider != callback.provider:"
ISSUER = "if known.issuer is not None and not _names_issuer(attempt, callback.iss, known.issuer):"
OVER = "if current.final or attempt.status is AttemptStatus.BURNED:"
SPENT = "if attempt.status is AttemptStatus.USED or current.stage is not Stage.AUTHORIZING:"
BURN = "attempts.close(connection, attempt, AttemptStatus.BURNED)"
USE = "attempts.close(connection, attempt, AttemptStatus.USED)"

CHECKS = (
    _drop("1_size", CALLBACK, "if len(raw_query) > QUERY_BYTES:", "if False:"),
    *(_drop(f"1_{name}_twice", CALLBACK, ONCE, f"{ONCE[:-1]} and name != {name!r}:") for name in ("state", "code")),
    *(_drop(f"1_{name}_twice", CALLBACK, ONCE, f"{ONCE[:-1]} and name != {name!r}:") for name in ("error", "iss")),
    _drop("1_both", CALLBACK, EITHER, "if code is None and error is None:"),
    _drop("1_neither", CALLBACK, EITHER, "if code is not None and error is not None:"),
    _drop("1_code_of_any_bytes", CALLBACK, CODE, "False"),
    _drop("1_error_of_any_characters", CALLBACK, ERROR, "False"),
    _drop("1_utf8", CALLBACK, '.replace(b"+", b" ")).decode()', '.replace(b"+", b" ")).decode(errors="replace")'),
    _drop("2_provider_enabled", CALLBACK, "if not known.enabled:", "if False:"),
    _drop("3_state_known", CALLBACK, "if attempt is None or login is None:", "if False:"),
    _drop("4_any_cookie", CALLBACK, BROWSER, "if known.browser is None:"),
    _drop("4_no_cookie", CALLBACK, BROWSER, BROWSER.replace("is None or", "is not None and")),
    _drop("5_path", CALLBACK, PROVIDER, "if False:"),
    _drop("6_issuer", CALLBACK, ISSUER, "if False:"),
    _drop("6_promised", CALLBACK, "return not attempt.iss_promised", "return True"),
    _drop("6_case", CALLBACK, "iss.encode() == issuer.encode()", "iss.lower() == issuer.lower()"),
    _drop("6_prefix", CALLBACK, "iss.encode() == issuer.encode()", "iss.startswith(issuer)"),
    _drop("7_final", CALLBACK, OVER, OVER.replace("current.final or ", "")),
    _drop("7_clock", CALLBACK, "current = login.at(known.now_ms)", "current = login"),
    _drop("7_burned", CALLBACK, OVER, "if current.final:"),
    _drop("7_used", CALLBACK, SPENT, "if current.stage is not Stage.AUTHORIZING:"),
    _drop("8_compare", CALLBACK, SPENT, "if attempt.status is AttemptStatus.USED:"),
    _drop("8_set_attempt", SPENDING, USE, "pass", WHOLE),
    _drop("8_set_login", SPENDING, "logins.save(connection, Move(login, verdict.login))", "pass", WHOLE),
    _drop("8_erase", SPENDING, "attempts.erase_secrets(connection, attempt.login_id)", "pass", WHOLE),
    _drop("5_6_burn", SPENDING, BURN, "pass", WHOLE),
    _drop(
        "4_burn",
        CALLBACK,
        "frozenset({Ruling.OTHER_PROVIDER,",
        "frozenset({Ruling.OTHER_BROWSER, Ruling.OTHER_PROVIDER,",
    ),
)
