"""The running service against its own OpenAPI description, with generated requests."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from support.api_processes import Organization

from hookwright_dev.cluster.installation import ApiProcess

# missing_required_header is omitted: a credential of the wrong kind gets a 403 here, and schemathesis expects 401.
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,unsupported_method,allow_header_conformance"
)


@pytest.mark.parametrize("credential", ["anonymous", "key", "session"])
def test_no_generated_request_gets_a_5xx_or_anything_undocumented(
    acme: Organization, api: ApiProcess, tmp_path: Path, credential: str
) -> None:
    """Schemathesis checks the whole schema with each kind of credential, on an existing project and webhook."""
    headers = {"anonymous": {}, "key": acme.service_key(), "session": acme.session()}[credential]
    webhook = acme.webhook(acme.service_key(), "http://127.0.0.1:9/nobody")["id"]
    config = tmp_path / "schemathesis.toml"
    config.write_text(
        f'[parameters]\n"path.project" = "billing"\n"path.id" = "{webhook}"\n'
        + ('"query.project" = "billing"\n' if credential == "session" else "")
    )
    argv = ["--config-file", str(config), "run", f"{api.url}/openapi.json", "--checks", CHECKS]
    argv += ["--max-examples", "15", "--seed", "1", "--no-color"]
    for name, value in headers.items():
        argv += ["-H", f"{name}: {value}"]
    schemathesis = Path(sys.executable).parent / "schemathesis"
    ran = subprocess.run([schemathesis, *argv], cwd=tmp_path, capture_output=True, text=True, timeout=560, check=False)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert httpx.get(f"{api.health_url}/readyz", timeout=30.0).status_code == 200
