"""A match server in Python checks who is connecting (docs/developers/tickets.md).

    pip install joserfc
    python check_ticket.py https://play.example.org match.example

This program reads lines with a nonce and a ticket, and writes a line of JSON for each. In your server, give each
connection a nonce of its own, `secrets.token_urlsafe(24)`, and call check() with what comes back.
"""

import json
import sys
import time
import warnings
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.request import urlopen

from joserfc import jws
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import KeySet

TYPE = "gamed-ticket+jwt"
MAX_TICKET = 4096
LEEWAY_SECONDS = 30
MAX_AGE_SECONDS = 300
"""No ticket is valid longer than gamed's longest session.ticket_ttl."""
KEYS_SECONDS = 3600
"""gamed publishes a key a day before it signs with it, so keys of the last hour are new enough."""
NOT_A_TICKET = (JoseError, ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""A header may be any JSON: joserfc raises TypeError for `"crit":5`, and AttributeError for a list as the header."""
FETCH_SECONDS = 30
"""The least time between two requests for the keys: a player can send any `kid`, and must not make a flood of them."""

warnings.simplefilter("ignore", SecurityWarning)  # of the name EdDSA, which RFC 9864 replaces by Ed25519


class TicketRefused(Exception):
    """A text that does not show who is connecting."""


class TicketChecker:
    """Checks the tickets for one audience of one gamed server."""

    def __init__(self, server: str, audience: str) -> None:
        """Take the address that the owner has published, never one that a player sends."""
        self._issuer, self._audience = f"{server}/auth", audience
        self._keys = KeySet([])
        self._fetched = self._tried = float("-inf")

    def check(self, ticket: str, nonce: str | None) -> Mapping[str, Any]:
        """Return the claims of a ticket for this connection; raise TicketRefused, also without gamed's keys."""
        if not nonce:  # none was sent yet: a ticket without one must not match it
            raise TicketRefused("no nonce")
        if len(ticket) > MAX_TICKET:
            raise TicketRefused("too long")
        try:
            parsed = jws.extract_compact(ticket.encode())
            header = parsed.headers()
            if header.get("typ") != TYPE:  # rule 1
                raise TicketRefused("typ")
            keys = self._keys_with(str(header.get("kid")))
            if not jws.validate_compact(parsed, keys, algorithms=["EdDSA"]):
                raise TicketRefused("signature")
            claims = json.loads(parsed.payload)
        except NOT_A_TICKET:
            raise TicketRefused("not a ticket") from None
        if claims.get("iss") != self._issuer:  # rule 2
            raise TicketRefused("iss")
        if claims.get("aud") != self._audience:  # rule 3; a list is not equal to a text
            raise TicketRefused("aud")
        now, expires = time.time(), claims.get("exp")
        latest = now + MAX_AGE_SECONDS + LEEWAY_SECONDS  # a later one was issued while gamed's clock was ahead
        if not isinstance(expires, int) or not now - LEEWAY_SECONDS < expires <= latest:  # rule 4
            raise TicketRefused("exp")
        if claims.get("nonce") != nonce:  # rule 5
            raise TicketRefused("nonce")
        return claims

    def _keys_with(self, kid: str) -> KeySet:
        """Return the keys; fetch them if they are old, or if they lack this one."""
        now = time.monotonic()
        old = now - self._fetched > KEYS_SECONDS
        known = any(key.kid == kid for key in self._keys.keys)
        if (old or not known) and now - self._tried > FETCH_SECONDS:
            self._tried = now  # before the request: while gamed does not answer, each one may take the whole timeout
            try:
                with urlopen(f"{self._issuer}/keys", timeout=10) as answer:
                    self._keys = KeySet.import_key_set(json.loads(answer.read(65536)))
            except (OSError, HTTPException):
                pass  # keys of the last hour are still good
            else:
                self._fetched, old = now, False
        if old:
            raise TicketRefused("gamed's keys are not known")
        return self._keys


def main() -> None:
    checker = TicketChecker(*sys.argv[1:3])
    for line in sys.stdin:
        *nonce, ticket = line.rstrip("\n").split(" ", 1)
        try:
            claims = checker.check(ticket, nonce[0] if nonce else None)
            print(json.dumps({"player": claims["sub"], "name": claims.get("name")}), flush=True)
        except TicketRefused as e:
            print(json.dumps({"refused": str(e)}), flush=True)


if __name__ == "__main__":
    main()
