"""Table files, and what is kept out of reach: tables that are barred, spans of keys that are fenced."""

from __future__ import annotations

import ctypes as C
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, TypeVar

from . import _abi, _c
from ._care import text_of
from ._errors import VERDICTS
from ._handles import Handles
from ._registry import fields_of, moment_of

T = TypeVar("T")


class Table(NamedTuple):
    """One table file."""

    #: The number in its file name.
    number: int
    #: 0 is the newest.
    level: int
    #: Length of the file in bytes.
    size: int
    #: All versions, and tombstones.
    records: int
    smallest: bytes
    largest: bytes
    #: Least and greatest place in the order of commits.
    seqnos: Tuple[int, int]


class Fence(NamedTuple):
    """A span in which records were lost: reads there raise CorruptionError.

    It goes from one place to another in the order of keys and, of one key, the newest version first.
    """

    #: The key with which it begins, which need not be one that was ever written, and the newest version of it that is concerned.
    low: bytes
    low_seqno: int
    #: The key with which it ends, often that of the first record behind, and the oldest version of it that is concerned.
    high: bytes
    high_seqno: int
    #: No record that was lost is newer, by its place in the order of commits.
    bound: int
    file: str
    offset: int
    verdict: str


@dataclass(frozen=True)
class Case:
    """Something that is kept out of reach, or was."""

    family: str
    #: "table" or "span", and the number of the table or of the fence.
    kind: str
    number: int
    since: datetime
    #: Until when, and how it ended; None: it is so now.
    until: Optional[datetime]
    how: Optional[str]
    #: What is known of it, by name: how it began, the table, or the span and its bound.
    fields: Dict[str, Any]


_KINDS = {_abi.WAXSEAL_CASE_TABLE: "table", _abi.WAXSEAL_CASE_SPAN: "span"}


def _listed(handles: Handles, what: str, kind: str, of: int, read: Callable[[C.c_void_p, int], T]) -> List[T]:
    """The content of a list that `what` gives, read place by place."""
    found = C.c_void_p()
    handles.call(what, of, C.byref(found))
    try:
        return [read(found, at) for at in range(_c.function(f"waxseal_{kind}_count")(found))]
    finally:
        _c.function(f"waxseal_{kind}_destroy")(found)


def _table(tables: C.c_void_p, at: int) -> Table:
    one = _abi.waxseal_table_t()
    _c.function("waxseal_tables_get")(tables, at, C.byref(one))
    keys = _c.bytes_of(one.smallest), _c.bytes_of(one.largest)
    return Table(one.number, one.level, one.bytes, one.records, *keys, (one.least_seqno, one.greatest_seqno))


def tables_of(handles: Handles, family: int) -> List[Table]:
    """The table files of a family."""
    return _listed(handles, "waxseal_tables", "tables", family, _table)


def barred_tables_of(handles: Handles, family: int) -> List[Table]:
    """Those that compaction leaves alone."""
    return _listed(handles, "waxseal_barred_tables", "tables", family, _table)


def fences_of(handles: Handles, family: int) -> List[Fence]:
    """The fences of a family."""

    def read(fences: C.c_void_p, at: int) -> Fence:
        one = _abi.waxseal_fence_t()
        _c.function("waxseal_fences_get")(fences, at, C.byref(one))
        low, high = _c.bytes_of(getattr(one, "from")), _c.bytes_of(one.to)
        verdict = VERDICTS.get(one.verdict, "other")
        places = low, one.from_seqno, high, one.to_seqno
        return Fence(*places, one.bound, text_of(one.file), one.offset, verdict)

    return _listed(handles, "waxseal_fences", "fences", family, read)


def cases_of(handles: Handles) -> List[Case]:
    """What is or was in quarantine in a store."""

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
