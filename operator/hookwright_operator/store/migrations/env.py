"""What Alembic runs to migrate: on the connection that it was handed, in the transaction that is under way there."""

from alembic import context

from hookwright_operator.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
