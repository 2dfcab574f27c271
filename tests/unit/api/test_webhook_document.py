"""The document of a webhook: merge patches, the fields of the object, ETags, and who owns the object."""

from copy import deepcopy
from typing import Any, cast

import pytest
from pydantic import ValidationError

from hookwright_api import webhook_document
from hookwright_api.rate_limits import Limiter
from hookwright_api.routes.webhook_creation import WebhookCreation
from hookwright_api.routes.webhooks import change
from hookwright_api.services import Services
from hookwright_api.settings import ApiSettings
from hookwright_api.view.table_records import EndpointRecord
from hookwright_api.view.view import View
from hookwright_api.webhook_credentials import refuse_moves
from hookwright_api.webhook_document import (
    check_etag,
    document_of,
    etag_of,
    labels_patch,
    merged,
    owner_of,
    refuse_declared,
    spec_of,
)
from hookwright_crds.base import ObjectMeta
from hookwright_crds.documents.credential_bodies import GIVEN_FIELDS, CredentialsChange
from hookwright_crds.documents.webhook_bodies import MAX_LABELS, WebhookPatch, WebhookRequest
from hookwright_crds.resources import WebhookEndpoint
from hookwright_runtime.errors import KubeError
from hookwright_runtime.problems import ProblemError

BODY: dict[str, Any] = {"url": "https://example.com/hooks", "events": ["delivered"]}


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_cases_of_the_specification(target: Any, patch: Any, result: Any) -> None:
    """RFC 7396, appendix A."""
    assert merged(target, patch) == result


def test_a_merge_changes_no_input() -> None:
    """The document of the view stays as it is."""
    target = {"labels": {"team": "a"}}
    assert merged(target, {"labels": {"team": None}}) == {"labels": {}}
    assert target == {"labels": {"team": "a"}}


def test_a_patch_becomes_the_fields_of_the_object() -> None:
    """Only named fields appear; null stays null, so that the API server fills in its default."""
    patch = WebhookPatch.model_validate(
        {
            "events": ["*"],
            "enabled": False,
            "description": None,
            "headers": {"X-Team": None, "X-Stage": "a"},
            "max_in_flight": 3,
            "rate_limit": {"per_minute": 60},
            "labels": {"team": "a"},
        }
    )
    assert spec_of(patch.model_dump(mode="json", exclude_unset=True)) == {
        "events": ["*"],
        "suspend": True,
        "description": None,
        "headers": {"X-Team": None, "X-Stage": "a"},
        "maxInFlight": 3,
        "rateLimit": {"perMinute": 60},
    }
    assert spec_of({"enabled": None, "rate_limit": None}) == {"suspend": None, "rateLimit": None}
    assert spec_of({}) == {}


def test_an_empty_object_changes_nothing() -> None:
    """RFC 7396: it names no field. The API server merges it likewise, so it gets no null and no incomplete object."""
    patch = WebhookPatch.model_validate({"rate_limit": {}, "pull": {}, "headers": {}, "labels": {}})
    fields = patch.model_dump(mode="json", exclude_unset=True)
    spec = spec_of(fields)
    present = {"rateLimit": {"perMinute": 60}, "pull": {"lease": "30s"}, "headers": {"X-Team": "a"}}
    assert merged(present, spec) == present
    assert labels_patch(fields, {"team": "a"}) == {}


