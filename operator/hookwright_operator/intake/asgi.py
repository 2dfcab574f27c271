"""Reading requests and writing answers at the level of ASGI."""

from starlette.types import Scope, Send


def headers_of(scope: Scope) -> dict[str, str]:
    """Return a request's headers by lowercase name; of a repeated header, the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def client_of(scope: Scope) -> str:
    """Return the IP address of the client of a request; empty if it is not known."""
    client: tuple[str, int] | None = scope.get("client")
    return client[0] if client else ""


async def send_json(send: Send, status: int, body: bytes) -> None:
    """Send one whole answer, which is already JSON."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
