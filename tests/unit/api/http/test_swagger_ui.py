"""The page /docs loads everything from the API itself."""

import re

import httpx
import pytest

from hookwright_api.app import assemble
from hookwright_api.rate_limits import Limiter
from hookwright_api.settings import ApiSettings


@pytest.fixture
def client() -> httpx.AsyncClient:
    """Return a client of the application without a cluster."""
    settings = ApiSettings()
    app = assemble(settings)

    class Services:
        limiter = Limiter(settings)

    app.state.services = Services
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://api")


async def test_the_page_names_no_other_host_and_its_files_are_served(client: httpx.AsyncClient) -> None:
    """A browser without the internet shows it: files come from the API, and the policy forbids others and frames."""
    page = await client.get("/docs")
    assert page.status_code == 200
    assert "://" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'self'")
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-frame-options"] == "DENY"
    files = re.findall(r'(?:href|src)="(/[^"]+)"', page.text)
    assert sorted(files) == ["/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css"]
    for file in files:
        answer = await client.get(file)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/")
        assert len(answer.content) > 100_000


async def test_the_page_asks_no_validator_on_another_host(client: httpx.AsyncClient) -> None:
    """Swagger UI has a badge from a public validator unless it is turned off."""
    assert '"validatorUrl": null' in (await client.get("/docs")).text
