"""Signals during long calls: Ctrl-C, or any signal whose handler raises, ends a call of the library.

Python runs signal handlers on its main thread only, and only while that thread runs Python code. The library therefore
calls this module about every 10 ms during a call of the main thread (`waxseal_set_interrupt`). This module keeps the
handler's exception, the call ends early, and raises it.

A handler may also run at the first instruction of a function that the library calls through ctypes, outside of any
`try`. ctypes passes the exception to `sys.unraisablehook` and returns an arbitrary number to the library. `guarded` catches
that too. Such a number is no answer, so a function of the library takes it back, in calls by any route: `watch`.
"""

from __future__ import annotations

import ctypes as C
import sys
import threading
from typing import Any, Callable, Dict, Optional

from . import _abi

_check_signals = C.pythonapi.PyErr_CheckSignals
_check_signals.restype, _check_signals.argtypes = C.c_int, []

_raised: Optional[BaseException] = None
_is_set = False
#: The native backend, which has its own interrupt function.
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


def is_main_thread() -> bool:
    """True on the thread on which Python runs the handlers of signals."""
    return threading.get_ident() == _main


def keep(error: BaseException) -> None:
    """Keeps what a handler raised in a function that the library called on the main thread; its call ends, and raises it."""
    global _raised
    from ._backend import backend, name

    if name == "native":
        backend.keep_interrupt(error)
    elif _raised is None:
        _raised = error


def _set(library: Any) -> None:
    """Installs the interrupt function for this thread."""
    global _is_set, _native
    from ._backend import backend, name

    _native = backend if name == "native" else None
    set_interrupt = library.waxseal_set_interrupt
    set_interrupt.restype, set_interrupt.argtypes = C.c_int, [C.c_void_p, C.c_void_p]
    address = C.cast(_hook, C.c_void_p) if _native is None else _native.interrupt_address()
    set_interrupt(address, None)
    _is_set = True


def taken() -> Optional[BaseException]:
    """Returns, once, the exception that a handler raised during a call of this thread."""
    global _raised
    if not is_main_thread():
        return None
    raised, _raised = _raised, None
    if raised is None and _native is not None:
        raised = _native.take_interrupt()
    return raised


def raise_taken() -> None:
    """Raises the exception of a signal handler, if any."""
    raised = taken()
    if raised is not None:
        raise raised


#: Functions that take back the answer of the callback that runs on this thread, by the kind of callback.
_take_back: Dict[str, Callable[[], Any]] = {}


def watch(kind: str, take_back: Callable[[], Any]) -> None:
    """From now on `take_back` is called after a callback that ctypes called and that was left without an answer. It does
    nothing if the callback is of another kind."""
    if not _take_back:
        sys.unraisablehook = _unraisable(sys.unraisablehook)
    _take_back.setdefault(kind, take_back)


def _take_all_back() -> None:
    """Calls all of them. A handler may raise meanwhile: that is kept, and they are called again, since an answer that is
    not taken back counts."""
    while True:
        try:
            for take_back in _take_back.values():
                take_back()
            return
        except BaseException as raised:
            keep(raised)


def _unraisable(before: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def hook(unraisable: Any) -> None:
        if "ctypes callback" in str(getattr(unraisable, "err_msg", None) or ""):
            _take_all_back()
            if is_main_thread():
                if unraisable.exc_value is not None:
                    keep(unraisable.exc_value)
                return
        before(unraisable)

    return hook


def guarded(library: Any, function: Callable[..., int], *arguments: Any) -> int:
    """Calls a function of the library. On the main thread a signal may end it."""
    if not is_main_thread():
        return function(*arguments)
    if not _is_set:
        _set(library)
    before = sys.unraisablehook
    sys.unraisablehook = _unraisable(before)
    try:
        return function(*arguments)
    finally:
        sys.unraisablehook = before
