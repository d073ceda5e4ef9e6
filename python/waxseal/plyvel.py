"""Plyvel's interface on a Waxseal store: `import waxseal.plyvel as plyvel` is all that a program has to change.

Names, keywords, results and exceptions are those of plyvel 1.5. The store is Waxseal's, so a directory of LevelDB's is not read.
Options that tune what Waxseal has not (`max_open_files`, `block_restart_interval`, `max_file_size`, `bloom_filter_bits`) are checked and
have no effect; filters, sums and `paranoid_checks` are always on.

Unlike plyvel, nothing here can crash the interpreter: closing a store ends its iterators and snapshots, whoever is using them.
"""

from __future__ import annotations

import builtins
import os
import re
from typing import Any, Callable, Dict, Iterator as Iterates, List, Optional, Tuple, Union

from . import _backend, _errors, _map, _options, _store

__version__ = "1.5.1"
__leveldb_version__ = "1.23"

__all__ = [
    "CorruptionError",
    "DB",
    "Error",
    "IOError",
    "IteratorInvalidError",
    "__leveldb_version__",
    "__version__",
    "destroy_db",
    "repair_db",
]

Name = Union[str, bytes]
Comparator = Callable[[bytes, bytes], int]

backend = _backend.backend


class Error(Exception):
    """Something went wrong in the store."""


class IOError(Error, builtins.IOError):
    """The operating system refused, or the store is locked."""


class CorruptionError(Error):
    """Data is damaged."""


class IteratorInvalidError(Error):
    """The raw iterator does not stand on an entry."""


def _make_error(
    code: int,
    message: str,
    file: Optional[str],
    offset: Optional[int],
    family: Optional[str],
    key_range: Optional[Tuple[bytes, bytes]],
    verdict: Optional[int],
) -> Exception:
    """The exception that plyvel has for a status."""
    kind = _errors.CLASSES.get(code, _errors.InternalError)
    if kind is _errors.ClosedError:
        return RuntimeError("Database, iterator or snapshot is closed")
    if kind is _errors.CorruptionError:
        return CorruptionError(message)
    if kind in (_errors.Error, _errors.LockedError, _errors.HaltedError, _errors.ReadOnlyError):
        return IOError(message)
    return Error(message)


def _bytes(value: object, name: str) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"Argument {name!r} has incorrect type (expected bytes, got {type(value).__name__})")
    return value


def _optional_bytes(value: object, name: str) -> Optional[bytes]:
    return None if value is None else _bytes(value, name)


def _bool(value: object, name: str) -> bool:
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"Argument {name!r} has incorrect type (expected bool, got {type(value).__name__})")
    return bool(value)


def _size(value: object, name: str) -> Optional[int]:
    if value is None:
        return None
    if not isinstance(value, int):
        raise TypeError(f"Argument {name!r} has incorrect type (expected int, got {type(value).__name__})")
    if not 0 <= value < 1 << 64:
        raise OverflowError(f"Argument {name!r} is out of range")
    return value


def _path(name: object) -> str:
    if not isinstance(name, (str, bytes)):
        raise TypeError("'name' arg must be a byte string or a unicode string")
    return os.fsdecode(name)


def _settings(
    *,
    paranoid_checks: object,
    write_buffer_size: object,
    max_open_files: object,
    lru_cache_size: object,
    block_size: object,
    block_restart_interval: object,
    max_file_size: object,
    compression: object,
    bloom_filter_bits: object,
    comparator: Any,
    comparator_name: object,
) -> Dict[str, Any]:
    """LevelDB's options as Waxseal's."""
    for name, value in (
        ("max_open_files", max_open_files),
        ("block_restart_interval", block_restart_interval),
        ("max_file_size", max_file_size),
        ("bloom_filter_bits", bloom_filter_bits),
    ):
        if value is not None and not isinstance(value, int):
            raise TypeError(f"Argument {name!r} has incorrect type (expected int, got {type(value).__name__})")
    settings: Dict[str, Any] = {
        "memtable_bytes": _size(write_buffer_size, "write_buffer_size"),
        "cache_bytes": _size(lru_cache_size, "lru_cache_size"),
        "block_bytes": _size(block_size, "block_size"),
    }
    if isinstance(compression, bytes):
        compression = compression.decode("UTF-8")
    if compression is not None and not isinstance(compression, str):
        raise TypeError("'compression' must be None or a string")
    if compression not in (None, "snappy"):
        raise ValueError("'compression' must be None or 'snappy'")
    settings["compression"] = "none" if compression is None else "lz4"
    named = _optional_bytes(comparator_name, "comparator_name")
    if (comparator is None) != (named is None):
        raise ValueError("'comparator' and 'comparator_name' must be specified together")
    if comparator is not None and named is not None:
        if not callable(comparator):
            raise TypeError("custom comparator object must be callable")
        settings["comparator"] = (os.fsdecode(named), comparator)
    return {name: value for name, value in settings.items() if value is not None}


