"""Snapshots: a store as it was at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _abi, _c
from ._family import ReadableFamily, find_family

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._store import DB


class SnapshotFamily(ReadableFamily):
    """One family of a store as it was at one moment."""

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
        return self._open_handle()

    def _open_handle(self) -> int:
        """Its handle. Once it was closed that is 0, which the library takes for no snapshot at all: it would read the store as it is now."""
        handle = self._snapshot.handle
        if not handle:
            self._handles.store.check()
            raise self._handles.store_error(_abi.WAXSEAL_CLOSED, "the snapshot was closed")
        return handle

    def __init__(self, *_: object) -> None:
        """Made by `DB.snapshot`."""

    @property
    def seqno(self) -> int:
        """Its place in the order of commits: commits up to this number are seen."""
        return self._handles.number("waxseal_snapshot_seqno", self._open_handle())

    def family(self, name: str) -> SnapshotFamily:
        """A family as it was. InvalidArgument if there is none of this name: what is only looked at makes nothing."""
        self._open_handle()
        return SnapshotFamily(self, find_family(self._handles, name), name)

    def close(self) -> None:
        """Lets go of what it sees. Closing twice is nothing."""
        if self._handles.store.here:
            self._snapshot.end()

    def __enter__(self) -> Self:
        self._handles.store.check()
        self._open_handle()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
