"""The contract of Hookwright: what operator, API, YAML authors and producers agree on.

Pure: nothing in this package does I/O, reads a clock or draws random numbers by itself.
"""

GROUP = "hookwright.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
