"""Stores and sessions: open, upkeep, close.

A `DB` is the family `default` and the store at once.
"""

from __future__ import annotations

import ctypes as C
import errno
import json
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

from . import _abi, _c
from ._care import HandlerFunction, Pass, ProgressFunction, Report, SourceFunction
from ._errors import Error, InvalidArgument, MakeError, NoStoreError, make_error
from ._family import Batch, Family, encoded_name, family_names, open_family
from ._handles import Handles
from ._options import DEFAULT_FAMILY, Comparator, Opening, Order, Verify, family_options
from ._registry import Asker, text
from ._snapshot import Snapshot
from ._tables import Case, cases_of

if TYPE_CHECKING:
    from typing_extensions import Self

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

MODES = ("r", "w", "c", "n")


class Recovery(NamedTuple):
    """What an open found in the log."""

    #: Commits that were replayed.
    commits: int
    #: Bytes that were cut as a torn tail, or as damage where that was accepted; and where, None: nowhere.
    cut_bytes: int
    cut_at: Optional[int]
    #: The file in the store's directory that keeps what was cut.
    set_aside: Optional[str]
    #: Bytes of commits that had returned and are missing: 0 unless the machine failed. A lower bound if `may_lack_unsynced`.
    acknowledged_bytes_missing: int
    #: The machine failed, or the store is on another device, and it had not been closed: commits that were not synced may be missing.
    may_lack_unsynced: bool = False
    #: Damaged values of commits in the log: reads of their keys raise `CorruptionError` until the keys are written again, or repaired.
    lost_values: int = 0


class RingStats(NamedTuple):
    """How things stand with events of mode "async"."""

    #: Taken, and not in the log yet.
    waiting: int
    #: Dropped since the store was opened.
    dropped: int
    #: Written with their operation since the ring was full.
    fallen_back: int
    #: As many may be lost in a crash.
    lost_at_most: int


