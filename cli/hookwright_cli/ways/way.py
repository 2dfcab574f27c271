"""What both ways can do. A verb that a way cannot do raises `OtherWayError`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

Document = dict[str, Any]


class Way(Protocol):
    """Operations on the resources and deliveries of one organization."""

    kind: str
    """``api`` or ``kubeconfig``."""

    @property
    def place(self) -> str:
        """The words for this way: its server and its organization."""

    def close(self) -> None:
        """Close the connections."""

    def overview(self) -> Document:
        """Return the state of the installation for ``status``."""

    def endpoints(self) -> list[Document]:
        """Return the endpoints of the project, or of the namespace."""

    def endpoint(self, name: str) -> Document:
        """Return one endpoint with its conditions and counts."""

    def create_endpoint(self, name: str, fields: Mapping[str, Any]) -> Document:
        """Create an endpoint; the name may be empty. The answer may have its ``secret``."""

    def change_endpoint(self, name: str, patch: Mapping[str, Any]) -> Document:
        """Change an endpoint by a merge patch."""

    def rotate(self, name: str, overlap: str) -> Document:
        """Request a new signing secret; an empty overlap is the present one."""

    def delete_endpoint(self, name: str) -> None:
        """Delete an endpoint; its pending deliveries are discarded."""

    def signing_secret(self, name: str) -> Document:
        """Return the signing secret of an endpoint."""

    def test(self, name: str, body: Mapping[str, Any]) -> Document:
        """Send one test event."""

    def deliveries(self, conditions: Mapping[str, str], limit: int) -> Iterator[Document]:
        """Yield deliveries that meet all conditions, the newest first, at most ``limit``."""

    def delivery(self, delivery: str) -> Document:
        """Return one delivery with its request and attempts."""

    def retry(self, delivery: str) -> Document:
        """Send a delivery again."""

    def begin_replay(self, name: str, body: Mapping[str, Any]) -> Document:
        """Begin a replay, or count its deliveries."""

    def replays(self, name: str) -> list[Document]:
        """Return the latest replays of an endpoint."""

    def replay(self, name: str, replay: str) -> Document:
        """Return a replay with its progress."""

    def cancel_replay(self, name: str, replay: str) -> None:
        """Cancel a running replay."""

    def send(self, events: Sequence[Mapping[str, Any]]) -> Document:
        """Send up to 1,000 events."""

    def take_messages(self, name: str, query: Mapping[str, str]) -> list[Document]:
        """Take messages of an endpoint with pull; ``limit``, ``wait`` and ``lease`` are those of the route."""

    def settle_messages(self, name: str, verb: str, body: Mapping[str, Any]) -> list[Document]:
        """Settle messages, by ``ack`` or ``nack``, and return the result of each."""

    def api_keys(self) -> list[Document]:
        """Return the API keys of the project, or of the namespace."""

    def create_key(self, fields: Mapping[str, Any]) -> Document:
        """Create an API key; only this answer has the key."""

    def revoke_key(self, key: str) -> None:
        """Revoke an API key."""

    def users(self) -> list[Document]:
        """Return the users of the installation."""

    def write_user(self, fields: Mapping[str, str], *, new: bool) -> Document:
        """Write a user, or a new password."""

    def delete_user(self, email: str) -> None:
        """Delete a user."""
