"""Snapshots: the state of a store at one point in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _abi, _c
from ._family import ReadableFamily, find_family

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._store import DB


class SnapshotFamily(ReadableFamily):
    """The state of a family at one point in time."""

    _of: Snapshot
    _name: str

    def __new__(cls, snapshot: Snapshot, family: _c.Owned, name: str) -> Self:
        handles = snapshot._handles
        self: Self = super().__new__(cls, handles.store, family.handle, snapshot._open_handle())
        self._handles = handles
        self._family = family
        self._of = snapshot
        self._name = name
        return self

    def _at(self) -> int:
        return self._of._open_handle()

    def __init__(self, *_: object) -> None:
        """Created by `Snapshot.family`."""

    @property
    def name(self) -> str:
        """The name of the family."""
        return self._name


class Snapshot(ReadableFamily):
    """The state of a store at one point in time: the family `default`, and every other family through `family`.
    Read-only, and a context manager.

    The versions that it sees take space until it is closed or collected.
    """

    _snapshot: _c.Owned

    def __new__(cls, db: DB, snapshot: _c.Owned) -> Self:
        self: Self = super().__new__(cls, db._handles.store, db._family.handle, snapshot.handle)
        self._handles = db._handles
        self._snapshot = snapshot
        self._family = db._family
        return self

    def _at(self) -> int:
        return self._open_handle()

    def _open_handle(self) -> int:
        """Returns its handle. Raises if it is closed: the library would take the handle 0 for the current state."""
        handle = self._snapshot.handle
        if not handle:
            self._handles.store.check()
            raise self._handles.store_error(_abi.WAXSEAL_CLOSED, "the snapshot was closed")
        return handle

    def __init__(self, *_: object) -> None:
        """Created by `DB.snapshot`."""

    @property
    def seqno(self) -> int:
        """The sequence number of the snapshot, which sees the commits up to it."""
        return self._handles.number("waxseal_snapshot_seqno", self._open_handle())

    def family(self, name: str) -> SnapshotFamily:
        """Returns a family at the snapshot. Raises InvalidArgument for an unknown name; reading never creates a
        family."""
        self._open_handle()
        return SnapshotFamily(self, find_family(self._handles, name), name)

    def close(self) -> None:
        """Releases the snapshot. A second call does nothing."""
        if self._handles.store.here:
            self._snapshot.end()

    def __enter__(self) -> Self:
        self._handles.store.check()
        self._open_handle()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
