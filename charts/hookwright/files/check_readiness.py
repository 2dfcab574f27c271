"""Wait until each URL answers 200: `python -c … SECONDS URL…`. It is the program of `helm test`."""  # noqa: INP001 - carried by the chart, no part of a package

import sys
import time
import urllib.error
import urllib.request


def answer(url: str) -> str:
    """Return "200", another status with its reason, or the error."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - the chart names the URLs
            return str(response.status)
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read(500).decode(errors='replace')}"
    except OSError as error:
        return str(error)


def main() -> int:
    """Return 0 if every URL answered 200 in time, else 1."""
    patience = time.monotonic() + float(sys.argv[1])
    failed = 0
    for url in sys.argv[2:]:
        while (found := answer(url)) != "200" and time.monotonic() < patience:
            time.sleep(1)
        failed += found != "200"
        sys.stdout.write(f"{url}: {found}\n")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
