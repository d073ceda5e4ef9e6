"""Verify, scrub, repair, salvage: the options and callbacks of a pass over a store, and its report.

A pass runs on the calling thread, with the GIL released. Callbacks run on that thread. An exception of a callback ends
the pass, and the pass raises it.
"""

from __future__ import annotations

import ctypes as C
import json
import os
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

from . import _abi, _c, _options
from ._errors import CallbackError, KeyRange, MakeError, VERDICTS, make_error

#: Receives the progress of a pass: bytes checked, total bytes, damaged places found. Returning False stops the pass.
ProgressFunction = Callable[[int, int, int], Optional[bool]]

_OUTCOMES = {
    _abi.WAXSEAL_OUTCOME_REPORTED: "reported",
    _abi.WAXSEAL_OUTCOME_REPAIRED: "repaired",
    _abi.WAXSEAL_OUTCOME_FENCED: "fenced",
    _abi.WAXSEAL_OUTCOME_BARRED: "barred",
    _abi.WAXSEAL_OUTCOME_ACCEPTED: "accepted",
    _abi.WAXSEAL_OUTCOME_LEFT_ALONE: "left_alone",
}
_RUNGS = {
    _abi.WAXSEAL_RUNG_READ_AGAIN: "read_again",
    _abi.WAXSEAL_RUNG_MEMORY: "memory",
    _abi.WAXSEAL_RUNG_CORRECTION: "correction",
    _abi.WAXSEAL_RUNG_REBUILD: "rebuild",
    _abi.WAXSEAL_RUNG_LOG: "log",
    _abi.WAXSEAL_RUNG_TRASH: "trash",
    _abi.WAXSEAL_RUNG_SOURCE: "source",
    _abi.WAXSEAL_RUNG_HANDLER: "handler",
}
_DECISIONS = {
    "quarantine": _abi.WAXSEAL_DECISION_QUARANTINE,
    "fail": _abi.WAXSEAL_DECISION_FAIL,
    "read_only": _abi.WAXSEAL_DECISION_READ_ONLY,
}
_STOP = 1


class Wanted(NamedTuple):
    """The records that a repair requests: one record by its seal, or, without a seal, all from `low` to `high`."""

    family: str
    low: bytes
    high: bytes
    seal: Optional[bytes]


class Loss(NamedTuple):
    """A loss that no repair step could undo."""

    file: str
    offset: int
    family: str
    low: bytes
    high: bytes
    verdict: str


#: Searches another copy of the store for records: pairs of key and value, with None as the value of a deleted key.
SourceFunction = Callable[[Wanted], Iterable[Tuple[bytes, Optional[bytes]]]]
#: Decides about a loss: "quarantine", "fail" or "read_only".
HandlerFunction = Callable[[Loss], str]


@dataclass(frozen=True)
class Damage:
    """One damaged place, and its outcome."""

    file: Optional[str]
    offset: int
    family: Optional[str]
    key_range: Optional[KeyRange]
    message: str
    verdict: str
    outcome: str
    #: The repair step that succeeded, if any.
    rung: Optional[str]


@dataclass(frozen=True)
class Report:
    """The findings of a pass over a store."""

    records: int
    validated: int
    corrupted: int
    missing: int
    unverified: int
    structural: int
    repaired: int
    lost: int
    bytes_read: int
    files: int
    nanos: int
    is_clean: bool
    cancelled: bool
    damage: Tuple[Damage, ...]
    #: The place where an incomplete scrub resumes.
    resume: Optional[bytes]
    #: The library's own report: as text, and as JSON.
    text: str
    json: str

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return self.is_clean

    def as_dict(self) -> Dict[str, Any]:
        """Returns the report as a dictionary."""
        found: Dict[str, Any] = json.loads(self.json)
        return found


@dataclass(frozen=True)
class Digest:
    """Number and seal sum of records: equal for equal content, on every replica."""

    count: int
    sum: int


