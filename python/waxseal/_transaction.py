"""Transactions: reads of one snapshot and private writes, which commit if no other commit came between."""

from __future__ import annotations

import ctypes as C
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Mapping, Optional, Tuple, TypeVar

from . import _abi, _c
from ._errors import BusyError, ConflictError
from ._family import Family
from ._handles import Handles
from ._map import bounds, range_of
from ._options import durability as durability_number
from ._sealed import Expires, write_options
from ._steps import LentItems

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

_Result = TypeVar("_Result")

_ISOLATION = {
    "serializable": _abi.WAXSEAL_ISOLATION_SERIALIZABLE,
    "snapshot": _abi.WAXSEAL_ISOLATION_SNAPSHOT,
}


class Transaction:
    """Reads and writes of any families of a store that take effect together, and only if no other commit came between.

    As a context manager it commits at the end of its block; an exception discards its writes. Reads see the store as it
    was when the transaction began, and the transaction's own writes. The commit raises ConflictError, and changes
    nothing, if another commit changed what the transaction depends on: anything that it read ("serializable"), or the
    keys that it wrote or read by `get_for_update` ("snapshot"). `DB.transact` runs it again then.

    Calls without a `family` argument use the family that began the transaction. One thread at a time may use it. The
    versions that it may read take space until it ends, or is collected.
    """

    def __init__(self, handles: Handles, family: Family, transaction: _c.Owned, durability: int) -> None:
        """Created by `DB.transaction`."""
        self._handles = handles
        self._family = family
        self._transaction = transaction
        self._durability = durability

    def __enter__(self) -> Self:
        self._open_handle()
        return self

    def __exit__(self, exc_type: Any = None, exc_value: Any = None, traceback: Any = None) -> None:
        if exc_type is not None:
            self.rollback()
        elif self._transaction.handle:
            self.commit()

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle a transaction")

    def get(self, key: Buffer, default: Any = None, family: Optional[Family] = None) -> Any:
        """Returns the value of a key, or `default` if the key does not exist."""
        value = self._value("waxseal_transaction_get", key, family)
        return default if value is None else value

    def get_for_update(self, key: Buffer, default: Any = None, family: Optional[Family] = None) -> Any:
        """As `get`; with the isolation "snapshot" the commit then fails if another commit changed the key, as if the
        transaction had written it."""
        value = self._value("waxseal_transaction_get_for_update", key, family)
        return default if value is None else value

    def multi_get(self, keys: Iterable[Buffer], family: Optional[Family] = None) -> List[Optional[bytes]]:
        """Returns the values of several keys, in their order; None for missing keys."""
        kept = [_c.slice_of(key, "key") for key in keys]
        slices = (_abi.waxseal_slice_t * len(kept))(*kept)
        values = C.c_void_p()
        self._call("waxseal_transaction_multi_get", family, slices, len(kept), C.byref(values))
        value = _abi.waxseal_slice_t()
        try:
            return [
                _c.bytes_of(value) if _c.function("waxseal_values_at")(values, index, C.byref(value)) == 0 else None
                for index in range(len(kept))
            ]
        finally:
            _c.function("waxseal_values_destroy")(values)

    def __getitem__(self, key: Buffer) -> bytes:
        value = self._value("waxseal_transaction_get", key, None)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: Buffer) -> bool:
        data = _c.lent(key, "key")
        return self._call("waxseal_transaction_contains", None, data, len(data)) == _abi.WAXSEAL_OK

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
        family: Optional[Family] = None,
    ) -> Iterator[Any]:
        """Iterates over the rows with keys from `start` to `stop`, or with keys that begin with `prefix`: pairs, or the
        included parts.

        Each step sees the writes that the transaction has made by then. A range counts as read as far as the iterator
        was moved. An error ends the iteration.
        """
        between = range_of(*bounds(start, stop, include_start, include_stop, prefix))
        name = "waxseal_transaction_iter_create"
        arguments: Tuple[Any, ...] = (C.byref(between),)
        if prefix is not None:  # refused for a custom order, in which a prefix is no key range
            data = _c.lent(prefix, "prefix")
            name, arguments = "waxseal_transaction_iter_create_prefix", (data, len(data))
        handle, at = self._open_handle(), self._at(family)
        rows = self._handles.made(name, handle, at, *arguments, destroy="waxseal_iter_destroy")
        step = "waxseal_iter_prev" if reverse else "waxseal_iter_next"
        return self._rows(rows, step, bool(include_key), bool(include_value))

    def _rows(self, rows: _c.Owned, step: str, has_key: bool, has_value: bool) -> Iterator[Any]:
        def copied(row: Any) -> Any:
            key, value = _c.bytes_of(row.key), _c.bytes_of(row.value) if has_value else b""
            return (key, value) if has_key and has_value else key if has_key else value if has_value else None

        return LentItems(self._handles, step, rows, (_abi.waxseal_row_t,), copied)

    def __iter__(self) -> Iterator[bytes]:
        return self.iterator(include_value=False)

    def put(self, key: Buffer, value: Buffer, family: Optional[Family] = None) -> None:
        """Sets a key to a value when the transaction commits."""
        data, content = _c.lent(key, "key"), _c.lent(value, "value")
        self._call("waxseal_transaction_put", family, data, len(data), content, len(content))

    def put_with(
        self,
        key: Buffer,
        value: Buffer,
        *,
        labels: Optional[Mapping[str, str]] = None,
        expires: Expires = None,
        entries: Optional[Mapping[int, Buffer]] = None,
        log_as_insert: bool = False,
        family: Optional[Family] = None,
    ) -> None:
        """Sets a key to a value with annotations when the transaction commits: see `Family.put_with`."""
        data, content = _c.lent(key, "key"), _c.lent(value, "value")
        options = write_options(self._handles, None, labels, expires, entries, log_as_insert)
        self._call(
            "waxseal_transaction_put_with", family, options.handle, data, len(data), content, len(content)
        )

    def merge(self, key: Buffer, operand: Buffer, family: Optional[Family] = None) -> None:
        """Merges an operand into the value of a key when the transaction commits: see `Family.merge`. The transaction's
        own reads see the merged value. A merge alone never conflicts at the level "serializable"."""
        data, content = _c.lent(key, "key"), _c.lent(operand, "operand")
        self._call("waxseal_transaction_merge", family, data, len(data), content, len(content))

    def delete(self, key: Buffer, family: Optional[Family] = None) -> None:
        """Deletes a key when the transaction commits; a missing key is not an error."""
        data = _c.lent(key, "key")
        self._call("waxseal_transaction_delete", family, data, len(data))

    def delete_range(
        self, start: Optional[Buffer] = None, end: Optional[Buffer] = None, family: Optional[Family] = None
    ) -> None:
        """Deletes all keys from `start` to `end`, `end` excluded; None is no bound. It applies to the rows that exist
        when the transaction commits, and to those that the transaction wrote before."""
        first = None if start is None else _c.lent(start, "start")
        last = None if end is None else _c.lent(end, "end")
        between = (first, len(first or b""), last, len(last or b""))
        self._call("waxseal_transaction_delete_range", family, *between)

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self.put(key, value)

    def __delitem__(self, key: Buffer) -> None:
        if key not in self:
            raise KeyError(key)
        self.delete(key)

    def savepoint(self) -> None:
        """Marks the present state of the writes for `rollback_to_savepoint`. Savepoints nest."""
        self._handles.call("waxseal_transaction_savepoint", self._open_handle())

    def rollback_to_savepoint(self) -> None:
        """Discards the writes since the last savepoint, and the savepoint. Reads stay read: the commit validates them.
        Raises InvalidArgument without a savepoint."""
        self._handles.call("waxseal_transaction_rollback_to_savepoint", self._open_handle())

    def release_savepoint(self) -> None:
        """Keeps the writes since the last savepoint, and forgets the savepoint. Raises InvalidArgument without a
        savepoint."""
        self._handles.call("waxseal_transaction_release_savepoint", self._open_handle())

    def commit(self) -> None:
        """Makes all writes visible atomically, and ends the transaction, whatever the outcome. Raises ConflictError if
        another commit changed what the transaction depends on; the message names the key."""
        handle = self._open_handle()
        try:
            self._handles.call("waxseal_transaction_commit", handle, self._durability)
        except BusyError:
            raise  # another thread uses the transaction, which goes on
        except BaseException:
            self._end()
            raise
        self._end()

    def rollback(self) -> None:
        """Discards all writes, and ends the transaction. A second call does nothing."""
        self._end()

    def _end(self) -> None:
        if self._handles.store.here:
            self._transaction.end()

    def _open_handle(self) -> int:
        self._handles.store.check()
        if not self._transaction.handle:
            raise self._handles.store_error(_abi.WAXSEAL_INVALID, "the transaction has ended")
        return self._transaction.handle

    def _at(self, family: Optional[Family]) -> int:
        if family is not None and not isinstance(family, Family):
            raise TypeError(f"family is a family, not {type(family).__name__}")
        return (self._family if family is None else family)._family.handle

    def _call(self, name: str, family: Optional[Family], *arguments: Any) -> int:
        return self._handles.call(name, self._open_handle(), self._at(family), *arguments)

    def _value(self, name: str, key: Buffer, family: Optional[Family]) -> Optional[bytes]:
        data, value = _c.lent(key, "key"), _c.Owned("waxseal_bytes_destroy")
        status = self._call(name, family, data, len(data), C.byref(value.place))
        return None if status == _abi.WAXSEAL_NOT_FOUND else _c.content_of(value)


