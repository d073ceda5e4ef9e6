"""Infrequent operations of every keyspace: iterators with bounds, views, scans.

`Readable` extends the backend's `Reader`, `Writable` its `Keyspace`; neither changes how a key is read or written.
"""

from __future__ import annotations

import ctypes as C
from collections.abc import ItemsView, KeysView, Mapping, MutableMapping, ValuesView
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Literal, Optional, Protocol, Tuple, Union, overload

from . import _abi, _c
from ._backend import backend

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._native import Rows

    _ReaderMapping = Mapping[bytes, bytes]
    _KeyspaceMapping = MutableMapping[bytes, bytes]
else:
    _ReaderMapping = Mapping
    _KeyspaceMapping = MutableMapping


class _HasKeys(Protocol):
    """An object with `keys`, which `dict.update` accepts besides pairs."""

    def keys(self) -> Iterable[Any]:
        """Returns the keys."""

    def __getitem__(self, key: Any, /) -> Any:
        """Returns the value of a key."""


def prefix_end(prefix: bytes) -> Optional[bytes]:
    """Returns the first key after all keys that begin with `prefix`; None if there is no such key."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def bounds(
    start: object, stop: object, include_start: bool, include_stop: bool, prefix: object
) -> Tuple[Optional[bytes], Optional[bytes], bool, bool]:
    """Returns the given bounds, or those of a prefix."""
    if prefix is None:
        first = None if start is None else _c.lent(start, "start")
        last = None if stop is None else _c.lent(stop, "stop")
        return first, last, bool(include_start), bool(include_stop)
    if start is not None or stop is not None:
        raise TypeError("'prefix' cannot be used together with 'start' or 'stop'")
    begin = _c.lent(prefix, "prefix")
    return begin, prefix_end(begin), True, False


def range_of(
    start: Optional[bytes], stop: Optional[bytes], include_start: bool = True, include_stop: bool = False
) -> Any:
    """Returns bounds in the library's form, which keeps the keys alive."""
    found = _abi.waxseal_range_t()
    for bound, key, included in ((found.lower, start, include_start), (found.upper, stop, include_stop)):
        if key is not None:
            bound.kind = _abi.WAXSEAL_INCLUDED if included else _abi.WAXSEAL_EXCLUDED
            bound.key = C.cast(C.c_char_p(key), C.c_void_p).value
            bound.key_len = len(key)
    found.keys = (start, stop)
    return found


class Keys(KeysView[bytes]):
    """The keys of a mapping, in order."""

    _mapping: Readable

    def __iter__(self) -> Iterator[bytes]:
        return self._mapping.iterator(include_value=False)

    def __reversed__(self) -> Iterator[bytes]:
        return self._mapping.iterator(include_value=False, reverse=True)


class Values(ValuesView[bytes]):
    """The values of a mapping, in the order of their keys."""

    _mapping: Readable

    def __iter__(self) -> Iterator[bytes]:
        return self._mapping.iterator(include_key=False)

    def __reversed__(self) -> Iterator[bytes]:
        return self._mapping.iterator(include_key=False, reverse=True)

    def __contains__(self, value: object) -> bool:
        return any(value == other for other in self)


class Items(ItemsView[bytes, bytes]):
    """The rows of a mapping, in the order of their keys."""

    _mapping: Readable

    def __iter__(self) -> Iterator[Tuple[bytes, bytes]]:
        return self._mapping.iterator()

    def __reversed__(self) -> Iterator[Tuple[bytes, bytes]]:
        return self._mapping.iterator(reverse=True)


