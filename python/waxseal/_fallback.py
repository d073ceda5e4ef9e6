"""The backend in Python: implements `_native` with ctypes.

It has the same classes with the same names and signatures, at a tenth of the speed. It runs wherever ctypes does. Every
test of the package thereby tests the C library through a second binding.
"""

from __future__ import annotations

import ctypes as C
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Tuple, TypeVar

from . import _abi, _c, _options
from ._errors import BUSY, CLOSED, Error, MakeError

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

_SHORT = 4096
_FIRST_ROWS = 16
_MOST_ROWS = 4096
_WINDOW_BYTES = 256 << 10
_PORTION_BYTES = 4 << 20

#: The position of an iterator: the library's own, an end, before a key, or behind a key.
_ITSELF, _START, _END, _BEFORE, _BEHIND = range(5)

_forks = 0


def forked() -> None:
    """Tells this module that the process is a forked child."""
    global _forks
    _forks += 1


#: Exported capsules, each with its stream. A destructor in Python cannot run while an exception propagates.
#: Unreferenced capsules are therefore swept when the next one is made, and when a store is closed.
_given: List[Tuple[object, Any]] = []

_RELEASE = C.CFUNCTYPE(None, C.c_void_p)
_STREAM = b"arrow_array_stream"
#: Reference count of a capsule that only the list holds: one of the pair, one of the counting call.
_OURS = 2


def _sweep() -> None:
    """Releases the streams of unreferenced capsules, unless a consumer has moved them out."""
    for pair in list(_given):
        stream = pair[1]
        if not stream.release:
            _given.remove(pair)
        elif sys.getrefcount(pair[0]) <= _OURS:
            _given.remove(pair)
            _RELEASE(stream.release)(C.addressof(stream))


def stream_capsule(address: int) -> object:
    """Moves the Arrow stream at an address into a capsule."""
    from ._arrow import ArrowArrayStream

    stream = ArrowArrayStream.from_buffer_copy(C.string_at(address, C.sizeof(ArrowArrayStream)))
    ArrowArrayStream.from_address(address).release = None
    new = C.pythonapi.PyCapsule_New
    new.restype, new.argtypes = C.py_object, [C.c_void_p, C.c_char_p, C.c_void_p]
    capsule: object = new(C.addressof(stream), _STREAM, None)
    _sweep()
    _given.append((capsule, stream))
    return capsule


class Store:
    """The part of an open store that its objects need."""

    def __init__(self, make_error: MakeError) -> None:
        self.make = make_error
        self._born = _forks
        self._closed = False
        self._lock = threading.Lock()

    @property
    def closed(self) -> bool:
        """True once the store is closed."""
        return self._closed

    @property
    def here(self) -> bool:
        """True in the process that opened the store, false in its forked children."""
        return self._born == _forks

    def close(self) -> bool:
        """Marks the store as closed. Returns False if it already was."""
        with self._lock:
            before, self._closed = self._closed, True
        _sweep()
        return not before

    def check(self) -> None:
        """Raises if the store is closed, or belongs to the parent of this process."""
        if self._closed:
            raise self.error(CLOSED, "the store was closed")
        if not self.here:
            raise self.error(CLOSED, "the store was opened before a fork: open it again in this process")

    def error(self, status: int, message: str) -> Exception:
        """Returns the exception of a status that Python code detected."""
        return self.make(status, message, None, None, None, None, None)

    def call(self, name: str, *arguments: Any) -> int:
        """Calls the library for this store."""
        return _c.call(name, *arguments, make=self.make)


