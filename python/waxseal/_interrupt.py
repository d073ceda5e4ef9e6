"""Signals during long calls: Ctrl-C, or any signal whose handler raises, ends a call of the library.

Python runs the handlers of signals on its main thread, and only while that runs Python. So the library asks this module about every 10 ms
while a call of the main thread goes on (`waxseal_set_interrupt`). What a handler raises is kept here, the call ends early, and raises it.

A handler may also run at the first instruction of a function that the library calls through ctypes, outside of any `try`. ctypes passes what
it raises to `sys.unraisablehook` and goes on with 0. `guarded` catches that too.
"""

from __future__ import annotations

import ctypes as C
import sys
import threading
from typing import Any, Callable, Optional

from . import _abi

_check_signals = C.pythonapi.PyErr_CheckSignals
_check_signals.restype, _check_signals.argtypes = C.c_int, []

_raised: Optional[BaseException] = None
_is_set = False
#: The native backend, which has a function of its own for the library to ask.
_native: Any = None
_main = threading.main_thread().ident


def _poll(_context: Any) -> int:
    global _raised
    if _raised is None:
        try:
            _check_signals()
        except BaseException as error:
            _raised = error
    return 0 if _raised is None else 1


_hook = _abi.waxseal_interrupt_fn(_poll)


def _set(library: Any) -> None:
    """Has the library ask for signals on this thread."""
    global _is_set, _native
    from ._backend import backend, name

    _native = backend if name == "native" else None
    set_interrupt = library.waxseal_set_interrupt
    set_interrupt.restype, set_interrupt.argtypes = C.c_int, [C.c_void_p, C.c_void_p]
    address = C.cast(_hook, C.c_void_p) if _native is None else _native.interrupt_address()
    set_interrupt(address, None)
    _is_set = True


def taken() -> Optional[BaseException]:
    """What a handler raised during a call of this thread, once."""
    global _raised
    if threading.get_ident() != _main:
        return None
    raised, _raised = _raised, None
    if raised is None and _native is not None:
        raised = _native.take_interrupt()
    return raised


def raise_taken() -> None:
    """Raises what a handler raised, if one did."""
    raised = taken()
    if raised is not None:
        raise raised


def _unraisable(before: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def hook(unraisable: Any) -> None:
        global _raised
        text = str(getattr(unraisable, "err_msg", None) or "")
        if threading.get_ident() == _main and "ctypes callback" in text:
            _raised = _raised or unraisable.exc_value
        else:
            before(unraisable)

    return hook


def guarded(library: Any, function: Callable[..., int], *arguments: Any) -> int:
    """Calls a function of the library. On the main thread a signal may end it."""
    if threading.get_ident() != _main:
        return function(*arguments)
    if not _is_set:
        _set(library)
    before = sys.unraisablehook
    sys.unraisablehook = _unraisable(before)
    try:
        return function(*arguments)
    finally:
        sys.unraisablehook = before
