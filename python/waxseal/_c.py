"""The C library, called from Python.

In: names of functions and Python values. Out: the function's result, or an exception built from its error object. Both
backends use this module for all infrequent calls; ctypes releases the GIL around every call.

The library is the file installed next to this module; `WAXSEAL_LIB` names another one. The native module is linked with
the same file, so both can use one handle.
"""

from __future__ import annotations

import ctypes as C
import os
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Tuple

from . import _abi, _interrupt
from ._errors import CALLBACK, INVALID, MakeError, file_error, make_error

FOLDER = Path(__file__).resolve().parent / "_lib"
LIBRARY = os.environ.get("WAXSEAL_LIB") or str(FOLDER / "libwaxseal.so.0")

_library = C.CDLL(LIBRARY)
_functions: Dict[str, Any] = {}


def function(name: str) -> Any:
    """Returns a function of the library, with its types."""
    known = _functions.get(name)
    if known is None:
        result, parameters = _abi.FUNCTIONS[name]
        known = getattr(_library, name)
        known.restype, known.argtypes = result, parameters
        _functions[name] = known
    return known


def call(name: str, *arguments: Any, make: MakeError = make_error) -> int:
    """Calls a function whose last parameter is the error. Returns a nonnegative status; raises for a negative one."""
    error = C.c_void_p()
    status = _interrupt.guarded(_library, function(name), *arguments, C.byref(error))
    if status < 0:
        failed = failure(status, error, make)
        raise _interrupt.taken() or failed
    _interrupt.raise_taken()
    return status


def answer_raised(raised: BaseException, error: Any) -> int:
    """Returns the status of a callback that raised, and gives the library the reason. What the handler of a signal
    raised is kept: the call in which the callback ran raises it."""
    if not isinstance(raised, Exception) and _interrupt.is_main_thread():
        _interrupt.keep(raised)
    reason = f"{type(raised).__name__}: {raised}".encode("utf-8", "replace")
    error[0] = function("waxseal_error_create")(CALLBACK, reason, len(reason))
    return int(CALLBACK)


def failure(status: int, error: C.c_void_p, make: MakeError = make_error) -> BaseException:
    """Converts an error object to an exception, and destroys the error object."""
    if status == _abi.WAXSEAL_INTERRUPTED:
        raised = _interrupt.taken()
        if raised is not None:
            function("waxseal_error_destroy")(error)
            return raised
    if not error.value:
        return make(status, f"the library answered status {status} without saying why", None, None, None, None, None)
    try:
        if status == _abi.WAXSEAL_FILE:
            return file_error(function("waxseal_error_errno")(error), _story(error)[0])
        return make(status, *_story(error))
    finally:
        function("waxseal_error_destroy")(error)


def _story(
    error: C.c_void_p,
) -> Tuple[
    str, Optional[str], Optional[int], Optional[str], Optional[Tuple[bytes, bytes]], Optional[int]
]:
    message = _text(function("waxseal_error_message")(error)) or ""
    verdict = function("waxseal_error_verdict")(error) or None
    file = _text(function("waxseal_error_file")(error)) or None
    offset = function("waxseal_error_offset")(error) if file is not None else None
    family = _text(function("waxseal_error_family")(error)) or None
    smallest, largest = _abi.waxseal_slice_t(), _abi.waxseal_slice_t()
    found = function("waxseal_error_key_range")(error, C.byref(smallest), C.byref(largest))
    keys = (bytes_of(smallest), bytes_of(largest)) if found == _abi.WAXSEAL_OK else None
    return message, file, offset, family, keys, verdict


def _text(value: Optional[bytes]) -> Optional[str]:
    return None if value is None else value.decode("utf-8", "replace")


def bytes_of(lent: Any) -> bytes:
    """Returns a copy of a slice that the library lent."""
    return bytes_at(lent.data, lent.len)


def bytes_at(address: Optional[int], length: int) -> bytes:
    """Returns a copy of the bytes at an address."""
    return C.string_at(address, length) if address and length else b""


def lent(argument: object, what: str) -> bytes:
    """Returns the bytes of an argument: `bytes` unchanged, any other object with a buffer copied."""
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, str):
        raise TypeError(f'a {what} is bytes, and this is str: say which encoding, as in {what}.encode("utf-8")')
    try:
        view = memoryview(argument)  # type: ignore[arg-type]
    except TypeError:
        kind = type(argument).__name__
        raise TypeError(f"a {what} is bytes or has a buffer of them, and {kind} has none") from None
    return view.tobytes()


def slice_of(argument: object, what: str) -> _abi.waxseal_slice_t:
    """Returns the bytes of an argument as the library's slice, which keeps them alive."""
    content = lent(argument, what)
    return _abi.waxseal_slice_t(C.cast(C.c_char_p(content), C.c_void_p), len(content))


def encoded(text: object, what: str) -> bytes:
    """Returns a text of the caller in UTF-8. Raises InvalidArgument for one with a lone surrogate, which UTF-8 cannot
    encode."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is str, not {type(text).__name__}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise make_error(INVALID, f"{what} has a lone surrogate at {error.start}, which is no character") from None


def content(name: str, *arguments: Any, make: MakeError = make_error) -> Optional[bytes]:
    """Calls a function whose last parameters are the place for a bytes object, and the error. Returns the content; None
    if the function has made none."""
    owned = made(name, *arguments, destroy="waxseal_bytes_destroy", make=make)
    return content_of(owned) if owned.handle else None


def content_at(owned: Owned) -> bytes:
    """Returns a copy of the content of a bytes object."""
    return bytes_of(function("waxseal_bytes_slice")(owned.handle))


def content_of(owned: Owned) -> bytes:
    """Returns the content of a bytes object, and destroys the object."""
    content = content_at(owned)
    owned.end()
    return content


#: Number of forks between the process that loaded the package first and this process.
_forks = 0


def forked() -> None:
    """Tells this module that the process is a forked child: it no longer destroys handles of the parent."""
    global _forks
    _forks += 1


class Owned:
    """A handle that is destroyed with this object, at most once.

    The object exists before the library's call that makes the handle, which writes it into `place`. So the handle has
    an owner even if a signal handler raises when that call returns.
    """

    __slots__ = ("place", "_born", "_destroy", "__weakref__")

    def __init__(self, destroy: str) -> None:
        self.place = C.c_void_p()
        self._born = _forks
        self._destroy: Callable[[int], int] = function(destroy)

    @property
    def handle(self) -> int:
        """The handle; 0 if there is none, or none any more."""
        return self.place.value or 0

    def end(self) -> None:
        """Destroys the handle now."""
        handle, self.place.value = self.place.value, None
        if handle and self._born == _forks:
            self._destroy(handle)

    def __del__(self) -> None:
        try:
            self.end()
        except AttributeError:
            pass  # a signal handler raised before `__init__` did anything


def made(name: str, *arguments: Any, destroy: str, make: MakeError = make_error) -> Owned:
    """Calls a function that creates an object: its last parameters are the place for the handle, and the error."""
    owned = Owned(destroy)
    call(name, *arguments, C.byref(owned.place), make=make)
    return owned
