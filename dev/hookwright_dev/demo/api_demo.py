"""The API's part of the demo: an API client's steps, with curl commands that a reader can repeat."""

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from hookwright_dev.cluster.stack import EMAIL, PASSWORD, Stack
from hookwright_dev.demo.story import Story
from hookwright_dev.errors import DevError
from hookwright_dev.receiver import Received, Receiver, verdict

_JSON: Final = "-H 'Content-Type: application/json'"
_MORE_THAN_ALLOWED: Final = 120


@dataclass(slots=True)
class ApiDemo:
    """The steps of an API client of one project, on a running stack."""

    stack: Stack
    story: Story
    receiver: Receiver
    organization: str
    project: str
    client: httpx.AsyncClient = field(init=False)

    async def tell(self) -> None:
        """Run every step; raise at the first claim that is not true."""
        async with httpx.AsyncClient(base_url=self.stack.api.url, timeout=30, trust_env=False) as self.client:
            session = await self._log_in()
            key = await self._make_key(session)
            webhook = await self._register(key)
            await self._send(key, webhook)
            await self._delete(key, webhook)
            await self._hit_the_limit(key)

    async def _log_in(self) -> dict[str, str]:
        story = self.story
        story.step("The same for API clients: log in")
        story.command(f"echo PASSWORD | hookwright users create {EMAIL} --organization {self.organization}")
        story.output(await asyncio.to_thread(self._write_user))
        body = {"email": EMAIL, "password": PASSWORD}
        story.command(f"curl $HOOKWRIGHT_API_URL/v1/auth/login {_JSON} -d '{json.dumps(body)}'")
        answer = await self._logged_in(body)
        story.output(_brief(answer, "token"))
        story.check(
            f"{EMAIL} is logged in to {self.organization}", holds=answer["user"]["organization"] == self.organization
        )
        return {"Authorization": f"Bearer {answer['token']}"}

    async def _make_key(self, session: dict[str, str]) -> dict[str, str]:
        story = self.story
        story.step("Make an API key")
        path = f"/v1/projects/{self.project}/keys"
        story.command(
            f'curl $HOOKWRIGHT_API_URL{path} -H "Authorization: Bearer $TOKEN" {_JSON} -d \'{{"name": "demo"}}\''
        )
        api_key = await self._call("POST", path, 201, session, {"name": "demo"})
        story.output(_brief(api_key, "key"))
        story.check("The plaintext is in this answer only", holds=api_key["key"].startswith(f"hw_{api_key['id']}_"))
        manifest = await self._kubectl("get", "apikey", api_key["id"], "-n", self.organization, "-o", "yaml")
        story.check("kubectl shows the key by the same id, with its digest only", holds=api_key["key"] not in manifest)
        return {"X-Service-Key": api_key["key"]}

    async def _register(self, key: dict[str, str]) -> dict[str, Any]:
        story = self.story
        story.step("Register a webhook, list, and test it")
        body = {"url": f"{self.receiver.url}api", "events": ["bounced", "soft_bounce"]}
        story.command(
            f"curl $HOOKWRIGHT_API_URL/v1/webhooks -H \"X-Service-Key: $KEY\" {_JSON} -d '{json.dumps(body)}'"
        )
        webhook = await self._call("POST", "/v1/webhooks", 201, key, body)
        story.output(_brief(webhook, "secret"))
        page = await self._call("GET", "/v1/webhooks", 200, key)
        names = [entry["id"] for entry in page["data"]]
        story.command('curl $HOOKWRIGHT_API_URL/v1/webhooks -H "X-Service-Key: $KEY"')
        story.check(
            f"Listed together with those from YAML: {', '.join(names)}", holds={webhook["id"], "orders"} <= {*names}
        )
        story.command(f'curl -X POST $HOOKWRIGHT_API_URL/v1/webhooks/{webhook["id"]}/test -H "X-Service-Key: $KEY"')
        result = await self._call("POST", f"/v1/webhooks/{webhook['id']}/test", 200, key)
        story.output(json.dumps(result))
        arrival = self._arrived()[-1]
        wrong = verdict(arrival.headers, arrival.body, [webhook["secret"]])
        story.check("The test arrived, signed with the webhook's secret", holds=result["success"] and not wrong)
        return webhook

    async def _send(self, key: dict[str, str], webhook: dict[str, Any]) -> None:
        story = self.story
        story.step("Send an event from outside the cluster, and read the delivery log")
        event = {"type": "bounced", "messageId": "m-3001"}
        story.command(f"curl $HOOKWRIGHT_API_URL/v1/events -H \"X-Service-Key: $KEY\" {_JSON} -d '{json.dumps(event)}'")
        answer = await self._call("POST", "/v1/events", 202, key, event)
        story.output(json.dumps(answer))
        path = f"/v1/webhooks/{webhook['id']}/deliveries"
        for _ in range(100):
            log = await self._call("GET", path, 200, key)
            if log["data"] and log["data"][0]["status"] == "delivered":
                break
            await asyncio.sleep(0.1)
        story.command(f'curl $HOOKWRIGHT_API_URL{path} -H "X-Service-Key: $KEY"')
        story.output(json.dumps(log["data"][:1], indent=2))
        attempts = log["data"][0]["attempts"] if log["data"] else []
        story.check(
            "The log shows the delivery and its attempt", holds=[attempt["statusCode"] for attempt in attempts] == [200]
        )

    async def _delete(self, key: dict[str, str], webhook: dict[str, Any]) -> None:
        story = self.story
        story.step("Delete the webhook")
        story.command(f'curl -X DELETE $HOOKWRIGHT_API_URL/v1/webhooks/{webhook["id"]} -H "X-Service-Key: $KEY"')
        await self._call("DELETE", f"/v1/webhooks/{webhook['id']}", 204, key)
        answer = await self.client.get(f"/v1/webhooks/{webhook['id']}", headers=key)
        story.check("The webhook is deleted: 404", holds=answer.status_code == 404, otherwise=answer.text)

    async def _hit_the_limit(self, key: dict[str, str]) -> None:
        story = self.story
        story.step("Hit the limit: 100 requests a minute from one address")
        story.command('for i in {1..101}; do curl -i $HOOKWRIGHT_API_URL/v1/webhooks -H "X-Service-Key: $KEY"; done')
        for _ in range(_MORE_THAN_ALLOWED):
            answer = await self.client.get("/v1/webhooks", headers=key)
            if answer.status_code == 429:
                break
        headers = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After")
        story.output("\n".join([str(answer.status_code), *(f"{name}: {answer.headers.get(name)}" for name in headers)]))
        has_headers = all(name in answer.headers for name in headers)
        story.check("429, with the time to wait", holds=answer.status_code == 429 and has_headers)

    # ---- requests of the steps

    async def _call(
        self, method: str, path: str, status: int, headers: dict[str, str], body: object = None
    ) -> dict[str, Any]:
        answer = await self.client.request(method, path, headers=headers, json=body)
        if answer.status_code != status:
            raise DevError(f"{method} {path}: {answer.status_code} instead of {status}: {answer.text}")
        return dict(answer.json()) if answer.content else {}

    async def _logged_in(self, body: dict[str, str]) -> dict[str, Any]:
        """Log in as soon as the API's watch has the new user."""
        for _ in range(50):
            answer = await self.client.post("/v1/auth/login", json=body)
            if answer.is_success:
                return dict(answer.json())
            await asyncio.sleep(0.2)
        raise DevError(f"POST /v1/auth/login: {answer.status_code}: {answer.text}")

    async def _kubectl(self, *arguments: str) -> str:
        return (await asyncio.to_thread(self.stack.plane.kubectl, *arguments)).stdout

    def _write_user(self) -> str:
        arguments = ("--way=kubeconfig", "users", "create", EMAIL, "--organization", self.organization)
        return subprocess.run(
            [sys.executable, "-m", "hookwright_cli", *arguments],
            input=f"{PASSWORD}\n",
            env={**os.environ, "KUBECONFIG": str(self.stack.plane.kubeconfig)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def _arrived(self) -> list[Received]:
        return [request for request in self.receiver.received if request.target == "/api"]


def _brief(answer: dict[str, Any], secret: str) -> str:
    """Return an answer as text, with most of its secret omitted."""
    return json.dumps(answer | {secret: f"{answer[secret][:8]}…"}, ensure_ascii=False)
