"""Findings about the way from players to the server: its proxy, its certificate, its address (SPEC 4, PROTOCOL 2).

Findings about saves on their way through proxies: tags, conditions, ranges, sizes, waits (PROTOCOL 4, 6).
"""

from gamed.ops.doctor_findings import (
    FailureCause,
    Finding,
    HttpFailure,
    HttpReply,
    Reached,
    ok,
    problem,
    skipped,
    warning,
)
from gamed.providers.discovery import is_loopback

DAY_MS = 86_400_000
RENEW_DAYS = 14
GATEWAY = (502, 503, 504)
FORWARD = "Compare the proxy with etc/nginx/gamed.conf or etc/caddy/Caddyfile."
NO_CACHE = f"Let the proxy cache nothing below /auth/. {FORWARD}"
STEPS = {
    FailureCause.NAME: "Compare the name in public_url with the DNS entry.",
    FailureCause.CERTIFICATE: "Give the proxy a certificate for this name, with the chain up to the root. If the one "
    "shown is your router's, ask from another network: many routers answer in the server's place from within.",
    FailureCause.OTHER: "Compare public_url with what the proxy listens on.",
}
HAIRPIN = (
    "Ask from another network, such as a phone without Wi-Fi: {url}/healthz. If that says ok, all is well for players: "
    "many routers do not lead their own network back to itself (hairpin NAT); put the name into this network's DNS "
    "with the inner address. If not, forward the port to this machine, and open it in the firewall."
)


def check_unreached(url: str, unreached: HttpFailure) -> Finding:
    """Why the public address gave no answer, and that this network may simply not reach itself."""
    said = f"{url} does not answer from here ({unreached.detail})"
    if is_loopback(url) and unreached.cause in (FailureCause.REFUSED, FailureCause.TIMEOUT):
        return problem("address", said, "Start gamed and what is in front of it, and compare the port.")
    return problem("address", said, STEPS.get(unreached.cause, HAIRPIN.format(url=url)))


def check_health(answer: HttpReply) -> Finding:
    name = "address"
    if answer.status == 200 and answer.body == b"ok" and "gamed-instance" in answer.headers:
        return ok(name, "a gamed answers there, and is well")
    said = f"/healthz answers {answer.status}"
    if answer.status == 421:
        return problem(name, said, "Let the proxy pass on Host as it came, and compare the address with public_url.")
    if answer.status in GATEWAY:
        return problem(name, said, "Start gamed, and compare where it listens with where the proxy forwards to.")
    return problem(name, f"{said}, and not gamed's ok", f"Forward /healthz, too. {FORWARD}")


def check_instance(answer: HttpReply, local: str | None) -> Finding:
    """Whether it is the server of this data folder (PROTOCOL 2, `Gamed-Instance`)."""
    if local is None:
        why = "the server of this data folder does not answer here, so they cannot be compared"
        return skipped("instance", why, "Run this where the server runs, with its --data.")
    if answer.headers.get("gamed-instance") != local:
        advice = "Compare where the name leads, and where the proxy forwards to."
        return problem("instance", "another server answers there than that of this data folder", advice)
    return ok("instance", f"it is the server of this data folder, {local}")


def check_policy(answer: HttpReply, mode: str, providers: tuple[str, ...]) -> Finding:
    """`/auth/config` has exactly two members, which are the configuration's (SPEC 2.4)."""
    told = answer.json()
    if answer.status != 200 or set(told) != {"mode", "providers"}:
        return problem("policy", f"/auth/config answers {answer.status}, and not the two members alone", FORWARD)
    if told != {"mode": mode, "providers": list(providers)}:
        return problem("policy", "/auth/config does not say what authentication.json does", "Restart the server.")
    return ok("policy", f"/auth/config says what authentication.json does: {mode} {' '.join(providers)}".rstrip())


def check_caching(first: HttpReply, second: HttpReply) -> Finding:
    """Two answers of /auth/config came from gamed itself."""
    for answer in (first, second):
        if "no-store" not in answer.headers.get("cache-control", ""):
            return problem("caching", "Cache-Control: no-store of /auth/ does not arrive", NO_CACHE)
        if "age" in answer.headers or "hit" in answer.headers.get("x-cache", "").lower():
            return problem("caching", "an answer of /auth/ came from a cache", NO_CACHE)
    ids = [answer.headers.get("x-request-id") for answer in (first, second)]
    if None in ids:
        return problem("caching", "X-Request-Id does not arrive", FORWARD)
    if ids[0] == ids[1]:
        return problem("caching", "two requests to /auth/ got one and the same answer", NO_CACHE)
    return ok("caching", "two answers of /auth/ are two, and no-store")


def check_forged(answer: Reached) -> Finding:
    """With an X-Forwarded-For that a player made up; which address gamed counts under cannot be seen from outside."""
    if isinstance(answer, HttpFailure) or answer.status != 200:
        said = "a request with an X-Forwarded-For of its own is not answered"
        return problem("forwarded", said, "Let the proxy replace that header by the address that connected to it.")
    return ok("forwarded", "an X-Forwarded-For that a player made up does no harm")


def check_family(path: str, answer: Reached) -> Finding:
    """Whether one of the three path families comes through to gamed, which answers with a request id (SPEC 1.2)."""
    name = f"path {path}"
    if isinstance(answer, HttpFailure) or "x-request-id" not in answer.headers:
        return problem(name, "does not come through to gamed", f"Forward it whole. {FORWARD}")
    return ok(name, "comes through to gamed")


