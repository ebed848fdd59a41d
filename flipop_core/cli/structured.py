"""structlog, loaded without rich.

It would take rich for tracebacks that show local variables, which may hold a credential. This process shows plain ones,
and need not load rich's sixty modules whenever it starts: a tenth of the time until the first address is looked after.
"""

from __future__ import annotations

import sys

_HIDE = "rich" not in sys.modules and "structlog" not in sys.modules

if _HIDE:
    sys.modules["rich"] = None  # type: ignore[assignment]  # the import system's mark for what is not to be found
try:
    import structlog
finally:
    if _HIDE:
        del sys.modules["rich"]

__all__ = ["structlog"]
