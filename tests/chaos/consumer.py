"""A consumer of an endpoint with pull, as a process that a test can kill: it takes, records and acknowledges messages.

Arguments: the URL of the messages, the file with the token, the file of the records, and the lease. Each record is a
line of JSON: the id and the event of a message, the id of this process, and the times before the request that took it
and after its answer.
"""

import json
import os
import sys
import time
from pathlib import Path

import httpx

_BUSY = (429, 503)
_SECONDS = 0.08
"""How long each message takes: consumers are busy most of the time, so that a kill hits messages."""


def main() -> None:
    """Take messages until this process is killed."""
    url, token, records, lease = sys.argv[1:]
    headers = {"Authorization": f"Bearer {Path(token).read_text()}"}
    file = os.open(records, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with httpx.Client(headers=headers, trust_env=False, timeout=30.0) as client:
        while True:
            start = time.time()
            answer = client.get(url, params={"limit": 8, "wait": "1s", "lease": lease})
            end = time.time()
            if answer.status_code in _BUSY:
                time.sleep(0.1)
                continue
            answer.raise_for_status()
            messages = answer.json()["data"]
            for message in messages:
                body = json.loads(message["body"])
                record = {
                    "id": message["id"],
                    "event": body["messageId"],
                    "pid": os.getpid(),
                    "asked": start,
                    "got": end,
                }
                # One write of one line: lines of several processes do not mix, and a kill leaves no part of one.
                os.write(file, (json.dumps(record) + "\n").encode())
                time.sleep(_SECONDS)
            # Without an acknowledgement, the messages are due again after their lease.
            if messages:
                client.post(f"{url}/ack", json={"ids": [message["id"] for message in messages]})


if __name__ == "__main__":
    main()
