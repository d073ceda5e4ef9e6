"""Waxseal: an embeddable storage engine that never gives a wrong answer, never hides a loss, and is fast.

    import waxseal

    with waxseal.open("store") as db:
        db[b"alice"] = b"1815"
        with db.batch() as batch:
            batch.put(b"bob", b"1912")
            batch.put(b"carol", b"1906", family=db.family("users"))
        for key, value in db.iterator(prefix=b"a"):
            print(key, value)

A store is a directory of sorted mappings from bytes to bytes, its families; a `DB` is the store and its family
`default`. Keys and values are bytes, or any object with a buffer; results are bytes. `str` is refused, and nothing is
ever pickled.

Every object is usable from any thread, except a batch and a transaction, which one thread at a time may use. After `close()` every call
raises `ClosedError`, iterators included; so does every call in a forked child process. Calls that may wait for a disk
release the GIL.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Iterable, Mapping, Optional, Tuple, Union

try:
    from . import _abi as _abi
except ImportError as _error:
    raise ImportError(
        "this is the source of the package waxseal, without waxseal/_abi.py, which its build generates: "
        "run `pip install ./python` and import it from another directory"
    ) from _error

from . import _c
from ._backend import name as backend
from ._errors import (
    BusyError,
    CallbackError,
    ClosedError,
    ConflictError,
    CorruptionError,
    Error,
    ExistsError,
    FileError,
    FormatTooNewError,
    HaltedError,
    InternalError,
    InterruptedCallError,
    InvalidArgument,
    LockedError,
    NoStoreError,
    NotFoundError,
    OutOfMemoryError,
    OutOfReachError,
    ReadOnlyError,
)
from ._arrow import Scan
from ._backup import Backup, BackupInfo, CreatedBackup
from ._care import Damage, Digest, Loss, Pass, ProgressFunction, Report, Wanted
from ._changes import Change, ChangeCursor, Changes
from ._merge import MergeCallback, associative
from ._options import Comparator, FilterFunction, PropertyFunction, Ring, Verify
from ._registry import Event, Explanation, Place, Provenance, Registration
from ._sealed import ETL, EXPIRY, LABELS, PROVENANCE, Entry, Record, labels_of, seal_of
from ._tables import Case, Fence, Table
from ._family import Batch, Family
from ._files import DiskUsage, FileInfo, FileStore, FileWriter, OpenFile
from ._snapshot import Snapshot, SnapshotFamily
from ._bulk import TableWriter
from ._transaction import Transaction
from ._store import DB, MODES, Path, Recovery, RingStats, Session, at_path, destroy_store, open_store

__version__: str = _c.function("waxseal_version")().decode()

__all__ = [
    "Backup",
    "BackupInfo",
    "Batch",
    "BusyError",
    "CallbackError",
    "Case",
    "Change",
    "ChangeCursor",
    "Changes",
    "ClosedError",
    "ConflictError",
    "CorruptionError",
    "CreatedBackup",
    "DB",
    "Damage",
    "Digest",
    "DiskUsage",
    "ETL",
    "EXPIRY",
    "Entry",
    "Error",
    "Event",
    "ExistsError",
    "Explanation",
    "Family",
    "Fence",
    "FileError",
    "FileInfo",
    "FileStore",
    "FileWriter",
    "FormatTooNewError",
    "HaltedError",
    "InternalError",
    "InterruptedCallError",
    "InvalidArgument",
    "LABELS",
    "LockedError",
    "Loss",
    "NoStoreError",
    "NotFoundError",
    "OpenFile",
    "OutOfMemoryError",
    "OutOfReachError",
    "PROVENANCE",
    "Place",
    "Provenance",
    "ReadOnlyError",
    "Record",
    "Recovery",
    "Registration",
    "Report",
    "RingStats",
    "Scan",
    "Session",
    "Snapshot",
    "SnapshotFamily",
    "Table",
    "TableWriter",
    "Transaction",
    "Wanted",
    "__version__",
    "associative",
    "backend",
    "destroy",
    "labels_of",
    "memory",
    "open",
    "salvage",
    "seal_of",
]


def open(
    path: Path,
    mode: str = "c",
    *,
    cache_bytes: Optional[int] = None,
    memtable_bytes: Optional[int] = None,
    memory_bytes: Optional[int] = None,
    block_bytes: Optional[int] = None,
    compression: Optional[str] = None,
    durability: Optional[str] = None,
    background_threads: Optional[int] = None,
    wal_mapped: Optional[bool] = None,
    plain: Optional[bool] = None,
    registry: Optional[bool] = None,
    accept_loss: Optional[bool] = None,
    beside_other_files: Optional[bool] = None,
    file_mode: Optional[int] = None,
    format_level: Optional[int] = None,
    verify_reads: Optional[Verify] = None,
    verify_scans: Optional[Verify] = None,
    open_tables: Optional[int] = None,
    index_bytes: Optional[int] = None,
    subcompactions: Optional[int] = None,
    background_bytes_per_second: Optional[int] = None,
    trash_bytes: Optional[int] = None,
    segment_bytes: Optional[int] = None,
    ring_bytes: Optional[int] = None,
    drain_bytes: Optional[int] = None,
    manifest_bytes: Optional[int] = None,
    chronicle_lines: Optional[int] = None,
    engine_events: Optional[int] = None,
    engine_event_age: Optional[Union[timedelta, float]] = None,
    keep_log_bytes: Optional[int] = None,
    keep_log_age: Optional[Union[timedelta, float]] = None,
    cursor_log_bytes: Optional[int] = None,
    cursor_log_age: Optional[Union[timedelta, float]] = None,
    ring: Optional[Ring] = None,
    comparator: Optional[Tuple[str, Comparator]] = None,
    comparators: Optional[Union[Mapping[str, Comparator], Iterable[Tuple[str, Comparator]]]] = None,
    compaction_filters: Optional[Union[Mapping[str, FilterFunction], Iterable[Tuple[str, FilterFunction]]]] = None,
    merge_operators: Optional[Union[Mapping[str, MergeCallback], Iterable[Tuple[str, MergeCallback]]]] = None,
) -> DB:
    """Opens the store in a directory.

    `mode` is "r": read-only, even while another process writes; "w": an existing store; "c": created if missing; "n": a
    new store, which replaces an existing one once the options are validated. One process at a time may write; others
    get `LockedError`.

    A directory with other files and no store is refused in every mode, and not changed. `beside_other_files` allows a
    store to be created there, but never in another engine's database. `file_mode`, as in `0o600`, is the permission mode
    of files and directories that the store creates, less the bits of the process's umask.

    `format_level` is that of a store that is created, by default the newest; `DB.upgrade` describes the levels.

    `engine_events` and `engine_event_age` (a timedelta or seconds; infinity for no limit) limit the number and the age
    of engine events in the log. By default the log keeps the newest 10,000 of the last 30 days, and those of live
    tables and open quarantines.

    `keep_log_bytes` and `keep_log_age` (a timedelta or seconds) keep the newest log for the change feed, without a cursor.
    `cursor_log_bytes` and `cursor_log_age` limit the log that cursors and readers of the feed keep; by default 16 GiB of
    any age.

    `durability` is the durability of writes without their own: "os" (the default) survives a crash of the process,
    "sync" a crash of the machine. docs/tuning.md describes the other options; None means the default.

    `comparator` is the order of the family `default`: its name, and a function of two keys that is negative, 0 or positive;
    `comparators` are those that other families have, as pairs or as a mapping from name to function. An order is for all time: the store is laid out by it. A function that raises
    ends the store, whose calls are `CallbackError` from then on; what was acknowledged is there when it is opened again. An exception of a
    signal's handler in such a function (Ctrl-C) is raised by the call of the store, and ends nothing: the function is asked again.

    `compaction_filters` are those of the store's families, by name, as `create_family` describes them. Compactions of a
    family whose filter is not among them keep all its values.

    `merge_operators` are the functions of the store's families, by name, as `create_family` describes them. Without its
    function, a key with operands cannot be read. The built-in operators need no function.
    """
    if mode not in MODES:
        raise ValueError(f"mode is 'r', 'w', 'c' or 'n', not {mode!r}")
    settings = dict(locals())
    where = os.fsdecode(settings.pop("path"))
    settings["create_if_missing"] = mode in ("c", "n")
    return open_store(where, **settings)


def memory(
    *,
    cache_bytes: Optional[int] = None,
    memtable_bytes: Optional[int] = None,
    memory_bytes: Optional[int] = None,
    block_bytes: Optional[int] = None,
    compression: Optional[str] = None,
    background_threads: Optional[int] = None,
    plain: Optional[bool] = None,
    registry: Optional[bool] = None,
    verify_reads: Optional[Verify] = None,
    verify_scans: Optional[Verify] = None,
    open_tables: Optional[int] = None,
    index_bytes: Optional[int] = None,
    subcompactions: Optional[int] = None,
    background_bytes_per_second: Optional[int] = None,
    trash_bytes: Optional[int] = None,
    segment_bytes: Optional[int] = None,
    ring_bytes: Optional[int] = None,
    drain_bytes: Optional[int] = None,
    manifest_bytes: Optional[int] = None,
    chronicle_lines: Optional[int] = None,
    engine_events: Optional[int] = None,
    engine_event_age: Optional[Union[timedelta, float]] = None,
    keep_log_bytes: Optional[int] = None,
    keep_log_age: Optional[Union[timedelta, float]] = None,
    cursor_log_bytes: Optional[int] = None,
    cursor_log_age: Optional[Union[timedelta, float]] = None,
    ring: Optional[Ring] = None,
) -> DB:
    """Opens a new store in memory, which is discarded when it is closed."""
    return open_store(None, **locals())


def destroy(path: Path) -> None:
    """Removes a store and all its data. Refuses a directory that holds no store, and a store that is open."""
    destroy_store(os.fsdecode(path))


def salvage(
    source: Path,
    target: Path,
    *,
    progress: Optional[ProgressFunction] = None,
    accept_loss: Optional[bool] = None,
    stores: Optional[Iterable[str]] = None,
) -> Report:
    """Saves what can be read of a store that cannot be opened into a new one. Losses are in the report, and, unless losses are accepted,
    fenced in the new store. Without a manifest, files of another store are left alone: damage with the outcome "left_alone". Where nothing
    tells which store is meant, the error lists their ids, and `stores` names those to take."""
    there, here = os.fsencode(source), os.fsencode(target)
    look = Pass(at_path(source), progress=progress, accept_loss=accept_loss, stores=stores)
    return look.run("waxseal_salvage", there, len(there), here, len(here), None)
