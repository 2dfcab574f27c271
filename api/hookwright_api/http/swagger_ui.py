"""The page /docs: Swagger UI from files of a Python package, so that a browser loads nothing from another host."""

from importlib.resources import files
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import FileResponse

_FILES: Final = Path(str(files("fastapi_swagger"))) / "resources"
_MEDIA_TYPES: Final = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
_POLICY: Final = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""The page has an inline script, and Swagger UI sets inline styles. Images of its style sheet are data: URLs."""


def add_swagger_ui(app: FastAPI) -> None:
    """Add /docs, and below it the files that the page loads."""
    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title=app.title,
        swagger_js_url="/docs/swagger-ui-bundle.js",
        swagger_css_url="/docs/swagger-ui.css",
        swagger_favicon_url="data:,",
        # Without this, the page shows a badge from a validator on another host.
        swagger_ui_parameters={"validatorUrl": None},
    )
    page.headers["Content-Security-Policy"] = _POLICY
    page.headers["X-Frame-Options"] = "DENY"

    async def show(_: Request) -> Response:
        return page

    async def file(request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        return FileResponse(_FILES / name, media_type=_MEDIA_TYPES[name], headers={"Cache-Control": "max-age=3600"})

    app.add_route("/docs", show, include_in_schema=False)
    for name in _MEDIA_TYPES:
        app.add_route(f"/docs/{name}", file, include_in_schema=False)