def report_of(handle: C.c_void_p) -> Report:
    """Returns the content of a report, and destroys the report object."""
    try:
        counts = _abi.waxseal_counts_t()
        _c.function("waxseal_report_counts")(handle, C.byref(counts))
        numbers = {field[0]: getattr(counts, field[0]) for field in counts._fields_}
        places, numbers["bytes_read"] = numbers.pop("damage"), numbers.pop("bytes")
        place = _abi.waxseal_resume_t()
        stopped = _c.function("waxseal_report_resume")(handle, C.byref(place)) == _abi.WAXSEAL_OK
        text = _c.function("waxseal_report_text")(handle) or b""
        found = _c.function("waxseal_report_json")(handle) or b""
        return Report(
            **numbers,
            damage=tuple(_damage(handle, at) for at in range(places)),
            resume=bytes(place.bytes) if stopped else None,
            text=text.decode("utf-8", "replace"),
            json=found.decode("utf-8", "replace"),
        )
    finally:
        _c.function("waxseal_report_destroy")(handle)


def _damage(report: C.c_void_p, at: int) -> Damage:
    damage = _abi.waxseal_damage_t()
    _c.function("waxseal_report_damage")(report, at, C.byref(damage))
    return Damage(
        file=text_of(damage.file) or None,
        offset=damage.offset,
        family=text_of(damage.family) or None,
        key_range=(_c.bytes_of(getattr(damage, "from")), _c.bytes_of(damage.to)) if damage.has_keys else None,
        message=text_of(damage.message),
        verdict=VERDICTS.get(damage.verdict, "other"),
        outcome=_OUTCOMES.get(damage.outcome, "other"),
        rung=_RUNGS.get(damage.rung),
    )


def text_of(lent: Any) -> str:
    """Returns a text that the library lent."""
    return _c.bytes_of(lent).decode("utf-8", "replace")


def _heed(_done: int, _total: int, _found: int) -> None:
    """Default progress callback: it lets an exception of another callback end the pass."""


