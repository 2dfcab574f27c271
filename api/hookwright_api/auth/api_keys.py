"""The ApiKey of a presented API key."""

from datetime import datetime

from hookwright_api.view.table_records import KeyRecord
from hookwright_api.view.view import View
from hookwright_crds.keys import MalformedKeyError, key_id_of, matches


def find_key(view: View, presented: str, now: datetime) -> KeyRecord | None:
    """Return the ApiKey of a presented key, None if the key is not valid.

    A key is found by its public id and compared in constant time. A rotated key keeps its id, and its replaced keys are
    valid until the ends of their overlaps. Only an ApiKey that the operator confirmed counts,
    because a digest belongs to the ApiKey that declared it first, also after that one was deleted. If statuses of an
    earlier operator confirm two, the one created first counts. An expired key or one without a project is not valid.
    """
    try:
        key_id = key_id_of(presented)
    except MalformedKeyError:
        return None
    candidates = (key for key in view.keys.find("key_id", key_id) if _matches(presented, key, now))
    found = next((key for key in candidates if key.confirmed), None)
    if found is None or (found.expires_at is not None and now >= found.expires_at):
        return None
    return found if view.projects.get(found.identity.namespace, found.project) else None


def _matches(presented: str, key: KeyRecord, now: datetime) -> bool:
    valid = (key.digest, *(replaced.digest for replaced in key.previous if now < replaced.until))
    # All digests are compared, so that the time does not depend on which of the keys was presented.
    return sum(matches(presented, digest) for digest in valid) > 0
