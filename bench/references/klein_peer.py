"""N1 and NG are unchanged Klein with one thread that writes. Arguments: PORT FOLDER BATCH

BATCH is the number of writes that one commit may have: 1 for N1, 64 for NG.
"""

import sys
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from klein import Klein
from twisted.internet import endpoints, reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.python.failure import Failure
from twisted.web.server import Site

from bench.references import peer_store
from bench.references.peer_store import PeerAnswer, PeerTransaction

app = Klein()
Job = tuple[PeerTransaction, "Deferred[PeerAnswer]"]


class GroupWriter:
    """A thread that commits waiting transactions, up to `batch` of them at once."""

    def __init__(self, folder: Path, batch: int) -> None:
        self._batch = batch
        self._waiting: SimpleQueue[Job] = SimpleQueue()
        self._connection = peer_store.open_file(folder)
        Thread(target=self._run, daemon=True).start()  # a thread of the reactor would prevent its stop

    def submit(self, transaction: PeerTransaction) -> "Deferred[PeerAnswer]":
        """Return a Deferred that fires after the commit."""
        done: Deferred[PeerAnswer] = Deferred()
        self._waiting.put((transaction, done))
        return done

    def _run(self) -> None:
        while True:
            jobs = [self._waiting.get()]
            while len(jobs) < self._batch and not self._waiting.empty():
                jobs.append(self._waiting.get())
            reactor.callFromThread(_deliver, jobs, self._commit([transaction for transaction, _ in jobs]))

    def _commit(self, transactions: list[PeerTransaction]) -> list[PeerAnswer] | Failure:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            answers = [transaction(self._connection) for transaction in transactions]
            self._connection.execute("COMMIT")
        except Exception:
            failure = Failure()
            self._connection.rollback()
            return failure
        return answers


def _deliver(jobs: list[Job], outcome: list[PeerAnswer] | Failure) -> None:
    for place, (_, done) in enumerate(jobs):
        done.callback(outcome if isinstance(outcome, Failure) else outcome[place])


def send(request: Any, answer: PeerAnswer, kind: str) -> bytes:
    status, body, etag = answer
    request.setResponseCode(status)
    request.setHeader("Content-Type", kind)
    if etag:
        request.setHeader("ETag", etag)
    return body


@app.route("/game/saves/<string:slot>", methods=["GET"])
async def read(request: Any, slot: str) -> bytes:
    work = peer_store.read(request.getHeader("authorization"), slot)
    return send(request, await deferToThread(readers.run, work), "application/octet-stream")


@app.route("/game/saves/<string:slot>", methods=["PUT"])
async def write(request: Any, slot: str) -> bytes:
    work = peer_store.write(request.getHeader("authorization"), slot, request.content.read())
    return send(request, await writer.submit(work), "application/json")


@app.route("/auth/session/refresh", methods=["POST"])
async def refresh(request: Any) -> bytes:
    return send(request, await writer.submit(peer_store.refresh(request.content.read())), "application/json")


if __name__ == "__main__":
    place = Path(sys.argv[2])
    readers, writer = peer_store.Readers(place), GroupWriter(place, int(sys.argv[3]))
    endpoints.TCP4ServerEndpoint(reactor, int(sys.argv[1]), interface="127.0.0.1").listen(Site(app.resource()))
    reactor.run()
