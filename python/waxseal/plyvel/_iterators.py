"""Iterators with a position between two entries, and raw iterators with a position at an entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Tuple

from .. import _backend, _map
from ._terms import IteratorInvalidError, bytes_in, optional_bytes

backend = _backend.backend

if TYPE_CHECKING:
    _Rows = backend.Rows[Any]
else:
    _Rows = backend.Rows


class Iterator(_Rows):
    """Iterates in both directions. The position is between two entries: `next` returns the entry behind it, `prev` the
    one before it."""

    def seek(self, target: bytes) -> None:  # type: ignore[override]
        """Moves before the first key that is not less than `target`, within the bounds."""
        super().seek(self._prefixed(bytes_in(target, "target")))

    def _prefixed(self, target: bytes) -> bytes:
        return target



class _PrefixedIterator(Iterator):
    """An iterator that removes a prefix from its keys."""

    _prefix: bytes = b""

    def _prefixed(self, target: bytes) -> bytes:
        return self._prefix + target


def iterate(
    space: Any,
    db_prefix: Optional[bytes],
    reverse: bool,
    start: Optional[bytes],
    stop: Optional[bytes],
    include_start: bool,
    include_stop: bool,
    prefix: Optional[bytes],
    include_key: bool,
    include_value: bool,
) -> Iterator:
    """Returns the iterator of a store, of a prefix of it, or of a snapshot of either."""
    start, stop = optional_bytes(start, "start"), optional_bytes(stop, "stop")
    prefix = optional_bytes(prefix, "prefix")
    if prefix is not None and (start is not None or stop is not None):
        raise TypeError("'prefix' cannot be used together with 'start' or 'stop'")
    if db_prefix is not None:
        if prefix is not None or (start is None and stop is None):
            prefix = db_prefix + (prefix or b"")
        else:
            include_start = True if start is None else include_start
            start = db_prefix + (start or b"")
            if stop is None:
                stop, include_stop = _map.prefix_end(db_prefix), False
            else:
                stop = db_prefix + stop
    if prefix is not None:
        start, stop, include_start, include_stop = prefix, _map.prefix_end(prefix), True, False
    kind = Iterator if db_prefix is None else _PrefixedIterator
    rows = kind(
        space,
        start=start,
        stop=stop,
        include_start=bool(include_start),
        include_stop=bool(include_stop),
        reverse=bool(reverse),
        include_key=bool(include_key),
        include_value=bool(include_value),
        skip=len(db_prefix or b""),
    )
    if db_prefix is not None and isinstance(rows, _PrefixedIterator):
        rows._prefix = db_prefix
    return rows


class RawIterator:
    """A raw iterator: its position is an entry or undefined, and moves step by step."""

    def __init__(self, rows: Iterator) -> None:
        self._rows = rows
        self._item: Optional[Tuple[bytes, bytes]] = None

    def close(self) -> None:
        """Closes the iterator."""
        self._rows.close()

    def __enter__(self) -> RawIterator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def valid(self) -> bool:
        """True if the iterator is positioned at an entry."""
        self._rows.check()
        return self._item is not None

    def seek_to_first(self) -> None:
        """Moves to the first entry."""
        self._rows.seek_to_start()
        self._item = next(self._rows, None)

    def seek_to_last(self) -> None:
        """Moves to the last entry."""
        self._rows.seek_to_stop()
        self._step_back()

    def seek(self, target: bytes) -> None:
        """Moves to the first entry whose key is not less than `target`."""
        self._rows.seek(target)
        self._item = next(self._rows, None)

    def next(self) -> None:
        """Moves to the next entry."""
        self._standing()
        self._item = next(self._rows, None)

    def prev(self) -> None:
        """Moves to the previous entry."""
        self._standing()
        self._back()  # over the current entry
        self._step_back()

    def key(self) -> bytes:
        """Returns the current key."""
        return self._standing()[0]

    def value(self) -> bytes:
        """Returns the current value."""
        return self._standing()[1]

    def item(self) -> Tuple[bytes, bytes]:
        """Returns the current key and value."""
        return self._standing()

    def _standing(self) -> Tuple[bytes, bytes]:
        self._rows.check()
        if self._item is None:
            raise IteratorInvalidError()
        return self._item

    def _step_back(self) -> None:
        """Moves to the previous entry; the rows are then positioned behind it."""
        self._item = self._back()
        if self._item is not None:
            next(self._rows)

    def _back(self) -> Optional[Tuple[bytes, bytes]]:
        try:
            item: Tuple[bytes, bytes] = self._rows.prev()
        except StopIteration:
            return None
        return item
