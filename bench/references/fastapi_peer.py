"""F is FastAPI on uvicorn with uvloop and httptools, and one commit for each write. Arguments: PORT FOLDER"""

import sys
from pathlib import Path
from threading import Lock

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool

from bench.references import peer_store
from bench.references.peer_store import PeerAnswer, PeerTransaction

app = FastAPI()


class Writer:
    """The only connection that writes, for one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._connection, self._lock = peer_store.open_file(folder), Lock()

    def run(self, transaction: PeerTransaction) -> PeerAnswer:
        """Run one transaction and commit it."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                answer = transaction(self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.rollback()
                raise
            return answer


def response(answer: PeerAnswer, kind: str) -> Response:
    status, body, etag = answer
    return Response(body, status, {"ETag": etag} if etag else None, kind)


@app.get("/game/saves/{slot}")
async def read(request: Request, slot: str) -> Response:
    work = peer_store.read(request.headers.get("authorization"), slot)
    return response(await run_in_threadpool(readers.run, work), "application/octet-stream")


@app.put("/game/saves/{slot}")
async def write(request: Request, slot: str) -> Response:
    work = peer_store.write(request.headers.get("authorization"), slot, await request.body())
    return response(await run_in_threadpool(writer.run, work), "application/json")


@app.post("/auth/session/refresh")
async def refresh(request: Request) -> Response:
    work = peer_store.refresh(await request.body())
    return response(await run_in_threadpool(writer.run, work), "application/json")


if __name__ == "__main__":
    place = Path(sys.argv[2])
    readers, writer = peer_store.Readers(place), Writer(place)
    uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", log_level="warning", access_log=False)
