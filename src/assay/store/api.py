"""The door to a store: `open_store`, and what can be asked of a `Store`.

A store is one text: a folder, which is made (`findings.db` and `artifacts/` in it), or
`postgresql://USER@HOST/DATABASE?artifacts=PLACE`, where PLACE is a folder or an fsspec URL. A folder takes
`?artifacts=` as well.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from assay.errors import InputError, StoreError
from assay.oracle.verdict import Verdict
from assay.store import rows
from assay.store.artifacts import Artifacts, artifacts_at, told
from assay.store.finding import Bucket, Finding, Severity, Verification, digest_of, now

if TYPE_CHECKING:
    from assay.store.database import Database

DEFAULT = "assay-findings"
VARIABLE = "ASSAY_STORE"


def default_store() -> str:
    """Where findings go when nothing else is said."""
    return os.environ.get(VARIABLE) or DEFAULT


def open_store(place: str | Path | None = None, wait_s: float = 30.0, create: bool = True) -> Store:
    """Opens a store, made or brought up to date if need be. wait_s: for another writer.

    create: whether a folder that is not there is made; if not, one that may not be written can be read. Raises
    StoreError, in one line, where it cannot be opened.
    """
    text = str(place if place is not None else default_store())
    base, _, query = text.partition("?")
    named = dict(parse_qsl(query))
    where = named.pop("artifacts", None)
    rest = f"?{urlencode(named)}" if named else ""
    if "://" in base:
        if where is None:
            raise StoreError(
                f"{base.split('://')[0]}: say where artifacts go: {base.split('://')[0]}://...?artifacts=FOLDER-OR-URL"
            )
        url = base + rest
    else:
        folder = Path(base)
        if not create and not (folder / "findings.db").exists():
            raise StoreError(f"{folder}: no findings there; name a store with --store or {VARIABLE}")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{folder}: {told(error)}; name another folder") from error
        url, where = f"sqlite:///{folder.absolute() / 'findings.db'}", where or str(folder / "artifacts")
    from assay.store.database import Database  # SQLAlchemy takes half a second to load

    fixed = not create and "://" not in base and not os.access(base, os.W_OK)
    return Store(Database(url, wait_s, fixed), artifacts_at(where))


@dataclasses.dataclass(frozen=True, slots=True)
class Filters:
    """Which findings are meant; None and "" ask nothing. Texts may be globs (`*`). pass_name, opcode: the culprit's."""

    bucket: str = ""
    verdict: Verdict | None = None
    severity: Severity | None = None
    target: str = ""
    toolchain: str = ""
    pass_name: str = ""
    opcode: str = ""
    campaign: str = ""
    known: bool | None = None
    limit: int | None = None


EVERYTHING = Filters()


