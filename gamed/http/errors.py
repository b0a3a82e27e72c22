"""The errors of HTTP itself; `str(error)` becomes the `detail` of the problem (docs/protocol.md: Errors)."""

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
    """A request that is not HTTP/1.1 (RFC 9112), or a query that cannot be parsed."""


class InvalidRequest(HttpError):
    """A body that is not what the route asks for; `errors` are (JSON pointer of RFC 6901, detail)."""

    def __init__(self, errors: Sequence[tuple[str, str]]) -> None:
        listed = [{"pointer": pointer, "detail": detail} for pointer, detail in errors]
        first = f"{errors[0][0] or 'The body'}: {errors[0][1]}"
        super().__init__(first, members={"errors": listed})


class RouteNotFound(HttpError):
    """A path that no route has."""


class MethodNotAllowed(HttpError):
    """A method that the path does not support; `allowed` are the supported ones, for Allow."""

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(f"This address answers {', '.join(sorted(allowed))}.")
        self.allowed = tuple(sorted(allowed))


class RequestTimeout(HttpError):
    """A head or a body that arrives too slowly."""


class BodyTooLarge(HttpError):
    """A body of more bytes than the route accepts."""


class UnsupportedMediaType(HttpError):
    """A body of another media type, or with a content coding."""


class MisdirectedRequest(HttpError):
    """A Host field that names another server (RFC 9110 15.5.20)."""


class HeadTooLarge(HttpError):
    """A head over 16 KiB or over 64 fields."""


class Unhealthy(HttpError):
    """A failed health check of the databases."""


class ShuttingDown(HttpError):
    """A request during shutdown, which the client may repeat after the next start."""
