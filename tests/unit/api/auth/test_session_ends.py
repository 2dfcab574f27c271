"""The end of a user's sessions in the Secret of all ends."""

import asyncio
from typing import Any, cast

from unit.api.auth.test_callers import NOW, TTL, meta, put_ends, put_session_keys, put_user, token_of

from hookwright_api.auth.session_tokens import end_sessions, read_token
from hookwright_api.rate_limits import Limiter
from hookwright_api.services import Services
from hookwright_api.settings import ApiSettings
from hookwright_api.view.view import View
from hookwright_crds.sessions import ENDED_SESSIONS_NAME
from hookwright_runtime.kubernetes import KubernetesClient


class ApiServer(KubernetesClient):
    """An API server that answers a write after a turn of the event loop, and counts the writes."""

    def __init__(self) -> None:
        self.writes = 0

    async def merge(self, path: str, body: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Answer with the written fields."""
        del path, more
        self.writes += 1
        version = 10 + self.writes
        await asyncio.sleep(0)
        return {"metadata": meta(ENDED_SESSIONS_NAME, "sys", version), "data": body["data"]}


async def test_many_logouts_with_one_token_write_once() -> None:
    """All are admitted before the first one is stored; the others find the session ended and leave the queue."""
    settings, placeholder, view = ApiSettings(users_namespace="sys"), cast("Any", None), View()
    put_user(view, "h1", 1)
    put_session_keys(view, 1)
    put_ends(view, 2)
    token = token_of(view)
    session = read_token(view, token, NOW, TTL)
    assert session is not None
    server = ApiServer()
    services = Services(settings, view, server, placeholder, Limiter(settings), placeholder, now=lambda: NOW)
    await asyncio.gather(*(end_sessions(services, session) for _ in range(100)))
    assert server.writes == 1
    assert read_token(view, token, NOW, TTL) is None
