"""The state that the objects of one store share: the store's handle, its errors, its end.

A store is closed by `close`, when the last of its objects is collected, and when the interpreter ends. A forked child
closes nothing: the parent's open stores are closed for the child, and are left unchanged.
"""

from __future__ import annotations

import atexit
import ctypes as C
import os
import weakref
from typing import TYPE_CHECKING, Any, Optional

from . import _abi, _c
from ._backend import backend
from ._errors import ClosedError, Error, MakeError
from ._options import Opening

if TYPE_CHECKING:
    from ._files import OpenFile


class Handles:
    """The shared state of a store's objects: they keep the store open, and are closed with it."""

    def __init__(self, db: int, opening: Opening) -> None:
        self.db = db
        self.make: MakeError = opening.make
        self.store = backend.Store(opening.make)
        #: Comparators of families, which the library calls as long as the store exists.
        self.orders = opening.orders
        #: Compaction filters of families, likewise.
        self.filters = opening.filters
        #: Merge operators of families, likewise.
        self.operators = opening.operators
        #: Open files that may have changes in memory.
        self.changing: weakref.WeakSet[OpenFile] = weakref.WeakSet()
        _open.add(self)

    def close(self) -> None:
        """Commits the changes of open files and closes the store. In a forked child it does nothing to the store.

        A callback of the store cannot close it: the store then stays open.
        """
        if self.store.closed:
            return
        failed = self._flush_files() if self.store.here else None
        status, error = _abi.WAXSEAL_OK, C.c_void_p()
        if self.store.here:
            status = _c.function("waxseal_close")(self.db, C.byref(error))
        if status != _abi.WAXSEAL_INVALID:
            self.store.close()
            _open.discard(self)
        if status < 0 and status != _abi.WAXSEAL_CLOSED:  # another thread closed it first
            closing = _c.failure(status, error, self.make)
            raise failed or closing
        if failed is not None:
            raise failed

    def _flush_files(self) -> Optional[Error]:
        """Commits the changes of open files. Returns the first error; another thread may close files or the store."""
        first = None
        for file in list(self.changing):
            try:
                file.flush()
            except ClosedError:
                pass
            except Error as error:
                first = first or error
        return first

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:
            pass  # a finalizer cannot report errors

    def call(self, name: str, *arguments: Any) -> int:
        """Calls the library for this store."""
        self.store.check()
        return _c.call(name, *arguments, make=self.make)

    def made(self, name: str, *arguments: Any, destroy: str) -> _c.Owned:
        """Creates an object of this store."""
        self.store.check()
        return _c.made(name, *arguments, destroy=destroy, make=self.make)

    def store_error(self, status: int, message: str) -> Exception:
        """Returns the exception of a status without an error object."""
        return self.make(status, message, None, None, None, None, None)

    def content(self, name: str, *arguments: Any) -> bytes:
        """Calls a function that returns bytes."""
        return self.optional_content(name, *arguments) or b""

    def optional_content(self, name: str, *arguments: Any) -> Optional[bytes]:
        """Calls a function that returns bytes, or nothing."""
        self.store.check()
        return _c.content(name, *arguments, make=self.make)

    def text(self, name: str, *arguments: Any) -> str:
        """Calls a function that returns a text."""
        return self.content(name, *arguments).decode("utf-8", "replace")

    def number(self, name: str, *arguments: Any) -> int:
        """Calls a function that returns a 64-bit number."""
        number = C.c_uint64()
        self.call(name, *arguments, C.byref(number))
        return number.value


#: Open stores, to be closed when the interpreter ends, so that background work is written.
_open: weakref.WeakSet[Handles] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes all open stores when the interpreter ends, before it destroys threads and modules."""
    for handles in list(_open):
        try:
            handles.close()
        except Error:
            pass  # the interpreter is ending: errors cannot be reported


def _in_child() -> None:
    """Runs in a forked child, which has none of the engine's threads: the parent's open stores stay closed for it."""
    backend.forked()
    _c.forked()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