def test_labels_of_tools_are_neither_changed_nor_removed() -> None:
    """Null for all labels removes those without a prefix."""
    present = {"team": "a", "app.kubernetes.io/managed-by": "hookwright-api", "hookwright.dev/x": "y"}
    assert labels_patch({"labels": None}, present) == {"team": None}
    assert labels_patch({"labels": {"stage": "b"}}, present) == {"stage": "b"}
    assert labels_patch({"url": "https://example.com"}, present) == {}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {
            "enabled": False,
            "description": "Orders",
            "headers": {"X-Team": "a"},
            "timeout": "5s",
            "max_in_flight": 1,
            "rate_limit": {"per_minute": 5},
            "format": "cloudevents",
            "labels": {"team": "a"},
        },
    ],
)
def test_what_is_created_is_read_back(body: dict[str, Any]) -> None:
    """The document of a created object is the request with its defaults."""
    request = WebhookRequest.model_validate({**BODY, **body})
    manifest = WebhookCreation("acme", "billing", request).manifest("wh-1", "key:a", repeatable=False)
    read = WebhookEndpoint.model_validate(manifest)
    assert document_of(read) == request.model_dump(mode="json", exclude=set(GIVEN_FIELDS))
    assert WebhookRequest.model_validate(document_of(read)) == request


def test_the_digest_of_an_earlier_version_stays() -> None:
    """A request that was made before the upgrade can be repeated after it; further fields make another request."""

    def digest(**more: Any) -> str:
        return WebhookCreation("acme", "billing", WebhookRequest.model_validate({**BODY, **more})).digest()

    assert digest() == "1e52c38b7a83b9192dc913bf91b1020c57e9508117a9d62b0aeb6fa6959bd08f"
    assert digest(enabled=True, headers={}, labels={}, timeout="15s", rate_limit=None) == digest()
    patches: list[dict[str, Any]] = [
        {"enabled": False}, {"description": "a"}, {"headers": {"X-A": "a"}}, {"timeout": "5s"}, {"max_in_flight": 1},
        {"rate_limit": {"per_minute": 5}}, {"format": "cloudevents"}, {"labels": {"team": "a"}},
    ]  # fmt: skip
    assert len({digest(), *(digest(**more) for more in patches)}) == len(patches) + 1


@pytest.mark.parametrize(
    ("more", "place", "message"),
    [
        ({"headers": {"X-Team: a\r\nX-Injected": "b"}}, "headers.X-Team: a\r\nX-Injected.[key]", "match pattern"),
        ({"headers": {"Webhook-ID": "mine"}}, "headers", "must not set Webhook-ID"),
        ({"headers": {"ce-id": "a"}, "format": "cloudevents"}, "", "must not set ce- headers"),
        ({"labels": {"app.kubernetes.io/managed-by": "me"}}, "labels.app.kubernetes.io/managed-by.[key]", "prefix"),
        ({"labels": {"hookwright.dev/owner-uid": "u"}}, "labels.hookwright.dev/owner-uid.[key]", "prefix"),
        ({"labels": {"": "a"}}, "labels..[key]", "1 to 63"),
        ({"labels": {"team\n": "a"}}, "labels.team\n.[key]", "1 to 63"),
        ({"labels": {"a" * 64: "a"}}, f"labels.{'a' * 64}.[key]", "1 to 63"),
        ({"labels": {"team": "a" * 64}}, "labels.team", "label values"),
        ({"labels": {"team": "a b"}}, "labels.team", "label values"),
        ({"labels": {f"l{number}": "" for number in range(MAX_LABELS + 1)}}, "labels", "at most 32"),
        ({"labels": None}, "labels", "valid dictionary"),
        ({"max_in_flight": 65}, "max_in_flight", "less than or equal to 64"),
        ({"rate_limit": {"perMinute": 5}}, "rate_limit.per_minute", "Field required"),
        ({"enabled": 1}, "enabled", "valid boolean"),
        ({"signing": {"secretRef": {"name": "other"}}}, "signing", "not permitted"),
        ({"project_ref": {"name": "shipping"}}, "project_ref", "not permitted"),
    ],
)
def test_a_bad_webhook_is_refused_at_its_field(more: dict[str, Any], place: str, message: str) -> None:
    """The bounds are those of the WebhookEndpoint's spec."""
    with pytest.raises(ValidationError) as refusal:
        WebhookRequest.model_validate({**BODY, **more})
    error = refusal.value.errors()[0]
    assert ".".join(map(str, error["loc"])) == place
    assert message in error["msg"]


