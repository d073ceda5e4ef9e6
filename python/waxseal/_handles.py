"""What the objects of one store share: the store's handle, its errors, its end.

A store is closed when somebody closes it, when the last of its objects is collected, and when the interpreter ends. A child of a fork closes
nothing: what was open in the parent is closed for it, and is left as it is.
"""

from __future__ import annotations

import atexit
import ctypes as C
import os
import weakref
from typing import Any

from . import _abi, _c
from ._backend import backend
from ._errors import Error, MakeError
from ._options import Opening

class Handles:
    """What a store's objects share: they keep it open, and are ended with it."""

    def __init__(self, db: int, opening: Opening) -> None:
        self.db = db
        self.make: MakeError = opening.make
        self.store = backend.Store(opening.make)
        #: Orders of families, which the library calls as long as there is a store.
        self.orders = opening.orders
        _open.add(self)

    def close(self) -> None:
        """Closes the store. In a child of the process that opened it nothing is touched.

        A function that the store calls cannot close it: the store stays open then.
        """
        if self.store.closed:
            return
        status, error = _abi.WAXSEAL_OK, C.c_void_p()
        if self.store.here:
            status = _c.function("waxseal_close")(self.db, C.byref(error))
        if status != _abi.WAXSEAL_INVALID:
            self.store.close()
            _open.discard(self)
        if status < 0 and status != _abi.WAXSEAL_CLOSED:  # of two threads the second finds it closed
            raise _c.failure(status, error, self.make)

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:
            pass  # nobody is left to be told

    def call(self, name: str, *arguments: Any) -> int:
        """Calls the library for this store."""
        self.store.check()
        return _c.call(name, *arguments, make=self.make)

    def made(self, name: str, *arguments: Any, destroy: str) -> _c.Owned:
        """Makes an object of this store."""
        self.store.check()
        return _c.made(name, *arguments, destroy=destroy, make=self.make)

    def store_error(self, status: int, message: str) -> Exception:
        """The exception of a status that came without an error object."""
        return self.make(status, message, None, None, None, None, None)

    def content(self, name: str, *arguments: Any) -> bytes:
        """Calls a function that gives bytes."""
        handle = C.c_void_p()
        self.call(name, *arguments, C.byref(handle))
        return _c.taken(handle)

    def text(self, name: str, *arguments: Any) -> str:
        """Calls a function that gives a text."""
        return self.content(name, *arguments).decode("utf-8", "replace")

    def number(self, name: str, *arguments: Any) -> int:
        """Calls a function that gives a number of 64 bits."""
        number = C.c_uint64()
        self.call(name, *arguments, C.byref(number))
        return number.value


#: Stores that are open, to be closed when the interpreter ends: what waits to be written in the background is written then.
_open: weakref.WeakSet[Handles] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes what is still open when the interpreter ends, before threads and modules go."""
    for handles in list(_open):
        try:
            handles.close()
        except Error:
            pass  # nobody is left to be told


def _in_child() -> None:
    """A child of a fork has none of the engine's threads: what was open here stays closed for it."""
    backend.forked()
    _c.forked()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
