"""Scans through the Arrow capsule protocol: Arrow consumers read a store without a dependency of this package.

In: a family, optionally a snapshot, bounds. Out: streams of record batches with the columns `key`, `value`, `seqno` and
`seal`, made by the library; `pyarrow.table(db.scan())`, `polars.DataFrame(db.scan())` and `duckdb.sql("from scan")` all
accept them.
"""

from __future__ import annotations

import ctypes as C
from typing import TYPE_CHECKING, Iterable, List, Optional, Tuple

from . import _abi
from ._backend import backend
from ._map import range_of

if TYPE_CHECKING:
    from ._handles import Handles

COLUMNS = {
    "key": _abi.WAXSEAL_COLUMN_KEY,
    "value": _abi.WAXSEAL_COLUMN_VALUE,
    "seqno": _abi.WAXSEAL_COLUMN_SEQNO,
    "seal": _abi.WAXSEAL_COLUMN_SEAL,
}


class ArrowArrayStream(C.Structure):
    """The struct of the Arrow C stream interface, byte for byte."""

    _fields_ = [
        ("get_schema", C.c_void_p),
        ("get_next", C.c_void_p),
        ("get_last_error", C.c_void_p),
        ("release", C.c_void_p),
        ("private_data", C.c_void_p),
    ]


#: `release` of a stream.
_RELEASE = C.CFUNCTYPE(None, C.c_void_p)


def stream_of(handles: Handles, name: str, *arguments: object) -> object:
    """Calls a function of the library that makes a stream in its last argument. Returns the stream's capsule."""
    stream = ArrowArrayStream()
    place = C.addressof(stream)
    try:
        handles.call(name, *arguments, place)
        return backend.stream_capsule(place)
    finally:
        if stream.release:  # not moved into a capsule: a signal has ended the call
            _RELEASE(stream.release)(place)


def columns_of(names: Optional[Iterable[str]]) -> List[int]:
    """Returns the numbers of the chosen columns, in the given order. None chooses all columns."""
    if names is None:
        return list(COLUMNS.values())
    chosen: List[int] = []
    for name in [names] if isinstance(names, str) else names:
        if name not in COLUMNS:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(COLUMNS)}")
        if COLUMNS[name] in chosen:
            raise ValueError(f"the column {name!r} is chosen twice")
        chosen.append(COLUMNS[name])
    if not chosen:
        raise ValueError("a scan without columns")
    return chosen


class Scan:
    """A range of a family that Arrow consumers read as record batches. Each read sees the family's current state.

    Every read of a snapshot's scan returns the same rows. A batch has no pointers into the store, and lives as long as
    it is referenced.
    """

    def __init__(
        self,
        owner: object,
        handles: Handles,
        family: int,
        snapshot: int,
        bounds: Tuple[Optional[bytes], Optional[bytes], bool, bool],
        columns: Optional[Iterable[str]],
        batch_rows: int,
        batch_bytes: int,
    ) -> None:
        self._owner = owner
        self._handles = handles
        self._family, self._snapshot = family, snapshot
        self._bounds = bounds
        self._columns = columns_of(columns)
        self._rows, self._bytes = batch_rows, batch_bytes

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """Returns a stream of the rows for an Arrow consumer. A requested schema is ignored."""
        between = range_of(*self._bounds)
        columns = (C.c_uint32 * len(self._columns))(*self._columns)
        arguments = (self._family, self._snapshot, C.byref(between), columns, len(columns), self._rows, self._bytes)
        return stream_of(self._handles, "waxseal_scan_arrow_columns", *arguments)