class Readable(backend.Reader, _ReaderMapping):
    """A mapping from bytes to bytes, sorted by key."""

    @overload
    def iterator(
        self,
        *,
        reverse: bool = ...,
        start: Optional[Buffer] = ...,
        stop: Optional[Buffer] = ...,
        include_start: bool = ...,
        include_stop: bool = ...,
        prefix: Optional[Buffer] = ...,
        include_key: Literal[True] = ...,
        include_value: Literal[True] = ...,
    ) -> Rows[Tuple[bytes, bytes]]: ...

    @overload
    def iterator(
        self,
        *,
        reverse: bool = ...,
        start: Optional[Buffer] = ...,
        stop: Optional[Buffer] = ...,
        include_start: bool = ...,
        include_stop: bool = ...,
        prefix: Optional[Buffer] = ...,
        include_key: Literal[True] = ...,
        include_value: Literal[False],
    ) -> Rows[bytes]: ...

    @overload
    def iterator(
        self,
        *,
        reverse: bool = ...,
        start: Optional[Buffer] = ...,
        stop: Optional[Buffer] = ...,
        include_start: bool = ...,
        include_stop: bool = ...,
        prefix: Optional[Buffer] = ...,
        include_key: Literal[False],
        include_value: Literal[True] = ...,
    ) -> Rows[bytes]: ...

    @overload
    def iterator(
        self,
        *,
        reverse: bool = ...,
        start: Optional[Buffer] = ...,
        stop: Optional[Buffer] = ...,
        include_start: bool = ...,
        include_stop: bool = ...,
        prefix: Optional[Buffer] = ...,
        include_key: bool = ...,
        include_value: bool = ...,
    ) -> Rows[Any]: ...

    def iterator(
        self,
        *,
        reverse: bool = False,
        start: Optional[Buffer] = None,
        stop: Optional[Buffer] = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: Optional[Buffer] = None,
        include_key: bool = True,
        include_value: bool = True,
    ) -> Rows[Any]:
        """Returns an iterator over the rows with keys from `start` to `stop`, or with keys that begin with `prefix`, at
        the current state.

        It yields pairs, or the included parts. Its position is between two rows: `next` returns the row behind it,
        `prev()` the row before it; `seek(key)`, `seek_to_start()` and `seek_to_stop()` move it. With `reverse` it
        begins at the end, and `next` and `prev` change roles. It pins its view of the store until `close()`, the end of
        its `with` block, or its collection. In a family with a custom order, keys with one prefix need not be adjacent,
        so prefix iterators are refused.
        """
        return backend.Rows(
            self,
            start,
            stop,
            bool(include_start),
            bool(include_stop),
            bool(reverse),
            bool(include_key),
            bool(include_value),
            prefix=prefix,
        )

    def __iter__(self) -> Iterator[bytes]:
        return self.iterator(include_value=False)

    def __reversed__(self) -> Iterator[bytes]:
        return self.iterator(include_value=False, reverse=True)

    def __len__(self) -> int:
        """Returns the number of rows, at the cost of a scan."""
        with self.iterator(include_value=False) as rows:
            return rows.count()

    def __bool__(self) -> bool:
        with self.iterator(include_value=False) as rows:
            return next(rows, None) is not None

    def first_key_value(self) -> Optional[Tuple[bytes, bytes]]:
        """Returns the first row in key order; None if there is no row. Raises CorruptionError if damage precedes the
        first readable row."""
        with self.iterator() as rows:
            row: Optional[Tuple[bytes, bytes]] = next(rows, None)
        return row

    def last_key_value(self) -> Optional[Tuple[bytes, bytes]]:
        """Returns the last row in key order; None if there is no row. Raises CorruptionError if damage follows the last
        readable row."""
        with self.iterator(reverse=True) as rows:
            row: Optional[Tuple[bytes, bytes]] = next(rows, None)
        return row

    def is_empty(self) -> bool:
        """Returns True if there is no row, at the cost of a seek and a step over each deleted row before the first
        one."""
        return not self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]

    def keys(self) -> Keys:
        """Returns the keys, in order."""
        return Keys(self)

    def values(self) -> Values:
        """Returns the values, in key order."""
        return Values(self)

    def items(self) -> Items:
        """Returns the rows, in key order."""
        return Items(self)


class Writable(Readable, backend.Keyspace, _KeyspaceMapping):
    """A mapping that can be written."""

    def update(self, other: Union[_HasKeys, Iterable[Tuple[Any, Any]]] = (), /, **nothing: Any) -> None:
        """As `put_many`, with the arguments of `dict.update`, but without keywords, since keys are bytes."""
        if nothing:
            raise TypeError("keys are bytes: update takes no keywords")
        if isinstance(other, Mapping):
            self.put_many(other.items())
        elif hasattr(other, "keys"):
            keyed: Any = other
            self.put_many((key, keyed[key]) for key in keyed.keys())
        else:
            self.put_many(other)
