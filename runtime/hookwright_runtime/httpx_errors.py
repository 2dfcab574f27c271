"""The exceptions of httpx for a server that gave no answer."""

from typing import Final

import httpx

NO_ANSWER: Final = (httpx.HTTPError, AttributeError)
"""AttributeError: under uvloop, anyio raises it for a connection that is reset immediately after its creation."""
