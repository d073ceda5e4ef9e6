"""Stores and sessions: open, maintenance, close.

A `DB` is both the store and its family `default`.
"""

from __future__ import annotations

import ctypes as C
import errno
import json
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Union

from . import _abi, _bulk, _c
from ._backup import CreatedBackup, create_backup
from ._changes import ChangeFeed
from ._care import HandlerFunction, Pass, ProgressFunction, Report, SourceFunction
from ._errors import Error, InvalidArgument, MakeError, NoStoreError, make_error
from ._family import Batch, Family, encoded_name, family_names, open_family
from ._files import FileStore, open_files
from ._handles import Handles
from ._merge import MergeCallback, Operator
from ._options import (
    DEFAULT_FAMILY,
    Comparator,
    Filter,
    FilterFunction,
    Opening,
    Order,
    Property,
    PropertyFunction,
    Verify,
    family_options,
    format_level,
)
from ._pause import Pause
from ._registry import Asker
from ._snapshot import Snapshot
from ._tables import Case, cases_of
from ._transaction import Transacting

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

MODES = ("r", "w", "c", "n")


class Recovery(NamedTuple):
    """The recovery of the log when a store was opened."""

    #: Number of replayed commits.
    commits: int
    #: Bytes that were cut as a torn tail, or as damage where that was accepted; and the position of the cut, None if
    #: nothing was cut.
    cut_bytes: int
    cut_at: Optional[int]
    #: The file in the store's directory that keeps the cut bytes.
    set_aside: Optional[str]
    #: Bytes of acknowledged commits that are missing. 0 unless the machine failed; a lower bound if
    #: `may_lack_unsynced`.
    acknowledged_bytes_missing: int
    #: The store had not been closed, and the machine failed or the store moved to another device: unsynced commits may
    #: be missing.
    may_lack_unsynced: bool = False
    #: Damaged values of commits in the log: reads of their keys raise `CorruptionError` until the keys are overwritten
    #: or repaired.
    lost_values: int = 0


class RingStats(NamedTuple):
    """Counters of the event ring, which queues events of mode "async"."""

    #: Events in the ring, not in the log yet.
    waiting: int
    #: Events dropped since the open.
    dropped: int
    #: Events written in the commit of their operation because the ring was full.
    fallen_back: int
    #: Maximum number of events that a crash may lose now.
    lost_at_most: int


