"""Checks of the public address: proxy, certificate, paths, and saves through proxies.

Saves need entity tags, conditions, ranges, sizes and waits (docs/protocol.md: Saves, Conditions and ranges).

See SPEC 4; docs/owners/proxies.md: Another proxy.
"""

from gamed.ops.findings import (
    CertificateTimes,
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

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
RENEW_DAYS = 14
SHORT_DAYS = 10
"""A certificate of fewer days is short-lived, and renewed automatically."""
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
    "Ask from another network, such as a phone without Wi-Fi: {url}/healthz. If that shows ok, players can connect: "
    "many routers do not lead their own network back to itself (hairpin NAT); put the name into this network's DNS "
    "with the inner address. If not, forward the port to this machine, and open it in the firewall."
)


def check_unreached(url: str, unreached: HttpFailure) -> Finding:
    """Explain why the public address did not respond; this network may simply not reach itself."""
    text = f"{url} does not answer from here ({unreached.detail})"
    if is_loopback(url) and unreached.cause in (FailureCause.REFUSED, FailureCause.TIMEOUT):
        return problem("address", text, "Start gamed and its proxy, and compare the port.")
    return problem("address", text, STEPS.get(unreached.cause, HAIRPIN.format(url=url)))


def check_health(answer: HttpReply) -> Finding:
    name = "address"
    if answer.status == 200 and answer.body == b"ok" and "gamed-instance" in answer.headers:
        return ok(name, "gamed answers there, and is healthy")
    text = f"/healthz answers {answer.status}"
    if answer.status == 421:
        return problem(name, text, "Let the proxy forward Host unchanged, and compare the address with public_url.")
    if answer.status in GATEWAY:
        return problem(name, text, "Start gamed, and compare where it listens with where the proxy forwards to.")
    return problem(name, f"{text}, and not gamed's ok", f"Forward /healthz, too. {FORWARD}")


def check_instance(answer: HttpReply, local: HttpReply | None, *, lives_here: bool) -> Finding:
    """Check that the server there uses these databases, by `Gamed-Store` (docs/protocol.md: Conventions).

    `local` is the reply of a server of this folder; behind the address may be another one. Copied databases have the
    same id: `lives_here` means that the process that replied uses these.
    """
    if local is None:
        why = "the server of this data folder does not answer here, so they cannot be compared"
        return skipped("instance", why, "Run this where the server runs, with its --data.")
    advice = "Check the address of the name, and where the proxy forwards to."
    store, instance = (answer.headers.get(name) for name in ("gamed-store", "gamed-instance"))
    if store is None or store != local.headers.get("gamed-store"):
        return problem("instance", "another server answers there, with other databases", advice)
    if instance != local.headers.get("gamed-instance") and not lives_here:
        return problem("instance", "a server answers there that uses a copy of this server's databases", advice)
    return ok("instance", f"the server there uses the databases of this one: {instance}")


def check_policy(answer: HttpReply, mode: str, providers: tuple[str, ...]) -> Finding:
    """Check that `/auth/config` has exactly two members, as in the configuration (SPEC 2.4)."""
    policy = answer.json()
    if answer.status != 200 or set(policy) != {"mode", "providers"}:
        return problem("policy", f"/auth/config answers {answer.status}, and not with exactly the two members", FORWARD)
    if policy != {"mode": mode, "providers": list(providers)}:
        return problem("policy", "/auth/config differs from authentication.json", "Restart the server.")
    return ok("policy", f"/auth/config agrees with authentication.json: {mode} {' '.join(providers)}".rstrip())


def check_caching(first: HttpReply, second: HttpReply) -> Finding:
    """Check that two responses of /auth/config came from gamed itself."""
    for answer in (first, second):
        if "no-store" not in answer.headers.get("cache-control", ""):
            return problem("caching", "Cache-Control: no-store of /auth/ does not arrive", NO_CACHE)
        if "age" in answer.headers or "hit" in answer.headers.get("x-cache", "").lower():
            return problem("caching", "a response of /auth/ came from a cache", NO_CACHE)
    ids = [answer.headers.get("x-request-id") for answer in (first, second)]
    if None in ids:
        return problem("caching", "X-Request-Id does not arrive", FORWARD)
    if ids[0] == ids[1]:
        return problem("caching", "two requests to /auth/ got the same response", NO_CACHE)
    return ok("caching", "two requests to /auth/ got two responses, with no-store")


def check_forged(answer: Reached) -> Finding:
    """Check a forged X-Forwarded-For; the address that gamed counts cannot be seen from outside."""
    if isinstance(answer, HttpFailure) or answer.status != 200:
        text = "a request with an X-Forwarded-For of its own is not answered"
        return problem("forwarded", text, "Let the proxy replace that header by the client's address.")
    return ok("forwarded", "a forged X-Forwarded-For has no effect")


def check_family(path: str, answer: Reached) -> Finding:
    """Check that one of the three path families reaches gamed, which sends a request id (SPEC 1/3)."""
    name = f"path {path}"
    if isinstance(answer, HttpFailure) or "x-request-id" not in answer.headers:
        return problem(name, "does not reach gamed", f"Forward the whole path. {FORWARD}")
    return ok(name, "reaches gamed")


