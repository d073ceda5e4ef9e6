"""Stores, families, snapshots and batches.

A `DB` is the family `default` and the store at once. It keeps a `backend.Store`, which all its objects share: closing it ends them all, and
so does a fork for the child. Handles of the library are ended with the object that has them, in any order.
"""

from __future__ import annotations

import atexit
import ctypes as C
import os
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from . import _abi, _c
from ._backend import backend
from ._errors import CLOSED, Error, InvalidArgument, MakeError, make_error
from ._map import Readable, Writable, range_of
from ._options import Comparator, Opening, Verify, durability, family_options

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

MODES = ("r", "w", "c", "n")
DEFAULT_FAMILY = "default"
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

    def __init__(self, db: int, make: MakeError, kept: object) -> None:
        self.db = db
        self.make = make
        self.store = backend.Store(make)
        self.kept = kept
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

    def bytes(self, name: str, *arguments: Any) -> bytes:
        """Calls a function that gives bytes."""
        handle = C.c_void_p()
        self.call(name, *arguments, C.byref(handle))
        return _c.taken(handle)

    def text(self, name: str, *arguments: Any) -> str:
        """Calls a function that gives a text."""
        return self.bytes(name, *arguments).decode("utf-8", "replace")

    def number(self, name: str, *arguments: Any) -> int:
        """Calls a function that gives a number of 64 bits."""
        number = C.c_uint64()
        self.call(name, *arguments, C.byref(number))
        return number.value


class Family(Writable):
    """One sorted mapping of a store, from bytes to bytes."""

    _handles: _Handles
    _family: _c.Owned

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

    def compact(self) -> None:
        """Rewrites the tables of the family until nothing that is deleted or overwritten takes space."""
        self._handles.call("waxseal_compact", self._family.handle)

    def approximate_size(self, start: Optional[Buffer] = None, stop: Optional[Buffer] = None) -> int:
        """About how many bytes of the store's files hold keys from `start` to `stop`. What is in memory is not counted."""
        first = None if start is None else _c.lent(start, "start")
        last = None if stop is None else _c.lent(stop, "stop")
        between = range_of(first, last)
        return self._handles.number("waxseal_approximate_size", self._family.handle, C.byref(between))


class DB(Family):
    """An open store, and its family `default`. Made by `waxseal.open` and `waxseal.memory`."""

    def __new__(cls, handles: _Handles, path: Optional[str], mode: str) -> Self:
        family = _open_family(handles, DEFAULT_FAMILY)
        self = super().__new__(cls, handles, family, DEFAULT_FAMILY)
        self._path = path
        self._mode = mode
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
    ) -> Family:
        """Makes a family with options of its own. InvalidArgument if it exists."""
        settings = {key: value for key, value in locals().items() if key not in ("self", "name", "__class__")}
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
        names = self._handles.bytes("waxseal_family_names", self._handles.db)
        return [name.decode("utf-8") for name in names.split(b"\0")[:-1]]

    def snapshot(self, durable: bool = False) -> Snapshot:
        """The store as it is now, in all its families; with `durable` as a crash of the machine would leave it at this moment."""
        call = "waxseal_snapshot_create_durable" if durable else "waxseal_snapshot_create"
        handle = self._handles.made(call, self._handles.db, destroy="waxseal_snapshot_destroy")
        return Snapshot(self, handle)

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


class SnapshotFamily(Readable):
    """One family of a store as it was at one moment."""

    def __new__(cls, snapshot: Snapshot, family: _c.Owned, name: str) -> Self:
        handles = snapshot._handles
        self: Self = super().__new__(cls, handles.store, family.handle, snapshot._snapshot.handle)
        self._family = family
        self._of = snapshot
        self._name = name
        return self

    def __init__(self, *_: object) -> None:
        """Made by `Snapshot.family`."""

    @property
    def name(self) -> str:
        """Its name."""
        return self._name


class Snapshot(Readable):
    """A store as it was at one moment: the family `default`, and by `family` every other one. Read-only, and a context manager.

    What it sees takes space until it is closed or collected.
    """

    _handles: _Handles

    def __new__(cls, db: DB, snapshot: _c.Owned) -> Self:
        self: Self = super().__new__(cls, db._handles.store, db._family.handle, snapshot.handle)
        self._handles = db._handles
        self._snapshot = snapshot
        self._family = db._family
        return self

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
        _c.call("waxseal_open_memory", options, C.byref(handle), make=make_error)
    else:
        if error_if_exists and exists(path):
            raise make_error(_abi.WAXSEAL_INVALID, f"{path}: there is a store already", None, None, None, None, None)
        where = os.fsencode(path)
        call = "waxseal_open_read_only" if mode == "r" else "waxseal_open"
        _c.call(call, where, len(where), options, C.byref(handle), make=make_error)
    return DB(_Handles(handle.value or 0, make_error, opening.kept), path, mode)


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