class DB(Family, Asker, Transacting, ChangeFeed):
    """An open store, and its family `default`. Created by `waxseal.open` and `waxseal.memory`."""

    _path: Optional[str]
    _mode: str
    _nobody: Optional[_c.Owned]

    def __new__(cls, handles: Handles, path: Optional[str], mode: str) -> Self:
        family = open_family(handles, DEFAULT_FAMILY)
        self = super().__new__(cls, handles, family, DEFAULT_FAMILY)
        self._path = path
        self._mode = mode
        self._nobody = None
        return self

    @property
    def path(self) -> Optional[str]:
        """The store's directory; None for a store in memory."""
        return self._path

    @property
    def mode(self) -> str:
        """The mode of the open: "r", "w", "c" or "n"."""
        return self._mode

    @property
    def closed(self) -> bool:
        """True once the store is closed."""
        return self._handles.store.closed

    def close(self) -> None:
        """Closes the store and every object made from it, and commits the changes of open files before. All writes are
        then durable. A second call does nothing.

        Raises the error that prevented a write from becoming durable; the store is closed in that case too.
        """
        self._handles.close()

    def __enter__(self) -> Self:
        self._handles.store.check()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        place = "in memory" if self._path is None else repr(self._path)
        return f"<waxseal.DB {place}{' (closed)' if self.closed else ''}>"

    def family(self, name: str) -> Family:
        """Returns the family with this name, which is created if missing; `default` always exists."""
        return Family(self._handles, open_family(self._handles, name), name)

    def files(self, name: str = "files", *, chunk_bytes: Optional[int] = None) -> FileStore:
        """Returns the file store in the families `name` and `name-chunks`, which are created if missing: a directory
        tree. `chunk_bytes` is the chunk size of a new one, 256 KiB by default. `waxseal.fs` is the fsspec file system
        over it."""
        return open_files(self._handles, self._handles.db, name, chunk_bytes)

    def create_family(
        self,
        name: str,
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
        comparator: Optional[Tuple[str, Comparator]] = None,
        merge_operator: Optional[Union[str, Tuple[str, Union[Buffer, MergeCallback]]]] = None,
        compaction_filter: Optional[Tuple[str, FilterFunction]] = None,
        table_properties: Optional[Mapping[str, PropertyFunction]] = None,
    ) -> Family:
        """Creates a family with its own options. Raises InvalidArgument if it exists.

        `default_ttl` is the time to live of keys that are put without `expires`: a `timedelta`, or seconds.

        `prefix_extractor` is the prefix of a key that filters know besides the whole key: "fixed:8" for the first eight
        bytes, "delimited:2f:1" for all bytes through the first `/`. Scans within one prefix skip tables without it.

        `comparator` is the order of its keys: a name, and a function of two keys that returns a negative number, 0 or a
        positive number. A later `open` of the store needs it among its `comparators`.

        `merge_operator` says how `merge` makes a value of operands: "add_i64", "add_u64" (8 bytes, little-endian),
        "append" or ("append", separator), "min", "max", "bit_or", or "union" (sorted lists). The store records it.
        Another operator is a name, and a function of a key, its base (None if the key is absent) and the list of its
        operands, oldest first, that returns the value; or of `associative`. The result may depend on the arguments alone.
        The function is called on any thread and must not use the store. If it raises, the read raises `CallbackError`,
        and the operands stay. A later `open` of the store needs the function among its `merge_operators`.

        `compaction_filter` is a name, and a function of key and value that compactions call for values that no snapshot
        sees. It returns True to keep the value, False to delete the key, or bytes to change the value. If it raises, the
        value stays. A later `open` of the store needs it among its `compaction_filters`, or keeps all values.

        `table_properties` are functions by name, of key and value, which return items: bytes that `Family.files_with`
        finds tables by. They are called for each value that is written into a table or a blob file, and are not stored:
        tables that a later open writes have no properties, and `files_with` returns all of them.
        """
        settings = {key: value for key, value in locals().items() if key not in ("self", "name", "__class__")}
        if comparator is not None:
            settings["comparator"] = order = Order(comparator)
            self._handles.orders.append(order)
        if isinstance(merge_operator, tuple) and any(map(callable, merge_operator)):
            settings["merge_operator"] = operator = Operator(merge_operator)
            self._handles.operators.append(operator)
        if compaction_filter is not None:
            settings["compaction_filter"] = filter = Filter(compaction_filter)
            self._handles.filters.append(filter)
        if table_properties is not None:
            settings["table_properties"] = properties = [Property(pair) for pair in table_properties.items()]
            self._handles.filters.extend(properties)
        options = family_options(settings, self._handles.make)
        encoded = encoded_name(name)
        family = self._handles.made(
            "waxseal_family_create",
            self._handles.db,
            encoded,
            len(encoded),
            options.handle if options else None,
            destroy="waxseal_family_destroy",
        )
        return Family(self._handles, family, name)

    def drop_family(self, name: str) -> None:
        """Drops a family with all its rows."""
        encoded = encoded_name(name)
        self._handles.call("waxseal_family_drop", self._handles.db, encoded, len(encoded))

    def clear(self, families: Optional[Iterable[Family]] = None) -> None:
        """Deletes all keys of the families in one write, whatever they hold: after a crash all are empty or none.
        Without `families`, deletes those of the family `default`.

        Raises InvalidArgument, and deletes nothing, for a family of another store or one that was dropped.
        """
        cleared = [self._family_of(family) for family in ([self] if families is None else families)]
        handles = (C.c_void_p * len(cleared))(*cleared)
        self._handles.call("waxseal_clear", self._handles.db, handles, len(cleared))

    def families(self) -> List[str]:
        """Returns the names of all families."""
        return family_names(self._handles)

    def snapshot(self, durable: bool = False) -> Snapshot:
        """Creates a snapshot of all families at the current state; with `durable`, at the last commit known to be
        durable."""
        call = "waxseal_snapshot_create_durable" if durable else "waxseal_snapshot_create"
        handle = self._handles.made(call, self._handles.db, destroy="waxseal_snapshot_destroy")
        return Snapshot(self, handle)

    def session(self, name: str, authenticated: Optional[str] = None) -> Session:
        """Opens a session: writes and queries through it carry its identity.

        The store does not verify the name; `authenticated` is the authentication method, None for an unauthenticated
        session.
        """
        named = _c.encoded(name, "a name")
        if not named:
            raise InvalidArgument("a session has a name")
        return Session(self, _open_session(self._handles, named, _c.encoded(authenticated or "", "authenticated")))

    def _transaction_family(self) -> Family:
        return self

    def _begin(self, isolation: int) -> _c.Owned:
        begin, destroy = "waxseal_transaction_begin", "waxseal_transaction_destroy"
        return self._handles.made(begin, self._handles.db, isolation, destroy=destroy)

    def _session(self) -> int:
        if self._nobody is None:
            self._nobody = _open_session(self._handles, b"", b"")
        return self._nobody.handle

    def _family_of(self, family: Optional[Family]) -> int:
        return (self if family is None else family)._family.handle

    def verify(
        self, *, progress: Optional[ProgressFunction] = None, families: Optional[Iterable[str]] = None
    ) -> Report:
        """Checks every table, block and record, concurrently with readers and writers, and changes nothing. The report
        lists the damage, and is true if there is none. `progress` receives bytes checked, total bytes, and damaged
        places found; it stops the pass by returning False."""
        look = Pass(self._handles.make, progress=progress, families=families)
        self._handles.store.check()
        return look.run("waxseal_verify", self._handles.db)

    def scrub(
        self,
        *,
        progress: Optional[ProgressFunction] = None,
        bytes_per_second: Optional[int] = None,
        most_bytes: Optional[int] = None,
        resume: Optional[bytes] = None,
        repair: Optional[bool] = None,
        source: Optional[SourceFunction] = None,
        handler: Optional[HandlerFunction] = None,
        accept_loss: Optional[bool] = None,
    ) -> Report:
        """`verify` in the background: at a limited rate, in portions, and from the place where the previous scrub
        stopped (`Report.resume`). With `repair` it repairs damage as `repair` does."""
        look = Pass(
            self._handles.make,
            progress=progress,
            bytes_per_second=bytes_per_second,
            most_bytes=most_bytes,
            resume=resume,
            repair=repair,
            source=source,
            handler=handler,
            accept_loss=accept_loss,
        )
        self._handles.store.check()
        return look.run("waxseal_scrub", self._handles.db)

    def repair(
        self,
        *,
        progress: Optional[ProgressFunction] = None,
        source: Optional[SourceFunction] = None,
        handler: Optional[HandlerFunction] = None,
        accept_loss: Optional[bool] = None,
        max_retries: Optional[int] = None,
        trash: Optional[Path] = None,
    ) -> Report:
        """Finds damage and repairs it from checksums, seals, the log, replaced tables or `source`. Repair never
        restores an older version and never guesses. `handler` decides about losses that no repair step could undo; by
        default the key range is fenced, and reads in it raise."""
        look = Pass(
            self._handles.make,
            progress=progress,
            source=source,
            handler=handler,
            accept_loss=accept_loss,
            max_retries=max_retries,
            trash=trash,
        )
        self._handles.store.check()
        return look.run("waxseal_repair", self._handles.db)

    def sync(self) -> None:
        """Makes every acknowledged commit durable."""
        self._handles.call("waxseal_sync", self._handles.db)

    def flush(self) -> None:
        """Writes all memtables to tables."""
        self._handles.call("waxseal_flush", self._handles.db)

    def settle(self) -> None:
        """Flushes, compacts until little space is garbage, and shrinks the log; see the guide."""
        self._handles.call("waxseal_settle", self._handles.db)

    def pause_background(self) -> Pause:
        """Pauses background work until the result is closed: no flush and no compaction starts by itself.

        Use it as a context manager. Writers stay bounded: jobs that a slowed or stopped writer needs still run. Explicit
        calls such as `flush` do their work. Pauses may overlap, and closing the store ends all of them.
        """
        return Pause(self._handles)

    @property
    def format_level(self) -> int:
        """The format level of the store: see `upgrade`."""
        level = C.c_uint32()
        self._handles.call("waxseal_format_level", self._handles.db, C.byref(level))
        return level.value

    def upgrade(self, level: int) -> None:
        """Raises the format level of the store, for good: older versions of the library refuse to open it from then on.

        Level 2 adds range deletes, merge operators, ingested table files and the change feed. A store is created with the
        newest level, or with that of `open`'s `format_level`; opening it with a newer version changes nothing. A store of
        the level or a higher one stays as it is. Durable when the call returns.
        """
        self._handles.call("waxseal_upgrade", self._handles.db, format_level(level))

    def refresh(self) -> None:
        """Catches up with the writing process, registrations included, in a store opened with mode "r"."""
        self._handles.call("waxseal_refresh", self._handles.db)

    def oldest_seqnos(self) -> Dict[str, int]:
        """Returns the least seqno of the records that the store holds outside of its current tables and blob files, by
        kind of holder: "memtables", "log", "kept_log" (of the change feed), "obsolete_files", "snapshots". A holder
        without a record is absent; 0 means that its seqnos are not known. With it and `Family.files_with` a caller
        shows that removed data is in no file of the store any more."""
        found = _abi.waxseal_oldest_seqnos_t()
        self._handles.call("waxseal_oldest_seqnos", self._handles.db, C.byref(found))
        seqnos = {field[0]: getattr(found, field[0]) for field in found._fields_}
        return {name: seqno for name, seqno in seqnos.items() if seqno != _abi.WAXSEAL_NO_SEQNO}

    def erase_log(self) -> None:
        """Flushes, and erases old records from the files of the log. The log that the change feed keeps stays, and so
        do replaced tables that `trash_bytes` keeps. All commits before the call are durable when it returns, and erased
        records do not come back after a loss of power."""
        self._handles.call("waxseal_erase_log", self._handles.db)

    def ingest_families(self, files: Iterable[Tuple[Family, Path]], *, move: bool = False) -> int:
        """Adds table files to families, each a pair, in one commit: as `Family.ingest`, and a crash leaves all of them
        or none. A family may occur more than once. Returns the number of records."""
        return _bulk.ingest_families(self._handles, files, move)

    def checkpoint(self, path: Path) -> None:
        """Creates a copy of the store's current state in a new directory. After a crash the copy is complete or
        absent."""
        where = os.fsencode(path)
        self._handles.store.check()
        _c.call("waxseal_checkpoint", self._handles.db, where, len(where), make=at_path(path, self._handles.make))

    def backup(
        self,
        path: Path,
        *,
        bytes_per_second: Optional[int] = None,
        progress: Optional[ProgressFunction] = None,
    ) -> CreatedBackup:
        """Adds a backup of the store to a directory, which is created if it is missing. Reads and writes continue.

        Files that an earlier backup in the directory has are not copied again. After a crash the backup is complete or
        absent. `waxseal.Backup` lists, verifies, restores and purges the backups of a directory. A progress function
        receives the bytes done, the total bytes, and 0; if it returns False, the call raises `InterruptedCallError`.
        """
        self._handles.store.check()
        make = at_path(path, self._handles.make)
        return create_backup(self._handles.db, path, Pass(make, bytes_per_second=bytes_per_second, progress=progress))

    def metrics(self) -> str:
        """Returns the metrics as text for people."""
        return self._handles.text("waxseal_metrics_text", self._handles.db)

    def numbers(self) -> Dict[str, int]:
        """Returns the metrics by name: "flushes", "cache.used_bytes", "family.default.level.0.tables", .."""
        numbers: Dict[str, int] = json.loads(self._handles.text("waxseal_metrics_json", self._handles.db))
        return numbers

    def store_options(self) -> Dict[str, Union[int, str, bool, None]]:
        """Returns the options of the store as of now, times in microseconds. `options` returns those of a family."""
        options: Dict[str, Union[int, str, bool, None]] = json.loads(
            self._handles.text("waxseal_options_json", self._handles.db)
        )
        return options

    def set_store_options(
        self,
        *,
        background_bytes_per_second: Optional[int] = None,
        cache_bytes: Optional[int] = None,
        cursor_log_age_micros: Optional[int] = None,
        cursor_log_bytes: Optional[int] = None,
        durability: Optional[str] = None,
        engine_events: Optional[int] = None,
        engine_event_age_micros: Optional[int] = None,
        manifest_bytes: Optional[int] = None,
        subcompactions: Optional[int] = None,
        trash_bytes: Optional[int] = None,
    ) -> None:
        """Changes options of the store while it is open. An option that is not given stays as it is.

        The store does not record them: the next `open` passes its own. Options are changed one by one; an invalid one
        raises InvalidArgument, and those before it have changed.
        """
        for name, value in locals().copy().items():
            if name not in ("self", "__class__") and value is not None:
                key, text = name.encode(), _c.encoded(str(value), name)
                self._handles.call("waxseal_set_option", self._handles.db, key, len(key), text, len(text))

    def recovery(self) -> Recovery:
        """Returns the result of the log's recovery at the open: the replayed commits, and the bytes cut from its torn
        end."""
        found = _abi.waxseal_recovery_t()
        name = self._handles.text("waxseal_recovery", self._handles.db, C.byref(found))
        cut_at = None if found.cut_at == (1 << 64) - 1 else found.cut_at
        missing, unsynced = found.acknowledged_bytes_missing, bool(found.may_lack_unsynced)
        return Recovery(found.commits, found.cut_bytes, cut_at, name or None, missing, unsynced, found.lost_values)

    def quarantined(self) -> List[Case]:
        """Returns the tables and key ranges that are or were in quarantine, ordered by family."""
        return cases_of(self._handles)

    def drain_events(self) -> None:
        """Waits until every async event accepted so far is in the log."""
        self._handles.call("waxseal_drain_events", self._handles.db)

    def event_ring(self) -> RingStats:
        """Returns the counters of the event ring."""
        ring = _abi.waxseal_ring_t()
        self._handles.call("waxseal_event_ring", self._handles.db, C.byref(ring))
        return RingStats(ring.waiting, ring.dropped, ring.fallen_back, ring.lost_at_most)


