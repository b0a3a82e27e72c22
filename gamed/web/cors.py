"""Cross-origin reads for games in a browser (PROTOCOL 1): named origins, no credentials, never on browser routes."""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

FAMILIES = ("/auth/", "/game/", "/assets/")
ALLOWED = "authorization, content-type, if-match, if-none-match, if-range, range, prefer, content-digest, save-meta"
EXPOSED = (
    "etag, save-version, save-meta, retry-after, x-request-id, repr-digest, content-range, preference-applied, "
    "asset-release, gamed-protocol"
)


class Cors(Struct, frozen=True):
    """Decides by path, origin and nothing else."""

    origins: Collection[str] = ()

    def covers(self, path: str) -> bool:
        """Whether the JSON routes at this path answer OPTIONS."""
        return path.startswith(FAMILIES)

    def headers(self, origin: str | None) -> Mapping[str, str]:
        """Of every answer of a covered route; nothing for an origin that is not listed."""
        if origin is None or origin not in self.origins:
            return {}
        return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": EXPOSED}

    def preflight(self, origin: str | None, methods: Iterable[str]) -> Mapping[str, str]:
        """Of the 204 to OPTIONS besides `headers`."""
        listed = ", ".join(sorted({*methods, "OPTIONS"}))
        if origin is None or origin not in self.origins:
            return {"Allow": listed}
        return {
            "Allow": listed,
            "Access-Control-Allow-Methods": listed,
            "Access-Control-Allow-Headers": ALLOWED,
            "Access-Control-Max-Age": "600",
        }
