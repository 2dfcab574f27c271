"""Shares: the part of a bound that the namespaces use."""

from hookwright_operator.delivery.shares import Shares


def test_the_largest_use_is_of_the_namespace_that_is_nearest_to_its_bound() -> None:
    """A namespace that may take no more uses all of its bound; nothing in use is 0."""
    shares = Shares(16)
    assert shares.largest_use() == 0
    for namespace in ("acme", "globex"):
        shares.join(namespace)
    assert shares.largest_use() == 0
    shares.take("globex")
    assert shares.largest_use() < 0.5
    while shares.left("acme"):
        shares.take("acme")
    assert shares.largest_use() == 1