class Session(Asker, Transacting):
    """A store under a session's identity: its families and batches write, and registry and log are used, under it."""

    def __init__(self, db: DB, session: _c.Owned) -> None:
        self._handles = db._handles
        self._owned = session
        self._default: Optional[Family] = None

    @property
    def name(self) -> str:
        """The name of the session."""
        return self._handles.text("waxseal_session_name", self._owned.handle)

    def __repr__(self) -> str:
        return f"<waxseal.Session{' (closed)' if self._handles.store.closed else ' ' + repr(self.name)}>"

    @property
    def authenticated(self) -> Optional[str]:
        """The authentication method; None for an unauthenticated session."""
        how = self._handles.optional_content("waxseal_session_authenticated", self._owned.handle)
        return None if how is None else how.decode("utf-8", "replace")

    def close(self) -> None:
        """Records the end of the session: writes an event if `Session.Close` of `engine:session` is registered, and has
        no other effect."""
        self._handles.call("waxseal_session_close", self._owned.handle)

    def family(self, name: str = DEFAULT_FAMILY) -> Family:
        """Returns the family with this name, created if missing; it writes under the session's identity."""
        named = encoded_name(name)
        family = self._handles.made(
            "waxseal_session_family_open", self._owned.handle, named, len(named), destroy="waxseal_family_destroy"
        )
        return Family(self._handles, family, name)

    def files(self, name: str = "files") -> FileStore:
        """Returns the file store with this name, created if missing; its changes are made under the session's
        identity."""
        return open_files(self._handles, self._handles.db, name, None)._in_session(self._owned.handle)

    def batch(self, durability: Optional[str] = None) -> Batch:
        """Creates a batch of writes that commit atomically, under the session's identity."""
        return Batch(self._handles.store, self._handles.db, self._own(), durability, self._owned.handle)

    def drop_family(self, name: str) -> None:
        """Drops a family with all its rows; their events stay."""
        named = encoded_name(name)
        self._handles.call("waxseal_session_family_drop", self._owned.handle, named, len(named))

    def _own(self) -> Family:
        if self._default is None:
            self._default = self.family()
        return self._default

    def _transaction_family(self) -> Family:
        return self._own()

    def _begin(self, isolation: int) -> _c.Owned:
        begin, destroy = "waxseal_session_transaction_begin", "waxseal_transaction_destroy"
        return self._handles.made(begin, self._owned.handle, isolation, destroy=destroy)

    def _session(self) -> int:
        return self._owned.handle

    def _family_of(self, family: Optional[Family]) -> int:
        return (self._own() if family is None else family)._family.handle


