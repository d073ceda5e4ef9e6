"""What can go wrong, and what to do about it.

One class per status of the C library, so that a program decides by `except` and not by text. Every error has the fields of the C
library's error object; those of damage are set where the engine knows them.
"""

from __future__ import annotations

import errno
import re
from typing import Callable, Dict, Optional, Tuple, Type

KeyRange = Tuple[bytes, bytes]


class Error(OSError):
    """The operating system refused, or the store could not do what it was asked. Base of all errors here."""

    #: The C library's status.
    code: int = 0
    #: The file that is damaged, by its name in the store's directory, and the place in it.
    file: Optional[str] = None
    offset: Optional[int] = None
    #: The column family concerned.
    family: Optional[str] = None
    #: The smallest and the largest key that may be concerned.
    key_range: Optional[KeyRange] = None
    #: What is wrong with the bytes: "checksum", "seal", "missing", "structural", "misplaced", "ledger" or "other".
    verdict: Optional[str] = None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class CorruptionError(Error):
    """Bytes are not what was written. The fields say where, and which keys; the rest of the store goes on."""


class LockedError(Error):
    """Another process, or another object of this one, has the store open."""


class InvalidArgument(Error, ValueError):
    """The call is wrong; nothing was changed."""


class NoStoreError(InvalidArgument, FileNotFoundError):
    """There is no store in the directory, and it was not to be made."""


class ConflictError(Error):
    """Another commit came first: run it again."""


class ReadOnlyError(Error):
    """The store was opened without the right to write."""


class HaltedError(Error):
    """An earlier fsync or write of the log failed. Reads go on; open the store again to write."""


class FormatTooNewError(Error):
    """A newer version wrote the store."""


class ClosedError(Error, RuntimeError):
    """The store, or what was made from it, was closed; or this process is a fork of the one that opened it."""


class BusyError(Error):
    """Another thread is using this object, which one thread at a time may use. Nothing was changed."""


class OutOfMemoryError(Error):
    """Memory for the answer cannot be had. Nothing was changed."""


class CallbackError(Error):
    """A function that was given to the store raised; `__cause__` is what it raised."""


class InternalError(Error):
    """A bug of the library was caught: please report the message."""


class InterruptedCallError(Error):
    """A call was interrupted, and the handler of the signal raised nothing that could be raised in its place."""


OK, NOT_FOUND, TOO_SMALL = 0, 1, 2
INVALID, CLOSED, BUSY, CALLBACK = -4, -9, -10, -12

CLASSES: Dict[int, Type[Error]] = {
    -1: CorruptionError,
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
}

#: The number of a status, where the library's message has none of the operating system.
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

#: Makes an exception of a status: code, message, file, offset, family, key range, verdict.
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
    """The exception that a status stands for."""
    error = CLASSES.get(code, InternalError)(message)
    error.code = code
    error.file, error.offset, error.family = file, offset, family
    error.key_range, error.verdict = key_range, VERDICTS.get(verdict or 0)
    system = _SYSTEM_ERROR.search(message)
    error.errno = int(system.group(1)) if system else _NUMBERS.get(code)
    error.filename = file
    return error


#: How the library's messages end with the number of an error of the operating system.
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")