class Transacting:
    """The transactions of a store, under a session's identity."""

    _handles: Handles

    def _transaction_family(self) -> Family:
        """Returns the family of calls that name none."""
        raise NotImplementedError

    def _begin(self, isolation: int) -> _c.Owned:
        """Begins a transaction."""
        raise NotImplementedError

    def transaction(self, isolation: str = "serializable", durability: Optional[str] = None) -> Transaction:
        """Begins a transaction: reads and writes that take effect together, and only if no other commit came between.

        With the isolation "serializable" it takes effect as if it ran alone, at the moment of its commit. "snapshot"
        detects changes of the keys that it wrote only: two transactions that each read what the other one writes may
        both commit. `durability` is that of the commit.
        """
        if isolation not in _ISOLATION:
            raise ValueError(f"the isolation is one of {', '.join(map(repr, _ISOLATION))}, not {isolation!r}")
        number = durability_number(durability)
        family = self._transaction_family()
        return Transaction(self._handles, family, self._begin(_ISOLATION[isolation]), number)

    def transact(self, run: Callable[[Transaction], _Result], durability: Optional[str] = None) -> _Result:
        """Runs a serializable transaction: passes it to `run`, commits it, and returns the result of `run`. After a
        conflict all of it runs again, on a new snapshot. An exception of `run` discards the writes.

        `run` should be free of side effects, because it may run several times. Some transaction among those in conflict
        always succeeds.
        """
        while True:
            with self.transaction(durability=durability) as transaction:
                result = run(transaction)
                try:
                    transaction.commit()
                    return result
                except ConflictError:
                    pass
