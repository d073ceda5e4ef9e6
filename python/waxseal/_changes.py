"""The change feed: the commits of a store in order, and named cursors that keep the log for their consumers."""

from __future__ import annotations

import ctypes as C
import json
import math
import threading
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional, Union

from . import _abi, _c
from ._errors import InvalidArgument
from ._times import moment_of

if TYPE_CHECKING:
    from ._handles import Handles

#: How long a reader waits: seconds or a timedelta; None means without end.
Timeout = Union[float, timedelta, None]

_OPERATIONS = {
    _abi.WAXSEAL_CHANGE_PUT: "put",
    _abi.WAXSEAL_CHANGE_DELETE: "delete",
    _abi.WAXSEAL_CHANGE_MERGE: "merge",
    _abi.WAXSEAL_CHANGE_DELETE_RANGE: "delete_range",
    _abi.WAXSEAL_CHANGE_DROP_FAMILY: "drop_family",
}
_WITHOUT_END = (1 << 64) - 1


class Change:
    """One change of a commit."""

    __slots__ = (
        "seqno", "family", "order", "operation", "key", "value", "ends_commit", "seal", "session", "expires",
        "expires_micros", "_reader", "_number", "family_id",
    )  # fmt: skip

    #: The position in the commit order. The rows of an ingestion share one.
    seqno: int
    #: The names of the family and of its key order.
    family: str
    order: str
    #: The family's id in the store that changed: see `Family.id`.
    family_id: int
    #: "put", "delete", "merge", "delete_range" or "drop_family".
    operation: str
    #: The key; for "delete_range" the start. None for no bound, and for "drop_family".
    key: Optional[bytes]
    #: The value, for "merge" the operand, for "delete_range" the excluded end. None if there is none.
    value: Optional[bytes]
    #: True for the last change of a commit.
    ends_commit: bool
    #: The seal that was made at the write. None in a plain store, and for "drop_family".
    seal: Optional[bytes]
    #: The number of the session that wrote it, if the write was watched.
    session: Optional[int]
    #: The time at which the value expires; the last time of a `datetime` if that is later than the year 9999.
    expires: Optional[datetime]
    #: The same in microseconds since 1970, exact for every time.
    expires_micros: Optional[int]

    def __init__(self, found: Any, reader: Changes, number: int) -> None:
        """Created by a reader."""
        self.seqno = found.seqno
        self.family, self.order = _text(found.family), _text(found.order)
        self.family_id = found.family_id
        self.operation = _OPERATIONS[found.operation]
        self.key, self.value = _optional(found.key), _optional(found.value)
        self.ends_commit = found.ends_commit
        self.seal = bytes(found.seal.bytes) if found.has_seal else None
        self.session = found.session or None
        self.expires_micros = found.expires_micros or None
        self.expires = moment_of(found.expires_micros) if found.expires_micros else None
        self._reader, self._number = reader, number

    def __repr__(self) -> str:
        return f"<waxseal.Change {self.seqno} in {self.family!r}: {self.operation} {self.key!r}>"

    def _handle(self) -> int:
        """Returns the handle of the reader, whose last change this must be."""
        if self._number != self._reader._returned:
            raise InvalidArgument("the reader of this change has gone on: apply each change before the next one is read")
        return self._reader._changes.handle


class Changes(Iterator[Change]):
    """Reads the changes of a store in commit order. Created by `DB.changes_since`. One thread at a time may use it.

    As an iterator it ends at the last commit; iterated again, it returns what was committed since. The log that it has
    not read is kept until it is closed, within the bounds of `open`'s `cursor_log_bytes` and `cursor_log_age`.
    """

    def __init__(self, handles: Handles, changes: _c.Owned) -> None:
        """Created by `DB.changes_since`."""
        self._handles = handles
        self._changes = changes
        self._returned = 0
        #: The last change of the library, lent until its next call. Its seqno is 0 once the change was handed out.
        self._found = _abi.waxseal_change_t()
        self._is_closed = False
        #: True while a thread reads: no other one may read before a lent change was copied. Set with the lock.
        self._is_used = False
        self._lock = threading.Lock()

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Changes:
        return self

    def __next__(self) -> Change:
        change = self._next(0)
        if change is None:
            raise StopIteration
        return change

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle a reader of changes")

    def next(self, timeout: Timeout = None) -> Optional[Change]:
        """Returns the next change, and waits for it at most `timeout`. Returns None after that time.

        A reader of durable changes syncs the log if it finds commits that are visible and not durable yet. The wait ends
        with ClosedError if another thread closes the store.
        """
        return self._next(_micros(timeout))

    def tail(self, timeout: Timeout = None) -> Iterator[Change]:
        """Iterates over the changes as they are committed, and blocks between them. Ends when `timeout` has passed
        without a change."""
        while True:
            change = self.next(timeout)
            if change is None:
                return
            yield change

    @property
    def position(self) -> str:
        """The position after the last change that was returned. A reader that is opened there goes on with the next one,
        also in the middle of a commit."""
        text = self._handles.text("waxseal_changes_position", self._changes.handle)
        if not self._found.seqno:
            return text
        history, _, seqno = text.rpartition(":")  # the library has passed a change that was not handed out
        return f"{history}:{min(int(seqno), self._found.seqno - 1)}"

    def close(self) -> None:
        """Ends the reader, which then keeps no log. If another thread waits for a change, the reader ends with the wait."""
        self._is_closed = True
        self._end_unused()

    def _end_unused(self) -> None:
        with self._lock:
            if not self._is_used:
                self._found.seqno = 0  # its key and value end with the reader
                self._changes.end()

    def _next(self, micros: int) -> Optional[Change]:
        # A signal handler may raise after every call, and between a `with` and its lock it may not. A change that was
        # lent before stays in `_found`, for the next call.
        is_ours = False
        try:
            with self._lock:
                if self._is_used:
                    raise InvalidArgument("another thread uses this reader of changes")
                is_ours = self._is_used = True
            self._handles.store.check()  # a store that was closed meanwhile has ended the lent change
            if not self._found.seqno:
                self._returned += 1
                self._handles.call("waxseal_changes_next", self._changes.handle, micros, C.byref(self._found))
            change = Change(self._found, self, self._returned) if self._found.seqno else None
            # No call follows until the return: the caller gets the change.
            self._found.seqno = 0
            return change
        finally:
            if is_ours:
                self._is_used = False
                if self._is_closed:
                    self._end_unused()


