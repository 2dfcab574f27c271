"""The TLS contexts of endpoints with certificates of their own: how many there are, and what they offer."""

from hashlib import sha256

import pytest

from hookwright_dev.cluster.certificates import Authority
from hookwright_operator.delivery.http.error_messages import NoPlaceError
from hookwright_operator.delivery.http.tls_contexts import _CONTEXTS, TlsContexts, create_context
from hookwright_operator.registry import TlsIdentity

PEM = Authority().pem.decode()


def identity(number: int) -> TlsIdentity:
    """Return an identity that differs from those of other numbers."""
    return TlsIdentity(sha256(b"%d" % number).hexdigest(), PEM, "", None)


async def test_contexts_in_use_are_bounded_for_each_namespace() -> None:
    """Connections hold their contexts; those of one namespace leave room for another, and a free one can be made."""
    contexts = TlsContexts(create_context())
    in_use = [await contexts.context_of(identity(number), "acme") for number in range(_CONTEXTS)]
    with pytest.raises(NoPlaceError, match="TLS context"):
        await contexts.context_of(identity(_CONTEXTS), "acme")
    assert await contexts.context_of(identity(0), "acme") is in_use[0]
    assert await contexts.context_of(identity(0), "globex") is not in_use[0]


@pytest.mark.parametrize("of", [None, identity(1)], ids=["the system's", "own authorities"])
def test_no_receiver_chooses_a_group_of_any_size(of: TlsIdentity | None) -> None:
    """With DHE a large group would stop the event loop for a second in each handshake."""
    assert not [cipher["name"] for cipher in create_context(of).get_ciphers() if cipher["name"].startswith("DHE")]
