"""Plyvel's interface on a Waxseal store: a program changes only its import, to `import waxseal.plyvel as plyvel`.

Names, keywords, results and exceptions are those of plyvel 1.5. The store has Waxseal's format, so a LevelDB directory
cannot be read. Options without a counterpart in Waxseal (`max_open_files`, `block_restart_interval`, `max_file_size`,
`bloom_filter_bits`) are checked and have no effect; filters, checksums and `paranoid_checks` are always on.

Unlike plyvel, this module cannot crash the interpreter: closing a store closes its iterators and snapshots, even while
they are used.
"""

from __future__ import annotations

import os
from typing import Any, List, Optional, Tuple, Union

from .. import _store
from ._iterators import Iterator, RawIterator, iterate
from ._terms import (
    Comparator,
    CorruptionError,
    Error,
    IOError,
    IteratorInvalidError,
    Name,
    bool_in,
    bytes_in,
    durability_of,
    make_error,
    optional_bytes,
    path_in,
    property_of,
    settings_of,
)

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


class DB:
    """A store with plyvel's interface."""

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
        path = path_in(name)
        create, fresh = bool_in(create_if_missing, "create_if_missing"), bool_in(error_if_exists, "error_if_exists")
        settings = settings_of(
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
        above = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(above):  # LevelDB creates the store's directory, but no parent directory
            raise IOError(f"{path}: No such file or directory")
        if os.path.isdir(path) and not os.access(path, os.W_OK):
            raise IOError(f"{path}: the directory cannot be written")
        self._db = _store.open_store(
            path, create_if_missing=create, error_if_exists=fresh, make_error=make_error, **settings
        )

    @property
    def name(self) -> Name:
        """The path that the caller passed."""
        return self.__name

    @property
    def closed(self) -> bool:
        """True once the store is closed."""
        return self._db.closed

    def close(self) -> None:
        """Closes the store and every object made from it. A second call does nothing."""
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
        """Returns the value of a key, or `default`."""
        if type(key) is not bytes:
            bytes_in(key, "key")
        return self._db.get(key, default)

    def put(self, key: bytes, value: Any, *, sync: bool = False) -> None:
        """Sets a key to a value: bytes or any buffer."""
        if type(key) is not bytes:
            bytes_in(key, "key")
        self._db.put(key, value, durability_of(sync))

    def delete(self, key: bytes, *, sync: bool = False) -> None:
        """Deletes a key; a missing key is not an error."""
        self._db.delete(bytes_in(key, "key"), durability_of(sync))

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        """Creates a batch of writes that commit atomically; as a context manager it commits at the end of its block."""
        self._check()
        return WriteBatch(self, None, bool_in(transaction, "transaction"), sync)

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
        """Returns an iterator over keys from `start` to `stop`, or over keys that begin with `prefix`."""
        return iterate(
            self._db, None, reverse, start, stop, include_start, include_stop, prefix, include_key, include_value
        )

    def raw_iterator(self, *, verify_checksums: bool = False, fill_cache: bool = True) -> RawIterator:
        """Returns an iterator that is moved step by step."""
        return RawIterator(self.iterator())

    def snapshot(self) -> Snapshot:
        """Creates a snapshot of the current state."""
        return Snapshot(db=self)

    def get_property(self, name: bytes) -> Optional[bytes]:
        """Returns `leveldb.stats`, `leveldb.sstables`, `leveldb.approximate-memory-usage`,
        `leveldb.num-files-at-level<N>`; None for other names."""
        bytes_in(name, "name")
        self._check()
        return property_of(name, self._db.metrics())

    def compact_range(self, *, start: Optional[bytes] = None, stop: Optional[bytes] = None) -> None:
        """Compacts until deleted and overwritten records take no space; always the whole store, whatever the range."""
        optional_bytes(start, "start")
        optional_bytes(stop, "stop")
        self._check()
        self._db.flush()
        self._db.compact()

    def approximate_size(self, start: bytes, stop: bytes) -> int:
        """Returns the approximate bytes of the store's files that hold keys of a range."""
        return self.approximate_sizes((bytes_in(start, "start"), bytes_in(stop, "stop")))[0]

    def approximate_sizes(self, *ranges: Tuple[bytes, bytes]) -> List[int]:
        """Returns the `approximate_size` of several ranges."""
        self._check()
        sizes = []
        for start, stop in ranges:
            if not isinstance(start, bytes) or not isinstance(stop, bytes):
                raise TypeError("Start and stop of range must be byte strings")
            sizes.append(self._db.approximate_size(start, stop))
        return sizes

    def prefixed_db(self, prefix: bytes) -> PrefixedDB:
        """Returns the keys that begin with `prefix`, as a separate store."""
        return PrefixedDB(db=self, prefix=prefix)

    def _check(self) -> None:
        if self.closed:
            raise RuntimeError("Database is closed")


class PrefixedDB:
    """The keys of a store that begin with a prefix, which the caller neither passes nor sees."""

    def __init__(self, *, db: DB, prefix: bytes) -> None:
        if not isinstance(db, DB):
            raise TypeError(f"Argument 'db' has incorrect type (expected DB, got {type(db).__name__})")
        self.__db = db
        self.__prefix = bytes_in(prefix, "prefix")

    @property
    def db(self) -> DB:
        """The store."""
        return self.__db

    @property
    def prefix(self) -> bytes:
        """The prefix of its keys."""
        return self.__prefix

    def __repr__(self) -> str:
        return f"<plyvel.PrefixedDB with prefix {self.prefix!r} at 0x{hex(id(self))}>"

    def get(
        self, key: bytes, default: Any = None, *, verify_checksums: bool = False, fill_cache: bool = True
    ) -> Any:
        """Returns the value of a key, or `default`."""
        return self.db.get(self.prefix + bytes_in(key, "key"), default)

    def put(self, key: bytes, value: Any, *, sync: bool = False) -> None:
        """Sets a key to a value."""
        self.db.put(self.prefix + bytes_in(key, "key"), value, sync=sync)

    def delete(self, key: bytes, *, sync: bool = False) -> None:
        """Deletes a key; a missing key is not an error."""
        self.db.delete(self.prefix + bytes_in(key, "key"), sync=sync)

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        """Creates a batch of writes that commit atomically."""
        self.db._check()
        return WriteBatch(self.db, self.prefix, bool_in(transaction, "transaction"), sync)

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
        """Returns an iterator over keys from `start` to `stop`, or over keys that begin with `prefix`."""
        return iterate(
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
        """Creates a snapshot of the keys with the prefix."""
        return Snapshot(db=self.db, prefix=self.prefix)

    def prefixed_db(self, prefix: bytes) -> PrefixedDB:
        """Returns the keys that continue with `prefix`."""
        return PrefixedDB(db=self.db, prefix=self.prefix + bytes_in(prefix, "prefix"))


class WriteBatch:
    """Writes that commit atomically. A batch keeps its writes, and may be written again."""

    def __init__(self, db: DB, prefix: Optional[bytes], transaction: bool, sync: Optional[bool]) -> None:
        self._db = db
        self._prefix = prefix or b""
        self._transaction = transaction
        self._sync = bool(sync)
        self._operations: List[Tuple[bytes, Optional[bytes]]] = []

    def put(self, key: bytes, value: Any) -> None:
        """Sets a key to a value."""
        self._db._check()
        key = self._prefix + bytes_in(key, "key")
        self._operations.append((key, value if type(value) is bytes else bytes(memoryview(value))))

    def delete(self, key: bytes) -> None:
        """Deletes a key."""
        self._db._check()
        self._operations.append((self._prefix + bytes_in(key, "key"), None))

    def clear(self) -> None:
        """Removes all writes."""
        self._db._check()
        self._operations.clear()

    def write(self) -> None:
        """Commits all writes atomically."""
        self._db._check()
        batch = self._db._db.batch(durability=durability_of(self._sync))
        for key, value in self._operations:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        batch.commit()

    def append(self, source: WriteBatch) -> None:
        """Appends the writes of another batch."""
        if not isinstance(source, WriteBatch):
            raise TypeError(f"Argument 'source' has incorrect type (expected WriteBatch, got {type(source).__name__})")
        self._db._check()
        self._operations.extend(source._operations)

    def approximate_size(self) -> int:
        """Returns the size of the batch in LevelDB's encoding."""
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
    """Returns the length of a length-prefixed string: each byte of the prefix holds seven bits of the length."""
    return max(1, (len(data).bit_length() + 6) // 7) + len(data)


class Snapshot:
    """The state of a store, or of a prefix of it, at one point in time."""

    def __init__(self, *, db: DB, prefix: Optional[bytes] = None) -> None:
        if db.closed:
            raise RuntimeError("Cannot operate on closed LevelDB database")
        self._snapshot = db._db.snapshot()
        self._prefix = prefix

    def close(self) -> None:
        """Releases the snapshot."""
        self._snapshot.close()

    release = close

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def get(
        self, key: bytes, default: Any = None, *, verify_checksums: bool = False, fill_cache: bool = True
    ) -> Any:
        """Returns the value of a key at the snapshot, or `default`."""
        return self._snapshot.get((self._prefix or b"") + bytes_in(key, "key"), default)

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
        """Returns an iterator over the snapshot's keys."""
        return iterate(
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
        """Returns an iterator over the whole store at the snapshot, which is moved step by step."""
        return RawIterator(iterate(self._snapshot, None, False, None, None, True, False, None, True, True))


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
    """Opens the store even if its log lost commits, and repairs it."""
    path = path_in(name)
    settings = settings_of(
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
    db = _store.open_store(path, create_if_missing=False, accept_loss=True, make_error=make_error, **settings)
    try:
        db.repair()
    finally:
        db.close()


def destroy_db(name: Name) -> None:
    """Removes the store and all its data; a missing store is not an error."""
    path = path_in(name)
    if _store.exists(path):
        _store.destroy_store(path, make_error=make_error)
