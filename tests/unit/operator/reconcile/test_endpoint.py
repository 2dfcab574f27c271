"""The promises of a WebhookEndpoint's plan."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import pytest
from support.reconcile_scenes import (
    BILLING,
    GRACE,
    NOW,
    OTHER_SECRET,
    SIGNING_SECRET,
    EndpointScene,
    after,
    endpoint,
    in_words,
    metadata,
    owned_by,
    signing_secret,
    status_of,
    steady_endpoint,
    with_metadata,
    without_status,
    writes,
)

from hookwright_crds.base import MADE_BY_API
from hookwright_crds.reading import Unsupported
from hookwright_crds.resources import DeliveryCounts
from hookwright_crds.signing_secrets import valid_secret
from hookwright_operator.reconcile.endpoint import DueFailures, FailedDeliveries
from hookwright_operator.reconcile.plan import (
    FINALIZER,
    ApplyMetadata,
    CreateSecret,
    EmitEvent,
    Register,
    RemoveFinalizer,
    RestoreSecret,
)
from hookwright_operator.reconcile.signing_secret import RECHECK, signing_secret_name
from hookwright_operator.registry import Health
from hookwright_operator.watch.objects import Parent, Secret, ours, owner_reference

HTTP = {"url": "http://example.com/"}
STEADY = steady_endpoint()
NEW = EndpointScene()
DELETED = with_metadata(STEADY, deletion_timestamp=NOW)


def health(code: int, *, error: str = "", attempted: datetime | None = NOW, limited_to: int | None = None) -> Health:
    """Return the delivery health of an endpoint."""
    counts = DeliveryCounts(delivered=3, failed=0, last_attempt_time=attempted, last_status_code=code)
    return Health(counts, error, limited_to=limited_to)


def blocked(reason: str, second: str = "Stalled") -> list[str]:
    """Return the actions that report why an endpoint sends nothing."""
    return [
        f"register: blocked by {reason}",
        f"status: Ready=False {reason}, {second}=True {reason}, Reachable=Unknown NotTried",
        f"Warning Event {reason}",
    ]


BLOCKED, *UNSUPPORTED = blocked("UnsupportedSpec")
READY = "status: Ready=True Delivering, Reachable=Unknown NotTried"
FAILING = [
    "register: sends",
    "status: Ready=True Delivering, Reachable=False AttemptFailed",
    "Warning Event AttemptFailed",
]
REFERRING = endpoint(spec={"signing": {"secretRef": {"name": "vault", "key": "orders"}}})
PULLED = steady_endpoint(url=None, pull={})
SEVEN = FailedDeliveries(7, "", NOW)
THEIRS = Secret(namespace="acme", name="vault", fields={"secret": OTHER_SECRET}, uid="uid-vault")
STRANGE = Unsupported(faults=("spec.timeout (must be a duration)",))

CASES: dict[str, tuple[EndpointScene, list[str]]] = {
    "an endpoint whose spec is not understood is known, so that its deliveries are written, and sends none": (
        replace(NEW, unsupported_parts=STRANGE),
        [BLOCKED, *UNSUPPORTED],
    ),
    "an endpoint that is not understood any more sends nothing more, and keeps its Secret": (
        replace(STEADY, unsupported_parts=STRANGE),
        [BLOCKED, *UNSUPPORTED],
    ),
    "an endpoint that is not understood and has no project is known as well": (
        replace(STEADY, unsupported_parts=STRANGE, parent=None),
        [BLOCKED, *UNSUPPORTED],
    ),
    "an endpoint with an unknown event type sends the known ones, and is not ready": (
        replace(STEADY, unsupported_parts=Unsupported(events=("rcs_read",))),
        ["register: sends", *UNSUPPORTED],
    ),
    "an endpoint with pull is ready, and its messages wait": (
        without_status(PULLED),
        ["register: sends", "status: Ready=True Waiting, Reachable=Unknown NotTried"],
    ),
    "an endpoint with pull whose last message was acknowledged is reachable": (
        replace(PULLED, health=health(200)),
        ["register: sends", "status: Ready=True Waiting, Reachable=True Delivered"],
    ),
    "an endpoint with an unknown field is ready, and its condition names the field": (
        replace(STEADY, unsupported_parts=Unsupported(fields=("spec.priority",))),
        ["register: sends", READY],
    ),
    "a new endpoint gets a secret, its place, and a status": (NEW, ["CreateSecret", "register: sends", READY]),
    "the first delivery brings the finalizer": (
        replace(NEW.settled(), health=Health(DeliveryCounts(pending=1))),
        ["register: sends", "ApplyMetadata", "register: sends", READY],
    ),
    "an endpoint with which all is well is only made known": (STEADY, ["register: sends"]),
    "an endpoint whose project does not exist says so, and heals when it appears": (
        replace(NEW, parent=None),
        blocked("ProjectNotFound", "Reconciling"),
    ),
    "an orphan whose project appeared is made whole": (
        replace(replace(NEW, parent=None).settled(), parent=BILLING),
        ["register: has no secret", "CreateSecret", "register: sends", READY],
    ),
    "an endpoint whose project went holds its deliveries": (
        replace(STEADY, parent=None),
        blocked("ProjectNotFound", "Reconciling"),
    ),
    "a lost signing secret is made anew, and the receiver's owner is warned": (
        replace(STEADY, secret=None),
        ["register: has no secret", "CreateSecret", "Warning Event SigningSecretRecreated", "register: sends"],
    ),
    "a signing secret without labels gets them back": (
        replace(STEADY, secret=signing_secret(labels={}, owner_uid="")),
        ["register: sends", "RestoreSecret", "register: sends"],
    ),
    "a signing secret with somebody else's label gets ours back": (
        replace(STEADY, secret=signing_secret(labels={**ours("uid-orders"), "app.kubernetes.io/managed-by": "x"})),
        ["register: sends", "RestoreSecret", "register: sends"],
    ),
    "a signing secret without ownerReference gets it back": (
        replace(STEADY, secret=signing_secret(owner_references=())),
        ["register: sends", "RestoreSecret", "register: sends"],
    ),
    "a foreign secret under the name is reported and looked at again": (
        replace(NEW, secret=signing_secret(foreign=True, fields={})),
        blocked("SecretConflict"),
    ),
    "a signing secret with a wrong value is reported, and nothing is signed with it": (
        replace(STEADY, secret=signing_secret(fields={"secret": "whsec_short"})),
        blocked("SigningSecretInvalid"),
    ),
    "a signing secret without its field is reported": (
        replace(STEADY, secret=signing_secret(fields={})),
        blocked("SigningSecretInvalid"),
    ),
    "plain http is reported where the installation does not allow it": (
        steady_endpoint(**HTTP),
        ["register: blocked by InsecureUrl"],
    ),
    "plain http is fine where the installation allows it": (
        replace(steady_endpoint(**HTTP), allow_http=True),
        ["register: sends", READY],
    ),
    "a suspended endpoint is ready and holds its deliveries": (
        steady_endpoint(suspend=True),
        ["register: suspended"],
    ),
    "the ownerReference of an endpoint that people declare is removed, and events find the endpoint meanwhile": (
        with_metadata(STEADY, owner_references=owned_by(BILLING)),
        ["register: sends", "ApplyMetadata", "register: sends"],
    ),
    "somebody else's ownerReference stays": (
        with_metadata(STEADY, owner_references=(owner_reference("Project", BILLING, controller=False),)),
        ["register: sends"],
    ),
    "an endpoint that /v1 created is owned by its project": (
        with_metadata(STEADY, labels=MADE_BY_API),
        ["register: sends", "ApplyMetadata", "register: sends"],
    ),
    "an endpoint that /v1 created, of a project that was made anew, gets the new owner": (
        replace(
            with_metadata(STEADY, labels=MADE_BY_API, owner_references=owned_by(BILLING)),
            parent=Parent("billing", "uid-billing-2"),
        ),
        ["register: sends", "ApplyMetadata", "register: sends"],
    ),
    "a lost finalizer is restored": (
        with_metadata(replace(STEADY, health=health(200)).settled(), finalizers=("example.com/other",)),
        ["register: sends", "ApplyMetadata", "register: sends"],
    ),
    "a deleted signing secret is restored with the same value": (
        replace(STEADY, secret=None, kept_secrets=(SIGNING_SECRET, OTHER_SECRET)),
        ["register: has no secret", "CreateSecret", "Warning Event SigningSecretRestored", "register: sends"],
    ),
    "a literal address that the guard refuses is reported before the first event": (
        replace(STEADY, refused_address="spec.url: 10.0.0.1 is a private address"),
        blocked("AddressRefused"),
    ),
    "a refused write is reported, and events find the endpoint": (
        replace(NEW, refused_write='secrets "orders-signing" is forbidden: exceeded quota'),
        blocked("WriteRefused", "Reconciling"),
    ),
    "a Secret of the tenant signs, and the operator makes none": (
        replace(NEW, endpoint=REFERRING, secret=THEIRS),
        ["register: sends", READY],
    ),
    "a Secret of the tenant that does not exist yet is waited for": (
        replace(NEW, endpoint=REFERRING),
        blocked("SecretNotFound", "Reconciling"),
    ),
    "a Secret of the tenant without a signing secret is reported": (
        replace(NEW, endpoint=REFERRING, secret=replace(THEIRS, fields={"secret": OTHER_SECRET, "previous": "x"})),
        blocked("SigningSecretInvalid"),
    ),
    "another endpoint's signing Secret is not signed with": (
        replace(NEW, endpoint=REFERRING, secret=replace(THEIRS, fields={}, foreign=True)),
        blocked("SecretConflict"),
    ),
    "a wiped status comes back": (
        without_status(STEADY),
        ["register: sends", READY],
    ),
    "a changed spec is acknowledged": (
        with_metadata(STEADY, generation=2),
        ["register: sends", READY],
    ),
    "a successful attempt makes the endpoint reachable": (
        replace(STEADY, health=health(200)),
        ["register: sends", "status: Ready=True Delivering, Reachable=True Delivered"],
    ),
    "a failed attempt makes the endpoint unreachable": (
        replace(STEADY, health=health(500, error="500 Internal Server Error")),
        [*FAILING],
    ),
    "a 200 whose answer broke off is no success": (
        replace(STEADY, health=health(200, error="the connection was closed")),
        [*FAILING],
    ),
    "an attempt without an answer makes the endpoint unreachable": (
        replace(STEADY, health=health(0, error="connection refused")),
        [*FAILING],
    ),
    "counts that come without a new attempt do not make an unreachable endpoint reachable": (
        replace(STEADY, health=health(503)),
        [*FAILING],
    ),
    "deliveries that were given up are announced together": (
        replace(STEADY, health=health(500, error="500 Internal Server Error"), failures=DueFailures(SEVEN, SEVEN)),
        [*FAILING, "report hookwright.delivery.failed", "Warning Event DeliveryFailed"],
    ),
    "a deleted endpoint discards its deliveries, and only then goes": (
        DELETED,
        ["Unregister", "discard, and insist", "remove finalizer, keep []"],
    ),
    "a deleted endpoint is let go after the grace period, store or no store": (
        with_metadata(STEADY, deletion_timestamp=NOW - GRACE),
        ["Unregister", "discard if the store is there", "remove finalizer, keep []"],
    ),
    "a deleted endpoint keeps the finalizers of others": (
        with_metadata(DELETED, finalizers=("example.com/a", FINALIZER, "example.com/b")),
        ["Unregister", "discard, and insist", "remove finalizer, keep ['example.com/a', 'example.com/b']"],
    ),
    "a deleted endpoint that waits for somebody else's finalizer is only kept out": (
        with_metadata(DELETED, finalizers=("example.com/other",)),
        ["Unregister"],
    ),
    "a deleted endpoint is not mended any more": (
        replace(with_metadata(DELETED, owner_references=()), secret=None, parent=None),
        ["Unregister", "discard, and insist", "remove finalizer, keep []"],
    ),
}


@pytest.mark.parametrize(("scene", "expected"), CASES.values(), ids=CASES.keys())
def test_the_plan_of_an_endpoint(scene: EndpointScene, expected: list[str]) -> None:
    """The name of each case is its promise."""
    assert in_words(scene.plan()) == expected


@pytest.mark.parametrize("scene", [case[0] for case in CASES.values()], ids=CASES.keys())
def test_an_endpoint_plan_carried_out_leaves_nothing_to_do(scene: EndpointScene) -> None:
    """The second plan writes nothing at any later time; a deleted endpoint is gone by then."""
    result_scene = scene.settled()
    if result_scene.endpoint.metadata.deletion_timestamp is None:
        assert writes(result_scene.plan()) == []
        assert writes(result_scene.plan(after(days=400))) == []


def test_what_is_made_for_an_endpoint_goes_with_it() -> None:
    """The endpoint owns the Secret, and nothing owns the endpoint, also when it gets its finalizer."""
    creation, *_ = NEW.plan().actions
    _, completion, *_ = replace(NEW.settled(), health=health(200)).plan().actions
    assert isinstance(completion, ApplyMetadata)
    assert completion.finalizers == (FINALIZER,)
    assert completion.owner_references == ()
    assert isinstance(creation, CreateSecret)
    assert creation.secret.name == "orders-signing"
    assert creation.secret.fields == {"secret": OTHER_SECRET}
    assert creation.secret.labels == {
        "app.kubernetes.io/managed-by": "hookwright",
        "hookwright.dev/owner-uid": "uid-orders",
    }
    assert creation.secret.owner_references == (
        owner_reference("WebhookEndpoint", metadata("orders"), controller=True),
    )


def test_restoring_a_secret_leaves_its_content_and_name_alone() -> None:
    """A lost label does not cause a new secret."""
    scene = replace(STEADY, secret=signing_secret(labels={}, owner_references=(), owner_uid=""))
    (restoration,) = [action for action in scene.plan().actions if isinstance(action, RestoreSecret)]
    assert restoration.secret.fields == {"secret": SIGNING_SECRET}
    assert restoration.secret.uid == "uid-secret"
    assert scene.settled().secret == replace(signing_secret(), labels=restoration.secret.labels)


def test_an_endpoint_is_known_to_delivery_as_it_is_declared() -> None:
    """The registry has every field of the spec."""
    spec = {
        "url": "https://example.com/in",
        "events": ["bounced", "delivered"],
        "timeout": "1s",
        "maxInFlight": 3,
        "headers": {"X-Team": "orders"},
        "format": "cloudevents",
    }
    scene = steady_endpoint(**spec)
    scene = replace(scene, secret=signing_secret(fields={"secret": SIGNING_SECRET, "previous": OTHER_SECRET}))
    (snapshot,) = [action.endpoint for action in scene.plan().actions if isinstance(action, Register)]
    assert (snapshot.uid, snapshot.namespace, snapshot.name) == ("uid-orders", "acme", "orders")
    assert (snapshot.project, snapshot.url) == ("billing", "https://example.com/in")
    assert snapshot.events == {"bounced", "delivered"}
    assert (snapshot.timeout, snapshot.max_in_flight) == (1.0, 3)
    assert (snapshot.headers, snapshot.format) == ((("X-Team", "orders"),), "cloudevents")
    assert snapshot.secrets == (SIGNING_SECRET, OTHER_SECRET)


@pytest.mark.parametrize(("maximum", "timeout"), [(30, 10), (10, 10), (2.5, 2.5)])
def test_the_maximum_of_the_installation_bounds_a_timeout(maximum: float, timeout: float) -> None:
    """No attempt takes longer, because the claim lease must outlive it; a message about it needs a longer timeout."""
    scene = without_status(replace(steady_endpoint(timeout="10s"), max_timeout=maximum))
    (snapshot,) = [action.endpoint for action in scene.plan().actions if isinstance(action, Register)]
    assert snapshot.timeout == timeout
    assert ("not 10s" in status_of(scene.plan())["conditions"][0]["message"]) == (timeout < 10)


def test_neither_a_foreign_nor_an_invalid_secret_is_signed_with() -> None:
    """A foreign or unusable secret never signs a delivery."""
    for secret in (
        signing_secret(foreign=True),
        signing_secret(fields={"secret": "nonsense", "previous": "nonsense too"}),
    ):
        snapshot = replace(STEADY, secret=secret).settled().registered
        assert snapshot is not None
        assert snapshot.secrets == ()
        assert not snapshot.sendable


def test_a_foreign_secret_is_looked_at_again_and_nothing_else_is() -> None:
    """No event reports a free name, so the plan looks again after a time."""
    conflict = replace(STEADY, secret=signing_secret(foreign=True))
    assert conflict.plan().again_at == NOW + RECHECK
    assert STEADY.plan().again_at is None
    assert "rename or delete it" in status_of(conflict.plan())["conditions"][0]["message"]


@pytest.mark.parametrize(
    ("scene", "told"),
    [
        (replace(NEW, parent=None), "Project 'billing' does not exist in namespace 'acme'"),
        (replace(steady_endpoint(), endpoint=endpoint(spec=HTTP)), "HOOKWRIGHT_ALLOW_HTTP=true"),
        (replace(STEADY, secret=signing_secret(fields={})), "field 'secret' must be whsec_"),
        (without_status(steady_endpoint(suspend=True)), "stay pending until spec.suspend is false"),
        (
            without_status(replace(steady_endpoint(timeout="10s"), max_timeout=2)),
            "signed and sent. The timeout is 2s, the longest of this installation, not 10s.",
        ),
    ],
)
def test_a_condition_says_what_to_do(scene: EndpointScene, told: str) -> None:
    """The message names the next step for the user."""
    assert told in status_of(scene.plan())["conditions"][0]["message"]


def test_the_message_of_a_failing_endpoint_is_its_last_error() -> None:
    """`kubectl get -o wide` shows the message of Ready, which must not say that all is well; a success ends that."""
    failing = replace(STEADY, health=health(500, error="HTTP 500 Internal Server Error")).settled()
    ready = failing.endpoint.status.conditions[0]
    assert (ready.status, ready.message) == (
        "True",
        "Deliveries are signed and retried. Last error: HTTP 500 Internal Server Error",
    )
    assert replace(failing, health=None).plan().actions[1:] == ()
    healed_scene = replace(failing, health=replace(health(200), succeeded=True)).settled()
    assert healed_scene.endpoint.status.conditions[0].message == "Deliveries are signed and sent."


def test_a_wiped_status_tells_again_where_the_secret_is() -> None:
    """The status has the name of the Secret, the generation and both conditions again."""
    status = status_of(without_status(STEADY).plan())
    assert status["signingSecretRef"] == {"name": "orders-signing", "key": "secret"}
    assert status["observedGeneration"] == 1
    assert [condition["type"] for condition in status["conditions"]] == ["Ready", "Reachable"]


def test_an_orphan_does_not_claim_to_have_a_secret() -> None:
    """Without a project the status names no new Secret, but it still names one that was created before."""
    assert "signingSecretRef" not in status_of(replace(NEW, parent=None).plan())
    assert status_of(replace(STEADY, parent=None).plan())["signingSecretRef"]["name"] == "orders-signing"


def test_somebody_else_s_secret_is_not_claimed() -> None:
    """While the name is in use the status names no Secret, so that the first own one is not reported as recreated."""
    conflict = replace(NEW, secret=signing_secret(foreign=True))
    assert "signingSecretRef" not in status_of(conflict.plan())
    healed_scene = replace(conflict.settled(), secret=None)
    assert "Warning Event SigningSecretRecreated" not in in_words(healed_scene.plan())
    assert healed_scene.settled().endpoint.status.signing_secret_ref is not None


def test_counts_stay_in_the_status_until_new_ones_come() -> None:
    """A change of the spec does not reset the counts."""
    counted_scene = replace(STEADY, health=health(200)).settled()
    status = status_of(with_metadata(counted_scene, generation=2).plan())
    assert status["deliveries"]["delivered"] == 3
    assert status["deliveries"]["lastAttemptTime"] == "2030-01-01T12:00:00Z"
    assert status["conditions"][1]["status"] == "True"


@pytest.mark.parametrize(("failures", "told"), [(1, "1 delivery failed"), (12, "12 deliveries failed")])
def test_the_event_of_given_up_deliveries_says_how_many_and_why(failures: int, told: str) -> None:
    """One Event reports many failed deliveries with the last error, also after the health was published."""
    scene = replace(STEADY, failures=DueFailures(FailedDeliveries(failures, "500 Internal Server Error", NOW - GRACE)))
    (event,) = [action for action in scene.plan().actions if isinstance(action, EmitEvent)]
    assert told in event.message
    assert "500 Internal Server Error" in event.message
    assert (event.count, event.since) == (failures, NOW - GRACE)


def test_an_endpoint_is_removed_at_the_version_that_was_seen() -> None:
    """A finalizer that another client adds at the same time is not overwritten."""
    (removal,) = [action for action in DELETED.plan().actions if isinstance(action, RemoveFinalizer)]
    assert removal.resource_version == DELETED.endpoint.metadata.resource_version


def test_the_name_of_a_signing_secret_fits_whatever_the_endpoint_is_called() -> None:
    """A name has at most 253 characters, differs between endpoints, and has no dot or hyphen before the hash."""
    longest = ["a" * 253, "a" * 252 + "b", "a" * 231 + "." + "a" * 21]
    names = [signing_secret_name(name) for name in longest]
    assert signing_secret_name("orders") == "orders-signing"
    assert signing_secret_name("a" * 245) == "a" * 245 + "-signing"
    assert all(len(name) <= 253 and name.endswith("-signing") and ".-" not in name for name in names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        (SIGNING_SECRET, True),
        ("whsec_" + "QUFB" * 8, True),
        ("whsec_" + "QUFB" * 7, False),
        ("whsec_" + "QUFB" * 22, False),
        ("whsec_" + "!" * 44, False),
        ("whsec_" + "QUFB" * 11 + "\n", False),
        ("QUFB" * 11, False),
        ("whsec_ü", False),
        ("", False),
    ],
)
def test_what_a_signing_secret_is(text: str, valid: bool) -> None:  # noqa: FBT001 - one column of the table
    """``whsec_`` and base64 of 24 to 64 bytes (Standard Webhooks)."""
    assert valid_secret(text) is valid


@pytest.mark.parametrize("change", [without_status, lambda scene: replace(scene, secret=None)])
def test_no_secret_is_ever_written_into_a_status_or_an_event(change: Callable[[EndpointScene], EndpointScene]) -> None:
    """The text of a plan in a log or a traceback contains no secret."""
    view = repr(change(STEADY).plan())
    assert SIGNING_SECRET not in view
    assert OTHER_SECRET not in view


def test_the_condition_names_what_is_not_understood() -> None:
    """The message names the field, its fault, and the effect on deliveries."""
    unsupported = Unsupported(("spec.priority",), ("rcs_read",), ("spec.timeout (must be a duration)",))
    ready = status_of(replace(STEADY, unsupported_parts=unsupported).plan())["conditions"][0]
    assert ready["message"] == (
        "This version does not understand spec.timeout (must be a duration). "
        "This version does not know the event types rcs_read in spec.events. "
        "This version does not know and ignores spec.priority. "
        "Deliveries stay pending until an operator understands the spec."
    )