class DB(Family, Asker):
    """An open store, and its family `default`. Made by `waxseal.open` and `waxseal.memory`."""

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
        return Family(self._handles, open_family(self._handles, name), name)

    def create_family(
        self,
        name: str,
        *,
        block_bytes: Optional[int] = None,
        restart_interval: Optional[int] = None,
        filter_bits: Optional[int] = None,
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
    ) -> Family:
        """Makes a family with options of its own. InvalidArgument if it exists.

        `default_ttl` is how long a key lives that is put without `expires`: a `timedelta`, or seconds.

        `comparator` is the order of its keys: a name, and a function of two keys that is negative, 0 or positive. When the store is opened
        again, `open` needs it among its `comparators`.
        """
        settings = {key: value for key, value in locals().items() if key not in ("self", "name", "__class__")}
        if comparator is not None:
            settings["comparator"] = order = Order(comparator)
            self._handles.orders.append(order)
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

    def families(self) -> List[str]:
        """The names of all families."""
        return family_names(self._handles)

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
        """Flushes, compacts until little can be garbage, and shrinks the log; see the guide."""
        self._handles.call("waxseal_settle", self._handles.db)

    def refresh(self) -> None:
        """Catches up with the process that writes, what is registered included, in a store that was opened with mode "r"."""
        self._handles.call("waxseal_refresh", self._handles.db)

    def checkpoint(self, path: Path) -> None:
        """Makes a copy of the store as it is now in a new directory, which a crash leaves whole or not at all."""
        where = os.fsencode(path)
        self._handles.store.check()
        _c.call("waxseal_checkpoint", self._handles.db, where, len(where), make=at_path(path, self._handles.make))

    def metrics(self) -> str:
        """Counters and sizes, as text for people."""
        return self._handles.text("waxseal_metrics_text", self._handles.db)

    def numbers(self) -> Dict[str, int]:
        """The same by name: "flushes", "cache.used_bytes", "family.default.level.0.tables", .."""
        numbers: Dict[str, int] = json.loads(self._handles.text("waxseal_metrics_json", self._handles.db))
        return numbers

    def recovery(self) -> Recovery:
        """What the open of this store found in its log: what came back, and what was cut from its torn end."""
        found, aside = _abi.waxseal_recovery_t(), C.c_void_p()
        self._handles.call("waxseal_recovery", self._handles.db, C.byref(found), C.byref(aside))
        name = _c.taken(aside).decode("utf-8", "replace")
        cut_at = None if found.cut_at == (1 << 64) - 1 else found.cut_at
        missing, unsynced = found.acknowledged_bytes_missing, bool(found.may_lack_unsynced)
        return Recovery(found.commits, found.cut_bytes, cut_at, name or None, missing, unsynced, found.lost_values)

    def quarantined(self) -> List[Case]:
        """Which tables and spans of keys are kept out of reach, and which were, by family."""
        return cases_of(self._handles)

    def drain_events(self) -> None:
        """Waits until every event of mode "async" that was taken so far is in the log."""
        self._handles.call("waxseal_drain_events", self._handles.db)

    def event_ring(self) -> RingStats:
        """How things stand with events of mode "async"."""
        ring = _abi.waxseal_ring_t()
        self._handles.call("waxseal_event_ring", self._handles.db, C.byref(ring))
        return RingStats(ring.waiting, ring.dropped, ring.fallen_back, ring.lost_at_most)


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

    @property
    def authenticated(self) -> Optional[str]:
        """How it was found out who that is; None: not at all."""
        how = C.c_void_p()
        status = self._handles.call("waxseal_session_authenticated", self._owned.handle, C.byref(how))
        return None if status == _abi.WAXSEAL_NOT_FOUND else _c.taken(how).decode("utf-8", "replace")

    def close(self) -> None:
        """Says that the session has ended: an event, where `Session.Close` of `engine:session` is registered, and nothing else."""
        self._handles.call("waxseal_session_close", self._owned.handle)

    def family(self, name: str = DEFAULT_FAMILY) -> Family:
        """The family of this name, made if there is none; it writes in the name of the session."""
        named = encoded_name(name)
        family = self._handles.made(
            "waxseal_session_family_open", self._owned.handle, named, len(named), destroy="waxseal_family_destroy"
        )
        return Family(self._handles, family, name)

    def batch(self, durability: Optional[str] = None) -> Batch:
        """Writes that commit together, in the name of the session."""
        return Batch(self._handles.store, self._handles.db, self._own(), durability, self._owned.handle)

    def drop_family(self, name: str) -> None:
        """Drops a family with all its rows; their events stay."""
        named = encoded_name(name)
        self._handles.call("waxseal_session_family_drop", self._owned.handle, named, len(named))

    def _own(self) -> Family:
        if self._default is None:
            self._default = self.family()
        return self._default

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
    """Opens the store in a directory, or, without a path, one in memory. In mode "n" the one that is there goes first."""
    opening = Opening(settings, make_error, path)
    if mode == "n" and path is not None and exists(path):
        _try_out(opening)
        destroy_store(path, make_error)
    options = opening.options.handle
    handle = C.c_void_p()
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
    return DB(Handles(handle.value or 0, opening), path, mode)


def no_store(refused: InvalidArgument, path: str) -> NoStoreError:
    """The same refusal as an error that is a FileNotFoundError too."""
    error = NoStoreError(str(refused))
    error.code, error.errno, error.filename = refused.code, errno.ENOENT, path
    return error


def at_path(path: Path, make: MakeError = make_error) -> MakeError:
    """Errors of a call that takes a path: their filename is the path, and a missing store is a NoStoreError."""
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
    """Raises what the engine has against the options. It says so when a store is opened: here one in memory, which takes nobody's place."""
    handle = C.c_void_p()
    _c.call("waxseal_open_memory", opening.options.handle, C.byref(handle), make=opening.make)
    _c.call("waxseal_close", handle, make=opening.make)


def destroy_store(path: str, make_error: MakeError = make_error) -> None:
    """Removes a store and everything in it."""
    where = os.fsencode(path)
    _c.call("waxseal_destroy_store", where, len(where), make=at_path(path, make_error))