def written(*managers: tuple[str, dict[str, Any], str], label: str | None = "hookwright-api") -> dict[str, Any]:
    """Return an object with entries of managedFields: manager, fields, subresource."""
    entries = [
        {"manager": manager, "operation": "Update", "fieldsV1": fields, **({"subresource": sub} if sub else {})}
        for manager, fields, sub in managers
    ]
    labels = {"app.kubernetes.io/managed-by": label} if label else {}
    return {"metadata": {"name": "orders", "labels": labels, "managedFields": entries}}


SPEC: dict[str, Any] = {"f:spec": {"f:url": {}}}
META: dict[str, Any] = {"f:metadata": {"f:finalizers": {}}}
OURS = ("hookwright-api", SPEC, "")


@pytest.mark.parametrize(
    ("found", "owner"),
    [
        (written(OURS), None),
        (written(OURS, ("hookwright", META, ""), ("hookwright", {"f:status": {}}, "status")), None),
        (written(OURS, ("kubectl-annotate", META, "")), None),
        (written(OURS, ("other", SPEC, "status")), None),
        (written(OURS, ("kubectl-edit", SPEC, "")), "kubectl-edit"),
        (written(("kubectl-client-side-apply", SPEC, ""), label=None), "kubectl-client-side-apply"),
        (written(("argocd-controller", SPEC, "")), "argocd-controller"),
        (written(("helm", SPEC, ""), ("helm", SPEC, ""), ("kubectl-edit", SPEC, "")), "helm, kubectl-edit"),
        (written(*[(f"m{number}", SPEC, "") for number in range(5)]), "m0, m1, m2 and 2 more"),
        (written(OURS, label="Helm"), "Helm"),
        (written(OURS, label=None), "unknown"),
        (written(("", SPEC, "")), "unknown"),
        ({"metadata": {"name": "orders"}}, "unknown"),
        ({"metadata": {"name": "orders", "managedFields": None, "labels": None}}, "unknown"),
    ],
)
def test_the_owner_of_a_spec(found: dict[str, Any], owner: str | None) -> None:
    """Only the spec counts: the operator and kubectl annotate write metadata and status."""
    assert owner_of(found) == owner
    if owner is None:
        refuse_declared(found)
    else:
        with pytest.raises(ProblemError, match=owner) as error:
            refuse_declared(found)
        assert error.value.status == 409


def meta(**changes: Any) -> ObjectMeta:
    """Return metadata of a state."""
    plain = {"name": "a", "uid": "u", "generation": 2, "resource_version": "7", "labels": {"team": "a"}}
    return ObjectMeta.model_validate({**plain, **changes})


SAME = etag_of(meta())


@pytest.mark.parametrize(
    "header", [None, "*", SAME, f'"6.0", {SAME}', f'{SAME},"8"', f" {SAME} ", f"W/{SAME}, {SAME}", '"7"']
)
def test_an_etag_of_this_state_matches(header: str | None) -> None:
    """Any of several strong ETags suffices; so does the resource version that kubectl shows."""
    check_etag(header, meta())


def test_a_change_of_the_status_alone_keeps_an_etag_valid() -> None:
    """The ETag itself changes, because the answer changes; a bare resource version is of the whole object."""
    later = meta(resource_version="8")
    assert etag_of(later) != SAME
    check_etag(SAME, later)
    with pytest.raises(ProblemError):
        check_etag('"7"', later)


@pytest.mark.parametrize(
    ("header", "state"),
    [
        ('"6"', meta()),
        (f"W/{SAME}", meta()),
        ('""', meta()),
        ('"77"', meta()),
        ('"7."', meta(resource_version="8")),
        (f'"6", W/{SAME}', meta()),
        (SAME, meta(generation=3)),
        (SAME, meta(labels={"team": "b"})),
        (SAME, meta(uid="another")),
    ],
)
def test_an_etag_of_another_state_is_412(header: str, state: ObjectMeta) -> None:
    """A weak ETag never matches (RFC 9110, 13.1.1)."""
    with pytest.raises(ProblemError) as error:
        check_etag(header, state)
    assert error.value.status == 412