class Store:
    """Findings and artifacts. Every method is a transaction of its own and raises StoreError with nothing half-done.

    Also a context manager, which closes it.
    """

    def __init__(self, database: Database, artifacts: Artifacts) -> None:
        self._database = database
        self.artifacts = artifacts

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    # ---- findings

    def add(self, finding: Finding, artifacts: Mapping[str, bytes], what: str = "") -> bool:
        """Stores a finding with what belongs to it, by file name; whether it is new.

        One that is there by its id stays as it was. It counts as one program of its bucket, `what` (see `sighted`).
        """
        from assay.store import tables

        # The artifacts come first: a row never names what is not there.
        kept = {name: self.artifacts.put(data) for name, data in sorted(artifacts.items())}
        finding = dataclasses.replace(finding, artifacts={**finding.artifacts, **kept})
        at = now()
        with self._database.writing() as connection:
            if connection.execute(tables.findings.select().where(tables.findings.c.id == finding.id)).first():
                return False  # its bucket may be another one this time
            self._bucket(connection, finding.bucket, at)
            is_new = self._database.insert_missing(connection, tables.findings, rows.row_of(finding))
            if is_new:
                seen = {"bucket": finding.bucket, "what": what or _sighting(finding), "at": at}
                self._database.insert_missing(connection, tables.sightings, seen)
        return is_new

    def attach(self, finding_id: str, artifacts: Mapping[str, bytes]) -> Finding:
        """Adds artifacts to a stored finding, or replaces those of the same name; what its id is made of stays."""
        from assay.store import tables

        kept = {name: self.artifacts.put(data) for name, data in sorted(artifacts.items())}
        with self._database.writing() as connection:
            found = self._one(connection, finding_id)
            changed = dataclasses.replace(found, artifacts={**found.artifacts, **kept})
            if changed.id != found.id:
                raise InputError(f"finding {found.id}: its program and inputs are what it is; add another finding")
            update = tables.findings.update().where(tables.findings.c.id == found.id)
            connection.execute(update.values(artifacts=dict(changed.artifacts)))
        return changed

    def mark(self, finding_id: str, note: str | None = None, known: str | None = None) -> Finding:
        """Sets the note, or the upstream report, of a finding; None leaves it."""
        from assay.store import tables

        with self._database.writing() as connection:
            found = self._one(connection, finding_id)
            note = found.note if note is None else rows.storable(note)
            known = found.known if known is None else rows.storable(known)
            update = tables.findings.update().where(tables.findings.c.id == found.id)
            connection.execute(update.values(note=note, known=known))
        return dataclasses.replace(found, note=note, known=known)

    def findings(self, filters: Filters = EVERYTHING) -> list[Finding]:
        """What fits, the silent ones first, then as they were found."""
        import sqlalchemy as sa

        from assay.store import tables

        table = tables.findings
        query = sa.select(table)
        for name in ("bucket", "target", "toolchain", "pass_name", "opcode", "campaign"):
            if wanted := getattr(filters, name):
                query = query.where(_like(table.c[name], wanted))
        if filters.verdict is not None:
            query = query.where(table.c.verdict == str(filters.verdict))
        if filters.severity is not None:
            query = query.where(table.c.severity == str(filters.severity))
        if filters.known is not None:
            query = query.where(table.c.known != "" if filters.known else table.c.known == "")
        rank = sa.case({str(s): i for i, s in enumerate(Severity)}, value=table.c.severity)
        query = query.order_by(rank, table.c.found_at, table.c.id).limit(filters.limit)
        with self._database.reading() as connection:
            return [rows.finding_of(dict(row)) for row in connection.execute(query).mappings()]

    def get(self, finding_id: str) -> Finding:
        """By its id, or enough of its beginning. Raises InputError where there is none or more than one."""
        with self._database.reading() as connection:
            return self._one(connection, finding_id)

    def read(self, finding: Finding, name: str) -> bytes:
        """An artifact of a finding. Raises InputError where it has none of that name."""
        if name not in finding.artifacts:
            raise InputError(f"finding {finding.id} has no {name}; there is {', '.join(sorted(finding.artifacts))}")
        return self.artifacts.get(finding.artifacts[name])

    def _one(self, connection: Any, finding_id: str) -> Finding:
        import sqlalchemy as sa

        from assay.store import tables

        column = tables.findings.c.id
        query = sa.select(tables.findings).where(column.startswith(finding_id, autoescape=True)).order_by(column)
        found = list(connection.execute(query.limit(3)).mappings())
        if not finding_id or not found:
            raise InputError(f"no finding {finding_id!r}; `assay findings list` has them")
        if len(found) > 1:
            raise InputError(f"several ids begin with {finding_id!r}; give more of it, such as {found[0]['id']}")
        return rows.finding_of(dict(found[0]))

    # ---- buckets

    def sighted(self, bucket: str, what: str) -> bool:
        """Counts a program that shows a bucket's bug without storing it; whether it was counted for the first time.

        what: names the program (`CAMPAIGN/SEED/NUMBER`), so that after a kill the same one is not counted twice.
        """
        from assay.store import tables

        at = now()
        with self._database.writing() as connection:
            self._bucket(connection, bucket, at)
            seen = {"bucket": bucket, "what": what, "at": at}
            return self._database.insert_missing(connection, tables.sightings, seen)

    def cap(self, bucket: str, capped: bool = True) -> None:
        """Says that no more findings of a bucket are wanted; they are still counted. The store itself takes them."""
        from assay.store import tables

        with self._database.writing() as connection:
            self._bucket(connection, bucket, now())
            connection.execute(tables.buckets.update().where(tables.buckets.c.name == bucket).values(capped=capped))

    def bucket(self, name: str) -> Bucket | None:
        """A bucket, None where nothing ever fell into it."""
        return next(iter(self._buckets(name)), None)

    def buckets(self) -> list[Bucket]:
        """All of them, in the order in which they were first seen."""
        return self._buckets(None)

    def count(self, bucket: str) -> int:
        """How many programs fell into a bucket, stored or not."""
        found = self.bucket(bucket)
        return 0 if found is None else found.count

    def _bucket(self, connection: Any, name: str, at: str) -> None:
        from assay.store import tables

        self._database.insert_missing(connection, tables.buckets, {"name": name, "first_seen": at, "capped": False})

    def _buckets(self, name: str | None) -> list[Bucket]:
        import sqlalchemy as sa

        from assay.store import tables

        bucket, seen, stored = tables.buckets, tables.sightings, tables.findings
        counted = sa.select(sa.func.count()).where(seen.c.bucket == bucket.c.name).scalar_subquery()
        last = sa.select(sa.func.max(seen.c.at)).where(seen.c.bucket == bucket.c.name).scalar_subquery()
        held = sa.select(sa.func.count()).where(stored.c.bucket == bucket.c.name).scalar_subquery()
        query = sa.select(bucket, counted.label("count"), last.label("last_seen"), held.label("stored"))
        query = query.order_by(bucket.c.first_seen, bucket.c.name)
        if name is not None:
            query = query.where(bucket.c.name == name)
        with self._database.reading() as connection:
            found = list(connection.execute(query).mappings())
        names = ("name", "first_seen", "count", "stored", "capped")
        return [Bucket(last_seen=row["last_seen"] or row["first_seen"], **{n: row[n] for n in names}) for row in found]

    # ---- campaigns

    def campaign(self, seed: int, settings: Mapping[str, Any]) -> Campaign:
        """The campaign of this seed and these settings (what JSON can say), begun now or earlier."""
        from assay.store import tables

        found = Campaign(self, digest_of([seed, settings])[:16], seed, dict(settings))
        values = {"id": found.id, "seed": seed, "settings": dict(settings), "progress": {}, "begun_at": now()}
        with self._database.writing() as connection:
            self._database.insert_missing(connection, tables.campaigns, {**values, "saved_at": values["begun_at"]})
        return found

    def campaigns(self) -> list[Campaign]:
        """All of them, in the order in which they were begun."""
        import sqlalchemy as sa

        from assay.store import tables

        query = sa.select(tables.campaigns).order_by(tables.campaigns.c.begun_at)
        with self._database.reading() as connection:
            return [Campaign(self, r["id"], r["seed"], r["settings"]) for r in connection.execute(query).mappings()]

    # ---- verifications

    def verified(self, found: Verification) -> None:
        """Records what became of a finding under another toolchain."""
        from assay.store import tables

        with self._database.writing() as connection:
            self._database.insert_missing(connection, tables.verifications, rows.verification_row(found))

    def verifications(self, finding_id: str | None = None) -> list[Verification]:
        """Of one finding, by its whole id, or of all, in the order in which they were made."""
        import sqlalchemy as sa

        from assay.store import tables

        table = tables.verifications
        query = sa.select(table).order_by(table.c.at, table.c.finding)
        if finding_id is not None:
            query = query.where(table.c.finding == finding_id)
        with self._database.reading() as connection:
            return [rows.verification_of(dict(row)) for row in connection.execute(query).mappings()]


