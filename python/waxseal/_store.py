"""Stores, families, snapshots and batches.

A `DB` is the family `default` and the store at once. It keeps a `backend.Store`, which all its objects share: closing it ends them all, and
so does a fork for the child. Handles of the library are ended with the object that has them, in any order.
"""

from __future__ import annotations

import atexit
import ctypes as C
import os
import weakref
from typing import TYPE_CHECKING, Any, Iterable, Iterator, List, Mapping, Optional, Tuple, Union

from . import _abi, _c
from ._arrow import Scan
from ._backend import backend
from ._care import Digest, HandlerFunction, Pass, ProgressFunction, Report, SourceFunction
from ._errors import Error, InvalidArgument, MakeError, make_error
from ._map import Readable, Writable, bounds, range_of
from ._options import DEFAULT_FAMILY, Comparator, Opening, Order, Verify, family_options, size
from ._registry import Asker, text
from ._sealed import (
    Entry,
    Record,
    entries,
    get_entry,
    get_record,
    provider_number,
    seal_from,
    write_options,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

MODES = ("r", "w", "c", "n")
#: Keys that `clear` removes in one commit.
_CLEARED_AT_ONCE = 10_000

#: Stores that are open, to be closed when the interpreter ends: what waits to be written in the background is written then.
_open: weakref.WeakSet[_Handles] = weakref.WeakSet()


class Batch(backend.Batch):
    """Writes to any families of a store that commit together, all or none.

    As a context manager it commits at the end of its block; an exception leaves it without a trace. One thread at a time may use it.
    """

    def __enter__(self) -> Self:
        super().__enter__()
        return self


class _Handles:
    """What a store's objects share: they keep it open, and are ended with it."""

    def __init__(self, db: int, opening: Opening) -> None:
        self.db = db
        self.make: MakeError = opening.make
        self.store = backend.Store(opening.make)
        #: Orders of families, which the library calls as long as there is a store.
        self.orders = opening.orders
        _open.add(self)

    def close(self) -> None:
        """Closes the store. In a child of the process that opened it nothing is touched."""
        if self.store.close() and self.store.here:
            _open.discard(self)
            _c.call("waxseal_close", self.db, make=self.make)

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:
            pass  # nobody is left to be told

    def call(self, name: str, *arguments: Any) -> int:
        """Calls the library for this store."""
        self.store.check()
        return _c.call(name, *arguments, make=self.make)

    def made(self, name: str, *arguments: Any, destroy: str) -> _c.Owned:
        """Makes an object of this store."""
        self.store.check()
        return _c.made(name, *arguments, destroy=destroy, make=self.make)

    def store_error(self, status: int, message: str) -> Exception:
        """The exception of a status that came without an error object."""
        return self.make(status, message, None, None, None, None, None)

    def content(self, name: str, *arguments: Any) -> bytes:
        """Calls a function that gives bytes."""
        handle = C.c_void_p()
        self.call(name, *arguments, C.byref(handle))
        return _c.taken(handle)

    def text(self, name: str, *arguments: Any) -> str:
        """Calls a function that gives a text."""
        return self.content(name, *arguments).decode("utf-8", "replace")

    def number(self, name: str, *arguments: Any) -> int:
        """Calls a function that gives a number of 64 bits."""
        number = C.c_uint64()
        self.call(name, *arguments, C.byref(number))
        return number.value


class ReadableFamily(Readable):
    """What a family and a snapshot of one can both be asked."""

    _handles: _Handles
    _family: _c.Owned

    def _at(self) -> int:
        """The handle of the snapshot that it is read at; 0 for none."""
        return 0

    def get_with_meta(self, key: Buffer) -> Optional[Record]:
        """The value of a key with its seal, against which it is checked whatever the policy, and its place in the order of commits.

        None if the key is not there. InvalidArgument if it has no seal, since a store that was opened plain wrote it.
        """
        return get_record(self._handles, self._family.handle, self._at(), key)

    def get_meta(self, key: Buffer, provider: int) -> Optional[Entry]:
        """What a provider keeps beside the value of a key. The value is not read for it."""
        return get_entry(self._handles, self._family.handle, self._at(), key, provider)

    def digest(self, start: Optional[Buffer] = None, stop: Optional[Buffer] = None) -> Digest:
        """A count and a sum of the rows with keys from `start` to `stop`: equal for equal content, on every replica."""
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
        """Rows as Arrow record batches, with the columns "key", "value", "seqno" and "seal" or some of them.

        Give it to whatever reads Arrow: `pyarrow.table(db.scan())`. A batch has at most `batch_rows` rows and about `batch_bytes`
        bytes; 0: 65,536 and 16 MiB.
        """
        between = bounds(start, stop, include_start, include_stop, prefix)
        rows, size_ = size(batch_rows, "batch_rows"), size(batch_bytes, "batch_bytes")
        return Scan(self, self._handles, self._family.handle, self._at(), between, columns, rows, size_)

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """All rows, as Arrow record batches."""
        return self.scan().__arrow_c_stream__(requested_schema)

    @staticmethod
    def _between(start: Optional[Buffer], stop: Optional[Buffer]) -> Any:
        first = None if start is None else _c.lent(start, "start")
        last = None if stop is None else _c.lent(stop, "stop")
        return range_of(first, last)


class Family(ReadableFamily, Writable):
    """One sorted mapping of a store, from bytes to bytes."""

    _name: str

    def __new__(cls, handles: _Handles, family: _c.Owned, name: str) -> Self:
        self: Self = super().__new__(cls, handles.store, family.handle, handles.db)
        self._handles = handles
        self._family = family
        self._name = name
        return self

    def __init__(self, *_: object) -> None:
        """Families are made by `DB.family` and `DB.create_family`."""

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def __repr__(self) -> str:
        return f"<waxseal.Family {self._name!r}{' (closed)' if self._handles.store.closed else ''}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} is an open store, which cannot be pickled")

    def batch(self, durability: Optional[str] = None) -> Batch:
        """Writes that commit together. Without a family of their own they go to this one."""
        return Batch(self._handles.store, self._handles.db, self, durability)

    def clear(self) -> None:
        """Removes all keys, in commits of some thousand each."""
        batch = self.batch()
        for key in self:
            batch.delete(key)
            if len(batch) == _CLEARED_AT_ONCE:
                batch.commit()
        batch.commit()

    def put_sealed(self, key: Buffer, value: Buffer, seal: Buffer, durability: Optional[str] = None) -> None:
        """Sets a key to a value with the seal that was made where they came from: `seal_of(key, value)`.

        It is checked now, kept as it is, and handed back by `get_with_meta`. InvalidArgument if it is not theirs.
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
        expires: Optional[int] = None,
        entries: Optional[Mapping[int, Buffer]] = None,
        insert: bool = False,
        durability: Optional[str] = None,
    ) -> None:
        """Sets a key to a value, and keeps entries beside it: labels, a moment of expiry in microseconds since 1970, or those of other
        providers by their numbers. `insert` says that the key was not there, which the log then says too."""
        data, content = _c.lent(key, "key"), _c.lent(value, "value")
        options = write_options(self._handles, durability, labels, expires, entries, insert)
        self._handles.call(
            "waxseal_put_with", self._family.handle, options.handle, data, len(data), content, len(content)
        )

    def compact(self) -> None:
        """Rewrites the tables of the family until nothing that is deleted or overwritten takes space."""
        self._handles.call("waxseal_compact", self._family.handle)

    def iter_meta(
        self, provider: int, start: Optional[Buffer] = None, stop: Optional[Buffer] = None
    ) -> Iterator[Tuple[bytes, Entry]]:
        """What a provider keeps beside the values of keys from `start` to `stop`, by key. Values are not read for it."""
        between = self._between(start, stop)
        iterator = self._handles.made(
            "waxseal_meta_iter_create",
            self._family.handle,
            C.byref(between),
            provider_number(provider),
            destroy="waxseal_meta_iter_destroy",
        )
        return entries(self._handles, iterator)

    def approximate_size(self, start: Optional[Buffer] = None, stop: Optional[Buffer] = None) -> int:
        """About how many bytes of the store's files hold keys from `start` to `stop`. What is in memory is not counted."""
        between = self._between(start, stop)
        return self._handles.number("waxseal_approximate_size", self._family.handle, C.byref(between))


