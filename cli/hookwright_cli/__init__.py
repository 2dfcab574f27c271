"""The command line: ``hookwright``, and ``kubectl hookwright`` as a plugin of kubectl.

It imports no other package of this repository, so that it can be installed without the server. A command imports
``ways``, ``keyring`` and ``rich`` when it needs them, so that ``--help`` starts quickly.
"""

VERSION = "0.1.0"
