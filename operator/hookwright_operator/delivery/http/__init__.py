"""One attempt over HTTP: resolve and check the address, connect, sign, send, read the response."""
