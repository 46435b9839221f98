"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "buckets",
        sa.Column("name", sa.String(160), primary_key=True),
        sa.Column("first_seen", sa.String(32), nullable=False),
        sa.Column("capped", sa.Boolean, nullable=False),
    )
    op.create_table(
        "findings",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("bucket", sa.String(160), sa.ForeignKey("buckets.name"), nullable=False),
        sa.Column("severity", sa.String(16), nullable=False),
        sa.Column("verdict", sa.String(24), nullable=False),
        sa.Column("klass", sa.String(24)),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("target", sa.String(40), nullable=False),
        sa.Column("toolchain", sa.Text, nullable=False),
        sa.Column("versions", sa.JSON, nullable=False),
        sa.Column("options", sa.JSON, nullable=False),
        sa.Column("flags", sa.JSON, nullable=False),
        sa.Column("pass_name", sa.Text, nullable=False),
        sa.Column("instruction", sa.Text, nullable=False),
        sa.Column("opcode", sa.Text, nullable=False),
        sa.Column("pattern", sa.Text, nullable=False),
        sa.Column("campaign", sa.String(16), nullable=False),
        sa.Column("seed", sa.BigInteger),
        sa.Column("number", sa.BigInteger),
        sa.Column("file", sa.Text, nullable=False),
        sa.Column("found_at", sa.String(32), nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("outside", sa.BigInteger, nullable=False),
        sa.Column("elements", sa.BigInteger, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("known", sa.Text, nullable=False),
        sa.Column("artifacts", sa.JSON, nullable=False),
    )
    op.create_index("findings_by_bucket", "findings", ["bucket"])
    op.create_table(
        "sightings",
        sa.Column("bucket", sa.String(160), sa.ForeignKey("buckets.name"), primary_key=True),
        sa.Column("what", sa.String(80), primary_key=True),
        sa.Column("at", sa.String(32), nullable=False),
    )
    op.create_table(
        "verifications",
        sa.Column("finding", sa.String(16), sa.ForeignKey("findings.id"), primary_key=True),
        sa.Column("toolchain", sa.String(120), primary_key=True),
        sa.Column("at", sa.String(32), primary_key=True),
        sa.Column("versions", sa.Text, nullable=False),
        sa.Column("verdict", sa.String(24), nullable=False),
        sa.Column("klass", sa.String(24)),
        sa.Column("standing", sa.String(16), nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
    )
    op.create_table(
        "campaigns",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("progress", sa.JSON, nullable=False),
        sa.Column("begun_at", sa.String(32), nullable=False),
        sa.Column("saved_at", sa.String(32), nullable=False),
    )


def downgrade() -> None:
    for name in ("campaigns", "verifications", "sightings", "findings", "buckets"):
        op.drop_table(name)