class DB:
    """A store, as plyvel shows it."""

    def __init__(
        self,
        name: Name,
        *,
        create_if_missing: bool = False,
        error_if_exists: bool = False,
        paranoid_checks: Optional[bool] = None,
        write_buffer_size: Optional[int] = None,
        max_open_files: Optional[int] = None,
        lru_cache_size: Optional[int] = None,
        block_size: Optional[int] = None,
        block_restart_interval: Optional[int] = None,
        max_file_size: Optional[int] = None,
        compression: Union[str, bytes, None] = "snappy",
        bloom_filter_bits: int = 0,
        comparator: Optional[Comparator] = None,
        comparator_name: Optional[bytes] = None,
    ) -> None:
        self.__name = name
        path = _path(name)
        create, fresh = _bool(create_if_missing, "create_if_missing"), _bool(error_if_exists, "error_if_exists")
        settings = _settings(
            paranoid_checks=paranoid_checks,
            write_buffer_size=write_buffer_size,
            max_open_files=max_open_files,
            lru_cache_size=lru_cache_size,
            block_size=block_size,
            block_restart_interval=block_restart_interval,
            max_file_size=max_file_size,
            compression=compression,
            bloom_filter_bits=bloom_filter_bits,
            comparator=comparator,
            comparator_name=comparator_name,
        )
        if os.path.isdir(path) and not os.access(path, os.W_OK):
            raise IOError(f"{path}: the directory cannot be written")
        # The settings name how big memory may grow; LevelDB takes sizes below Waxseal's least.
        settings = _options.within_limits(settings)
        self._db = _store.open_store(
            path, create_if_missing=create, error_if_exists=fresh, make_error=_make_error, **settings
        )

    @property
    def name(self) -> Name:
        """The path, as it was given."""
        return self.__name

    @property
    def closed(self) -> bool:
        """True once the store was closed."""
        return self._db.closed

    def close(self) -> None:
        """Closes the store, and with it everything that was made from it. Closing twice is nothing."""
        self._db.close()

    def __enter__(self) -> DB:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = " (closed)" if self.closed else ""
        return f"<plyvel.DB with name {self.name!r}{closed} at 0x{hex(id(self))}>"

    def get(
        self, key: bytes, default: Any = None, *, verify_checksums: bool = False, fill_cache: bool = True
    ) -> Any:
        """The value of a key, or `default`."""
        if type(key) is not bytes:
            _bytes(key, "key")
        return self._db.get(key, default)

    def put(self, key: bytes, value: Any, *, sync: bool = False) -> None:
        """Sets a key to a value: bytes or any buffer."""
        if type(key) is not bytes:
            _bytes(key, "key")
        self._db.put(key, value, _durability(sync))

    def delete(self, key: bytes, *, sync: bool = False) -> None:
        """Removes a key; no error if it is not there."""
        self._db.delete(_bytes(key, "key"), _durability(sync))

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        """Writes that are done together; as a context manager they are done at its end."""
        self._check()
        return WriteBatch(self, None, _bool(transaction, "transaction"), sync)

    def __iter__(self) -> Iterator:
        return self.iterator()

    def iterator(
        self,
        *,
        reverse: bool = False,
        start: Optional[bytes] = None,
        stop: Optional[bytes] = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: Optional[bytes] = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool = False,
        fill_cache: bool = True,
    ) -> Iterator:
        """An iterator over keys from `start` to `stop`, or over those that begin with `prefix`."""
        return _iterate(
            self._db, None, reverse, start, stop, include_start, include_stop, prefix, include_key, include_value
        )

    def raw_iterator(self, *, verify_checksums: bool = False, fill_cache: bool = True) -> RawIterator:
        """An iterator that is moved step by step."""
        return RawIterator(self.iterator())

    def snapshot(self) -> Snapshot:
        """The store as it is now."""
        return Snapshot(db=self)

    def get_property(self, name: bytes) -> Optional[bytes]:
        """`leveldb.stats`, `leveldb.sstables`, `leveldb.approximate-memory-usage`, `leveldb.num-files-at-level<N>`; None for others."""
        _bytes(name, "name")
        self._check()
        return _property(name, self._db.metrics())

    def compact_range(self, *, start: Optional[bytes] = None, stop: Optional[bytes] = None) -> None:
        """Rewrites the tables until nothing that is deleted or overwritten takes space; the whole store, whatever the range."""
        _optional_bytes(start, "start")
        _optional_bytes(stop, "stop")
        self._check()
        self._db.flush()
        self._db.compact()

    def approximate_size(self, start: bytes, stop: bytes) -> int:
        """About how many bytes of the store's files hold keys of a range."""
        return self.approximate_sizes((_bytes(start, "start"), _bytes(stop, "stop")))[0]

    def approximate_sizes(self, *ranges: Tuple[bytes, bytes]) -> List[int]:
        """`approximate_size` of several ranges."""
        self._check()
        sizes = []
        for start, stop in ranges:
            if not isinstance(start, bytes) or not isinstance(stop, bytes):
                raise TypeError("Start and stop of range must be byte strings")
            sizes.append(self._db.approximate_size(start, stop))
        return sizes

    def prefixed_db(self, prefix: bytes) -> PrefixedDB:
        """The keys that begin with `prefix`, as a store of their own."""
        return PrefixedDB(db=self, prefix=prefix)

    def _check(self) -> None:
        if self.closed:
            raise RuntimeError("Database is closed")


