"""The two interfaces, through Services and pods: YAML and a producer's token; login, key and /v1."""

from support.pod_actions import API, Organization
from support.polling import eventually

PASSWORD = "correct horse battery staple"


def test_platform_team_declares_and_signed_deliveries_come_out(org: Organization) -> None:
    """After applying YAML, an event from a producer's pod becomes a delivery that the receiver's pod verifies."""
    org.with_endpoint("orders")
    answer = org.post({"type": "delivered", "messageId": "m-1"}, {"type": "delivered", "messageId": "m-2"})
    assert answer.status == 202
    assert {"accepted": 2, "duplicates": 0, "deliveries": 2}.items() <= answer.json.items()
    report = org.arrived("orders", ["m-1", "m-2"])
    assert report["times"] == {"m-1": 1, "m-2": 1}

    def row() -> dict[str, str]:
        return _table(org.kubectl("get", "hwep", "orders"))[0]

    eventually(lambda: row()["REACHABLE"] == "True", "kubectl shows that the endpoint is reachable")
    assert {key: row()[key] for key in ("NAME", "PROJECT", "READY", "PENDING", "FAILED")} == {
        "NAME": "orders",
        "PROJECT": "billing",
        "READY": "True",
        "PENDING": "0",
        "FAILED": "0",
    }


def test_a_receiver_with_another_secret_finds_the_signatures_wrong(org: Organization) -> None:
    """The signature check that the other tests use can fail."""
    org.with_endpoint("wrong")
    org.receive("wrong", "whsec_" + "A" * 43 + "=")
    assert org.post({"type": "delivered", "messageId": "m-3"}).status == 202
    eventually(lambda: org.received("wrong")["wrong"], "a delivery")
    report = org.received("wrong")
    assert (report["good"], report["wrong"]) == (0, {"X-Service-Signature does not match": 1})


def test_api_client_logs_in_and_does_everything_through_the_service(org: Organization) -> None:
    """User, login, key, webhook, test, event by key and delivery log work without the cluster's API."""
    org.with_endpoint("declared", project="shop")
    email = f"ada@{org.namespace}.example"
    user = ("hookwright", "users", "create", email, "--organization", org.namespace)
    output = org.installation.kubectl(
        "exec", "-i", "-n", "hookwright-system", "deployment/hookwright-operator", "--", *user, stdin=f"{PASSWORD}\n"
    )
    assert output == f"{email} may log in to organization {org.namespace} as admin\n"

    login = {"email": email, "password": PASSWORD}
    # The API learns of the user by its watch.
    eventually(lambda: org.request("POST", f"{API}/v1/auth/login", login).status == 200, "a login", every=1.0)
    session = org.request("POST", f"{API}/v1/auth/login", login).json
    bearer = {"Authorization": f"Bearer {session['token']}"}
    key = org.request("POST", f"{API}/v1/projects/shop/keys", {"name": "CI"}, headers=bearer)
    assert key.status == 201, key
    ours = {"X-Service-Key": key.json["key"]}

    expected = {"url": org.receiver("made"), "events": ["delivered", "bounced"]}
    webhook = org.request("POST", f"{API}/v1/webhooks", expected, headers=ours)
    assert webhook.status == 201, webhook
    org.receive("made", webhook.json["secret"])
    answer = org.request("GET", f"{API}/v1/webhooks", headers=ours)
    assert {entry["id"] for entry in answer.json["data"]} == {"declared", webhook.json["id"]}

    path = f"{API}/v1/webhooks/{webhook.json['id']}"
    response = org.request("POST", f"{path}/test", headers=ours).json
    assert (response["success"], response["statusCode"]) == (True, 200)
    second_answer = org.request("POST", f"{API}/v1/events", {"type": "bounced", "messageId": "m-9"}, headers=ours)
    assert (second_answer.status, second_answer.json["deliveries"]) == (202, 1)
    org.arrived("made", ["m-9"])
    log = eventually(
        lambda: org.request("GET", f"{path}/deliveries?status=delivered", headers=ours).json["data"], "the delivery log"
    )
    assert [attempt["statusCode"] for attempt in log[0]["attempts"]] == [200]
    assert org.request("DELETE", path, headers=ours).status == 204
    assert org.request("GET", path, headers=ours).status == 404


def _table(text: str) -> list[dict[str, str]]:
    """Return the rows of a table of kubectl's, by its column heads; cells must not contain spaces."""
    heads, *rows = [line.split() for line in text.splitlines()]
    return [dict(zip(heads, row, strict=True)) for row in rows]
