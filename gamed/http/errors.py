"""These are the errors of HTTP itself; `str(error)` becomes the `detail` for a person (PROTOCOL 1)."""

from collections.abc import Mapping, Sequence


class HttpError(Exception):
    """A request that cannot be served as it is.

    `members` are extra members of the problem body, `headers` extra fields of the response; `retry_after` is in
    seconds. Errors of features may have any of the three.
    """

    def __init__(
        self,
        detail: str = "",
        *,
        members: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.members = members or {}
        self.headers = headers or {}
        self.retry_after = retry_after


class BadRequest(HttpError):
    """Not HTTP/1.1 as RFC 9112 writes it, or a query that cannot be read."""


class BadPrecondition(HttpError):
    """Entity-tags of a GET or HEAD that cannot be read."""


class InvalidRequest(HttpError):
    """A body that is not what the route asks for; `errors` are (JSON pointer of RFC 6901, detail)."""

    def __init__(self, errors: Sequence[tuple[str, str]]) -> None:
        listed = [{"pointer": pointer, "detail": detail} for pointer, detail in errors]
        first = f"{errors[0][0] or 'The body'}: {errors[0][1]}"
        super().__init__(first, members={"errors": listed})


class RouteNotFound(HttpError):
    """No route has this path."""


class MethodNotAllowed(HttpError):
    """The path exists, the method does not; `allowed` goes into Allow."""

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(f"This address answers {', '.join(sorted(allowed))}.")
        self.allowed = tuple(sorted(allowed))


class RequestTimeout(HttpError):
    """The head or the body came too slowly."""


class BodyTooLarge(HttpError):
    """More bytes than the route takes."""


class UnsupportedMediaType(HttpError):
    """A body of another type, or with a coding."""


class MisdirectedRequest(HttpError):
    """Host names another server (RFC 9110 15.5.20)."""


class HeadTooLarge(HttpError):
    """A head over 16 KiB or over 64 fields."""


class Unhealthy(HttpError):
    """The last check of the stores failed."""


class ShuttingDown(HttpError):
    """The service is going down; the same request will work on the next start."""
