"""The ApiKey of a presented API key."""

from datetime import datetime

from hookwright_api.view.table_records import KeyRecord
from hookwright_api.view.view import View
from hookwright_crds.keys import MalformedKeyError, key_id_of, matches


def find_key(view: View, presented: str, now: datetime) -> KeyRecord | None:
    """Return the ApiKey of a presented key, None if the key is not valid.

    A key is found by its public id and compared in constant time. Only an ApiKey that the operator confirmed counts,
    because a digest belongs to the ApiKey that declared it first, also after that one was deleted. If statuses of an
    earlier operator confirm two, the one created first counts. An expired key or one without a project is not valid.
    """
    try:
        key_id = key_id_of(presented)
    except MalformedKeyError:
        return None
    candidates = (key for key in view.keys.find("key_id", key_id) if matches(presented, key.digest))
    found = next((key for key in candidates if key.confirmed), None)
    if found is None or (found.expires_at is not None and now >= found.expires_at):
        return None
    return found if view.projects.get(found.identity.namespace, found.project) else None
