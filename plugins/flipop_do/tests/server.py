"""Runs the HTTP DigitalOcean: ``python plugins/flipop_do/tests/server.py --droplets 3`` prints its URL as first line.

The same as ``python -m flipop_do_testserver``, where it can be imported from.
"""

from __future__ import annotations

import sys

from flipop_do_testserver.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