def _open_session(handles: Handles, name: bytes, authenticated: bytes) -> _c.Owned:
    return handles.made(
        "waxseal_session_open",
        handles.db,
        name,
        len(name),
        authenticated,
        len(authenticated),
        destroy="waxseal_session_destroy",
    )


def exists(path: str) -> bool:
    """True if there is a store: its file CURRENT names its manifest."""
    return os.path.lexists(os.path.join(path, "CURRENT"))


def open_store(
    path: Optional[str],
    *,
    mode: str = "c",
    error_if_exists: bool = False,
    make_error: MakeError = make_error,
    **settings: Any,
) -> DB:
    """Opens the store in a directory, or, without a path, one in memory. Mode "n" removes an existing store first."""
    replaces = mode == "n" and path is not None and exists(path)
    if replaces:
        settings["beside_other_files"] = True  # as for the old store: the new one must not be refused once that is gone
    opening = Opening(settings, make_error, path)
    if replaces and path is not None:
        _try_out(opening)
        destroy_store(path, make_error)
    handle = C.c_void_p()
    try:
        _open_into(handle, path, mode, opening, error_if_exists, make_error)
        return DB(Handles(handle.value or 0, opening), path, mode)
    except BaseException:  # of a signal handler: the store must not stay locked
        _c.function("waxseal_close")(handle, None)
        raise


