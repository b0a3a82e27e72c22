"""Sessions with PostgreSQL outlive tests: a new one works for 10 ms until it knows the tables and the statements."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec
import psycopg
from psycopg import pq

from gamed.config.model import PostgresqlAddress
from gamed.database.postgresql.connecting import ANSWER_SECONDS, Connector, DriverConnection, SessionKind
from gamed.database.postgresql.connection import PostgresqlConnection
from gamed.database.postgresql.engine import PostgresqlEngine
from gamed.database.postgresql.error_mapping import PostgresqlError
from gamed.timestamps import Now

_FORGET = """
    CLOSE ALL; RESET ALL; SET SESSION AUTHORIZATION DEFAULT; UNLISTEN *; SELECT pg_advisory_unlock_all();
    DISCARD TEMP; DISCARD SEQUENCES
"""
"""It is DISCARD ALL, but keeps what was prepared."""
_names = count(1)
"""The numbers of all prepared statements of this process."""


class KeptSessions(Connector):
    """The way of one thread to a database; it has the sessions of closed connections for the next ones."""

    def __init__(self, address: PostgresqlAddress, now_ms: Now) -> None:
        super().__init__(address, now_ms)
        self._free: dict[SessionKind, list[DriverConnection]] = {}
        """Sessions without a connection."""
        self._prepared: dict[DriverConnection, Mapping[Any, Any]] = {}
        """Statements that they have prepared."""

    def open(self, kind: SessionKind) -> DriverConnection:
        """Return a session that another connection of this kind had, or a new one; raise a DatabaseError."""
        free = self._free.get(_unnamed(kind), [])
        while free:
            session = free.pop()
            with suppress(PostgresqlError, psycopg.Error):
                session.execute("SELECT set_config('application_name', $1, false)", [kind.name])
                self._set_up(session, kind)
                return session
            session.close()
        return super().open(kind)

    def prepared(self, session: DriverConnection) -> Mapping[Any, Any]:
        """Return the statements that a session of open() has prepared before."""
        return self._prepared.pop(session, {})

    def keep(self, session: DriverConnection, kind: SessionKind, prepared: Mapping[Any, Any]) -> None:
        """Keep a session whose connection is closed; raise PostgresqlError or psycopg.Error if it is of no use."""
        session.pgconn.exit_pipeline_mode()
        session.pgconn.notice_handler = None
        session.working, session.answer_seconds = DriverConnection.working, ANSWER_SECONDS
        session.execute(_FORGET)
        self._free.setdefault(_unnamed(kind), []).append(session)
        self._prepared[session] = prepared

    def close(self) -> None:
        """Close all sessions."""
        for free in self._free.values():
            while free:
                free.pop().close()
        self._prepared.clear()


class KeptConnection(PostgresqlConnection):
    """A connection that leaves its session to the next one, unless it has lost it or is in a transaction."""

    _connector: KeptSessions

    def _connect(self) -> None:
        self._names = _names
        super()._connect()
        self._prepared = {**self._connector.prepared(self._opened), **self._prepared}

    def close(self) -> None:
        self.wait()
        session = self._session
        if session is not None and session.transaction_status == pq.TransactionStatus.IDLE:
            with suppress(PostgresqlError, psycopg.Error):
                self._connector.keep(self._opened, self._kind, self._prepared)
                self._session = None
        super().close()


class KeptEngine(PostgresqlEngine):
    """An engine whose sessions are kept."""

    _connector: KeptSessions

    def open(self) -> KeptConnection:
        """Return a connection; raise DatabaseError."""
        return KeptConnection(self._connector, self._kind, self._joined)


def _unnamed(kind: SessionKind) -> SessionKind:
    return msgspec.structs.replace(kind, name="")