def check_callback(provider: str, answer: Reached) -> Finding:
    """A callback without parameters is refused by gamed itself, with a page (PROTOCOL 3.3)."""
    name, path = "callback", f"/auth/{provider}/callback"
    if isinstance(answer, HttpReply) and 300 <= answer.status < 400:
        return problem(name, f"{path} is redirected", "Let the proxy redirect nothing below /auth/.")
    if isinstance(answer, HttpFailure) or "x-request-id" not in answer.headers:
        return problem(name, f"{path} does not come through to gamed", f"Forward it whole. {FORWARD}")
    return ok(name, f"{path} comes through, without a redirect")


def check_shut(path: str, answer: Reached) -> Finding:
    """What is the owner's alone answers 404 to players."""
    name = f"path {path}"
    if isinstance(answer, HttpFailure) or answer.status == 404:
        return ok(name, "is shut")
    if answer.status == 200:
        return problem(name, "is open to everybody", f"Forward only the paths that players need. {FORWARD}")
    return warning(name, f"answers {answer.status}, and not 404", FORWARD)


def check_plain(host: str, answer: Reached) -> Finding:
    """Port 80 of an https address, asked for /healthz."""
    if isinstance(answer, HttpFailure):
        return ok("http", "nothing answers without encryption")
    if answer.headers.get("location", "").startswith(f"https://{host}/") and 300 <= answer.status < 400:
        return ok("http", "leads to https")
    if answer.status == 200 and answer.body == b"ok":
        advice = "Let port 80 redirect to https, or shut it."
        return problem("http", "gamed answers without encryption, and secrets could be read on the way", advice)
    return warning("http", f"port 80 answers {answer.status}", "Let it redirect to https, or shut it.")


def check_certificate(ends_ms: int | None, now_ms: int) -> Finding:
    """One that was found to be good."""
    if ends_ms is None:
        return skipped("certificate", "the address is http")
    days = (ends_ms - now_ms) // DAY_MS
    if days < RENEW_DAYS:
        return warning(
            "certificate", f"good for {days} days more", "Renew it, and see why that did not happen by itself."
        )
    return ok("certificate", f"good for {days} days more")


UNCHANGED = "Let the proxy leave ETag, If-Match, If-None-Match, If-Range and Range alone, and compress nothing."
WHOLE = "Let the proxy take bodies of save_bytes, and pass them on as they come."
PATIENT = "Let the proxy wait for an answer for a minute and a half."
WAIT_SECONDS = 25


def check_write(answer: Reached, size: int) -> Finding:
    """The first PUT, with If-None-Match: *."""
    name = "save of 2 MiB" if size >= 2**21 else f"save of {size} bytes"
    if not isinstance(answer, HttpReply) or answer.status != 201:
        return problem(name, f"is not taken ({_said(answer)})", WHOLE)
    return ok(name, "is taken")


def check_read(answer: Reached, body: bytes, tag: str) -> Finding:
    """The same save read again."""
    if not isinstance(answer, HttpReply) or answer.status != 200:
        return problem("ETag", f"the save cannot be read ({_said(answer)})", UNCHANGED)
    if answer.body != body or "content-encoding" in answer.headers:
        return problem("ETag", "the save comes back changed or compressed", UNCHANGED)
    if answer.headers.get("etag") != tag:
        return problem("ETag", "the tag of a save does not arrive as gamed sent it", UNCHANGED)
    return ok("ETag", "arrives as gamed sent it, with every byte")


def check_unchanged(answer: Reached) -> Finding:
    """A GET with If-None-Match of the current tag."""
    return _expected("If-None-Match", answer, 304, "reaches gamed")


def check_conflict(answer: Reached) -> Finding:
    """A PUT with If-Match of a tag that the save never had; taken, it would overwrite another device's save."""
    return _expected("If-Match", answer, 412, "reaches gamed")


def check_range(answer: Reached, part: bytes) -> Finding:
    """A GET of some bytes out of the middle."""
    if isinstance(answer, HttpReply) and answer.status == 206 and answer.body != part:
        return problem("ranges", "other bytes come than were asked for", UNCHANGED)
    return _expected("ranges", answer, 206, "come through")


def check_wait(answer: Reached, seconds: int) -> Finding:
    """A list that waited for news, and there were none; `seconds` as the server grants them."""
    if isinstance(answer, HttpReply) and answer.status in (200, 304) and answer.seconds >= seconds - 1:
        return ok("wait", f"an answer may take {seconds} s")
    if isinstance(answer, HttpReply) and answer.status in (200, 304):
        return problem("wait", f"a wait of {seconds} s ended after {int(answer.seconds)}", f"{PATIENT} {UNCHANGED}")
    return problem("wait", f"a wait of {seconds} s is cut off ({_said(answer)})", PATIENT)


def _expected(name: str, answer: Reached, status: int, well: str) -> Finding:
    if isinstance(answer, HttpReply) and answer.status == status:
        return ok(name, well)
    return problem(name, f"does not come through ({_said(answer)} in place of {status})", UNCHANGED)


def _said(answer: Reached) -> str:
    return str(answer.status) if isinstance(answer, HttpReply) else answer.detail