@dataclasses.dataclass(frozen=True, slots=True)
class Campaign:
    """A campaign's place in a store. progress: what it last saved, of its own words; {} before that."""

    store: Store = dataclasses.field(repr=False, compare=False)
    id: str
    seed: int
    settings: Mapping[str, Any]

    @property
    def progress(self) -> dict[str, Any]:
        import sqlalchemy as sa

        from assay.store import tables

        query = sa.select(tables.campaigns.c.progress).where(tables.campaigns.c.id == self.id)
        with self.store._database.reading() as connection:
            found: dict[str, Any] = connection.execute(query).scalar_one()
            return found

    def save(self, progress: Mapping[str, Any]) -> None:
        """Replaces the progress, as a whole or not at all."""
        from assay.store import tables

        with self.store._database.writing() as connection:
            update = tables.campaigns.update().where(tables.campaigns.c.id == self.id)
            connection.execute(update.values(progress=dict(progress), saved_at=now()))


def _sighting(finding: Finding) -> str:
    origin = finding.origin
    return f"{origin.campaign}/{origin.seed}/{origin.number}" if origin.number is not None else finding.id


def _like(column: Any, glob: str) -> Any:
    """A glob with `*` as LIKE."""
    escaped = glob.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("*", "%")
    return column.like(escaped, escape="\\")
