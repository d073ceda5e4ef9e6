"""Which module makes the calls that are made a million times a second.

`_native` is an extension module over the C library; `_fallback` is the same in Python over ctypes, for interpreters without the extension,
and to test the library from Python twice. `WAXSEAL_BACKEND=native` or `ctypes` chooses; without it, native if it is there.
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