class _Open:
    """Base of objects that belong to an open store and therefore cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")


class Reader(_Open):
    """Reads one column family: `Reader(store, family, snapshot=0)`, by handles of the library."""

    _store: Store
    _family_handle: int
    _snapshot_handle: int

    def __new__(cls, store: Store, family: int, snapshot: int = 0) -> Self:
        self = super().__new__(cls)
        self._store = store
        self._family_handle = family
        self._snapshot_handle = snapshot
        return self

    def get(self, key: object, default: Any = None) -> Any:
        """Returns the value of a key, or `default` if the key does not exist."""
        value = self._read(key)
        return default if value is None else value

    def __getitem__(self, key: object) -> bytes:
        value = self._read(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        data = _c.lent(key, "key")
        self._store.check()
        status = self._store.call(
            "waxseal_contains", self._family_handle, self._snapshot_handle, data, len(data)
        )
        return status == _abi.WAXSEAL_OK

    def multi_get(self, keys: Iterable[object]) -> List[Optional[bytes]]:
        """Returns the values of several keys, in their order, all read at one point in time; None for missing keys."""
        all_keys = [_c.lent(key, "key") for key in keys]
        self._store.check()
        slices = (_abi.waxseal_slice_t * len(all_keys))()
        for place, key in zip(slices, all_keys):
            place.data, place.len = _address(key), len(key)
        values = C.c_void_p()
        family, snapshot = self._family_handle, self._snapshot_handle
        self._store.call("waxseal_multi_get", family, snapshot, slices, len(all_keys), C.byref(values))
        try:
            return [self._value_at(values, index) for index in range(len(all_keys))]
        finally:
            _c.function("waxseal_values_destroy")(values)

    @staticmethod
    def _value_at(values: C.c_void_p, index: int) -> Optional[bytes]:
        value = _abi.waxseal_slice_t()
        status = _c.function("waxseal_values_at")(values, index, C.byref(value))
        return _c.bytes_of(value) if status == _abi.WAXSEAL_OK else None

    def _read(self, key: object) -> Optional[bytes]:
        data = _c.lent(key, "key")
        self._store.check()
        which = (self._family_handle, self._snapshot_handle, data, len(data))
        buffer, length = C.create_string_buffer(_SHORT), C.c_size_t()
        status = self._store.call("waxseal_get_resident", *which, buffer, _SHORT, C.byref(length))
        if status == _abi.WAXSEAL_OK:
            return C.string_at(buffer, length.value)
        if status == _abi.WAXSEAL_NOT_FOUND:
            return None
        # The value is longer than the buffer, or in a file: read it once, whatever its length.
        return _c.content("waxseal_get", *which, make=self._store.make)


class Keyspace(Reader):
    """Reads and writes one column family: `Keyspace(store, family, db)`, by handles of the library."""

    _db_handle: int

    def __new__(cls, store: Store, family: int, db: int) -> Self:
        self = super().__new__(cls, store, family)
        self._db_handle = db
        return self

    def put(self, key: object, value: object, durability: Optional[str] = None) -> None:
        """Sets a key to a value. `durability` is "none", "os" or "sync"; None means the store's default."""
        data, content = _c.lent(key, "key"), _c.lent(value, "value")
        self._write("waxseal_put", durability, data, len(data), content, len(content))

    def delete(self, key: object, durability: Optional[str] = None) -> None:
        """Deletes a key; a missing key is not an error. `durability` as of `put`."""
        data = _c.lent(key, "key")
        self._write("waxseal_delete", durability, data, len(data))

    def delete_range(self, start: object = None, end: object = None, durability: Optional[str] = None) -> None:
        """Deletes all keys from `start` to `end`, `end` excluded; None is no bound. `durability` as of `put`."""
        self._write("waxseal_delete_range", durability, *_lent_bound(start, "start"), *_lent_bound(end, "end"))

    def compare_and_set(self, key: object, old: object, new: object, durability: Optional[str] = None) -> bool:
        """Sets a key to `new` if its value is `old`, atomically. None stands for an absent key. Returns False, and
        changes nothing, if the key has another value.

        No write of the key comes between the comparison and the change. An expired record counts as absent.
        """
        data, is_set = _c.lent(key, "key"), C.c_bool()
        before, after = (None if value is None else _c.slice_of(value, "value") for value in (old, new))
        options = self._write_options(durability)
        self._store.call(
            "waxseal_compare_and_set",
            self._family_handle,
            None if options is None else options.handle,
            data,
            len(data),
            None if before is None else C.byref(before),
            None if after is None else C.byref(after),
            C.byref(is_set),
        )
        return is_set.value

    def _write(self, name: str, durability: Optional[str], *arguments: Any) -> None:
        options = self._write_options(durability)
        if options is None:
            self._store.call(name, self._family_handle, *arguments)
        else:
            self._store.call(f"{name}_with", self._family_handle, options.handle, *arguments)

    def _write_options(self, durability: Optional[str]) -> Optional[_c.Owned]:
        """Returns the options of a write with a durability of its own; None for the store's default."""
        number = _options.durability(durability)
        self._store.check()
        if number == _abi.WAXSEAL_DURABILITY_DEFAULT:
            return None
        options = _c.made(
            "waxseal_write_options_create", destroy="waxseal_write_options_destroy", make=self._store.make
        )
        _c.function("waxseal_write_options_set_durability")(options.handle, number)
        return options

    def __setitem__(self, key: object, value: object) -> None:
        self.put(key, value)

    def __delitem__(self, key: object) -> None:
        mapping: Any = self  # the class that extends this one has `pop`, which is atomic
        mapping.pop(key)

    def put_many(self, pairs: Iterable[Any], durability: Optional[str] = None) -> int:
        """Sets many keys, from an iterable of pairs, and returns their number. Commits them in portions of 4 MiB."""
        batch = Batch(self._store, self._db_handle, self, durability)
        count = size = 0
        for pair in pairs:
            key, value = _pair(pair)
            batch.put(key, value)
            count += 1
            size += len(key) + len(value)
            if size >= _PORTION_BYTES:
                batch.commit()
                size = 0
        batch.commit()
        return count