#: Levels that LevelDB has.
_LEVELS = 7
_MEGABYTE = 1 << 20


def _property(name: bytes, metrics: str) -> Optional[bytes]:
    """A property of LevelDB's, made of what Waxseal counts."""
    memory, levels = _counts(metrics)
    count = re.fullmatch(rb"leveldb\.num-files-at-level([0-9]+)", name)
    if count:
        level = int(count[1])
        return b"%d" % levels.get(level, (0, 0))[0] if level < _LEVELS else None
    if name == b"leveldb.approximate-memory-usage":
        return b"%d" % memory
    if name == b"leveldb.sstables":
        lines = [f"--- level {level} ---\n {tables} tables: {size}" for level, (tables, size) in levels.items()]
        return "".join(line + "\n" for line in lines).encode()
    if name == b"leveldb.stats":
        head = "Level  Files Size(MB)\n---------------------\n"
        rows = [f"{level:3} {tables:8} {size / _MEGABYTE:8.0f}\n" for level, (tables, size) in levels.items()]
        return (head + "".join(rows) + metrics).encode()
    return None


def _counts(metrics: str) -> Tuple[int, Dict[int, Tuple[int, int]]]:
    """Bytes in memory, and tables and bytes of each level, of the family `default`, which the metrics tell of first."""
    memory, levels = 0, {}
    for at, line in enumerate(metrics.splitlines()):
        words = line.split()
        if at == 0 and (found := re.search(r"memtable (\d+) B", line)):
            memory = int(found[1])
        elif at > 0 and line.startswith("family"):
            break
        elif len(words) >= 3 and words[0].isdigit():
            levels[int(words[0])] = (int(words[1]), int(words[2]))
    return memory, levels


