"""This module describes what the HTTP server needs of an access log; gamed.ops.access_log writes one."""

from typing import Protocol


class AccessLog(Protocol):
    """A log with one line per request; the template stands for the path, `code` is that of a problem."""

    def log(
        self,
        *,
        request_id: str,
        method: str,
        template: str,
        status: int,
        size: int,
        seconds: float,
        received: int,
        code: str,
    ) -> None: ...