class Pass:
    """One pass over a store: its options, its callbacks, and the first exception that a callback raised."""

    def __init__(
        self,
        make: MakeError = make_error,
        *,
        progress: Optional[ProgressFunction] = None,
        families: Optional[Iterable[str]] = None,
        stores: Optional[Iterable[str]] = None,
        bytes_per_second: Optional[int] = None,
        most_bytes: Optional[int] = None,
        resume: Optional[bytes] = None,
        repair: Optional[bool] = None,
        accept_loss: Optional[bool] = None,
        source: Optional[SourceFunction] = None,
        handler: Optional[HandlerFunction] = None,
        max_retries: Optional[int] = None,
        trash: Optional[Union[str, bytes, os.PathLike[str], os.PathLike[bytes]]] = None,
    ) -> None:
        self._make = make
        self._options = _c.made("waxseal_care_options_create", destroy="waxseal_care_options_destroy", make=make)
        self._kept: List[object] = []
        self._raised: Optional[BaseException] = None
        for function, names in {"family": families, "store": stores}.items():
            for name in names or ():
                encoded = _c.encoded(name, f"the name of a {function}")
                _c.call(f"waxseal_care_options_add_{function}", self._options.handle, encoded, len(encoded), make=make)
        numbers = {"bytes_per_second": bytes_per_second, "most_bytes": most_bytes, "max_retries": max_retries}
        for name, value in numbers.items():
            if value is not None:
                self._set(name, _options.size(value, name))
        for name, said in {"repair": repair, "accept_loss": accept_loss}.items():
            if said is not None:
                self._set(name, _options.switch(said, name))
        if resume is not None:
            self._resume(resume)
        if trash is not None:
            where = os.fsencode(trash)
            _c.call("waxseal_care_options_set_trash", self._options.handle, where, len(where), make=make)
        if progress is not None or handler is not None:
            self._hook("progress", _abi.waxseal_progress_fn, self._telling(progress or _heed))
        if source is not None:
            self._hook("source", _abi.waxseal_source_fn, self._looking(source))
        if handler is not None:
            self._hook("handler", _abi.waxseal_handler_fn, self._deciding(handler))

    def call(self, name: str, *arguments: Any, result: Tuple[Any, ...] = ()) -> None:
        """Calls the function `name`, whose last parameters are options, the result's place, and error."""
        try:
            _c.call(name, *arguments, self._options.handle, *result, make=self._make)
        except BaseException:
            if self._raised is not None:  # the library's error says only that the call was ended
                raise self._raised from None
            raise
        if self._raised is not None:
            raise self._raised

    def run(self, name: str, *arguments: Any) -> Report:
        """Runs the pass `name`, whose last parameters are options, report and error."""
        report = C.c_void_p()
        try:
            _c.call(name, *arguments, self._options.handle, C.byref(report), make=self._make)
        except CallbackError as error:
            if self._raised is None:
                raise
            raise error from self._raised
        except BaseException:
            _c.function("waxseal_report_destroy")(report)
            if self._raised is not None:  # the library's error says only that the pass was cancelled
                raise self._raised from None
            raise
        found = report_of(report)
        if self._raised is not None:
            raise self._raised
        return found

    def _set(self, name: str, *values: Any) -> None:
        status = _c.function(f"waxseal_care_options_set_{name}")(self._options.handle, *values)
        if status < 0:
            raise self._make(status, f"{name} cannot be set", None, None, None, None, None)

    def _resume(self, resume: bytes) -> None:
        place = _abi.waxseal_resume_t()
        data = _c.lent(resume, "place to go on")
        if len(data) != C.sizeof(place):
            raise ValueError(f"a place to go on has {C.sizeof(place)} bytes, not {len(data)}")
        C.memmove(C.byref(place), data, len(data))
        self._set("resume", C.byref(place))

    def _hook(self, name: str, kind: Any, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise TypeError(f"{name} is a function")
        hook = kind(function)
        self._kept.append(hook)
        self._set(name, hook, None)

    def _telling(self, progress: ProgressFunction) -> Callable[..., int]:
        def tell(_context: Any, place: Any) -> int:
            if self._raised is not None:
                return _STOP
            try:
                said = place.contents
                return _STOP if progress(said.done, said.total, said.found) is False else 0
            except BaseException as error:
                self._raised = error
                return _STOP

        return tell

    def _looking(self, source: SourceFunction) -> Callable[..., int]:
        def look(_context: Any, place: Any, found: Any, answer: Any, _error: Any) -> int:
            if self._raised is not None:
                return int(_abi.WAXSEAL_CALLBACK)
            try:
                lent = place.contents
                seal = bytes(lent.seal.bytes) if lent.has_seal else None
                wanted = Wanted(text_of(lent.family), _c.bytes_of(lent.low), _c.bytes_of(lent.high), seal)
                for key, value in source(wanted):
                    data = _c.lent(key, "key")
                    kind = _abi.WAXSEAL_KIND_DELETE if value is None else _abi.WAXSEAL_KIND_PUT
                    content = b"" if value is None else _c.lent(value, "value")
                    found(answer, kind, C.c_char_p(data), len(data), C.c_char_p(content), len(content))
                return int(_abi.WAXSEAL_OK)
            except BaseException as error:
                self._raised = error
                return int(_abi.WAXSEAL_CALLBACK)  # ends the pass before any record is given up

        return look

    def _deciding(self, handler: HandlerFunction) -> Callable[..., int]:
        def decide(_context: Any, place: Any) -> int:
            if self._raised is not None:
                return int(_abi.WAXSEAL_DECISION_FAIL)
            try:
                lent = place.contents
                loss = Loss(
                    text_of(lent.file),
                    lent.offset,
                    text_of(lent.family),
                    _c.bytes_of(getattr(lent, "from")),
                    _c.bytes_of(lent.to),
                    VERDICTS.get(lent.verdict, "other"),
                )
                return _options.word(handler(loss), _DECISIONS, "the decision")
            except BaseException as error:
                self._raised = error
                return int(_abi.WAXSEAL_DECISION_FAIL)

        return decide