def _open_into(
    handle: C.c_void_p,
    path: Optional[str],
    mode: str,
    opening: Opening,
    error_if_exists: bool,
    make_error: MakeError,
) -> None:
    """Opens a store, and writes its handle into a place."""
    options = opening.options.handle
    if path is None:
        _c.call("waxseal_open_memory", options, C.byref(handle), make=opening.make)
    else:
        if error_if_exists and exists(path):
            raise make_error(_abi.WAXSEAL_INVALID, f"{path}: there is a store already", None, None, None, None, None)
        where = os.fsencode(path)
        call = "waxseal_open_read_only" if mode == "r" else "waxseal_open"
        try:
            _c.call(call, where, len(where), options, C.byref(handle), make=opening.make)
        except InvalidArgument as error:
            if "no store" in str(error) and not exists(path):
                raise no_store(error, path) from None
            raise
        if mode != "r" and _c.call("waxseal_is_read_only", handle, make=opening.make) == _abi.WAXSEAL_OK:
            raise no_room(make_error, path)


def no_room(make_error: MakeError, path: str) -> Exception:
    """Returns the error for a store that can be read but not written: the device has no room to recover it."""
    message = f"{path}: no space left on the device to open the store for writing; mode 'r' reads it"
    error = make_error(_abi.WAXSEAL_READ_ONLY, message, None, None, None, None, None)
    if isinstance(error, OSError):
        error.errno, error.filename = errno.ENOSPC, path
    return error


