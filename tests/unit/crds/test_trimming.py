"""The kept part of an object is bounded, and it contains everything that Hookwright reads."""

from typing import Any

from hookwright_crds.trimming import KEPT_BYTES, MORE_FINALIZERS, trimmed, trimmed_secret, trimmed_with_labels

PLAIN = {"name": "orders", "namespace": "acme", "uid": "u", "resourceVersion": "7", "generation": 2}
OWNER = {"apiVersion": "hookwright.dev/v1alpha1", "kind": "Project", "name": "billing", "uid": "p"}


def metadata(**more: Any) -> dict[str, Any]:
    """Return the kept part of metadata."""
    result: dict[str, Any] = trimmed({"metadata": {**PLAIN, **more}})["metadata"]
    return {name: value for name, value in result.items() if name not in PLAIN}


def test_metadata_that_hookwright_reads_is_kept_as_it_is() -> None:
    """Times, Hookwright's labels and annotations, all finalizers, and owners of Hookwright's kinds are kept."""
    read = {
        "creationTimestamp": "2030-01-01T00:00:00Z",
        "deletionTimestamp": "2030-01-02T00:00:00Z",
        "labels": {"app.kubernetes.io/managed-by": "hookwright", "hookwright.dev/owner-uid": "u"},
        "annotations": {"hookwright.dev/deletion-protection": "true"},
        "finalizers": ["hookwright.dev/deliveries", "example.com/hold"],
        "ownerReferences": [OWNER],
    }
    assert metadata(**read) == read


def test_all_other_metadata_goes() -> None:
    """The kept part is bounded, whatever the size of the object is."""
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "c"}
    result = metadata(
        managedFields=[{"manager": "kubectl"}],
        labels={"team": "a"},
        annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        ownerReferences=[foreign, OWNER],
        selfLink="/a",
    )
    assert result == {"labels": {}, "annotations": {}, "ownerReferences": [OWNER]}


def test_annotations_of_ours_are_bounded_together() -> None:
    """A finalizer that is too long is removed alone; of many short ones some are kept."""
    annotations = {"hookwright.dev/note": "x" * KEPT_BYTES, "hookwright.dev/created-by": "2"}
    assert metadata(annotations=annotations) == {"annotations": {"hookwright.dev/created-by": "2"}}
    many = {f"hookwright.dev/{number:04}": "x" * 100 for number in range(1000)}
    result = metadata(annotations=many)["annotations"]
    assert sum(len(name) + len(text) for name, text in result.items()) <= KEPT_BYTES


def test_of_too_many_finalizers_ours_stays_and_the_rest_has_a_mark() -> None:
    """Hookwright's finalizer is kept at any position, so it can be removed without dropping other finalizers."""
    many = [f"hookwright.dev/{number}" for number in range(1000)]
    assert metadata(finalizers=[*many, "hookwright.dev/deliveries"])["finalizers"] == [
        "hookwright.dev/deliveries",
        MORE_FINALIZERS,
    ]
    assert metadata(finalizers=many)["finalizers"] == [MORE_FINALIZERS]


def test_owners_are_bounded() -> None:
    """Owners of other kinds are removed, because only the garbage collector reads them."""
    assert len(metadata(ownerReferences=[OWNER] * 1000)["ownerReferences"]) == 16


def fields(**data: str) -> dict[str, str]:
    """Return the kept part of a Secret's data."""
    result: dict[str, str] = trimmed_secret({"metadata": PLAIN, "data": data})["data"]
    return result


def test_fields_that_the_operator_writes_are_kept() -> None:
    """Signing secrets, handed over keys and session keys are kept; a field that is too long becomes empty."""
    data = {"secret": "YQ==", "previous": "Yg==", "previous-2": "Yw==", "previous-3": "ZA==", "key": "ZQ=="}
    assert fields(**data, k1800000000="Zg==", other="x") == {**data, "k1800000000": "Zg=="}
    assert fields(secret="x" * 5000, previous="Yg==") == {"secret": "", "previous": "Yg=="}
    assert fields() == {}


def test_fields_are_bounded_together() -> None:
    """As many session keys as fit are kept."""
    result = fields(**{f"k{number}": "x" * 44 for number in range(100_000)})
    assert 50 < len(result) < 100
    assert sum(len(name) + len(text) for name, text in result.items()) <= KEPT_BYTES


def test_fields_of_a_credential_are_kept_in_the_order_of_their_names() -> None:
    """Their names are the tenant's. Those that fit together are kept, also if a hostile field comes first."""
    labels = {"hookwright.dev/delivery-credential": "true"}
    data = {"a": "x" * 1_000_000, "token": "x" * 5464, "z": "x" * 5464, "zz": "x" * 5464}
    kept_part = trimmed_secret({"metadata": {**PLAIN, "labels": labels}, "data": data})
    assert (kept_part["data"].keys(), kept_part["metadata"]["labels"]) == ({"token", "z"}, labels)
    labels["app.kubernetes.io/managed-by"] = "hookwright"
    assert trimmed_secret({"metadata": {**PLAIN, "labels": labels}, "data": {"token": "YQ=="}})["data"] == {}


def test_certificates_are_kept_before_all_other_fields() -> None:
    """cert-manager and others put keystores beside them, and a ConfigMap has binary fields too."""
    labels = {"hookwright.dev/delivery-credential": "true"}
    data = {"a": "x" * 9000, "ca.crt": "x" * 5000, "tls.crt": "x" * 5000, "tls.key": "x" * 5000}
    kept_part = trimmed_secret({"metadata": {**PLAIN, "labels": labels}, "data": data, "binaryData": {"b": "eA=="}})
    assert (kept_part["data"].keys(), "binaryData" in kept_part) == ({"ca.crt", "tls.crt", "tls.key"}, False)


def test_other_objects_have_no_data() -> None:
    """Spec and status do not change."""
    body = {"metadata": PLAIN, "spec": {"url": "https://a.example/"}, "status": {"observedGeneration": 1}}
    assert trimmed_secret(body) == body


def test_labels_of_people_are_kept_for_the_api_up_to_a_bound() -> None:
    """Of other prefixes none is kept; Hookwright's own labels do not count against the bound."""
    ours = {"app.kubernetes.io/managed-by": "hookwright-api"}
    result = trimmed_with_labels({"metadata": {**PLAIN, "labels": {**ours, "example.com/a": "b", "team": "a"}}})
    assert result["metadata"]["labels"] == {**ours, "team": "a"}
    many = {f"label-{number}": "x" * 63 for number in range(10_000)}
    result = trimmed_with_labels({"metadata": {**PLAIN, "labels": {**many, **ours}}})
    labels = result["metadata"]["labels"]
    assert labels.items() >= ours.items()
    assert sum(len(name) + len(text) for name, text in labels.items()) <= KEPT_BYTES + 100
    assert trimmed_with_labels({"metadata": PLAIN}) == {"metadata": PLAIN}
