"""structlog, loaded without rich.

It would take rich for tracebacks that show local variables, which may hold a credential. This process shows plain ones,
and need not load rich's sixty modules whenever it starts: a tenth of the time until the first address is looked after.
"""

from __future__ import annotations

import sys
from typing import Any

_MODULES: dict[str, Any] = sys.modules
_HIDE = not {"rich", "structlog"} & _MODULES.keys()

if _HIDE:
    _MODULES["rich"] = None  # the import system's mark for what is not to be found
try:
    import structlog
finally:
    if _HIDE:
        del _MODULES["rich"]

__all__ = ["structlog"]