class ChangeCursor:
    """A named cursor of the change feed, which keeps the log for its consumer. Created by `DB.change_cursor`."""

    def __init__(self, handles: Handles, name: str) -> None:
        """Created by `DB.change_cursor`."""
        self._handles = handles
        self._name = name

    def __repr__(self) -> str:
        return f"<waxseal.ChangeCursor {self._name!r}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def position(self) -> str:
        """The position up to which the consumer has moved the cursor. Raises InvalidArgument if it was removed."""
        found = change_cursors(self._handles).get(self._name)
        if found is None:
            raise InvalidArgument(f"the cursor {self._name!r} was removed")
        return found

    def changes(self) -> Changes:
        """Opens a reader of the durable changes after the cursor's position."""
        return changes_since(self._handles, self.position, True)

    def advance(self, position: str) -> None:
        """Moves the cursor: its consumer has durably processed the changes up to a position. Durable when the call
        returns; costs an fsync. The log before it is released with the next flush."""
        name, at = self._name.encode(), _c.encoded(position, "position")
        self._handles.call("waxseal_change_cursor_advance", self._handles.db, name, len(name), at, len(at))

    def remove(self) -> None:
        """Removes the cursor. Raises InvalidArgument if it was removed already."""
        name = self._name.encode()
        self._handles.call("waxseal_change_cursor_remove", self._handles.db, name, len(name))


class ChangeFeed:
    """The change feed of a store."""

    _handles: Handles

    def changes_since(self, position: str, *, durable: bool = True) -> Changes:
        """Returns a reader of the changes after a position: of whole commits, in order, with their seals. Ingested rows,
        range deletes and dropped families are changes.

        The changes come from the log, which is kept for named cursors (`change_cursor`), for open readers, and by `open`'s
        `keep_log_bytes` and `keep_log_age`. With `durable=False` the reader also returns commits that a crash of the
        machine may take back. A store that was opened read-only follows the process that writes it.

        Raises OutOfReachError if the log is not kept that far back, or if the position lies in a history that was cut
        before it: the consumer then starts again, from a checkpoint or a backup.
        """
        return changes_since(self._handles, position, durable)

    def change_position(self) -> str:
        """Returns the position of the last durable commit. The log after it is kept by a cursor, a reader or an option."""
        return self._handles.text("waxseal_change_position", self._handles.db)

    def oldest_change_position(self) -> Optional[str]:
        """Returns the oldest position from which changes can be read; None if no log is kept."""
        return _position(self._handles, "waxseal_oldest_change_position")

    def change_branch(self) -> Optional[str]:
        """Returns the position at which this store branched from its last history: for a checkpoint or a restored backup,
        the position of the other store at which a follower continues. None if it never branched."""
        return _position(self._handles, "waxseal_change_branch")

    def change_cursor(self, name: str) -> ChangeCursor:
        """Returns the named cursor of the change feed; creates it at the last durable commit if there is none.

        A cursor keeps the log that its consumer has not processed, also while the store is closed and after a crash,
        within `open`'s `cursor_log_bytes` and `cursor_log_age`. A cursor that falls behind them stays, and reads from it
        raise OutOfReachError.
        """
        data = _c.encoded(name, "name")
        self._handles.call("waxseal_change_cursor", self._handles.db, data, len(data), None)
        return ChangeCursor(self._handles, name)

    def change_cursors(self) -> Dict[str, str]:
        """Returns the positions of the cursors by name."""
        return change_cursors(self._handles)


def changes_since(handles: Handles, position: str, durable: bool) -> Changes:
    """Opens a reader."""
    reach = _abi.WAXSEAL_CHANGES_DURABLE if durable else _abi.WAXSEAL_CHANGES_VISIBLE
    at = _c.encoded(position, "position")
    made = handles.made("waxseal_changes_since", handles.db, at, len(at), reach, destroy="waxseal_changes_destroy")
    return Changes(handles, made)


def change_cursors(handles: Handles) -> Dict[str, str]:
    """Returns the positions of the cursors by name."""
    cursors: Dict[str, str] = json.loads(handles.text("waxseal_change_cursors_json", handles.db))
    return cursors


def _position(handles: Handles, name: str) -> Optional[str]:
    found = handles.optional_content(name, handles.db)
    return None if found is None else found.decode()


def _micros(timeout: object) -> int:
    if timeout is None:
        return _WITHOUT_END
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"a timeout is seconds or a timedelta, not {type(timeout).__name__}")
    if not seconds >= 0:
        raise ValueError(f"a timeout of {timeout}")
    return _WITHOUT_END if math.isinf(seconds) else min(math.ceil(seconds * 1_000_000), _WITHOUT_END)


def _text(lent: Any) -> str:
    return _c.bytes_of(lent).decode("utf-8", "replace")


def _optional(lent: Any) -> Optional[bytes]:
    return _c.bytes_of(lent) if lent.data else None
