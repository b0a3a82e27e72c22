"""Findings about saves on their way through proxies: tags, conditions, ranges, sizes, waits (PROTOCOL 4, 6)."""

from gamed.doctor.answers import Answer, Reached
from gamed.doctor.findings import Finding, ok, problem

UNCHANGED = "Let the proxy leave ETag, If-Match, If-None-Match, If-Range and Range alone, and compress nothing."
WHOLE = "Let the proxy take bodies of save_bytes, and pass them on as they come."
PATIENT = "Let the proxy wait for an answer for a minute and a half."
WAIT_SECONDS = 25


def judge_write(answer: Reached, size: int) -> Finding:
    """The first PUT, with If-None-Match: *."""
    name = "save of 2 MiB" if size >= 2**21 else f"save of {size} bytes"
    if not isinstance(answer, Answer) or answer.status != 201:
        return problem(name, f"is not taken ({_said(answer)})", WHOLE)
    return ok(name, "is taken")


def judge_read(answer: Reached, body: bytes, tag: str) -> Finding:
    """The same save read again."""
    if not isinstance(answer, Answer) or answer.status != 200:
        return problem("ETag", f"the save cannot be read ({_said(answer)})", UNCHANGED)
    if answer.body != body or "content-encoding" in answer.headers:
        return problem("ETag", "the save comes back changed or compressed", UNCHANGED)
    if answer.headers.get("etag") != tag:
        return problem("ETag", "the tag of a save does not arrive as gamed sent it", UNCHANGED)
    return ok("ETag", "arrives as gamed sent it, with every byte")


def judge_unchanged(answer: Reached) -> Finding:
    """A GET with If-None-Match of the current tag."""
    return _expected("If-None-Match", answer, 304, "reaches gamed")


def judge_conflict(answer: Reached) -> Finding:
    """A PUT with If-Match of a tag that the save never had; taken, it would overwrite another device's save."""
    return _expected("If-Match", answer, 412, "reaches gamed")


def judge_range(answer: Reached, part: bytes) -> Finding:
    """A GET of some bytes out of the middle."""
    if isinstance(answer, Answer) and answer.status == 206 and answer.body != part:
        return problem("ranges", "other bytes come than were asked for", UNCHANGED)
    return _expected("ranges", answer, 206, "come through")


def judge_wait(answer: Reached, seconds: int) -> Finding:
    """A list that waited for news, and there were none; `seconds` as the server grants them."""
    if isinstance(answer, Answer) and answer.status in (200, 304) and answer.seconds >= seconds - 1:
        return ok("wait", f"an answer may take {seconds} s")
    if isinstance(answer, Answer) and answer.status in (200, 304):
        return problem("wait", f"a wait of {seconds} s ended after {int(answer.seconds)}", f"{PATIENT} {UNCHANGED}")
    return problem("wait", f"a wait of {seconds} s is cut off ({_said(answer)})", PATIENT)


def _expected(name: str, answer: Reached, status: int, well: str) -> Finding:
    if isinstance(answer, Answer) and answer.status == status:
        return ok(name, well)
    return problem(name, f"does not come through ({_said(answer)} in place of {status})", UNCHANGED)


def _said(answer: Reached) -> str:
    return str(answer.status) if isinstance(answer, Answer) else answer.detail
