"""``python -m hookwright_api.openapi_export [--check] [file]``: write the document, or check that it is current."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from hookwright_api.app import assemble
from hookwright_api.settings import ApiSettings
from hookwright_crds import generated_files


def document() -> str:
    """Return the description as JSON."""
    return json.dumps(assemble(ApiSettings.model_construct()).openapi(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m hookwright_api.openapi_export", description="Export the OpenAPI document."
    )
    parser.add_argument("file", nargs="?", type=Path, default=Path("docs/openapi.json"), help="(docs/openapi.json)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the file is stale")
    options = parser.parse_args(arguments)
    texts = {options.file: document()}
    return generated_files.check(texts, "make docs") if options.check else generated_files.write(texts)


if __name__ == "__main__":
    sys.exit(main())
