"""Which of the compiler's programs ran: the optimized module, or what lies below it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("findings", sa.Column("through", sa.String(8), nullable=False, server_default="hlo"))


def downgrade() -> None:
    op.drop_column("findings", "through")
