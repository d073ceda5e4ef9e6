"""Families: the sorted mappings of a store, and write batches for them."""

from __future__ import annotations

import ctypes as C
import json
import threading
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Tuple,
    TypeVar,
    Union,
    overload,
)

from . import _abi, _bulk, _c
from ._arrow import Scan
from ._backend import backend
from ._care import Digest
from ._handles import Handles
from ._map import Readable, Writable, bounds, range_of
from ._options import Verify, set_family_options, size
from ._sealed import (
    Entry,
    Record,
    Expires,
    entries_of,
    get_entry,
    get_record,
    provider_number,
    seal_from,
    write_options,
)

from ._tables import Fence, Table, barred_tables_of, fences_of, tables_of, tables_with

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

    from ._changes import Change


T = TypeVar("T")

#: Stands for a default that was not given.
_MISSING: Any = object()


class Batch(backend.Batch):
    """Writes to any families of a store that commit atomically.

    As a context manager it commits at the end of its block; an exception discards its writes. One thread at a time may
    use it.
    """

    def __init__(
        self, store: Any, db: int, keyspace: Any, durability: Optional[str] = None, session: int = 0
    ) -> None:
        self._handles: Handles = keyspace._handles

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def put_with(
        self,
        key: Buffer,
        value: Buffer,
        *,
        labels: Optional[Mapping[str, str]] = None,
        expires: Expires = None,
        entries: Optional[Mapping[int, Buffer]] = None,
        log_as_insert: bool = False,
        family: Optional[backend.Keyspace] = None,
    ) -> None:
        """Adds a write that sets a key to a value with annotations: see `Family.put_with`."""
        options = write_options(self._handles, None, labels, expires, entries, log_as_insert)
        self.put_options(key, value, options.handle, family)

    def apply(self, change: Change, family: Optional[backend.Keyspace] = None) -> None:
        """Adds a change of another store, with its seal, its expiry and its other entries; the session is not part of it.

        The change is the one that its reader returned last. An operand needs the merge operator of its family. A dropped
        family is refused: the caller drops its own.
        """
        self.apply_last(change._handle(), family)


class ReadableFamily(Readable):
    """Read operations that a family and a family's snapshot share."""

    _handles: Handles
    _family: _c.Owned

    def _at(self) -> int:
        """Returns the handle of the snapshot to read; 0 for the current state."""
        return 0

    def get_with_meta(self, key: Buffer) -> Optional[Record]:
        """Returns the value of a key with its seal and its sequence number. The value is checked against the seal under
        every verification policy.

        Returns None if the key does not exist. Raises InvalidArgument if the record has no seal because a plain store
        wrote it.
        """
        return get_record(self._handles, self._family.handle, self._at(), key)

    def get_meta(self, key: Buffer, provider: int) -> Optional[Entry]:
        """Returns a provider's entry for a key, without reading the value."""
        return get_entry(self._handles, self._family.handle, self._at(), key, provider)

    def digest(self, start: Optional[Buffer] = None, stop: Optional[Buffer] = None) -> Digest:
        """Returns the number and the seal sum of the rows with keys from `start` to `stop`: equal for equal content, on
        every replica."""
        between, found = self._between(start, stop), _abi.waxseal_digest_t()
        self._handles.call(
            "waxseal_digest", self._family.handle, self._at(), C.byref(between), C.byref(found)
        )
        return Digest(found.count, found.sum)

    def scan(
        self,
        *,
        start: Optional[Buffer] = None,
        stop: Optional[Buffer] = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: Optional[Buffer] = None,
        columns: Optional[Iterable[str]] = None,
        batch_rows: int = 0,
        batch_bytes: int = 0,
    ) -> Scan:
        """Returns the rows as Arrow record batches, with some or all of the columns "key", "value", "seqno" and "seal".

        Any Arrow consumer accepts the result: `pyarrow.table(db.scan())`. A batch has at most `batch_rows` rows and
        about `batch_bytes` bytes; 0 means 65,536 rows and 16 MiB.
        """
        between = bounds(start, stop, include_start, include_stop, prefix)
        if prefix is not None:
            self.iterator(prefix=prefix).close()  # refused for a custom order, in which a prefix is no key range
        rows, size_ = size(batch_rows, "batch_rows"), size(batch_bytes, "batch_bytes")
        return Scan(self, self._handles, self._family.handle, self._at(), between, columns, rows, size_)

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """Returns all rows as Arrow record batches."""
        return self.scan().__arrow_c_stream__(requested_schema)

    @staticmethod
    def _between(start: Optional[Buffer], stop: Optional[Buffer]) -> Any:
        first = None if start is None else _c.lent(start, "start")
        last = None if stop is None else _c.lent(stop, "stop")
        return range_of(first, last)


