"""Exceptions of this package.

There is one class per status of the C library, so that a program distinguishes errors by class and not by text. Every
exception has the fields of the C library's error object; those of damage are set if the engine knows them.
"""

from __future__ import annotations

import errno
import os
import re
from typing import Any, Callable, Dict, Optional, Tuple, Type

KeyRange = Tuple[bytes, bytes]


class Error(OSError):
    """The operating system reported an error, or the store could not perform the call. Base class of all errors
    here."""

    #: The C library's status.
    code: int = 0
    #: The name of the damaged file in the store's directory, and the offset in it.
    file: Optional[str] = None
    offset: Optional[int] = None
    #: The affected column family.
    family: Optional[str] = None
    #: The smallest and the largest key that may be affected.
    key_range: Optional[KeyRange] = None
    #: The kind of damage: "checksum", "seal", "missing", "structural", "misplaced", "ledger" or "other".
    verdict: Optional[str] = None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> Tuple[Any, ...]:
        fields = {**self.__dict__, "errno": self.errno, "filename": self.filename}
        return _restored, (type(self), self.args, fields)


def _restored(kind: Type[Error], arguments: Tuple[Any, ...], fields: Dict[str, Any]) -> Error:
    """Returns an exception that was pickled, as one of a worker process is."""
    error = kind(*arguments)
    for name, value in fields.items():
        setattr(error, name, value)
    return error


class CorruptionError(Error):
    """Stored bytes are damaged. The fields name the place and the keys; undamaged data stays readable."""


class LockedError(Error):
    """Another process, or another object of this process, has the store open."""


class InvalidArgument(Error, ValueError):
    """The call is invalid; nothing was changed."""


class NoStoreError(InvalidArgument, FileNotFoundError):
    """The directory holds no store, and the mode does not create one."""


class ConflictError(Error):
    """Another commit came first; retry the transaction."""


class ReadOnlyError(Error):
    """The store was opened read-only."""


class HaltedError(Error):
    """An earlier fsync or write of the log failed. Reads still work; reopen the store to write."""


class FormatTooNewError(Error):
    """A newer version wrote the store."""


class ClosedError(Error, RuntimeError):
    """The store, or an object made from it, was closed; or this process is a fork of the process that opened it."""


class BusyError(Error):
    """Another thread is using this object, which only one thread at a time may use, and nothing was changed. Or a
    snapshot, a cursor or a file, which the message names, holds what the call would erase."""


class OutOfMemoryError(Error):
    """Memory for the result cannot be allocated. Nothing was changed."""


class CallbackError(Error):
    """A callback of the store raised an exception, which is the `__cause__`."""


class InternalError(Error):
    """The library detected a bug in itself: please report the message."""


class InterruptedCallError(Error):
    """A signal interrupted the call, and its handler raised no exception to replace this one."""


class FileError(Error):
    """An operation on a file of a store failed as POSIX names it: `errno` is the number, `filename` the path."""


class PathNotFoundError(FileError, FileNotFoundError):
    """The path does not exist."""


class PathExistsError(FileError, FileExistsError):
    """The path exists."""


class PathIsDirectoryError(FileError, IsADirectoryError):
    """The path is a directory."""


class PathNotDirectoryError(FileError, NotADirectoryError):
    """A component of the path is not a directory."""


class PathNotPermittedError(FileError, PermissionError):
    """The operation does not apply to this kind of entry."""


class OutOfReachError(Error):
    """The change feed cannot continue at the position: copy the store again, and continue from there."""


class NotFoundError(Error, LookupError):
    """No table, column, group or index has this name."""


class ExistsError(Error):
    """A table, column or index of this name exists, or a row of this key or of these unique values."""


OK, NOT_FOUND, TOO_SMALL = 0, 1, 2
CORRUPTION, INVALID, CLOSED, BUSY, CALLBACK, FILE = -1, -4, -9, -10, -12, -15

CLASSES: Dict[int, Type[Error]] = {
    CORRUPTION: CorruptionError,
    -2: Error,
    -3: LockedError,
    INVALID: InvalidArgument,
    -5: ConflictError,
    -6: ReadOnlyError,
    -7: HaltedError,
    -8: FormatTooNewError,
    CLOSED: ClosedError,
    BUSY: BusyError,
    -11: OutOfMemoryError,
    CALLBACK: CallbackError,
    -13: InternalError,
    -14: InterruptedCallError,
    FILE: FileError,
    -16: OutOfReachError,
    -17: NotFoundError,
    -18: ExistsError,
}

#: The class of an error number of a file operation, unless it is `FileError`.
_FILE_CLASSES: Dict[int, Type[FileError]] = {
    errno.ENOENT: PathNotFoundError,
    errno.EEXIST: PathExistsError,
    errno.EISDIR: PathIsDirectoryError,
    errno.ENOTDIR: PathNotDirectoryError,
    errno.EPERM: PathNotPermittedError,
}

#: The errno of a status, unless the library's message contains one.
_NUMBERS: Dict[int, int] = {
    -1: errno.EIO,
    -3: errno.EAGAIN,
    INVALID: errno.EINVAL,
    -5: errno.EAGAIN,
    -6: errno.EROFS,
    -7: errno.EIO,
    -8: errno.ENOTSUP,
    CLOSED: errno.EBADF,
    BUSY: errno.EBUSY,
    -11: errno.ENOMEM,
    -14: errno.EINTR,
    -17: errno.ENOENT,
    -18: errno.EEXIST,
}

VERDICTS: Dict[int, str] = {
    1: "structural",
    2: "checksum",
    3: "missing",
    4: "misplaced",
    5: "seal",
    6: "ledger",
    7: "other",
}

#: Makes an exception from a status: code, message, file, offset, family, key range, verdict.
MakeError = Callable[
    [int, str, Optional[str], Optional[int], Optional[str], Optional[KeyRange], Optional[int]], Exception
]


def make_error(
    code: int,
    message: str,
    file: Optional[str] = None,
    offset: Optional[int] = None,
    family: Optional[str] = None,
    key_range: Optional[KeyRange] = None,
    verdict: Optional[int] = None,
) -> Exception:
    """Returns the exception of a status."""
    error = CLASSES.get(code, InternalError)(message)
    error.code = code
    error.file, error.offset, error.family = file, offset, family
    error.key_range, error.verdict = key_range, VERDICTS.get(verdict or 0)
    system = _SYSTEM_ERROR.search(message)
    error.errno = int(system.group(1)) if system else _NUMBERS.get(code)
    error.filename = file
    return error


def file_error(number: int, message: str) -> FileError:
    """Returns the exception of a file operation with this error number of POSIX."""
    error = _FILE_CLASSES.get(number, FileError)(message)
    error.code, error.errno = FILE, number
    return error


def path_error(number: int, path: Any, what: str) -> FileError:
    """Returns the exception of an operation on a path."""
    error = file_error(number, f"{os.fsdecode(path)!r}: {what}")
    error.filename = os.fsdecode(path)
    return error


def exclusive_error(error: OSError, path: Any) -> OSError:
    """Returns the exception of an exclusive write that failed: if its condition failed, the path exists."""
    return path_error(errno.EEXIST, path, "the path exists") if error.errno == errno.ECANCELED else error


#: Matches an operating system error number at the end of the library's messages.
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")