def _pair(pair: Any) -> Tuple[bytes, bytes]:
    try:
        if len(pair) == 2:
            return _c.lent(pair[0], "key"), _c.lent(pair[1], "value")
    except (TypeError, LookupError):
        if isinstance(pair, (tuple, list)):
            raise
    raise TypeError("each item is a pair of key and value")


def _lent_bound(bound: object, what: str) -> Tuple[Optional[bytes], int]:
    data = None if bound is None else _c.lent(bound, what)
    return data, 0 if data is None else len(data)


class Batch(_Open):
    """Writes that commit atomically, for a session: `Batch(store, db, keyspace, durability=None, session=0)`."""

    _store: Store
    _batch: _c.Owned
    _durability: int
    _keyspace: Reader

    def __new__(
        cls, store: Store, db: int, keyspace: Reader, durability: Optional[str] = None, session: int = 0
    ) -> Self:
        self = super().__new__(cls)
        self._durability = _options.durability(durability)
        store.check()
        self._store = store
        self._keyspace = keyspace
        made_by = ("waxseal_session_batch_create", session) if session else ("waxseal_batch_create", db)
        self._batch = _c.made(*made_by, destroy="waxseal_batch_destroy", make=store.make)
        return self

    def put(self, key: object, value: object, family: Optional[Keyspace] = None) -> None:
        """Adds a write that sets a key to a value, in `family` or in the batch's own family."""
        data, content = _c.lent(key, "key"), _c.lent(value, "value")
        self._add("waxseal_batch_put", family, data, len(data), content, len(content))

    def put_options(self, key: object, value: object, options: int, family: Optional[Keyspace] = None) -> None:
        """Adds a write that sets a key to a value with options, a handle of the library."""
        data, content = _c.lent(key, "key"), _c.lent(value, "value")
        self._add("waxseal_batch_put_with_options", family, options, data, len(data), content, len(content))

    def apply_last(self, changes: int, family: Optional[Keyspace] = None) -> None:
        """Adds the last change of a reader, a handle of the library."""
        self._add("waxseal_batch_apply", family, changes)

    def delete(self, key: object, family: Optional[Keyspace] = None) -> None:
        """Adds a write that deletes a key, in `family` or in the batch's own family."""
        data = _c.lent(key, "key")
        self._add("waxseal_batch_delete", family, data, len(data))

    def delete_range(self, start: object = None, end: object = None, family: Optional[Keyspace] = None) -> None:
        """Adds a write that deletes all keys from `start` to `end`, `end` excluded; None is no bound."""
        self._add("waxseal_batch_delete_range", family, *_lent_bound(start, "start"), *_lent_bound(end, "end"))

    def _add(self, name: str, family: Optional[Keyspace], *arguments: Any) -> None:
        if family is not None and not isinstance(family, Keyspace):
            raise TypeError(f"family is a family, not {type(family).__name__}")
        self._store.check()
        self._store.call(name, self._batch.handle, (self._keyspace if family is None else family)._family_handle, *arguments)

    def __setitem__(self, key: object, value: object) -> None:
        self.put(key, value)

    def __delitem__(self, key: object) -> None:
        self.delete(key)

    def commit(self) -> None:
        """Commits all writes atomically, and empties the batch for reuse."""
        self._store.check()
        self._store.call("waxseal_batch_commit", self._batch.handle, self._durability)

    def clear(self) -> None:
        """Removes all writes, and the error of a rejected one."""
        self._store.check()
        status = _c.function("waxseal_batch_clear")(self._batch.handle)
        if status < 0:
            raise self._store.error(status, "the batch is in use")

    def __len__(self) -> int:
        self._store.check()
        return int(_c.function("waxseal_batch_count")(self._batch.handle))

    @property
    def nbytes(self) -> int:
        """The approximate bytes that the commit will take in the log."""
        self._store.check()
        return int(_c.function("waxseal_batch_bytes")(self._batch.handle))

    def __enter__(self) -> Self:
        self._store.check()
        return self

    def __exit__(self, exc_type: Any = None, exc_value: Any = None, traceback: Any = None) -> None:
        if exc_type is None:
            self.commit()
        else:
            _c.function("waxseal_batch_clear")(self._batch.handle)


