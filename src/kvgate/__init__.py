"""kvgate: gates that decide whether a KV-cache storage tier may be accepted.

The package is the engine and knows no product names; what is decided, done, and to whom
lives in the workspace folders ``gates/``, ``suites/`` and ``inventory/``.
"""

__version__ = "0.1.0"
