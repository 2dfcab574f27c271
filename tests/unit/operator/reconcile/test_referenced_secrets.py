"""Secrets that tenants make: how they are read."""

import base64

from support.reconcile_stage import ApiServer

from hookwright_crds.signing_fields import SecretRef
from hookwright_operator.reconcile.observer import read_referenced
from hookwright_runtime.kubernetes import Object

ORDERS = SecretRef(name="vault", key="orders")


def vault(text: str, **labels: str) -> Object:
    """Return a Secret as the API server shows it."""
    meta = {"name": "vault", "namespace": "acme", "uid": "uid-vault", "labels": labels}
    return {"metadata": meta, "data": {"orders": base64.b64encode(text.encode()).decode(), "other": "eA=="}}


async def test_several_secrets_of_one_field_sign_in_their_order() -> None:
    """The first one is current; other fields are not read."""
    server = ApiServer()
    server.stored = vault("whsec_new\n whsec_old")
    read = await read_referenced(server, "acme", ORDERS)
    assert read is not None
    assert dict(read.fields) == {"secret": "whsec_new", "previous": "whsec_old"}


async def test_a_secret_of_another_form_is_read_only_if_its_owner_offers_it() -> None:
    """It has one secret on each line; without the label, a password of the namespace could be read."""
    server, raw = ApiServer(), SecretRef(name="vault", key="orders", encoding="raw")
    for labels, fields in [
        ({"hookwright.dev/signing-secret": "true"}, {"secret": "new one", "previous": "old one"}),
        ({"hookwright.dev/signing-secret": "false"}, {}),
        ({"hookwright.dev/delivery-credential": "true"}, {}),
        ({}, {}),
    ]:
        server.stored = vault("new one\r\n\nold one \n", **labels)
        read = await read_referenced(server, "acme", raw)
        assert read is not None
        assert dict(read.fields) == fields
    server.stored = vault("a token", **{"hookwright.dev/signing-secret": "true"})
    server.stored["type"] = "kubernetes.io/service-account-token"
    read = await read_referenced(server, "acme", raw)
    assert read is not None
    assert read.fields == {}


async def test_a_secret_of_the_operator_a_long_field_and_binary_content_are_not_signed_with() -> None:
    """Another endpoint's signing secret would let its owner's receivers be deceived."""
    server = ApiServer()
    for item, foreign in [
        (vault("whsec_1", **{"app.kubernetes.io/managed-by": "hookwright"}), True),
        (vault("x" * 10_000), False),
        ({**vault(""), "data": {"orders": "/w=="}}, False),
        ({**vault(""), "data": None}, False),
    ]:
        server.stored = item
        read = await read_referenced(server, "acme", ORDERS)
        assert read is not None
        assert (dict(read.fields), read.foreign) == ({}, foreign)
