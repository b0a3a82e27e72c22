"""Every fault of a provider's metadata at the time of the redirect to it, by name."""

from gzip import compress

from gamed.providers.client import TIMEOUT_SECONDS
from tests.hostile.fake_provider import DISCOVERY, ISSUER, MARK, PERSONAL, WORK, Idp, Reply, tenant_issuer
from tests.hostile.modes import HOUR, MISCONFIGURED, UNAVAILABLE, Mode, Twist, always, error

FOREIGN = f"https://{MARK.lower()}.example"
_NAMES = ("authorization_endpoint", "token_endpoint", "jwks_uri")


def says(**members: object) -> Twist:
    """Return good metadata with other members; None removes one."""

    def twist(fake: Idp) -> None:
        fake.metadata |= members
        fake.metadata = {name: value for name, value in fake.metadata.items() if value is not None}

    return twist


def answers(reply: Reply) -> Twist:
    return always(DISCOVERY, reply)


def _wrong_addresses(name: str) -> tuple[Mode, ...]:
    """Return discovery documents whose endpoints have invalid addresses."""
    bad = {
        "absent": None,
        "a number": 7,
        "a list": [f"{ISSUER}/x"],
        "empty": "",
        "relative": "/token",
        "without a host": "https:///token",
        "http": f"http://{MARK}.example/x",
        "this machine": "https://127.0.0.1/x",
        "this machine by name": "https://localhost:8080/x",
        "this machine by another number": "https://127.8.8.8/x",
        "this machine by a whole name": "https://localhost./x",
        "this machine by a name below": f"https://{MARK}.localhost/x",
        "this machine in IPv6": "https://[::1]/x",
        "this machine mapped": "https://[::ffff:127.0.0.1]/x",
        "this machine as nothing": "https://0.0.0.0/x",
        "a script": f"javascript:alert('{MARK}')",
        "a file": "file:///etc/passwd",
        "with a user": f"https://id.example@{MARK}.example/x",
        "with a backslash": f"https://{MARK}.example\\@id.example/x",
        "with a line end": f"{ISSUER}/x\r\nX-{MARK}: 1",
        "with a fragment": f"{ISSUER}/x#{MARK}",
        "with a wrong port": "https://id.example:99999/x",
        "too long": f"{ISSUER}/{'x' * 2048}",
    }
    return tuple(Mode(f"{name} {what}", says(**{name: url}), cause=f"discovery: {name}") for what, url in bad.items())


REFUSED = (
    Mode("issuer another", says(issuer=FOREIGN), MISCONFIGURED, "compare issuer in authentication.json"),
    *(
        Mode(
            f"microsoft issuer of {what}",
            says(issuer=tenant_issuer(tenant)),
            MISCONFIGURED,
            "another issuer",
            provider="microsoft",
        )
        for what, tenant in (("an organization", WORK), ("personal accounts", PERSONAL))
    ),
    Mode("issuer with a slash", says(issuer=f"{ISSUER}/"), MISCONFIGURED, "including a slash at its end"),
    Mode("issuer http", says(issuer=ISSUER.replace("https", "http")), MISCONFIGURED, "another issuer"),
    Mode("issuer absent", says(issuer=None), MISCONFIGURED, "another issuer"),
    Mode("issuer a list", says(issuer=[ISSUER]), MISCONFIGURED, "another issuer"),
    *(mode for name in _NAMES for mode in _wrong_addresses(name)),
    Mode("no PKCE", says(code_challenge_methods_supported=["plain"]), MISCONFIGURED, "PKCE with S256"),
    Mode("no code flow", says(response_types_supported=["id_token"]), MISCONFIGURED, "authorization code flow"),
    Mode("only HS256", says(id_token_signing_alg_values_supported=["HS256", "none"]), MISCONFIGURED, "RS256 or ES256"),
    Mode("algorithms no list", says(id_token_signing_alg_values_supported="RS256"), cause="is not a list of strings"),
    Mode("methods of numbers", says(token_endpoint_auth_methods_supported=[1]), cause="is not a list of strings"),
    Mode("discovery 404", answers(Reply(404, MARK.encode())), MISCONFIGURED, "check issuer in authentication.json"),
    Mode("discovery 401", answers(Reply(401, MARK.encode())), cause="discovery: answered 401"),
    Mode("discovery 204", answers(Reply(204, b"")), cause="discovery: answered 204"),
    Mode("discovery 301", answers(Reply(301, b"", {"Location": f"{FOREIGN}/"})), cause="redirects (301)"),
    Mode(
        "discovery HTML",
        answers(Reply(200, f"<html>{MARK}".encode())),
        cause="cannot be parsed: not JSON",
    ),
    Mode("discovery a list", answers(Reply(200, b"[]")), cause="not an object"),
    Mode("discovery empty", answers(Reply(200, b"{}")), MISCONFIGURED, "another issuer"),
    Mode("discovery an error with 200", answers(error("server_error", 200)), cause="answered with an error"),
    Mode(
        "discovery a name twice",
        answers(Reply(200, b'{"issuer":"a","issuer":"b"}')),
        cause="cannot be parsed",
    ),
    Mode("discovery huge", answers(Reply(200, b"{" + b" " * 70_000 + b"}")), cause="more than 65536 bytes"),
    Mode("discovery gzip", answers(Reply(200, compress(b"{}"), {"Content-Encoding": "gzip"})), cause="coding"),
    *(
        Mode(f"discovery {status}", answers(Reply(status, MARK.encode())), UNAVAILABLE, f"answered {status}")
        for status in (408, 429, 500, 502, 503, 504)
    ),
    Mode(
        "discovery 503 for a minute",
        answers(Reply(503, b"", {"Retry-After": "60"})),
        UNAVAILABLE,
        "answered 503",
        heals=61,
    ),
    Mode("discovery never", answers(Reply(hang=True)), UNAVAILABLE, "within 10 s", waits=TIMEOUT_SECONDS),
    Mode("discovery gone for a day", answers(Reply(500)), UNAVAILABLE, "answered 500", primed=25 * HOUR),
)

STALE = (
    Mode("discovery gone for hours", answers(Reply(500)), None, primed=2 * HOUR),
    Mode("discovery of another issuer later", says(issuer=FOREIGN), None, primed=2 * HOUR),
    Mode("discovery HTML later", answers(Reply(200, b"<html>")), None, primed=2 * HOUR),
    Mode("discovery with unknown members", says(**{MARK: {"a": [1]}}), None),
)

DISCOVERIES = (*REFUSED, *STALE)

if __name__ == "__main__":
    for mode in DISCOVERIES:
        print(f"{mode.name:40} {mode.outcome.value if mode.outcome else '-':24} {mode.cause}")
