"""Steps over items that the library lends one by one."""

from __future__ import annotations

import ctypes as C
from typing import TYPE_CHECKING, Any, Callable, Generic, Iterator, Optional, Tuple, TypeVar

from . import _c

if TYPE_CHECKING:
    from ._handles import Handles

T = TypeVar("T")


class LentItems(Iterator[T], Generic[T]):
    """The items that a function of the library lends, each until its next call. One thread at a time may use it.

    A signal handler may raise after every call of a step, also after the library has passed the item. The next step
    returns the item then. An error of the library ends nothing: the next step continues.
    """

    def __init__(
        self, handles: Handles, name: str, owned: _c.Owned, kinds: Tuple[Any, ...], copied: Callable[..., T]
    ) -> None:
        """`name` is the function, `kinds` are the types of the structs that it fills, and `copied` makes an item of
        them."""
        self._handles = handles
        self._name = name
        self._owned = owned
        self._kinds = kinds
        self._copied = copied
        self._blank = b"\xff" * C.sizeof(kinds[0])
        #: The structs of the step; None once its item was handed out. They are blank until the library fills them.
        self._lent: Optional[Tuple[Any, ...]] = None
        self._is_over = False

    def __next__(self) -> T:
        item = self._found()
        self._lent = None  # no call follows until the return: the caller gets the item
        return item

    def _found(self) -> T:
        """Returns a copy of the next item, which `_lent = None` passes."""
        if self._is_over:
            raise StopIteration
        if self._lent is None:
            self._lent = tuple(kind.from_buffer_copy(b"\xff" * C.sizeof(kind)) for kind in self._kinds)
        if bytes(self._lent[0]) == self._blank:
            self._handles.call(self._name, self._owned.handle, *map(C.byref, self._lent))
        else:
            self._handles.store.check()
        if bytes(self._lent[0]) == self._blank:
            self._is_over = True
            self._owned.end()
            raise StopIteration
        return self._copied(*self._lent)
