"""The script that Alembic runs to migrate, in the current transaction of the connection that `upgrade` passes."""

from alembic import context

from hookwright_operator.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