class PrefixedDB:
    """The keys of a store that begin with a prefix, which is added and cut off."""

    def __init__(self, *, db: DB, prefix: bytes) -> None:
        if not isinstance(db, DB):
            raise TypeError(f"Argument 'db' has incorrect type (expected DB, got {type(db).__name__})")
        self.__db = db
        self.__prefix = _bytes(prefix, "prefix")

    @property
    def db(self) -> DB:
        """The store."""
        return self.__db

    @property
    def prefix(self) -> bytes:
        """What its keys begin with."""
        return self.__prefix

    def __repr__(self) -> str:
        return f"<plyvel.PrefixedDB with prefix {self.prefix!r} at 0x{hex(id(self))}>"

    def get(
        self, key: bytes, default: Any = None, *, verify_checksums: bool = False, fill_cache: bool = True
    ) -> Any:
        """The value of a key, or `default`."""
        return self.db.get(self.prefix + _bytes(key, "key"), default)

    def put(self, key: bytes, value: Any, *, sync: bool = False) -> None:
        """Sets a key to a value."""
        self.db.put(self.prefix + _bytes(key, "key"), value, sync=sync)

    def delete(self, key: bytes, *, sync: bool = False) -> None:
        """Removes a key; no error if it is not there."""
        self.db.delete(self.prefix + _bytes(key, "key"), sync=sync)

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        """Writes that are done together."""
        self.db._check()
        return WriteBatch(self.db, self.prefix, _bool(transaction, "transaction"), sync)

    def __iter__(self) -> Iterator:
        return self.iterator()

    def iterator(
        self,
        *,
        reverse: bool = False,
        start: Optional[bytes] = None,
        stop: Optional[bytes] = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: Optional[bytes] = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool = False,
        fill_cache: bool = True,
    ) -> Iterator:
        """An iterator over keys from `start` to `stop`, or over those that begin with `prefix`."""
        return _iterate(
            self.db._db,
            self.prefix,
            reverse,
            start,
            stop,
            include_start,
            include_stop,
            prefix,
            include_key,
            include_value,
        )

    def snapshot(self) -> Snapshot:
        """The keys as they are now."""
        return Snapshot(db=self.db, prefix=self.prefix)

    def prefixed_db(self, prefix: bytes) -> PrefixedDB:
        """The keys that go on with `prefix`."""
        return PrefixedDB(db=self.db, prefix=self.prefix + _bytes(prefix, "prefix"))


class WriteBatch:
    """Writes that are done together, all or none; it keeps them, and may be written again."""

    def __init__(self, db: DB, prefix: Optional[bytes], transaction: bool, sync: Optional[bool]) -> None:
        self._db = db
        self._prefix = prefix or b""
        self._transaction = transaction
        self._sync = bool(sync)
        self._operations: List[Tuple[bytes, Optional[bytes]]] = []

    def put(self, key: bytes, value: Any) -> None:
        """Sets a key to a value."""
        self._db._check()
        key = self._prefix + _bytes(key, "key")
        self._operations.append((key, value if type(value) is bytes else bytes(memoryview(value))))

    def delete(self, key: bytes) -> None:
        """Removes a key."""
        self._db._check()
        self._operations.append((self._prefix + _bytes(key, "key"), None))

    def clear(self) -> None:
        """Forgets all writes."""
        self._db._check()
        self._operations.clear()

    def write(self) -> None:
        """Does all writes at once."""
        self._db._check()
        batch = self._db._db.batch(durability=_durability(self._sync))
        for key, value in self._operations:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        batch.commit()

    def append(self, source: WriteBatch) -> None:
        """Adds the writes of another batch."""
        if not isinstance(source, WriteBatch):
            raise TypeError(f"Argument 'source' has incorrect type (expected WriteBatch, got {type(source).__name__})")
        self._db._check()
        self._operations.extend(source._operations)

    def approximate_size(self) -> int:
        """Bytes that LevelDB would keep the batch in."""
        self._db._check()
        return 12 + sum(
            1 + _encoded(key) + (0 if value is None else _encoded(value)) for key, value in self._operations
        )

    def __enter__(self) -> WriteBatch:
        self._db._check()
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        self._db._check()
        if not (self._transaction and exc_type is not None):
            self.write()
        self.clear()


