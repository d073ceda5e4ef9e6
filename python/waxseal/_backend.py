"""Selects the module for frequent calls.

`_native` is an extension module over the C library. `_fallback` has the same classes in Python over ctypes, for
interpreters without the extension and for a second test of the C library. `WAXSEAL_BACKEND=native` or `ctypes` selects
one; the default is native if it is installed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import _native as backend

    name: str
else:
    name = os.environ.get("WAXSEAL_BACKEND") or "any"
    if name not in ("any", "native", "ctypes"):
        raise ImportError(f"WAXSEAL_BACKEND is native or ctypes, not {name!r}")
    if name != "ctypes":
        try:
            from . import _native as backend

            name = "native"
        except ModuleNotFoundError:
            if name == "native":
                raise
            name = "ctypes"
    if name == "ctypes":
        from . import _fallback as backend

__all__ = ["backend", "name"]