def check_callback(provider: str, answer: Reached) -> Finding:
    """Check that a callback reaches gamed, which rejects it with a page for its missing parameters.

    See docs/internals/rules.md: Callbacks.
    """
    name, path = "callback", f"/auth/{provider}/callback"
    if isinstance(answer, HttpReply) and 300 <= answer.status < 400:
        return problem(name, f"{path} is redirected", "Let the proxy redirect nothing below /auth/.")
    if isinstance(answer, HttpFailure) or "x-request-id" not in answer.headers:
        return problem(name, f"{path} does not reach gamed", f"Forward the whole path. {FORWARD}")
    return ok(name, f"{path} reaches gamed, without a redirect")


def check_operator_only(path: str, answer: Reached) -> Finding:
    """Check that a path for the operator only is 404 for players."""
    name = f"path {path}"
    if isinstance(answer, HttpFailure) or answer.status == 404:
        return ok(name, "is closed")
    if answer.status == 200:
        return problem(name, "is open to players", f"Forward only the paths that players need. {FORWARD}")
    return warning(name, f"answers {answer.status}, and not 404", FORWARD)


def check_plain(host: str, answer: Reached) -> Finding:
    """Check the reply to GET /healthz at port 80 of an https address."""
    if isinstance(answer, HttpFailure):
        return ok("http", "nothing answers without encryption")
    if answer.headers.get("location", "").startswith(f"https://{host}/") and 300 <= answer.status < 400:
        return ok("http", "redirects to https")
    if answer.status == 200 and answer.body == b"ok":
        advice = "Let port 80 redirect to https, or close it."
        return problem("http", "gamed answers without encryption, and secrets could be read on the way", advice)
    return warning("http", f"port 80 answers {answer.status}", "Let it redirect to https, or close it.")


def check_certificate(times: CertificateTimes | None, now_ms: int) -> Finding:
    """Check how long a valid certificate lasts.

    A proxy renews a short-lived one, as Caddy's of 12 hours, when a third of its time is left.
    """
    if times is None:
        return skipped("certificate", "the address is http")
    left_ms, lifetime_ms = times.ends_ms - now_ms, times.ends_ms - times.begins_ms
    hours = left_ms // HOUR_MS
    left = f"{hours // 24} days" if hours >= 48 else f"{hours} hour{'' if hours == 1 else 's'}"
    if left_ms < (lifetime_ms // 3 if lifetime_ms < SHORT_DAYS * DAY_MS else RENEW_DAYS * DAY_MS):
        advice = "Renew it, and find out why it was not renewed automatically."
        return warning("certificate", f"valid for {left}", advice)
    return ok("certificate", f"valid for {left}")


UNCHANGED = "Let the proxy leave ETag, If-Match, If-None-Match, If-Range and Range alone, and compress nothing."
WHOLE = "Let the proxy accept bodies of save_bytes, and forward them without buffering."
PATIENT = "Let the proxy wait 90 seconds for a response."
WAIT_SECONDS = 25  # as long as games wait by default, so that a proxy with less patience is found


def check_write(answer: Reached, size: int) -> Finding:
    """Check the first PUT, with If-None-Match: *."""
    name = "save of 2 MiB" if size >= 2**21 else f"save of {size} bytes"
    if not isinstance(answer, HttpReply) or answer.status != 201:
        return problem(name, f"is not accepted ({_status(answer)})", WHOLE)
    return ok(name, "is accepted")


def check_read(answer: Reached, body: bytes, tag: str) -> Finding:
    """Check a GET of that save."""
    if not isinstance(answer, HttpReply) or answer.status != 200:
        return problem("ETag", f"the save cannot be read ({_status(answer)})", UNCHANGED)
    if answer.body != body or "content-encoding" in answer.headers:
        return problem("ETag", "the save comes back changed or compressed", UNCHANGED)
    if answer.headers.get("etag") != tag:
        return problem("ETag", "the tag of a save does not arrive as gamed sent it", UNCHANGED)
    return ok("ETag", "arrives as gamed sent it, with every byte")


def check_unchanged(answer: Reached) -> Finding:
    """Check a GET with If-None-Match of the current tag."""
    return _expected("If-None-Match", answer, 304, "reaches gamed")


def check_conflict(answer: Reached) -> Finding:
    """Check a PUT with If-Match of an unknown tag; if accepted, it would overwrite another device's save."""
    return _expected("If-Match", answer, 412, "reaches gamed")


def check_range(answer: Reached, part: bytes) -> Finding:
    """Check a GET of some bytes in the middle."""
    if isinstance(answer, HttpReply) and answer.status == 206 and answer.body != part:
        return problem("ranges", "the response has other bytes than the request named", UNCHANGED)
    return _expected("ranges", answer, 206, "reach gamed")


def check_wait(answer: Reached, seconds: int) -> Finding:
    """Check a list that waited for changes in vain; `seconds` is the wait that the server grants."""
    if isinstance(answer, HttpReply) and answer.status in (200, 304) and answer.seconds >= seconds - 1:
        return ok("wait", f"a response may take {seconds} s")
    if isinstance(answer, HttpReply) and answer.status in (200, 304):
        return problem("wait", f"a wait of {seconds} s ended after {int(answer.seconds)}", f"{PATIENT} {UNCHANGED}")
    return problem("wait", f"a wait of {seconds} s is interrupted ({_status(answer)})", PATIENT)


def _expected(name: str, answer: Reached, status: int, text: str) -> Finding:
    if isinstance(answer, HttpReply) and answer.status == status:
        return ok(name, text)
    return problem(name, f"does not work ({_status(answer)} instead of {status})", UNCHANGED)


def _status(answer: Reached) -> str:
    return str(answer.status) if isinstance(answer, HttpReply) else answer.detail