class DB(Family, Asker):
    """An open store, and its family `default`. Made by `waxseal.open` and `waxseal.memory`."""

    _path: Optional[str]
    _mode: str
    _nobody: Optional[_c.Owned]

    def __new__(cls, handles: _Handles, path: Optional[str], mode: str) -> Self:
        family = _open_family(handles, DEFAULT_FAMILY)
        self = super().__new__(cls, handles, family, DEFAULT_FAMILY)
        self._path = path
        self._mode = mode
        self._nobody = None
        return self

    @property
    def path(self) -> Optional[str]:
        """Its directory; None for a store in memory."""
        return self._path

    @property
    def mode(self) -> str:
        """How it was opened: "r", "w", "c" or "n"."""
        return self._mode

    @property
    def closed(self) -> bool:
        """True once it was closed."""
        return self._handles.store.closed

    def close(self) -> None:
        """Closes the store, and with it everything that was made from it. What was written is durable then. Closing twice is nothing.

        Raises what kept something from becoming durable; the store is closed then, too.
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
        """The family of this name, made if there is none; `default` always exists."""
        return Family(self._handles, _open_family(self._handles, name), name)

    def create_family(
        self,
        name: str,
        *,
        block_bytes: Optional[int] = None,
        restart_interval: Optional[int] = None,
        filter_bits: Optional[int] = None,
        table_bytes: Optional[int] = None,
        level_base_bytes: Optional[int] = None,
        compression: Optional[str] = None,
        verify_reads: Optional[Verify] = None,
        verify_scans: Optional[Verify] = None,
        comparator: Optional[Tuple[str, Comparator]] = None,
    ) -> Family:
        """Makes a family with options of its own. InvalidArgument if it exists.

        `comparator` is the order of its keys: a name, and a function of two keys that is negative, 0 or positive. When the store is opened
        again, `open` needs it among its `comparators`.
        """
        settings = {key: value for key, value in locals().items() if key not in ("self", "name", "__class__")}
        if comparator is not None:
            settings["comparator"] = order = Order(comparator)
            self._handles.orders.append(order)
        options = family_options(settings, self._handles.make)
        encoded = _name(name)
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
        encoded = _name(name)
        self._handles.call("waxseal_family_drop", self._handles.db, encoded, len(encoded))

    def families(self) -> List[str]:
        """The names of all families."""
        names = self._handles.content("waxseal_family_names", self._handles.db)
        return [name.decode("utf-8") for name in names.split(b"\0")[:-1]]

    def snapshot(self, durable: bool = False) -> Snapshot:
        """The store as it is now, in all its families; with `durable` as a crash of the machine would leave it at this moment."""
        call = "waxseal_snapshot_create_durable" if durable else "waxseal_snapshot_create"
        handle = self._handles.made(call, self._handles.db, destroy="waxseal_snapshot_destroy")
        return Snapshot(self, handle)

    def session(self, name: str, authenticated: Optional[str] = None) -> Session:
        """A session: what is written and asked through it is written and asked in its name.

        A name is taken as it is given; `authenticated` says how it was found out who that is.
        """
        named = text(name, "a name")
        if not named:
            raise InvalidArgument("a session has a name")
        return Session(self, _open_session(self._handles, named, text(authenticated or "", "authenticated")))

    def _session(self) -> int:
        if self._nobody is None:
            self._nobody = _open_session(self._handles, b"", b"")
        return self._nobody.handle

    def _family_of(self, family: Optional[Family]) -> int:
        return (self if family is None else family)._family.handle

    def verify(
        self, *, progress: Optional[ProgressFunction] = None, families: Optional[Iterable[str]] = None
    ) -> Report:
        """Looks at every table, block and record, beside readers and writers, and changes nothing. Damage is in the report, which is
        true if there is none. `progress` hears of bytes done, bytes in all, and places found; False ends it."""
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
        """`verify`, slowly: at a pace, in portions, and on from where the last one stopped (`Report.resume`). With `repair` it mends what it
        finds, as `repair` does."""
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
        """Finds what is damaged, and makes it right from whatever still has it: its sums, the log, `source`. Nothing is repaired to an older
        version, and nothing is guessed. What nothing helps, `handler` decides; by default a fence takes its place, where reads raise."""
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
        """Writes everything that is in memory to tables."""
        self._handles.call("waxseal_flush", self._handles.db)

    def settle(self) -> None:
        """Flushes, then waits until no compaction is due."""
        self._handles.call("waxseal_settle", self._handles.db)

    def refresh(self) -> None:
        """Catches up with the process that writes, in a store that was opened with mode "r"."""
        self._handles.call("waxseal_refresh", self._handles.db)

    def checkpoint(self, path: Path) -> None:
        """Makes a copy of the store as it is now in a new directory, which a crash leaves whole or not at all."""
        where = os.fsencode(path)
        self._handles.call("waxseal_checkpoint", self._handles.db, where, len(where))

    def metrics(self) -> str:
        """Counters and sizes, as text for people."""
        return self._handles.text("waxseal_metrics_text", self._handles.db)


class Session(Asker):
    """A store, and who uses it: families and batches write in its name, registry and log are asked in it."""

    def __init__(self, db: DB, session: _c.Owned) -> None:
        self._handles = db._handles
        self._owned = session
        self._default: Optional[Family] = None

    @property
    def name(self) -> str:
        """Its name."""
        return self._handles.text("waxseal_session_name", self._owned.handle)

    def __repr__(self) -> str:
        return f"<waxseal.Session{' (closed)' if self._handles.store.closed else ' ' + repr(self.name)}>"

    def family(self, name: str = DEFAULT_FAMILY) -> Family:
        """The family of this name, made if there is none; it writes in the name of the session."""
        named = _name(name)
        family = self._handles.made(
            "waxseal_session_family_open", self._owned.handle, named, len(named), destroy="waxseal_family_destroy"
        )
        return Family(self._handles, family, name)

    def batch(self, durability: Optional[str] = None) -> Batch:
        """Writes that commit together, in the name of the session."""
        return self._own().batch(durability)

    def drop_family(self, name: str) -> None:
        """Drops a family with all its rows; their events stay."""
        named = _name(name)
        self._handles.call("waxseal_session_family_drop", self._owned.handle, named, len(named))

    def _own(self) -> Family:
        if self._default is None:
            self._default = self.family()
        return self._default

    def _session(self) -> int:
        return self._owned.handle

    def _family_of(self, family: Optional[Family]) -> int:
        return (self._own() if family is None else family)._family.handle


class SnapshotFamily(ReadableFamily):
    """One family of a store as it was at one moment."""

    _of: Snapshot
    _name: str

    def __new__(cls, snapshot: Snapshot, family: _c.Owned, name: str) -> Self:
        handles = snapshot._handles
        self: Self = super().__new__(cls, handles.store, family.handle, snapshot._snapshot.handle)
        self._handles = handles
        self._family = family
        self._of = snapshot
        self._name = name
        return self

    def _at(self) -> int:
        return self._of._snapshot.handle

    def __init__(self, *_: object) -> None:
        """Made by `Snapshot.family`."""

    @property
    def name(self) -> str:
        """Its name."""
        return self._name


class Snapshot(ReadableFamily):
    """A store as it was at one moment: the family `default`, and by `family` every other one. Read-only, and a context manager.

    What it sees takes space until it is closed or collected.
    """

    _snapshot: _c.Owned

    def __new__(cls, db: DB, snapshot: _c.Owned) -> Self:
        self: Self = super().__new__(cls, db._handles.store, db._family.handle, snapshot.handle)
        self._handles = db._handles
        self._snapshot = snapshot
        self._family = db._family
        return self

    def _at(self) -> int:
        return self._snapshot.handle

    def __init__(self, *_: object) -> None:
        """Made by `DB.snapshot`."""

    @property
    def seqno(self) -> int:
        """Its place in the order of commits: commits up to this number are seen."""
        return self._handles.number("waxseal_snapshot_seqno", self._snapshot.handle)

    def family(self, name: str) -> SnapshotFamily:
        """A family as it was."""
        return SnapshotFamily(self, _open_family(self._handles, name), name)

    def close(self) -> None:
        """Lets go of what it sees. Closing twice is nothing."""
        if self._handles.store.here:
            self._snapshot.end()

    def __enter__(self) -> Self:
        self._handles.store.check()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _name(name: object) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"a family's name is str, not {type(name).__name__}")
    return name.encode("utf-8")


def _open_session(handles: _Handles, name: bytes, authenticated: bytes) -> _c.Owned:
    return handles.made(
        "waxseal_session_open",
        handles.db,
        name,
        len(name),
        authenticated,
        len(authenticated),
        destroy="waxseal_session_destroy",
    )


def _open_family(handles: _Handles, name: str) -> _c.Owned:
    encoded = _name(name)
    return handles.made(
        "waxseal_family_open", handles.db, encoded, len(encoded), destroy="waxseal_family_destroy"
    )


def exists(path: str) -> bool:
    """True if there is a store: its file CURRENT says which files make it up."""
    return os.path.lexists(os.path.join(path, "CURRENT"))


def open_store(
    path: Optional[str],
    *,
    mode: str = "c",
    error_if_exists: bool = False,
    make_error: MakeError = make_error,
    **settings: Any,
) -> DB:
    """Opens the store in a directory, or, without a path, one in memory."""
    opening = Opening(settings, make_error)
    options = opening.options.handle
    handle = C.c_void_p()
    if path is None:
        _c.call("waxseal_open_memory", options, C.byref(handle), make=opening.make)
    else:
        if error_if_exists and exists(path):
            raise make_error(_abi.WAXSEAL_INVALID, f"{path}: there is a store already", None, None, None, None, None)
        where = os.fsencode(path)
        call = "waxseal_open_read_only" if mode == "r" else "waxseal_open"
        _c.call(call, where, len(where), options, C.byref(handle), make=opening.make)
    return DB(_Handles(handle.value or 0, opening), path, mode)


def destroy_store(path: str, make_error: MakeError = make_error) -> None:
    """Removes a store and everything in it."""
    where = os.fsencode(path)
    _c.call("waxseal_destroy_store", where, len(where), make=make_error)


@atexit.register
def _close_all() -> None:
    """Closes what is still open when the interpreter ends, before threads and modules go."""
    for handles in list(_open):
        try:
            handles.close()
        except Error:
            pass  # nobody is left to be told


def _in_child() -> None:
    """A child of a fork has none of the engine's threads: what was open here stays closed for it."""
    backend.forked()
    _c.forked()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