def _encoded(data: bytes) -> int:
    """Length of a length-prefixed string: seven bits of the length a byte."""
    return max(1, (len(data).bit_length() + 6) // 7) + len(data)


def _durability(sync: object) -> Optional[str]:
    return "sync" if _bool(sync, "sync") else None


class Iterator(backend.Rows):
    """Goes over entries in both directions: it stands between two, `next` gives the one behind, `prev` the one before."""

    def seek(self, target: bytes) -> None:  # type: ignore[override]
        """Moves before the first key that is not less than `target`, within the bounds."""
        super().seek(self._prefixed(_bytes(target, "target")))

    def _prefixed(self, target: bytes) -> bytes:
        return target



class _PrefixedIterator(Iterator):
    """An iterator whose keys lose a prefix."""

    _prefix: bytes = b""

    def _prefixed(self, target: bytes) -> bytes:
        return self._prefix + target


def _iterate(
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
    """The iterator of a store, of a prefix of it, or of a snapshot of either."""
    start, stop = _optional_bytes(start, "start"), _optional_bytes(stop, "stop")
    prefix = _optional_bytes(prefix, "prefix")
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
    """Stands on an entry, or on none; moved step by step."""

    def __init__(self, rows: Iterator) -> None:
        self._rows = rows
        self._item: Optional[Tuple[bytes, bytes]] = None

    def close(self) -> None:
        """Ends it."""
        self._rows.close()

    def __enter__(self) -> RawIterator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def valid(self) -> bool:
        """True if it stands on an entry."""
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
        """Moves to the entry before."""
        self._standing()
        self._back()  # over the one that it stands on
        self._step_back()

    def key(self) -> bytes:
        """The key."""
        return self._standing()[0]

    def value(self) -> bytes:
        """The value."""
        return self._standing()[1]

    def item(self) -> Tuple[bytes, bytes]:
        """Key and value."""
        return self._standing()

    def _standing(self) -> Tuple[bytes, bytes]:
        self._rows.check()
        if self._item is None:
            raise IteratorInvalidError()
        return self._item

    def _step_back(self) -> None:
        """Takes the entry before; the rows are left behind it."""
        self._item = self._back()
        if self._item is not None:
            next(self._rows)

    def _back(self) -> Optional[Tuple[bytes, bytes]]:
        try:
            item: Tuple[bytes, bytes] = self._rows.prev()
        except StopIteration:
            return None
        return item


class Snapshot:
    """A store, or a prefix of it, as it was at one moment."""

    def __init__(self, *, db: DB, prefix: Optional[bytes] = None) -> None:
        if db.closed:
            raise RuntimeError("Cannot operate on closed LevelDB database")
        self._snapshot = db._db.snapshot()
        self._prefix = prefix

    def close(self) -> None:
        """Lets go of what it sees."""
        self._snapshot.close()

    release = close

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def get(
        self, key: bytes, default: Any = None, *, verify_checksums: bool = False, fill_cache: bool = True
    ) -> Any:
        """The value that a key had, or `default`."""
        return self._snapshot.get((self._prefix or b"") + _bytes(key, "key"), default)

    def __iter__(self) -> Iterates[Tuple[bytes, bytes]]:
        return self.iterator()

    def iterator(
        self,
        *,
        reverse: bool = False,
        start: Optional[bytes] = None,
        stop: Optional[bytes] = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: Optional[bytes] = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool = False,
        fill_cache: bool = True,
    ) -> Iterator:
        """An iterator over what was there."""
        return _iterate(
            self._snapshot,
            self._prefix,
            reverse,
            start,
            stop,
            include_start,
            include_stop,
            prefix,
            include_key,
            include_value,
        )

    def raw_iterator(self, *, verify_checksums: bool = False, fill_cache: bool = True) -> RawIterator:
        """An iterator over all of the store, as it was, that is moved step by step."""
        return RawIterator(_iterate(self._snapshot, None, False, None, None, True, False, None, True, True))


def repair_db(
    name: Name,
    *,
    paranoid_checks: Optional[bool] = None,
    write_buffer_size: Optional[int] = None,
    max_open_files: Optional[int] = None,
    lru_cache_size: Optional[int] = None,
    block_size: Optional[int] = None,
    block_restart_interval: Optional[int] = None,
    max_file_size: Optional[int] = None,
    compression: Union[str, bytes, None] = "snappy",
    bloom_filter_bits: int = 0,
    comparator: Optional[Comparator] = None,
    comparator_name: Optional[bytes] = None,
) -> None:
    """Opens the store whatever its log has lost, and mends what can be mended."""
    path = _path(name)
    settings = _settings(
        paranoid_checks=paranoid_checks,
        write_buffer_size=write_buffer_size,
        max_open_files=max_open_files,
        lru_cache_size=lru_cache_size,
        block_size=block_size,
        block_restart_interval=block_restart_interval,
        max_file_size=max_file_size,
        compression=compression,
        bloom_filter_bits=bloom_filter_bits,
        comparator=comparator,
        comparator_name=comparator_name,
    )
    settings = _options.within_limits(settings)
    db = _store.open_store(path, create_if_missing=False, accept_loss=True, make_error=_make_error, **settings)
    try:
        db.repair()
    finally:
        db.close()


def destroy_db(name: Name) -> None:
    """Removes the store and everything in it; no error if there is none."""
    path = _path(name)
    if _store.exists(path):
        _store.destroy_store(path, make_error=_make_error)
