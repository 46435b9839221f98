"""The schema. migrations/versions makes it step by step; a test holds the two together."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, ForeignKey, Index, MetaData, String, Table, Text

HEAD = "0002"
"""The migration that a store of this version has."""

metadata = MetaData()

buckets = Table(
    "buckets",
    metadata,
    Column("name", String(160), primary_key=True),
    Column("first_seen", String(32), nullable=False),
    Column("capped", Boolean, nullable=False),
)

findings = Table(
    "findings",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("bucket", ForeignKey("buckets.name"), nullable=False),
    Column("severity", String(16), nullable=False),
    Column("verdict", String(24), nullable=False),
    Column("klass", String(24)),
    Column("why", Text, nullable=False),
    Column("target", String(40), nullable=False),
    Column("toolchain", Text, nullable=False),
    Column("versions", JSON, nullable=False),
    Column("options", JSON, nullable=False),
    Column("flags", JSON, nullable=False),
    Column("pass_name", Text, nullable=False),
    Column("instruction", Text, nullable=False),
    Column("opcode", Text, nullable=False),
    Column("pattern", Text, nullable=False),
    Column("campaign", String(16), nullable=False),
    Column("seed", BigInteger),
    Column("number", BigInteger),
    Column("file", Text, nullable=False),
    Column("found_at", String(32), nullable=False),
    Column("seconds", Float, nullable=False),
    Column("outside", BigInteger, nullable=False),
    Column("elements", BigInteger, nullable=False),
    Column("note", Text, nullable=False),
    Column("known", Text, nullable=False),
    Column("artifacts", JSON, nullable=False),
    Column("through", String(8), nullable=False, server_default="hlo"),
    Index("findings_by_bucket", "bucket"),
)

# A row for every program that fell into a bucket, so that one that is run again after a kill is not counted twice.
sightings = Table(
    "sightings",
    metadata,
    Column("bucket", ForeignKey("buckets.name"), primary_key=True),
    Column("what", String(80), primary_key=True),
    Column("at", String(32), nullable=False),
)

verifications = Table(
    "verifications",
    metadata,
    Column("finding", ForeignKey("findings.id"), primary_key=True),
    Column("toolchain", String(120), primary_key=True),
    Column("at", String(32), primary_key=True),
    Column("versions", Text, nullable=False),
    Column("verdict", String(24), nullable=False),
    Column("klass", String(24)),
    Column("standing", String(16), nullable=False),
    Column("why", Text, nullable=False),
    Column("seconds", Float, nullable=False),
)

campaigns = Table(
    "campaigns",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("seed", BigInteger, nullable=False),
    Column("settings", JSON, nullable=False),
    Column("progress", JSON, nullable=False),
    Column("begun_at", String(32), nullable=False),
    Column("saved_at", String(32), nullable=False),
)
