"""Pure: what httpx raises where a server gave no answer."""

from typing import Final

import httpx

NO_ANSWER: Final = (httpx.HTTPError, AttributeError)
"""AttributeError: under uvloop anyio asks a connection that was reset the moment it was made for its peer."""