def no_store(refused: InvalidArgument, path: str) -> NoStoreError:
    """Converts the refusal to an exception that is also a FileNotFoundError."""
    error = NoStoreError(str(refused))
    error.code, error.errno, error.filename = refused.code, errno.ENOENT, path
    return error


def at_path(path: Path, make: MakeError = make_error) -> MakeError:
    """Wraps the errors of a call with a path argument: their filename is the path, and a missing store is a
    NoStoreError."""
    where = os.fsdecode(path)

    def making(code: int, message: str, *story: Any) -> Exception:
        error = make(code, message, *story)
        if isinstance(error, Error) and error.file is None:
            error.filename = where
        elif isinstance(error, Error) and error.filename == error.file:
            error.filename = os.path.join(where, error.file or "")
        if isinstance(error, InvalidArgument) and "no store" in message and not exists(where):
            return no_store(error, where)
        return error

    return making


def _try_out(opening: Opening) -> None:
    """Raises if the engine refuses the options: opens a store in memory with them, which replaces no store on disk."""
    handle = C.c_void_p()
    try:
        _c.call("waxseal_open_memory", opening.options.handle, C.byref(handle), make=opening.make)
    finally:
        _c.function("waxseal_close")(handle, None)


def destroy_store(path: str, make_error: MakeError = make_error) -> None:
    """Removes a store and all its data."""
    where = os.fsencode(path)
    _c.call("waxseal_destroy_store", where, len(where), make=at_path(path, make_error))
