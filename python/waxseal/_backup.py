"""Backups: incremental copies of a store in one directory."""

from __future__ import annotations

import ctypes as C
import os
from datetime import datetime, timezone
from typing import Any, List, NamedTuple, Optional, Tuple

from . import _abi, _c, _options
from ._care import Pass, ProgressFunction, text_of


class CreatedBackup(NamedTuple):
    """The result of a backup."""

    #: The backup's number in its directory.
    id: int
    #: The last commit in it.
    seqno: int
    #: Number of files in it, and their bytes.
    files: int
    bytes: int
    #: Number of files that were copied, and their bytes.
    copied_files: int
    copied_bytes: int
    #: False if the store could not log the event. The backup is durable and whole nevertheless.
    is_logged: bool


class BackupInfo(NamedTuple):
    """One backup of a directory."""

    #: A later backup has a greater number.
    id: int
    created: datetime
    #: The store's id.
    store: str
    #: The last commit in the backup.
    seqno: int
    #: Number of files, and their bytes.
    files: int
    bytes: int
    #: Bytes of the files that this backup copied.
    copied_bytes: int
    #: The reason why the backup's description is unusable; then only `id` is set.
    error: Optional[str]


class Backup:
    """A directory of backups, for calls that need no open store. It holds nothing open.

    A progress function receives the bytes done, the total bytes, and 0. If it returns False, the call raises
    `InterruptedCallError`.
    """

    def __init__(self, path: Any) -> None:
        self._path: bytes = os.fsencode(path)

    def list(self) -> List[BackupInfo]:
        """Returns all backups, the oldest first."""
        found = C.c_void_p()
        _c.call("waxseal_backup_list", *self._where(), C.byref(found))
        try:
            return [_info(found, at) for at in range(_c.function("waxseal_backups_count")(found))]
        finally:
            _c.function("waxseal_backups_destroy")(found)

    def verify(
        self, id: int, *, bytes_per_second: Optional[int] = None, progress: Optional[ProgressFunction] = None
    ) -> None:
        """Reads every byte of a backup. Raises `CorruptionError`, which names a damaged or missing file."""
        look = Pass(bytes_per_second=bytes_per_second, progress=progress)
        look.call("waxseal_backup_verify", *self._where(), _options.size(id, "id"))

    def restore(
        self,
        id: int,
        target: Any,
        *,
        bytes_per_second: Optional[int] = None,
        progress: Optional[ProgressFunction] = None,
    ) -> None:
        """Restores a backup into a directory, which must not exist or must be empty. Every byte is checked."""
        to = os.fsencode(target)
        look = Pass(bytes_per_second=bytes_per_second, progress=progress)
        look.call("waxseal_backup_restore", *self._where(), _options.size(id, "id"), to, len(to))

    def purge(self, keep: int) -> int:
        """Removes all backups except the `keep` newest, with the files that none of these needs. Returns the number of
        removed backups."""
        removed = C.c_uint64()
        _c.call("waxseal_backup_purge", *self._where(), _options.size(keep, "keep"), C.byref(removed))
        return removed.value

    def _where(self) -> Tuple[bytes, int]:
        return self._path, len(self._path)


def _info(backups: C.c_void_p, at: int) -> BackupInfo:
    one = _abi.waxseal_backup_info_t()
    _c.function("waxseal_backups_get")(backups, at, C.byref(one))
    created = datetime.fromtimestamp(one.created_micros // 1_000_000, timezone.utc)
    created = created.replace(microsecond=one.created_micros % 1_000_000)
    sizes = one.seqno, one.files, one.bytes, one.copied_bytes
    return BackupInfo(one.id, created, text_of(one.store), *sizes, text_of(one.error) or None)


def create_backup(db: int, path: Any, options: Pass) -> CreatedBackup:
    """Adds a backup of an open store to a directory."""
    where, created = os.fsencode(path), _abi.waxseal_backup_created_t()
    options.call("waxseal_backup_create", db, where, len(where), result=(C.byref(created),))
    files = created.files, created.bytes, created.copied_files, created.copied_bytes
    return CreatedBackup(created.id, created.seqno, *files, created.is_logged)
