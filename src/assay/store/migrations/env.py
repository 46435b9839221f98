"""What alembic executes: on the connection that `database` holds, inside its transaction."""

from __future__ import annotations

from alembic import context

from assay.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
