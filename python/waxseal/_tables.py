"""Table files, quarantined tables, and fenced key ranges."""

from __future__ import annotations

import ctypes as C
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Tuple, TypeVar, Union

from . import _abi, _c
from ._care import text_of
from ._errors import VERDICTS
from ._handles import Handles
from ._registry import fields_of
from ._times import moment_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")


class Table(NamedTuple):
    """One table file."""

    #: The number in its file name.
    number: int
    #: Level 0 holds the newest tables.
    level: int
    #: Size of the file in bytes.
    size: int
    #: Number of records: all versions, tombstones included.
    records: int
    smallest: bytes
    largest: bytes
    #: Smallest and largest sequence number.
    seqnos: Tuple[int, int]


class Fence(NamedTuple):
    """A range in which records were lost: reads in it raise CorruptionError.

    It is ordered by key and, for one key, by version, the newest first.
    """

    #: The key at which the range begins, which need not have been written ever, and its newest affected version.
    low: bytes
    low_seqno: int
    #: The key at which the range ends, often that of the next record, and its oldest affected version.
    high: bytes
    high_seqno: int
    #: Upper bound of the lost records' sequence numbers.
    bound: int
    file: str
    offset: int
    verdict: str


@dataclass(frozen=True)
class Case:
    """A table or key range that is or was in quarantine."""

    family: str
    #: "table" or "span", and the number of the table or of the fence.
    kind: str
    number: int
    since: datetime
    #: The end of the quarantine, and how it ended; None if it is still open.
    until: Optional[datetime]
    how: Optional[str]
    #: Details by name: the cause, the table, or the range and its bound.
    fields: Dict[str, Any]


_KINDS = {_abi.WAXSEAL_CASE_TABLE: "table", _abi.WAXSEAL_CASE_SPAN: "span"}


def _listed(
    handles: Handles, what: str, kind: str, of: Union[int, Tuple[Any, ...]], read: Callable[[C.c_void_p, int], T]
) -> List[T]:
    """Returns the content of the list that the function `what` creates, read index by index."""
    found = C.c_void_p()
    handles.call(what, *(of if isinstance(of, tuple) else (of,)), C.byref(found))
    try:
        return [read(found, at) for at in range(_c.function(f"waxseal_{kind}_count")(found))]
    finally:
        _c.function(f"waxseal_{kind}_destroy")(found)


def _table(tables: C.c_void_p, at: int) -> Table:
    one = _abi.waxseal_table_file_t()
    _c.function("waxseal_tables_get")(tables, at, C.byref(one))
    keys = _c.bytes_of(one.smallest), _c.bytes_of(one.largest)
    return Table(one.number, one.level, one.bytes, one.records, *keys, (one.least_seqno, one.greatest_seqno))


def tables_of(handles: Handles, family: int) -> List[Table]:
    """Returns the table files of a family."""
    return _listed(handles, "waxseal_tables", "tables", family, _table)


def tables_with(handles: Handles, family: int, property: str, item: Buffer) -> List[Table]:
    """Returns the table files of a family that may have an item of a property."""
    name, wanted = _c.encoded(property, "a property"), _c.lent(item, "item")
    which = (family, name, len(name), wanted, len(wanted))
    return _listed(handles, "waxseal_tables_with", "tables", which, _table)


def barred_tables_of(handles: Handles, family: int) -> List[Table]:
    """Returns the tables of a family that are excluded from compaction."""
    return _listed(handles, "waxseal_barred_tables", "tables", family, _table)


def fences_of(handles: Handles, family: int) -> List[Fence]:
    """Returns the fences of a family."""

    def read(fences: C.c_void_p, at: int) -> Fence:
        one = _abi.waxseal_fence_t()
        _c.function("waxseal_fences_get")(fences, at, C.byref(one))
        low, high = _c.bytes_of(getattr(one, "from")), _c.bytes_of(one.to)
        verdict = VERDICTS.get(one.verdict, "other")
        places = low, one.from_seqno, high, one.to_seqno
        return Fence(*places, one.bound, text_of(one.file), one.offset, verdict)

    return _listed(handles, "waxseal_fences", "fences", family, read)


def cases_of(handles: Handles) -> List[Case]:
    """Returns the quarantine cases of a store."""

    def read(cases: C.c_void_p, at: int) -> Case:
        one = _abi.waxseal_case_t()
        _c.function("waxseal_cases_get")(cases, at, C.byref(one))
        over = one.until_micros != _abi.WAXSEAL_FOREVER
        return Case(
            family=text_of(one.family),
            kind=_KINDS.get(one.kind, str(one.kind)),
            number=one.number,
            since=moment_of(one.since_micros),
            until=moment_of(one.until_micros) if over else None,
            how=text_of(one.how) if over else None,
            fields=fields_of("waxseal_cases_field", cases, at, one.fields),
        )

    return _listed(handles, "waxseal_quarantined", "cases", handles.db, read)
