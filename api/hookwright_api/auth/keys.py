"""From a presented API key to the ApiKey that it is."""

from datetime import datetime

from hookwright_api.view.records import KeyRecord
from hookwright_api.view.view import View
from hookwright_crds.keys import MalformedKeyError, key_id_of, matches


def find_key(view: View, presented: str, now: datetime) -> KeyRecord | None:
    """Return the ApiKey of a presented key, None where it opens nothing.

    A key is found by its public id and compared in constant time. Of several objects with the same
    digest, which somebody could copy into a project of their own, the one made first counts. An
    expired key opens nothing, nor does one whose project is gone.
    """
    try:
        key_id = key_id_of(presented)
    except MalformedKeyError:
        return None
    found = next((key for key in view.keys.find("key_id", key_id) if matches(presented, key.digest)), None)
    if found is None or (found.expires_at is not None and now >= found.expires_at):
        return None
    return found if view.projects.get(found.identity.namespace, found.project) else None