class Family(ReadableFamily, Writable):
    """A sorted mapping of a store, from bytes to bytes."""

    _name: str
    #: Places for the row of a pop by the function and the thread; empty unless a call did not return its row.
    _popped: Dict[Tuple[str, int], Tuple[_c.Owned, _c.Owned]]

    def __new__(cls, handles: Handles, family: _c.Owned, name: str) -> Self:
        self: Self = super().__new__(cls, handles.store, family.handle, handles.db)
        self._handles = handles
        self._popped = {}
        self._family = family
        self._name = name
        return self

    def __init__(self, *_: object) -> None:
        """Created by `DB.family` and `DB.create_family`."""

    @property
    def name(self) -> str:
        """The name of the family."""
        return self._name

    @property
    def id(self) -> int:
        """The id of the family. A store gives no id twice: a family that is dropped and created again has another one."""
        number = C.c_uint32()
        self._handles.call("waxseal_family_id", self._family.handle, C.byref(number))
        return number.value

    def __repr__(self) -> str:
        return f"<waxseal.Family {self._name!r}{' (closed)' if self._handles.store.closed else ''}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} is an open store, which cannot be pickled")

    def batch(self, durability: Optional[str] = None) -> Batch:
        """Creates a batch of writes that commit atomically. Writes without a `family` argument go to this family."""
        return Batch(self._handles.store, self._handles.db, self, durability)

    def set_options(
        self,
        *,
        block_bytes: Optional[int] = None,
        restart_interval: Optional[int] = None,
        filter_bits: Optional[int] = None,
        prefix_extractor: Optional[str] = None,
        table_bytes: Optional[int] = None,
        level_base_bytes: Optional[int] = None,
        fanout: Optional[int] = None,
        level0_tables: Optional[int] = None,
        large_value_bytes: Optional[int] = None,
        default_ttl: Optional[Union[float, timedelta]] = None,
        seals: Optional[str] = None,
        compression: Optional[str] = None,
        bottom_compression: Optional[str] = None,
        verify_reads: Optional[Verify] = None,
        verify_scans: Optional[Verify] = None,
    ) -> None:
        """Changes options of the family while the store is open, and records them in the store. An option that is not
        given stays as it is.

        Calls and background jobs that begin after the change obey it. Tables keep their form until they are rewritten.
        `prefix_extractor` is as of `create_family`, and "" ends it.
        `default_ttl` is as of `create_family`, and 0 ends it: later keys do not expire by themselves. The verification
        levels are not recorded. Raises InvalidArgument, and changes nothing, if an option is invalid.
        """
        settings = {
            name: value for name, value in locals().items() if name not in ("self", "__class__") and value is not None
        }
        options = self._handles.made(
            "waxseal_family_get_options", self._family.handle, destroy="waxseal_family_options_destroy"
        )
        if settings.get("default_ttl") == 0:
            del settings["default_ttl"]
            _c.function("waxseal_family_options_set_default_ttl")(options.handle, 0)
        set_family_options(options, settings, self._handles.make)
        self._handles.call("waxseal_family_set_options", self._family.handle, options.handle)

    def clear(self) -> None:
        """Deletes all keys, in one write."""
        self.delete_range()

    def put_sealed(self, key: Buffer, value: Buffer, seal: Buffer, durability: Optional[str] = None) -> None:
        """Sets a key to a value with a seal computed at their origin: `seal_of(key, value)`.

        The seal is checked now, stored unchanged, and returned by `get_with_meta`. Raises InvalidArgument if it does
        not match key and value.
        """
        data, content = _c.lent(key, "key"), _c.lent(value, "value")
        given = seal_from(seal)
        options = write_options(self._handles, durability)
        self._handles.call(
            "waxseal_put_sealed",
            self._family.handle,
            options.handle,
            data,
            len(data),
            content,
            len(content),
            given,
        )

    def put_with(
        self,
        key: Buffer,
        value: Buffer,
        *,
        labels: Optional[Mapping[str, str]] = None,
        expires: Expires = None,
        entries: Optional[Mapping[int, Buffer]] = None,
        log_as_insert: bool = False,
        durability: Optional[str] = None,
    ) -> None:
        """Sets a key to a value with annotations: labels, an expiry time, or entries of other providers by their
        numbers. `expires` is a `timedelta` from now, a `datetime` (local time if it has no time zone), or seconds since
        1970 as in `time.time()`, integer or float. From then on the key is absent. A time before the year 2000 is a
        ValueError. `log_as_insert` logs the put as `Row.Insert` instead of `Row.Update`; the put overwrites in either
        case."""
        data, content = _c.lent(key, "key"), _c.lent(value, "value")
        options = write_options(self._handles, durability, labels, expires, entries, log_as_insert)
        self._handles.call(
            "waxseal_put_with", self._family.handle, options.handle, data, len(data), content, len(content)
        )

    def put_if_absent(
        self, key: Buffer, value: Buffer, *, expires: Expires = None, durability: Optional[str] = None
    ) -> bool:
        """Sets a key to a value if it is absent, atomically. Returns False, and changes nothing, if the key exists.
        `expires` as of `put_with`: the key is then a lock that its holder cannot forget to release."""
        data, content = _c.lent(key, "key"), _c.lent(value, "value")
        options, is_put = write_options(self._handles, durability, None, expires), C.c_bool()
        self._handles.call(
            "waxseal_put_if_absent",
            self._family.handle,
            options.handle,
            data,
            len(data),
            content,
            len(content),
            C.byref(is_put),
        )
        return is_put.value

    def modify(
        self, key: Buffer, change: Callable[[Optional[bytes]], Optional[Buffer]], durability: Optional[str] = None
    ) -> Optional[Buffer]:
        """Replaces the value of a key by `change(value)`, atomically, and returns the new value. `change` receives and
        returns None for an absent key. It runs again if another write changed the key meanwhile."""
        while True:
            old = self.get(key)
            new = change(old)
            if self.compare_and_set(key, old, new, durability):
                return new

    def fetch_add(self, key: Buffer, number: int = 1, durability: Optional[str] = None) -> int:
        """Adds a number to a counter, atomically, and returns the value before the addition. An absent key counts as 0.

        A counter is a signed integer of 64 bits, stored as 8 bytes in little-endian order. Raises InvalidArgument if
        the value does not have 8 bytes or the sum exceeds 64 bits.
        """
        data = _c.lent(key, "key")
        if not -(1 << 63) <= number < 1 << 63:
            raise OverflowError("a counter is a signed integer of 64 bits")
        options, before = write_options(self._handles, durability), C.c_int64()
        self._handles.call(
            "waxseal_fetch_add", self._family.handle, options.handle, data, len(data), number, C.byref(before)
        )
        return before.value

    def merge(self, key: Buffer, operand: Buffer, durability: Optional[str] = None) -> None:
        """Merges an operand into the value of a key, without reading it: the family's `merge_operator` makes the value
        when the key is read. Raises InvalidArgument for a family without one, and for an operand that it cannot read."""
        data, content = _c.lent(key, "key"), _c.lent(operand, "operand")
        options = write_options(self._handles, durability)
        self._handles.call(
            "waxseal_merge_with", self._family.handle, options.handle, data, len(data), content, len(content)
        )

    def pop_first(self, durability: Optional[str] = None) -> Optional[Tuple[bytes, bytes]]:
        """Removes the first row in key order and returns it, atomically; None if there is no row. Each row is returned
        to one caller, so that a family with keys in the order of their arrival is a queue. Raises CorruptionError if
        damage precedes the first readable row. If a signal handler raises after the row was removed, the thread's next
        such call of this object returns it."""
        return self._pop("waxseal_pop_first", durability)

    def pop_last(self, durability: Optional[str] = None) -> Optional[Tuple[bytes, bytes]]:
        """Removes the last row in key order and returns it: see `pop_first`."""
        return self._pop("waxseal_pop_last", durability)

    def _pop(self, call: str, durability: Optional[str]) -> Optional[Tuple[bytes, bytes]]:
        place = call, threading.get_ident()
        if place not in self._popped:
            self._popped[place] = _c.Owned("waxseal_bytes_destroy"), _c.Owned("waxseal_bytes_destroy")
        key, value = self._popped[place]
        if not key.handle:  # otherwise a signal handler ended the call that removed the row
            options, places = write_options(self._handles, durability), (C.byref(key.place), C.byref(value.place))
            self._handles.call(call, self._family.handle, options.handle, *places)
        row = (_c.content_at(key), _c.content_at(value)) if key.handle else None
        del self._popped[place]  # no call follows until the return: the caller gets the row
        return row

    @overload
    def pop(self, key: Buffer, /) -> bytes: ...

    @overload
    def pop(self, key: Buffer, /, default: T) -> Union[bytes, T]: ...

    def pop(self, key: Buffer, /, default: Any = _MISSING) -> Any:
        """Removes a key and returns its value, atomically: each value is returned to one caller. Returns `default` for
        an absent key; raises KeyError without one."""
        while True:
            value = self.get(key)
            if value is None:
                if default is _MISSING:
                    raise KeyError(key)
                return default
            if self.compare_and_set(key, value, None):
                return value

    def setdefault(self, key: Buffer, default: Any = None, /) -> bytes:
        """Returns the value of a key. An absent key is set to `default` before, atomically: all callers return the same
        value, unless another write comes between them."""
        while True:
            value = self.get(key)
            if value is not None:
                return value
            content = _c.lent(default, "value")
            if self.compare_and_set(key, None, content):
                return content

    def popitem(self) -> Tuple[bytes, bytes]:
        """Removes the last row in key order and returns it, atomically. Raises KeyError if there is no row."""
        row = self.pop_last()
        if row is None:
            raise KeyError("popitem(): the mapping is empty")
        return row

    def options(self) -> Dict[str, Union[int, str, bool, None]]:
        """Returns the options of the family as of now. Times are in microseconds, in `default_ttl_micros`."""
        options: Dict[str, Union[int, str, bool, None]] = json.loads(
            self._handles.text("waxseal_family_options_json", self._family.handle)
        )
        return options

    def table_writer(self, path: _bulk.Path) -> _bulk.TableWriter:
        """Creates a table file for this family, which must not exist. It belongs to no store until it is ingested."""
        return _bulk.TableWriter(self._handles, self._family.handle, path)

    def ingest(self, paths: Iterable[_bulk.Path], *, move: bool = False) -> int:
        """Adds table files to the family, in one commit that is durable when the call returns, and returns the number of
        their records. With `move` the files become part of the store and lose their old names.

        Their records are newer than everything written before, range deletes included, and older than everything
        written after. Raises InvalidArgument for a file that no table writer wrote, and for files that share keys, and
        CorruptionError for a damaged file: then nothing was changed.
        """
        return _bulk.ingest(self._handles, self._family.handle, paths, move)

    def bulk_load(self, rows: Union[Mapping[Any, Buffer], Iterable[Tuple[Buffer, Buffer]]]) -> int:
        """Loads rows in any order, in one commit that is durable when the call returns, and returns the number of keys.
        A later row replaces an earlier one of the same key.

        The rows bypass log and memtables: they are sorted and written as tables, which are then ingested. An exception
        of the iterable ends the load, which then has changed nothing. The iterable must not use this store.
        """
        return _bulk.bulk_load(self._handles, self._family.handle, rows)

    def compact(self, start: Optional[Buffer] = None, stop: Optional[Buffer] = None) -> None:
        """Compacts the family, or the tables that may hold keys from `start` to `stop`, until deleted and overwritten
        records take no space."""
        between = self._between(start, stop)
        self._handles.call("waxseal_compact_range", self._family.handle, C.byref(between))

    def compact_files(self, numbers: Iterable[int]) -> None:
        """Compacts tables by their numbers (`tables`): each is merged into the next level, or rewritten in place at the
        bottom. Raises InvalidArgument for a number of no table of the family, before anything is compacted."""
        chosen = [size(number, "number of a table") for number in numbers]
        array = (C.c_uint64 * len(chosen))(*chosen)
        self._handles.call("waxseal_compact_files", self._family.handle, array, len(chosen))

    def files_with(self, property: str, item: Buffer) -> List[Table]:
        """Returns the tables that may have an item of a property (`create_family`). No table with the item is missing: a
        table may have the items of the blob files that it points into, and a file without the property may have any
        item. Rows that are not flushed are in no table."""
        return tables_with(self._handles, self._family.handle, property, item)

    def compact_with(self, property: str, item: Buffer) -> None:
        """Flushes, then compacts the tables that may have an item of a property (`files_with`). Values are moved out of the
        blob files that may have it, so that none of these files is left, unless a value cannot be read."""
        name, wanted = _c.encoded(property, "a property"), _c.lent(item, "item")
        self._handles.call("waxseal_compact_with", self._family.handle, name, len(name), wanted, len(wanted))

    def tables(self) -> List[Table]:
        """Returns the family's current table files, upper levels first."""
        return tables_of(self._handles, self._family.handle)

    def barred_tables(self) -> List[Table]:
        """Returns the damaged tables that are excluded from compaction until they are repaired."""
        return barred_tables_of(self._handles, self._family.handle)

    def fences(self) -> List[Fence]:
        """Returns the ranges of permanently lost records: reads in them raise CorruptionError until a repair lifts the
        fence."""
        return fences_of(self._handles, self._family.handle)

    def iter_meta(
        self, provider: int, start: Optional[Buffer] = None, stop: Optional[Buffer] = None
    ) -> Iterator[Tuple[bytes, Entry]]:
        """Iterates over a provider's entries for keys from `start` to `stop`, in key order. Does not read values."""
        between = self._between(start, stop)
        iterator = self._handles.made(
            "waxseal_meta_iter_create",
            self._family.handle,
            C.byref(between),
            provider_number(provider),
            destroy="waxseal_meta_iter_destroy",
        )
        return entries_of(self._handles, iterator)

    def approximate_len(self) -> int:
        """Estimates the number of rows, at a cost that does not depend on the size of the family. `len` counts them."""
        return self._handles.number("waxseal_approximate_len", self._family.handle)

    def approximate_size(self, start: Optional[Buffer] = None, stop: Optional[Buffer] = None) -> int:
        """Returns the approximate bytes of the store's files that hold keys from `start` to `stop`. Memtables are not
        counted."""
        between = self._between(start, stop)
        return self._handles.number("waxseal_approximate_size", self._family.handle, C.byref(between))


def encoded_name(name: object) -> bytes:
    """Returns the name of a family, encoded for the library."""
    return _c.encoded(name, "a family's name")


def open_family(handles: Handles, name: str) -> _c.Owned:
    """Returns a handle of the family with this name, which is created if missing."""
    encoded = encoded_name(name)
    return handles.made(
        "waxseal_family_open", handles.db, encoded, len(encoded), destroy="waxseal_family_destroy"
    )


def find_family(handles: Handles, name: str) -> _c.Owned:
    """Returns a handle of the family with this name; raises InvalidArgument if it does not exist."""
    encoded = encoded_name(name)
    family = handles.made(
        "waxseal_family_find", handles.db, encoded, len(encoded), destroy="waxseal_family_destroy"
    )
    if not family.handle:
        raise handles.store_error(_abi.WAXSEAL_INVALID, f"there is no family {name!r}")
    return family


def family_names(handles: Handles) -> List[str]:
    """Returns the names of all families."""
    names = handles.content("waxseal_family_names", handles.db)
    return [name.decode("utf-8") for name in names.split(b"\0")[:-1]]
