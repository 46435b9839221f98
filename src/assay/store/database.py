"""Connections, transactions and migrations; what goes wrong with them is a StoreError of one line.

SQLite writes ahead (WAL) and syncs at every commit, so readers do not wait and a kill loses nothing that was
committed. A writer takes the lock as it begins, so two of them queue in place of failing half-way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine import URL, Connection, Engine, make_url

from assay.errors import StoreError
from assay.store.tables import HEAD

WAIT_S = 30.0
"""Seconds to wait for another writer."""

_MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x61737361  # of migrations, in PostgreSQL


class Database:
    """A database with today's schema. Its transactions raise StoreError, and then nothing of them is kept. fixed: it is
    a file that may not be written.
    """

    def __init__(self, url: str, wait_s: float = WAIT_S, fixed: bool = False) -> None:
        self.url, self.name = _urls(url)
        self.engine = _engine(_unwritten(self.url) if fixed else self.url, self.name, wait_s, fixed)
        with _told(self.name):
            self._migrate()

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with _told(self.name), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Committed at the end, or not at all."""
        with _told(self.name), self.engine.execution_options(writes=True).begin() as connection:
            yield connection

    def insert_missing(self, connection: Connection, table: sa.Table, values: dict[str, Any]) -> bool:
        """Whether the row is new; one that is there already stays as it is."""
        if self.is_sqlite:  # an old one knows no RETURNING
            from sqlalchemy.dialects import sqlite

            return connection.execute(sqlite.insert(table).values(values).on_conflict_do_nothing()).rowcount == 1
        from sqlalchemy.dialects import postgresql

        inserted = postgresql.insert(table).values(values).on_conflict_do_nothing().returning(sa.literal(1))
        return connection.execute(inserted).first() is not None

    def close(self) -> None:
        self.engine.dispose()

    def _migrate(self) -> None:
        """Runs the migrations that are missing, all in one transaction, one process at a time."""
        with self.engine.connect() as connection:
            if _version(connection) == HEAD:
                return
        with self.engine.execution_options(writes=True).begin() as connection:
            if not self.is_sqlite:
                connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            if _version(connection) != HEAD:
                _upgrade(connection, self.name)


def _version(connection: Connection) -> str | None:
    """The last migration that was run; None in an empty database."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return found


def _upgrade(connection: Connection, name: str) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreError(f"{name}: the store is of a newer assay; use that one, or another store") from error


def _urls(text: str) -> tuple[URL, str]:
    """The URL for SQLAlchemy and how it is told, without a password."""
    try:
        url = make_url(text)
    except exc.ArgumentError as error:
        raise StoreError(f"{text}: no database URL; write postgresql://USER@HOST/DATABASE, or name a folder") from error
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreError(
            f"{url.drivername}: findings are kept in SQLite or PostgreSQL; name a folder, or postgresql://"
        )
    return url, url.database or "" if url.get_backend_name() == "sqlite" else url.render_as_string()


def _unwritten(url: URL) -> URL:
    """SQLite asks for files beside the database even to read it, unless it is told that nobody writes; and then it does
    not look into what was written ahead.
    """
    ahead = Path(f"{url.database}-wal")
    alone = not ahead.exists() or not ahead.stat().st_size
    query = {"mode": "ro", "uri": "true"} | ({"immutable": "1"} if alone else {})
    return url.set(database=f"file:{quote(url.database or '')}", query=query)


def _engine(url: URL, name: str, wait_s: float, fixed: bool) -> Engine:
    try:
        if url.get_backend_name() != "sqlite":
            return sa.create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": max(1, int(wait_s))})
        engine = sa.create_engine(url, connect_args={"timeout": wait_s})
    except ImportError as error:
        raise StoreError(f"{name}: no driver for PostgreSQL; pip install 'assay-xla[pg]'") from error
    event.listen(engine, "connect", _sqlite_read if fixed else _sqlite_connected)
    event.listen(engine, "begin", _sqlite_begins)
    return engine


def _sqlite_connected(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # or the module begins transactions of its own, too late for the lock
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _sqlite_read(connection: Any, record: Any) -> None:
    connection.isolation_level = None


def _sqlite_begins(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def _told(name: str) -> Iterator[None]:
    try:
        yield
    except exc.SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        line = next(iter(str(cause).strip().splitlines()), type(cause).__name__)
        raise StoreError(f"{name}: {_advice(line)}") from error


def _advice(line: str) -> str:
    """What a database's words mean for the user."""
    for words, advice in (
        ("database is locked", "another process holds the database and did not let go; start again when it has ended"),
        ("disk is full", "the disk is full; make room and start again, nothing that was stored is lost"),
        ("disk I/O error", "the disk cannot be written; make room and start again, nothing that was stored is lost"),
        ("unable to open database file", "cannot be opened or made there"),
        ("file is not a database", "a file that is no store; name another folder"),
        ("readonly database", "may not be written; copy the folder and name the copy"),
        ("malformed", "the database is damaged; take it from a backup, or name another folder"),
        ("connection failed", "no server answers there; start it, or name a folder"),
        ("connection to server", "no server answers there; start it, or name a folder"),
    ):
        if words in line:
            return advice if "server" not in advice else f"{advice} ({line})"
    return line
