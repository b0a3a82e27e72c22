"""The room of exports (PROTOCOL 4)."""

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from gamed.http.app import make_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import ShuttingDown
from gamed.http.request import Request
from gamed.http_rules.digest import sha256_field
from gamed.saves.exports import Exports, Parcel
from gamed.structs import Part
from gamed.web.access import access_token
from gamed.web.conditional import PRIVATE, conditions_of, send_part
from gamed.web.detached import Detached
from gamed.web.saves_errors import SAVE_ERRORS
from gamed.web.sessions_errors import SESSION_ERRORS

SEND_SECONDS = 3600
"""For one answer: a place is not kept for ever by who reads a byte now and then. A range goes on from there."""


class ExportRoutes(Part, frozen=True):
    """Made detached: a client that leaves frees its place when the step under way is done."""

    app = make_app(SAVE_ERRORS, SESSION_ERRORS)
    prefixes = ("/game/export",)
    body_policies = DEFAULT_BODY_POLICIES
    _exports: Exports
    _detached: Detached
    _clock: IReactorTime

    @app.route("/game/export", methods=["GET"])
    async def export(self, request: Request) -> bytes | None:
        conditions, whole = conditions_of(request.head.header), request.head.method != "HEAD"
        export = await self._exports.open(access_token(request.head))
        try:
            wanted = request.head.header("range") if whole else None
            parcel = await self._detached.run(export.pack(conditions, wanted))
            if parcel is None:
                raise ShuttingDown
            sending = Deferred.fromCoroutine(_answered(request, parcel, whole=whole))
            return await sending.addTimeout(SEND_SECONDS, self._clock)
        finally:
            export.close()


async def _answered(request: Request, parcel: Parcel, *, whole: bool) -> bytes | None:
    headers = {**PRIVATE, "ETag": str(parcel.tag), "Accept-Ranges": "bytes", "Content-Security-Policy": "sandbox"}
    headers |= {"Content-Type": "application/zip", "Content-Disposition": 'attachment; filename="saves.zip"'}
    request.setHeaders({**headers, "Repr-Digest": sha256_field(parcel.sha256)})
    if not parcel.modified:
        request.setResponseCode(304)
        return None
    return await send_part(request, parcel.content if whole else None, parcel.size, parcel.part)
