"""Merge operators by functions of Python.

In: the key, the base and the operands, as the library lends them. Out: the merged value. An exception is a failure of
the operator: an error of the read, whose cause it becomes, while a compaction keeps the operands.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, List, Optional, Tuple, Union

from . import _abi
from ._c import answer_raised, bytes_at, bytes_of, encoded, function, lent

#: Makes a value of a key, its base (None if the key is absent) and all its operands, oldest first.
MergeFunction = Callable[[bytes, Optional[bytes], List[bytes]], bytes]

#: Makes a value or operand of a key, an older value or operand, and a newer operand.
AssociativeFunction = Callable[[bytes, bytes, bytes], bytes]


class associative:
    """Marks a function of key, older value or operand, and newer operand as the associative merge function of an
    operator: the store may combine any two neighbors before it knows the value below them. The first operand of an
    absent key becomes its value.

    >>> @waxseal.associative
    ... def longest(key, older, newer):
    ...     return max(older, newer, key=len)
    """

    def __init__(self, merge: AssociativeFunction) -> None:
        if not callable(merge):
            raise TypeError("a merge function can be called")
        self._merge = merge

    def __call__(self, key: bytes, older: bytes, newer: bytes) -> bytes:
        return self._merge(key, older, newer)


#: A merge function of either kind.
MergeCallback = Union[MergeFunction, associative]

#: Per thread: the exception of the merge function that failed last, and its text.
_failures = threading.local()


def take_raised(message: str) -> Optional[BaseException]:
    """Returns the exception of the merge function that failed last on this thread, once, if an error with this message is
    about it. A compaction that keeps the operands of a failed function raises no error, so the exception may be older."""
    last: Tuple[Optional[BaseException], str] = getattr(_failures, "last", (None, ""))
    _failures.last = (None, "")
    return last[0] if last[1] in message else None


class Operator:
    """A merge operator: its name, and the callback, which must live as long as a store uses it."""

    def __init__(self, said: Any) -> None:
        if not (isinstance(said, tuple) and len(said) == 2 and isinstance(said[0], str)):
            raise TypeError("a merge operator is a pair of its name and a function")
        if not callable(said[1]):
            raise TypeError("a merge operator's function can be called")
        self.name = encoded(said[0], "a merge operator's name")
        self._merge: Callable[..., bytes] = said[1]
        self._is_associative = isinstance(said[1], associative)
        self._hook = _abi.waxseal_merge_fn(self._called)

    def arguments(self) -> Tuple[Any, ...]:
        """What the library wants to know, without a context."""
        return self.name, len(self.name), self._hook, self._is_associative, None, _NO_DESTROY

    def _called(
        self, _context: Any, key: int, key_len: int, base: Any, operands: Any, count: int, merged: Any, error: Any
    ) -> int:
        """Called through ctypes, which has no answer if this raises."""
        try:
            below = bytes_of(base[0]) if base else None
            above = [bytes_of(operands[at]) for at in range(count)]
            found = self._merge(bytes_at(key, key_len), below, above[0] if self._is_associative else above)
            value = lent(found, "merged value")
            return int(function("waxseal_bytes_create")(value, len(value), merged, error))
        except BaseException as raised:
            _failures.last = (raised, f"{type(raised).__name__}: {raised}")
            return answer_raised(raised, error)


_NO_DESTROY = _abi.waxseal_destroy_fn(0)