class Rows(_Open):
    """Iterates over the rows of a reader. The position is between two rows: `next` returns the row behind it, `prev`
    the row before it.

    The window holds fetched rows, in the order of their steps; `_at` of them lie before the iterator's position. If the
    window is empty, `_place` is the position from which the next fetch continues.
    """

    _store: Store
    _reader: Reader
    _lock: threading.RLock
    _busy: bool
    _iter: Optional[_c.Owned]
    _reverse: bool
    _include_key: bool
    _include_value: bool
    _skip: int
    _window: List[Tuple[bytes, bytes]]
    #: The row, or None for the end, that a thread has read in a direction and that its call has not returned.
    _unclaimed: Dict[Tuple[int, bool], Optional[Tuple[bytes, bytes]]]
    _way: bool
    _at: int
    _place: Tuple[int, bytes]
    _portion: int

    def __new__(
        cls,
        reader: Reader,
        start: Optional[object] = None,
        stop: Optional[object] = None,
        include_start: bool = True,
        include_stop: bool = False,
        reverse: bool = False,
        include_key: bool = True,
        include_value: bool = True,
        skip: int = 0,
        prefix: Optional[object] = None,
    ) -> Self:
        from ._map import range_of

        self = super().__new__(cls)
        first = None if start is None else _c.lent(start, "start")
        last = None if stop is None else _c.lent(stop, "stop")
        begin = None if prefix is None else _c.lent(prefix, "prefix")
        if begin is not None and (first is not None or last is not None):
            raise TypeError("'prefix' cannot be used together with 'start' or 'stop'")
        store = reader._store
        store.check()
        between = range_of(first, last, include_start, include_stop)
        self._store = store
        self._reader = reader
        self._lock, self._busy = threading.RLock(), False
        self._reverse, self._include_key, self._include_value, self._skip = reverse, include_key, include_value, skip
        of: Tuple[Any, ...] = ("waxseal_iter_create", reader._family_handle, reader._snapshot_handle, C.byref(between))
        if begin is not None:
            of = ("waxseal_iter_create_prefix", *of[1:3], begin, len(begin))
        self._iter = _c.made(*of, destroy="waxseal_iter_destroy", make=store.make)
        if not include_value:
            _c.function("waxseal_iter_set_keys_only")(self._iter.handle, True)
        self._stand((_END, b"") if reverse else (_START, b""))
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._moved(not self._reverse)

    def prev(self) -> Any:
        """Returns the previous row. Raises StopIteration if there is none."""
        return self._moved(self._reverse)

    def seek(self, target: object) -> None:
        """Moves before the first row whose key is not less than `target`, within the bounds."""
        key = _c.lent(target, "key")
        self._alone(lambda: self._stand_open((_BEFORE, key)))

    def seek_to_start(self) -> None:
        """Moves before the first row."""
        self._alone(lambda: self._stand_open((_START, b"")))

    def seek_to_stop(self) -> None:
        """Moves behind the last row."""
        self._alone(lambda: self._stand_open((_END, b"")))

    def close(self) -> None:
        """Closes the iterator and releases its view. A second call does nothing."""
        self._alone(self._end)

    def _end(self) -> None:
        if self._iter is not None:
            self._iter.end()
            self._iter = None

    def check(self) -> None:
        """Raises if the iterator or its store is closed."""
        self._store.check()
        if self._iter is None:
            raise self._store.error(CLOSED, "the iterator was closed")

    def count(self) -> int:
        """Steps over all following rows, and returns their number."""
        return sum(1 for _ in self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exc_type: Any = None, exc_value: Any = None, traceback: Any = None) -> Any:
        self.close()

    def _alone(self, run: Callable[[], T]) -> T:
        """Excludes other threads, and code that the garbage collector runs on this thread in the middle of a move."""
        with self._lock:
            if self._busy:
                raise self._store.error(BUSY, "the iterator is being moved on this very thread")
            self._busy = True
            try:
                return run()
            finally:
                self._busy = False

    def _stand_open(self, place: Tuple[int, bytes]) -> None:
        self.check()
        self._stand(place)

    def _stand(self, place: Tuple[int, bytes]) -> None:
        """Clears the window and sets the position."""
        self._window = []
        self._unclaimed = {}
        self._way = True
        self._at = 0
        self._place = place
        self._portion = _FIRST_ROWS

    def _moved(self, on: bool) -> Any:
        me = threading.get_ident(), on
        self._alone(lambda: self._read(me))
        row = self._unclaimed[me]
        del self._unclaimed[me]  # no call follows until the return: the caller gets the row
        if row is None:
            raise StopIteration
        key, value = row[0][self._skip :], row[1]
        if self._include_key:
            return (key, value) if self._include_value else key
        return value if self._include_value else None

    def _read(self, me: Tuple[int, bool]) -> None:
        """Reads the next row of a thread in a direction, unless a signal handler ended the call that read it."""
        self.check()
        if me not in self._unclaimed:
            row = self._step(me[1])
            if row is None and self._fetch(me[1]):
                row = self._step(me[1])
            self._unclaimed[me] = row

    def _step(self, on: bool) -> Optional[Tuple[bytes, bytes]]:
        """Takes one step within the window."""
        if on == self._way:
            if self._at == len(self._window):
                return None
            self._at += 1
            return self._window[self._at - 1]
        if self._at == 0:
            return None
        self._at -= 1
        return self._window[self._at]

    def _fetch(self, on: bool) -> bool:
        """Fetches rows in this direction. The position is at the edge of the window."""
        if self._window and on != self._way:
            place = (_BEHIND if on else _BEFORE, self._window[0][0])
        else:
            place = self._place
        try:
            window = self._rows_from(place, on)
        except Error:  # the next step continues behind the damage
            self._window, self._at, self._place = [], 0, (_ITSELF, b"")
            raise
        except BaseException:  # of a signal handler: the library may have moved, and the next step fetches again
            if self._window and place[0] == _ITSELF:
                place = (_BEHIND if on else _BEFORE, self._window[-1][0])
            self._window, self._at, self._place = [], 0, place
            raise
        if not window:
            self._window, self._at, self._place = [], 0, (_END, b"") if on else (_START, b"")
            return False
        self._window, self._way, self._at, self._place = window, on, 0, (_ITSELF, b"")
        return True

    def _rows_from(self, place: Tuple[int, bytes], on: bool) -> List[Tuple[bytes, bytes]]:
        kind, key = place
        if kind == _ITSELF:
            return self._pack(on)
        if kind in (_START, _END):
            if on != (kind == _START):
                return []
            return self._single("waxseal_iter_first" if on else "waxseal_iter_last")
        found = self._single("waxseal_iter_seek", key, len(key))
        if kind == _BEFORE:
            if on:
                return found
            return self._single("waxseal_iter_prev" if found else "waxseal_iter_last")
        return self._single("waxseal_iter_next") if on and found else found

    def _single(self, name: str, *key: Any) -> List[Tuple[bytes, bytes]]:
        row = _abi.waxseal_row_t()
        assert self._iter is not None
        status = self._store.call(name, self._iter.handle, *key, C.byref(row))
        return [(_c.bytes_of(row.key), _c.bytes_of(row.value))] if status == _abi.WAXSEAL_OK else []

    def _pack(self, on: bool) -> List[Tuple[bytes, bytes]]:
        rows = _abi.waxseal_rows_t()
        wanted, self._portion = self._portion, min(self._portion * 4, _MOST_ROWS)
        name = "waxseal_iter_next_rows" if on else "waxseal_iter_prev_rows"
        assert self._iter is not None
        status = self._store.call(name, self._iter.handle, wanted, _WINDOW_BYTES, C.byref(rows))
        if status != _abi.WAXSEAL_OK:
            return []
        offsets = rows.offsets[: 2 * rows.count + 1]
        data = _c.bytes_at(rows.data, offsets[-1])
        return [
            (data[offsets[n] : offsets[n + 1]], data[offsets[n + 1] : offsets[n + 2]])
            for n in range(0, 2 * rows.count, 2)
        ]


def _address(data: bytes) -> Optional[int]:
    return C.cast(C.c_char_p(data), C.c_void_p).value