@pytest.mark.parametrize("header", ["7", "", '"7', "'7'", '"7" "8"', '"7\n"', "null"])
def test_a_header_without_an_etag_is_422(header: str) -> None:
    """The fault names the header and the correct form."""
    with pytest.raises(ProblemError) as error:
        check_etag(header, meta())
    assert (error.value.status, error.value.errors[0].field) == (422, "If-Match")


def test_an_if_match_with_many_etags_costs_one_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A header of 64 KiB is refused; before, each of its 10,000 ETags computed the digest of the webhook again."""
    creations: list[ObjectMeta] = []
    digest = webhook_document._settings_digest

    def counted(meta: ObjectMeta) -> str:
        creations.append(meta)
        return digest(meta)

    monkeypatch.setattr(webhook_document, "_settings_digest", counted)
    meta = ObjectMeta(name="orders", uid="uid", resourceVersion="7", generation=1)
    with pytest.raises(ProblemError) as error:
        check_etag(", ".join(['"1.a"'] * 140), meta)
    assert (error.value.status, len(creations)) == (412, 1)
    with pytest.raises(ProblemError) as error:
        check_etag(",".join(['"1.a"'] * 10_000), meta)
    assert (error.value.status, len(creations)) == (422, 1)


TARGET: dict[str, Any] = {"url": "https://Hooks.example.com/a", "pull": None}
TO_PULL: dict[str, Any] = {"url": None, "pull": {"lease": "30s"}}
KEY_AND_TEAM: dict[str, Any] = {"X-Key": "secret", "X-Team": "billing"}


@pytest.mark.parametrize(
    ("patch", "missing"),
    [
        ({"url": "https://evil.example/a"}, "X-Key, X-Team"),
        ({"url": "http://hooks.example.com/a"}, "X-Key, X-Team"),
        ({"url": "https://hooks.example.com:8443/a"}, "X-Key, X-Team"),
        ({"url": "https://hooks.example.com./a"}, "X-Key, X-Team"),
        ({"url": "https://xn--hks-1na.example.com/a"}, "X-Key, X-Team"),
        ({"url": "https://hooks.example.com.evil.example/a"}, "X-Key, X-Team"),
        ({"url": "http://hooks.example.com:443/a"}, "X-Key, X-Team"),
        (TO_PULL, "X-Key, X-Team"),
        ({"tls": {"ca_certificates": "-----BEGIN of another"}}, "X-Key, X-Team"),
        ({"tls": None}, "X-Key, X-Team"),
        ({"tls": {"ca_certificates": None}, "headers": None}, None),
        ({"url": "https://evil.example", "headers": {}}, "X-Key, X-Team"),
        ({"url": "https://evil.example", "headers": {"X-Key": "new"}}, "X-Team"),
        ({"url": "https://evil.example", "headers": {"x-key": "new", "X-Team": "new"}}, "X-Key"),
        ({"url": "https://evil.example", "headers": {"X-Key": "new", "X-Team": None}}, None),
        ({"url": "https://evil.example", "headers": None}, None),
        ({**TO_PULL, "headers": {"X-Key": None, "X-Team": "new"}}, None),
        ({"url": "HTTPS://HOOKS.example.COM:443/another/path?x=1"}, None),
        ({"url": "https://hooks.example.com/a", "pull": None}, None),
        ({"headers": {"X-Key": "new"}}, None),
        ({"enabled": False, "format": "cloudevents", "labels": None}, None),
    ],
)
def test_header_values_do_not_follow_a_change_of_the_target(patch: dict[str, Any], missing: str | None) -> None:
    """Another scheme, host, port or CA, or a change to pull, needs each header; a path or a default port does not."""
    before = {**BODY, **TARGET, "headers": KEY_AND_TEAM, "tls": {"ca_certificates": "(hidden)"}}
    fields = WebhookPatch.model_validate(patch).model_dump(mode="json", exclude_unset=True)
    if missing is None:
        refuse_moves(before, fields)
        return
    with pytest.raises(ProblemError) as error:
        refuse_moves(before, fields)
    (fault,) = error.value.errors
    assert (error.value.status, fault.field) == (422, "headers")
    assert f"the values of {missing} again" in fault.message
    assert "secret" not in str(error.value.body())


def test_header_values_do_not_leave_an_endpoint_with_pull() -> None:
    """A change from pull to a url needs each header; another lease does not, nor an endpoint without headers."""
    before = {**BODY, **TO_PULL, "headers": {"X-Key": "secret"}}
    with pytest.raises(ProblemError, match="not valid") as error:
        refuse_moves(before, {"url": "https://hooks.example.com", "pull": None})
    assert "from pull to url" in error.value.errors[0].message
    refuse_moves(before, {"pull": {"lease": "1m"}})
    refuse_moves({**before, "headers": {}}, {"url": "https://hooks.example.com", "pull": None})


def test_access_tokens_do_not_follow_a_change_of_the_authority() -> None:
    """The receiver gets them, so a server with another certificate must not."""
    with pytest.raises(ProblemError) as error:
        refuse_moves({**BODY, "oauth2": {"client_id": "a"}}, {"tls": {"ca_certificates": "-----BEGIN"}})
    assert error.value.errors[0].field == "oauth2.client_secret"


class RacingServer:
    """An API server on which another client sets a header between the read and the write of a change."""

    def __init__(self) -> None:
        self.live = WebhookCreation("acme", "billing", WebhookRequest.model_validate(BODY)).manifest(
            "wh-1", "key:a", repeatable=False
        )
        self.live["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": 1}

    async def get(self, _path: str) -> dict[str, Any]:
        """Return the object."""
        return deepcopy(self.live)

    async def merge(self, _path: str, patch: dict[str, Any]) -> dict[str, Any]:
        """Set the header first, then write if the patch allows the new state."""
        if self.live["metadata"]["resourceVersion"] == "1":
            self.live["metadata"]["resourceVersion"] = "2"
            self.live["spec"]["headers"] = {"X-Key": "secret"}
        if patch["metadata"].get("resourceVersion", "2") != "2":
            raise KubeError("conflict", status=409, reason="Conflict")
        self.live = merged(self.live, patch)
        return self.live


async def test_a_header_that_is_set_during_a_change_of_the_target_does_not_follow() -> None:
    """The write needs the state that was checked, so the repeated check sees the header."""
    settings, placeholder, server = ApiSettings(), cast("Any", None), RacingServer()
    services = Services(settings, View(), cast("Any", server), placeholder, Limiter(settings), placeholder)
    identity = EndpointRecord.of(server.live).identity
    with pytest.raises(ProblemError) as error:
        await change(services, identity, WebhookPatch(url="https://evil.example"), None)
    assert error.value.errors[0].field == "headers"
    assert server.live["spec"]["url"] == BODY["url"]


async def test_a_repeated_attempt_writes_new_secrets_and_removes_the_first() -> None:
    """The state of the second attempt can have another url, so the Secrets of the first can be for another host."""
    settings, placeholder, server = ApiSettings(), cast("Any", None), RacingServer()
    created_names: list[str] = []
    removed_names: list[str] = []

    class Operator:
        async def change_credentials(self, _namespace: str, _endpoint: str, change: CredentialsChange) -> None:
            created_names.extend(change.created)
            removed_names.extend(change.removed)

    services = Services(settings, View(), cast("Any", server), cast("Any", Operator()), Limiter(settings), placeholder)
    patch = WebhookPatch.model_validate({"secret_headers": {"X-Other": {"value": "a"}}})
    await change(services, EndpointRecord.of(server.live).identity, patch, None)
    new_name = server.live["spec"]["secretHeaders"][0]["secretKeyRef"]["name"]
    assert (created_names, len({*created_names})) == ([*removed_names, new_name], 2)
