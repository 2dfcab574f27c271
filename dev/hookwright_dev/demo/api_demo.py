"""The API's part of the demo: an API client's steps, with curl commands that a reader can repeat."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from hookwright_dev.cluster.stack import EMAIL, ORGANIZATION, PASSWORD, Stack
from hookwright_dev.demo.story import Story
from hookwright_dev.errors import DevError
from hookwright_dev.receiver import Receiver, verdict

_SECRETS: Final = ("token", "key", "secret")


@dataclass(slots=True)
class ApiDemo:
    """The steps of an API client of one project, on a running stack."""

    stack: Stack
    story: Story
    receiver: Receiver
    project: str
    client: httpx.AsyncClient = field(init=False)

    async def tell(self) -> None:
        """Run every step; raise at the first claim that is not true."""
        async with httpx.AsyncClient(base_url=self.stack.api.url, timeout=30, trust_env=False) as self.client:
            await self._log_in()
            await self._make_key()
            await self._send(await self._register())

    async def _log_in(self) -> None:
        story = self.story
        story.step("The same for API clients: log in")
        story.command(f"echo PASSWORD | hookwright users create {EMAIL} --organization {ORGANIZATION}")
        story.output(await asyncio.to_thread(self._write_user))
        body = {"email": EMAIL, "password": PASSWORD}
        for _ in range(50):  # until the API's watch has the new user
            if (await self.client.post("/v1/auth/login", json=body)).is_success:
                break
            await asyncio.sleep(0.2)
        answer = await self._call("POST", "/v1/auth/login", 200, body)
        story.check(f"{EMAIL} is logged in to {ORGANIZATION}", holds=answer["user"]["organization"] == ORGANIZATION)
        self.client.headers["Authorization"] = f"Bearer {answer['token']}"

    async def _make_key(self) -> None:
        story = self.story
        story.step("Make an API key")
        api_key = await self._call("POST", f"/v1/projects/{self.project}/keys", 201, {"name": "demo"})
        story.check("The plaintext is in this answer only", holds=api_key["key"].startswith(f"hw_{api_key['id']}_"))
        reading = ("get", "apikey", api_key["id"], "-n", ORGANIZATION, "-o", "yaml")
        manifest = (await asyncio.to_thread(self.stack.plane.kubectl, *reading)).stdout
        story.check("kubectl shows the key by the same id, with its digest only", holds=api_key["key"] not in manifest)
        del self.client.headers["Authorization"]
        self.client.headers["X-Service-Key"] = api_key["key"]

    async def _register(self) -> dict[str, Any]:
        story = self.story
        story.step("Register a webhook, list, and test it")
        body = {"url": f"{self.receiver.url}api", "events": ["bounced", "soft_bounce"]}
        webhook = await self._call("POST", "/v1/webhooks", 201, body)
        page = await self._call("GET", "/v1/webhooks", 200, shown=False)
        names = [entry["id"] for entry in page["data"]]
        claim = f"Listed together with those from YAML: {', '.join(names)}"
        story.check(claim, holds={webhook["id"], "orders"} <= {*names})
        result = await self._call("POST", f"/v1/webhooks/{webhook['id']}/test", 200)
        arrival = [request for request in self.receiver.received if request.target == "/api"][-1]
        wrong = verdict(arrival.headers, arrival.body, [webhook["secret"]])
        story.check("The test arrived, signed with the webhook's secret", holds=result["success"] and not wrong)
        return webhook

    async def _send(self, webhook: Mapping[str, Any]) -> None:
        story = self.story
        story.step("Send an event from outside the cluster, and read the delivery log")
        await self._call("POST", "/v1/events", 202, {"type": "bounced", "messageId": "m-3001"})
        path = f"/v1/webhooks/{webhook['id']}/deliveries"
        for _ in range(100):
            log = (await self.client.get(path)).json()["data"]
            if log and log[0]["status"] == "delivered":
                break
            await asyncio.sleep(0.1)
        await self._call("GET", path, 200, shown=False)
        story.output(json.dumps(log[:1], indent=2))
        codes = [attempt["statusCode"] for delivery in log[:1] for attempt in delivery["attempts"]]
        story.check("The log shows the delivery and its attempt", holds=codes == [200])

    async def _call(
        self, method: str, path: str, status: int, body: object = None, *, shown: bool = True
    ) -> dict[str, Any]:
        """Send a request, print it as a command, and print its answer if ``shown``, with most of a secret omitted."""
        self.story.command(self._curl(method, path, body))
        answer = await self.client.request(method, path, json=body)
        if answer.status_code != status:
            raise DevError(f"{method} {path}: {answer.status_code} instead of {status}: {answer.text}")
        document: dict[str, Any] = answer.json() if answer.content else {}
        if shown and document:
            secrets = {name: f"{document[name][:8]}…" for name in _SECRETS if name in document}
            self.story.output(json.dumps(document | secrets, ensure_ascii=False))
        return document

    def _curl(self, method: str, path: str, body: object) -> str:
        words = ["curl", *([] if method == "GET" or body else ["-X", method]), f"$HOOKWRIGHT_API_URL{path}"]
        if "Authorization" in self.client.headers:
            words.append('-H "Authorization: Bearer $TOKEN"')
        if "X-Service-Key" in self.client.headers:
            words.append('-H "X-Service-Key: $KEY"')
        if body:
            words.append(f"-H 'Content-Type: application/json' -d '{json.dumps(body)}'")
        return " ".join(words)

    def _write_user(self) -> str:
        arguments = ("--way=kubeconfig", "users", "create", EMAIL, "--organization", ORGANIZATION)
        return subprocess.run(
            [sys.executable, "-m", "hookwright_cli", *arguments],
            input=f"{PASSWORD}\n",
            env={**os.environ, "KUBECONFIG": str(self.stack.plane.kubeconfig)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
