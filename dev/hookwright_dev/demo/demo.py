"""The main scenario on real components, step by step: from YAML to signed deliveries, retried and discarded."""

import asyncio
import base64
import contextlib
import json
import signal
from dataclasses import dataclass, field
from typing import Final

import httpx

from hookwright_dev.cluster.stack import (
    APPLY_EXAMPLES,
    ENV_FILE,
    ORGANIZATION,
    RECEIVER,
    Keeper,
    Stack,
    console_hint,
    local_examples,
    running,
    shown,
)
from hookwright_dev.demo.api_demo import ApiDemo
from hookwright_dev.demo.story import Story
from hookwright_dev.errors import DevError
from hookwright_dev.receiver import Received, Receiver, verdict

PORT: Final = int(RECEIVER.rpartition(":")[2])
"""Port of the receiver."""
PROJECT: Final = "billing"
_SCHEDULE: Final = "1s,1s,2s,2s,3s"
_SETTINGS: Final = {"HOOKWRIGHT_RETRY_SCHEDULE": _SCHEDULE, "HOOKWRIGHT_STATUS_INTERVAL": "2"}
_FIRST: Final = {"id": "evt-1", "type": "delivered", "messageId": "m-1001", "to": "ada@example.com"}
_FAILURES: Final = 2


async def tell(*, once: bool) -> int:
    """Run the scenario, then stay up until Ctrl-C unless ``once``; return the exit code."""
    story = Story()
    story.console.print("[bold]Hookwright: from YAML to signed deliveries, on a real control plane[/]")
    story.step("Start a control plane, the operator, the API, and a receiver")
    interruption = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interruption.set)
    with running(_SETTINGS) as stack:
        demo = Demo(stack, story)
        telling = asyncio.ensure_future(demo.tell())
        watching = asyncio.ensure_future(interruption.wait())
        await asyncio.wait({telling, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not telling.done():
            telling.cancel()
            return 130
        telling.result()
        story.console.print(f"\n[bold green]All {story.verified} claims were verified.[/]")
        if once:
            return 0
        stack.write_env()
        story.console.print(
            f"\nIt stays up until Ctrl-C. In another shell, run [bold]. {shown(ENV_FILE)}[/]; "
            "then kubectl and the commands above work there."
        )
        story.console.print(console_hint(stack), markup=False, highlight=False)
        await demo.receive_until(interruption)
    return 0


@dataclass(slots=True)
class Demo:
    """The steps, on a running stack."""

    stack: Stack
    story: Story
    receiver: Receiver = field(default_factory=lambda: Receiver(port=PORT))

    async def tell(self) -> None:
        """Run every step; raise at the first claim that is not true."""
        version = json.loads(await self._kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
        self.story.check(f"A real kube-apiserver answers: {version}", holds=version.startswith("v1."))
        self.story.say(f"Retries here come after {_SCHEDULE}; an installation's default is 30s,2m,10m,30m,2h.")
        self.receiver.answer = _answer
        try:
            await self.receiver.start()
        except OSError as error:
            raise DevError(f"port {PORT}, which the receiver needs, is taken on this machine: {error}") from error
        try:
            await self._apply()
            await self._deliver()
            await self._repeat()
            await self._retry()
            await self._discard()
            await ApiDemo(self.stack, self.story, self.receiver, PROJECT).tell()
        finally:
            await self.receiver.stop()

    async def receive_until(self, interruption: asyncio.Event) -> None:
        """Keep the receiver up, so that later events arrive too."""
        keeper = Keeper(self.stack)
        async with self.receiver:
            while not interruption.is_set():
                await asyncio.to_thread(keeper.look)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(interruption.wait(), 0.5)

    async def _apply(self) -> None:
        story = self.story
        story.step("Apply YAML: a project, an API key, four endpoints")
        story.command(APPLY_EXAMPLES)
        story.output(await self._kubectl("apply", "-f", "-", stdin=local_examples()))
        await story.wait_for("The operator made all of them Ready", self._all_ready, within=10)
        story.command(f"kubectl get hookwright -n {ORGANIZATION}")
        story.output(await self._kubectl("get", "hookwright", "-n", ORGANIZATION))
        key = await self._secret("ci-sender-key", "key")
        story.check(f"The API key is in Secret ci-sender-key: {key[:15]}…", holds=key.startswith("hw_"))

    async def _deliver(self) -> None:
        story = self.story
        story.step("Send an event, and watch it arrive, signed")
        story.command(
            'curl -X POST "$HOOKWRIGHT_INTAKE_URL'
            f'{_events_path()}" -H "Authorization: Bearer $HOOKWRIGHT_INTAKE_TOKEN" '
            f"-H 'Content-Type: application/json' -d '{json.dumps(_FIRST)}'"
        )
        answer = await self._send(_FIRST)
        story.output(f"{answer.status_code} {answer.text}")
        story.check("Accepted: durable before the answer", holds=answer.status_code == 202, otherwise=answer.text)
        arrival = (await self._arrivals("/orders", 1))[0]
        story.output(_shown(arrival))
        secret = await self._secret("orders-signing", "secret")
        wrong = verdict(arrival.headers, arrival.body, [secret])
        story.check(
            "The receiver recomputed both HMACs from the raw bytes, and they match", holds=not wrong, otherwise=wrong
        )

    async def _repeat(self) -> None:
        story = self.story
        story.step("Send the same event again")
        answer = await self._send(_FIRST)
        story.output(f"{answer.status_code} {answer.text}")
        story.check(
            "The answer calls it a duplicate, and it is not delivered again", holds=answer.json()["duplicates"] == 1
        )

    async def _retry(self) -> None:
        story = self.story
        story.step(f"A failing receiver: the first {_FAILURES} attempts are answered 500")
        await self._send({"type": "complained", "messageId": "m-1002"})
        attempts = await self._arrivals("/flaky", _FAILURES + 1)
        for before, attempt in zip([None, *attempts], attempts, strict=False):
            after = f"{attempt.at - before.at:5.2f} s later" if before else "at once"
            story.output(f"attempt {attempt.attempt}: {after}, answered {_answer(attempt)}, webhook-id {attempt.id}")
        same = len({attempt.id for attempt in attempts}) == len({attempt.body for attempt in attempts}) == 1
        story.check(
            "Retried on schedule until it was answered 200, with the same webhook-id and the same bytes", holds=same
        )
        secret = await self._secret("flaky-signing", "secret")
        good = all(not verdict(attempt.headers, attempt.body, [secret]) for attempt in attempts)
        story.check("Each attempt has its own signature, and each signature is valid", holds=good)

    async def _discard(self) -> None:
        story = self.story
        story.step("A suspended endpoint holds its deliveries; deleting it discards them")
        for number in range(3):
            await self._send({"type": "opened", "messageId": f"m-20{number}"})
        await story.wait_for("kubectl shows 3 pending", lambda: self._pending("archive") == 3, within=15)
        story.command(f"kubectl get webhookendpoints -n {ORGANIZATION}")
        story.output(await self._kubectl("get", "webhookendpoints", "-n", ORGANIZATION))
        story.command(f"kubectl delete webhookendpoint archive -n {ORGANIZATION}")
        story.output(await self._kubectl("delete", "webhookendpoint", "archive", "-n", ORGANIZATION, "--timeout=20s"))
        count = await asyncio.to_thread(self.stack.operator.metric, "hookwright_deliveries_total", outcome="discarded")
        story.check("The 3 pending deliveries were discarded, and the metrics say so", holds=count == 3)
        requests = [request for request in self.receiver.received if request.target == "/archive"]
        story.check("The receiver never saw any of them", holds=not requests)

    # ---- requests of the steps

    async def _kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return (await asyncio.to_thread(self.stack.plane.kubectl, *arguments, stdin=stdin)).stdout

    async def _secret(self, name: str, field_name: str) -> str:
        text = await self._kubectl("get", "secret", name, "-n", ORGANIZATION, "-o", f"jsonpath={{.data.{field_name}}}")
        return base64.b64decode(text).decode()

    async def _send(self, event: dict[str, str]) -> httpx.Response:
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {self.stack.token}"}) as client:
            return await client.post(f"{self.stack.operator.intake_url}{_events_path()}", json=event)

    async def _arrivals(self, target: str, count: int) -> list[Received]:
        requests: list[Received] = []
        deadline = asyncio.get_running_loop().time() + 20
        while len(requests) < count:
            requests = [request for request in self.receiver.received if request.target == target]
            if asyncio.get_running_loop().time() > deadline:
                raise DevError(f"{len(requests)} of {count} deliveries arrived at {target} within 20 s")
            await asyncio.sleep(0.05)
        return requests

    def _all_ready(self) -> bool:
        output = self.stack.plane.kubectl("get", "hookwright", "-n", ORGANIZATION, "-o", "json").stdout
        conditions = [item.get("status", {}).get("conditions", []) for item in json.loads(output)["items"]]
        return len(conditions) == 6 and all(
            any(condition["type"] == "Ready" and condition["status"] == "True" for condition in entries)
            for entries in conditions
        )

    def _pending(self, name: str) -> int:
        path = "jsonpath={.status.deliveries.pending}"
        output = self.stack.plane.kubectl("get", "webhookendpoint", name, "-n", ORGANIZATION, "-o", path).stdout
        return int(output or 0)


def _events_path() -> str:
    return f"/v1alpha1/namespaces/{ORGANIZATION}/projects/{PROJECT}/events"


def _answer(request: Received) -> int:
    return 500 if request.target == "/flaky" and request.attempt <= _FAILURES else 200


def _shown(request: Received) -> str:
    names = ["Content-Type", "User-Agent", "X-Service-Signature"]
    names += ["webhook-id", "webhook-timestamp", "webhook-signature"]
    lines = [f"{request.method} {request.target}", *(f"{name}: {request.headers[name]}" for name in names)]
    return "\n".join([*lines, "", request.body.decode()])
