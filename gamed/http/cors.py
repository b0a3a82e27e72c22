"""This module lets the web pages of configured origins use the JSON routes (CORS, Fetch standard 3.2)."""

from collections.abc import Collection
from typing import Final

from msgspec import Struct

from gamed.http.app import BaseApp, JsonApp
from gamed.http.headers import ResponseHeaders
from gamed.http.routing import Routed

CORS_FAMILIES: Final = ("/auth/", "/game/", "/assets/")
CORS_ALLOWED: Final = (
    "authorization, content-type, if-match, if-none-match, if-range, range, prefer, content-digest, save-meta"
)
CORS_EXPOSED: Final = (
    "etag, save-version, save-meta, retry-after, x-request-id, repr-digest, content-range, preference-applied, "
    "asset-release, gamed-protocol"
)


def supports_cors(app: BaseApp, path: str) -> bool:
    """Return whether a route answers OPTIONS and requests from other origins; browser routes never do."""
    return isinstance(app, JsonApp) and path.startswith(CORS_FAMILIES)


class CorsPolicy(Struct, frozen=True):
    """The origins whose pages may use the server."""

    origins: Collection[str]

    def preflight_headers(self, routed: Routed) -> dict[str, str]:
        """Return the header fields of the 204 to an OPTIONS request."""
        methods = ", ".join(sorted({*routed.match.methods, "OPTIONS"}))
        if routed.head.single("origin") not in self.origins:
            return {"Allow": methods}
        return {
            "Allow": methods,
            "Access-Control-Allow-Methods": methods,
            "Access-Control-Allow-Headers": CORS_ALLOWED,
            "Access-Control-Max-Age": "600",
        }

    def finish_headers(self, headers: ResponseHeaders, routed: Routed) -> None:
        """Set the header fields with which a page of an allowed origin may read the response."""
        if self.origins and supports_cors(routed.match.app, routed.head.path):
            headers.add("Vary", "Origin")
            origin = routed.head.single("origin")
            if origin is not None and origin in self.origins:
                headers.update({"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": CORS_EXPOSED})
