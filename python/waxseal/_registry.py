"""Sessions, registry and log: watched targets, their events, and explanations of keys.

All calls go through a session; a store uses the unnamed session. Targets (`users`, `users.john`, `cluster:`) and
operations (`Row.Update`, `*` for any) are text that the library parses.
"""

from __future__ import annotations

import ctypes as C
import warnings
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from . import _abi, _c, _options
from ._care import text_of
from ._map import range_of
from ._times import EPOCH, moment_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._family import Family
    from ._handles import Handles
    from ._snapshot import Snapshot

#: A time: a datetime with a time zone, or microseconds since 1970. There are no earlier events: a span that begins
#: earlier begins at 1970, and a span that ends earlier is empty.
Moment = Union[datetime, int]

_SCOPES = {"exact": _abi.WAXSEAL_SCOPE_EXACT, "subtree": _abi.WAXSEAL_SCOPE_SUBTREE}
_MODES = {
    "sync": _abi.WAXSEAL_MODE_SYNC,
    "async": _abi.WAXSEAL_MODE_ASYNC,
    "deferred": _abi.WAXSEAL_MODE_DEFERRED,
}
_VALUES = {
    "none": _abi.WAXSEAL_VALUES_NONE,
    "new": _abi.WAXSEAL_VALUES_NEW,
    "old_new": _abi.WAXSEAL_VALUES_OLD_NEW,
    "hash": _abi.WAXSEAL_VALUES_HASH,
}
_LIES = {_abi.WAXSEAL_LIES_IN_MEMORY: "memory", _abi.WAXSEAL_LIES_IN_TABLE: "table"}
_MICROSECOND = timedelta(microseconds=1)
#: Default number of events per page of a query.
_PAGE = 1000


@dataclass(frozen=True)
class Event:
    """An operation on a target."""

    #: The target in its short form: `users.john`.
    target: str
    #: The name of the operation: `Row.Update`.
    operation: str
    #: The name of the session that performed it; `-` for the unnamed session.
    client: str
    #: The time.
    at: datetime
    #: The same time as an ordered number; the events of one commit share it.
    time: int
    #: The sequence number of its commit.
    seqno: int
    #: Further facts of the event, by name: numbers, texts, bytes; a name that stands there twice has a list. The `options` of a
    #: registration are a dict with the names and words of `register`.
    fields: Dict[str, Any]
    #: In a lineage: number of steps between this event and the requested file.
    back: int


class Registration(NamedTuple):
    """A watched target and operation, and the options of its events."""

    target: str
    operation: str
    scope: str
    mode: str
    values: str
    history: bool
    #: The age from which events may be dropped; None means never.
    retention: Optional[timedelta]


class Provenance(NamedTuple):
    """The provenance of a key: the registrations that watch it, and its events, oldest first."""

    watched_by: List[Registration]
    events: List[Event]


class Place(NamedTuple):
    """A location in a table file."""

    file: str
    uid: str
    level: int
    offset: int


@dataclass(frozen=True)
class Explanation:
    """All known facts about a key. Damage is part of the explanation, not an exception."""

    #: The key in its full form.
    target: str
    #: The result of the checks: "validated", "absent", or the reason why the value is withheld.
    verdict: str
    value: Optional[bytes]
    #: The session that wrote it, and the time, if the key was watched then.
    writer: Optional[str]
    written: Optional[datetime]
    seqno: Optional[int]
    seal: Optional[bytes]
    #: The time of the last complete verification of the store.
    verified: Optional[datetime]
    #: Its location: "memory", "table" or "nowhere"; and the table.
    lies: str
    table: Optional[Place]
    events: List[Event]
    #: The lineage of the table.
    lineage: List[Event]


def micros_of(moment: Moment) -> int:
    """Converts a time to microseconds, negative before 1970."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError("a moment without a time zone could be any: say tzinfo, as in datetime.now(timezone.utc)")
        return (moment - EPOCH) // _MICROSECOND
    return _options.size(moment, "moment")


def span_of(start: Optional[Moment], end: Optional[Moment]) -> Optional[Tuple[int, int]]:
    """Returns the first and the last microsecond of a span; None if it ends before 1970, where the library's times
    begin."""
    first = _abi.WAXSEAL_TIME_FIRST if start is None else max(micros_of(start), _abi.WAXSEAL_TIME_FIRST)
    last = _abi.WAXSEAL_TIME_LAST if end is None else micros_of(end)
    return None if last < _abi.WAXSEAL_TIME_FIRST else (first, last)


def _read_at(snapshot: Optional[Snapshot]) -> Optional[int]:
    """Returns the handle of a snapshot; None for the current state."""
    return None if snapshot is None else snapshot._open_handle()


def _field(field: Any) -> Any:
    kind, numbers = field.kind, list(field.numbers)
    data, more = _c.bytes_of(field.bytes), _c.bytes_of(field.more)
    if kind == _abi.WAXSEAL_FIELD_NUMBER:
        return numbers[0]
    if kind == _abi.WAXSEAL_FIELD_TEXT:
        return data.decode("utf-8", "replace")
    if kind == _abi.WAXSEAL_FIELD_SETTING:
        return data.decode("utf-8", "replace"), more.decode("utf-8", "replace")
    if kind == _abi.WAXSEAL_FIELD_ABSENT:
        return None
    if kind == _abi.WAXSEAL_FIELD_FILE:
        return {"uid": data.hex(), "digest": numbers[0], "records": numbers[1]}
    if kind == _abi.WAXSEAL_FIELD_SPAN:
        return numbers[0], numbers[1]
    if kind == _abi.WAXSEAL_FIELD_TOKENS:
        names = ("first", "last", "records", "bytes", "sum")
        replicas = more.decode("utf-8", "replace").split(",") if more else []
        return {"keyspace": data.decode("utf-8", "replace"), "replicas": replicas, **dict(zip(names, numbers))}
    if kind == _abi.WAXSEAL_FIELD_OPTIONS:
        return _chosen(numbers)
    return data


def _chosen(numbers: List[int]) -> Dict[str, Any]:
    """The options of a registration, by the names and words of `register`."""
    scope, mode, values, history, retention = numbers
    return {
        "scope": _word(_SCOPES, scope),
        "mode": _word(_MODES, mode),
        "values": _word(_VALUES, values),
        "history": bool(history),
        "retention": _retention_of(retention),
    }


def _retention_of(micros: int) -> Optional[timedelta]:
    """After how long events may be dropped; None: never, or later than a timedelta can say."""
    try:
        return None if micros == _abi.WAXSEAL_FOREVER else timedelta(microseconds=micros)
    except OverflowError:
        return None


def events_of(handle: C.c_void_p) -> List[Event]:
    """Returns the content of a list of events, and destroys the list."""
    try:
        count = _c.function("waxseal_events_count")(handle)
        return [_event(handle, at) for at in range(count)]
    finally:
        _c.function("waxseal_events_destroy")(handle)


def fields_of(call: str, holder: C.c_void_p, at: int, count: int) -> Dict[str, Any]:
    """Returns the fields of a list's element."""
    field = _abi.waxseal_field_t()
    fields: Dict[str, Any] = {}
    for field_at in range(count):
        _c.function(call)(holder, at, field_at, C.byref(field))
        name, value = text_of(field.name), _field(field)
        if name not in fields:
            fields[name] = value
        elif isinstance(fields[name], list):
            fields[name].append(value)
        else:
            fields[name] = [fields[name], value]
    return fields


def _event(events: C.c_void_p, at: int) -> Event:
    event = _abi.waxseal_event_t()
    _c.function("waxseal_events_get")(events, at, C.byref(event))
    return Event(
        target=text_of(event.target),
        operation=text_of(event.operation),
        client=text_of(event.client),
        at=moment_of(event.micros),
        time=event.time,
        seqno=event.seqno,
        fields=fields_of("waxseal_events_field", events, at, event.fields),
        back=event.back,
    )


def registrations_of(handle: C.c_void_p) -> List[Registration]:
    """Returns the content of a list of registrations, and destroys the list."""
    try:
        found, one = [], _abi.waxseal_registration_t()
        for at in range(_c.function("waxseal_registrations_count")(handle)):
            _c.function("waxseal_registrations_get")(handle, at, C.byref(one))
            found.append(
                Registration(
                    target=text_of(one.target),
                    operation=text_of(one.operation),
                    scope=_word(_SCOPES, one.scope),
                    mode=_word(_MODES, one.mode),
                    values=_word(_VALUES, one.values),
                    history=one.history,
                    retention=_retention_of(one.retention_micros),
                )
            )
        return found
    finally:
        _c.function("waxseal_registrations_destroy")(handle)


def _word(words: Dict[str, int], number: int) -> str:
    return next((word for word, known in words.items() if known == number), str(number))


class Asker:
    """Calls to the registry and the log of a store, under a session's identity."""

    _handles: Handles

    def _session(self) -> int:
        """Returns the handle of the session."""
        raise NotImplementedError

    def _ask(self, name: str, *arguments: Any) -> int:
        return self._handles.call(name, self._session(), *arguments)

    def _pair(self, target: str, operation: str) -> Tuple[bytes, int, bytes, int]:
        named, meant = _c.encoded(target, "a target"), _c.encoded(operation, "an operation")
        return named, len(named), meant, len(meant)

    def register(
        self,
        target: str,
        operation: str = "*",
        *,
        scope: Optional[str] = None,
        mode: Optional[str] = None,
        values: Optional[str] = None,
        history: Optional[bool] = None,
        retention: Optional[timedelta] = None,
    ) -> bool:
        """Registers an operation on a target, which is logged from now on. Returns True if the pair is new. Raises
        `InvalidArgument` if the operation cannot occur there.

        Issues a UserWarning if the operation logs less than its name suggests: `Row.Insert` is logged only for puts
        with `log_as_insert`; `Row.Write` covers every put.

        `scope` is "exact" or "subtree"; `mode` is the time at which events are written: "sync", "async" or "deferred";
        `values` selects the values in events: "none", "new", "old_new" or "hash". None means the default for the pair.
        """
        options = self._handles.made("waxseal_register_options_create", destroy="waxseal_register_options_destroy")
        chosen: Dict[str, Any] = {}
        for name, word, words in (("scope", scope, _SCOPES), ("mode", mode, _MODES), ("values", values, _VALUES)):
            if word is not None:
                chosen[name] = _options.word(word, words, name)
        if history is not None:
            chosen["history"] = _options.switch(history, "history")
        if retention is not None:
            chosen["retention"] = _options.size(retention // _MICROSECOND, "retention")
        for name, value in chosen.items():
            status = _c.function(f"waxseal_register_options_set_{name}")(options.handle, value)
            if status < 0:
                raise self._handles.store_error(status, f"{name} cannot be {value}")
        new = C.c_bool()
        self._ask("waxseal_register", *self._pair(target, operation), options.handle, C.byref(new))
        warning, named = _abi.waxseal_slice_t(), _c.encoded(operation, "an operation")
        if self._ask("waxseal_operation_warning", named, len(named), C.byref(warning)) == _abi.WAXSEAL_OK:
            warnings.warn(text_of(warning), UserWarning, stacklevel=2)
        return new.value

    def unregister(self, target: str, operation: str = "*") -> bool:
        """Unregisters the pair, which is then no longer logged; its events stay. Returns False if it was not
        registered."""
        there = C.c_bool()
        self._ask("waxseal_unregister", *self._pair(target, operation), C.byref(there))
        return there.value

    def is_registered(self, target: str, operation: str) -> bool:
        """True if an operation on a target is logged, through any registration."""
        there = C.c_bool()
        self._ask("waxseal_is_registered", *self._pair(target, operation), C.byref(there))
        return there.value

    def registrations(self) -> List[Registration]:
        """Returns all registrations."""
        found = C.c_void_p()
        self._ask("waxseal_registrations", C.byref(found))
        return registrations_of(found)

    def define_operation(self, name: str) -> int:
        """Defines an operation of the application, and returns its number."""
        number, named = C.c_uint16(), _c.encoded(name, "an operation")
        self._ask("waxseal_define_operation", named, len(named), C.byref(number))
        return number.value

    def query_all(self, target: str, operation: str = "*") -> List[Event]:
        """Returns all events of a target itself, ordered by operation and then by time."""
        found = C.c_void_p()
        self._ask("waxseal_query_all", *self._pair(target, operation), C.byref(found))
        return events_of(found)

    def query_latest(self, target: str, operation: str = "*") -> Optional[Event]:
        """Returns the latest event of a target itself."""
        found = C.c_void_p()
        status = self._ask("waxseal_query_latest", *self._pair(target, operation), C.byref(found))
        if status == _abi.WAXSEAL_NOT_FOUND:
            return None
        events = events_of(found)
        return events[0] if events else None

    def query(
        self,
        target: str,
        operation: str = "*",
        *,
        below: bool = False,
        start: Optional[Moment] = None,
        end: Optional[Moment] = None,
        client: Optional[str] = None,
        snapshot: Optional[Snapshot] = None,
        page: int = _PAGE,
    ) -> Iterator[Event]:
        """Iterates over the matching events, fetched one page at a time. `below` includes the targets below the target;
        `start` and `end`, both inclusive, limit the time (no event is before 1970); `client` selects one session's
        events."""
        span, limit = span_of(start, end), _options.size(page, "page")
        query = self._query(target, operation, below, client)
        _read_at(snapshot)
        if span is None:
            return
        _c.function("waxseal_query_set_span")(query.handle, *span)
        after = b""
        while True:
            self._handles.call("waxseal_query_set_page", query.handle, after, len(after), limit)
            found, place = C.c_void_p(), _abi.waxseal_slice_t()
            self._ask("waxseal_query_run", _read_at(snapshot), query.handle, C.byref(found))
            goes_on = _c.function("waxseal_events_next")(found, C.byref(place)) == _abi.WAXSEAL_OK
            after = _c.bytes_of(place) if goes_on else b""
            yield from events_of(found)
            if not goes_on:
                return

    def _query(self, target: str, operation: str, below: bool, client: Optional[str]) -> _c.Owned:
        query = self._handles.made(
            "waxseal_query_create", *self._pair(target, operation), destroy="waxseal_query_destroy"
        )
        _c.function("waxseal_query_set_below")(query.handle, bool(below))
        if client is not None:
            named = _c.encoded(client, "a client")
            self._handles.call("waxseal_query_set_client", query.handle, named, len(named))
        return query

    def log_add(
        self, target: str, operation: str, value: Buffer = b"", *, time: Optional[Moment] = None
    ) -> int:
        """Adds an event of the application, which the store cannot observe itself. Returns its sequence number. Raises
        ValueError for a time before 1970."""
        data, seqno = _c.lent(value, "value"), C.c_uint64()
        when = _abi.WAXSEAL_TIME_LAST if time is None else micros_of(time)
        if when < _abi.WAXSEAL_TIME_FIRST:
            raise ValueError(f"no event can be of {time}, which is before 1970")
        self._ask("waxseal_log_add", *self._pair(target, operation), when, data, len(data), C.byref(seqno))
        return seqno.value

    def log_query(
        self, target: str, operation: str = "*", *, start: Optional[Moment] = None, end: Optional[Moment] = None
    ) -> List[Event]:
        """Returns the events of a target itself in a time span, both ends inclusive; no event is before 1970."""
        found, pair, span = C.c_void_p(), self._pair(target, operation), span_of(start, end)
        if span is None:
            self._handles.store.check()
            return []
        self._ask("waxseal_log_query", *pair, *span, C.byref(found))
        return events_of(found)

    def log_delete(
        self, target: str, operation: str = "*", *, start: Optional[Moment] = None, end: Optional[Moment] = None
    ) -> int:
        """Deletes the events of a target itself in a time span, both ends inclusive, and returns their number; no event
        is before 1970."""
        deleted, pair, span = C.c_uint64(), self._pair(target, operation), span_of(start, end)
        if span is None:
            self._handles.store.check()
            return 0
        self._ask("waxseal_log_delete", *pair, *span, C.byref(deleted))
        return deleted.value

    def query_range(
        self, family: Family, start: Optional[Buffer] = None, stop: Optional[Buffer] = None
    ) -> List[Event]:
        """Returns the events of all keys of a family from `start` to `stop`."""
        first = None if start is None else _c.lent(start, "start")
        last = None if stop is None else _c.lent(stop, "stop")
        between, found = range_of(first, last), C.c_void_p()
        handle = family._family.handle
        self._ask("waxseal_query_range", handle, C.byref(between), None, 0, 0, C.byref(found))
        return events_of(found)

    def provenance(self, key: Buffer, family: Optional[Family] = None) -> Provenance:
        """Returns the registrations that watch a key, and the key's events."""
        data, watched, events = _c.lent(key, "key"), C.c_void_p(), C.c_void_p()
        handle = self._family_of(family)
        self._ask("waxseal_provenance", handle, data, len(data), C.byref(watched), C.byref(events))
        return Provenance(registrations_of(watched), events_of(events))

    def explain(self, key: Buffer, family: Optional[Family] = None) -> Explanation:
        """Returns all known facts about a key."""
        data, explanation = _c.lent(key, "key"), C.c_void_p()
        handle = self._family_of(family)
        self._ask("waxseal_explain", handle, data, len(data), C.byref(explanation))
        return explanation_of(explanation)

    def lineage(self, file: str) -> List[Event]:
        """Returns the lineage of a table file: the job that wrote it, the jobs that wrote that job's inputs, and so
        on."""
        named, found = _c.encoded(file, "a file"), C.c_void_p()
        self._ask("waxseal_lineage", named, len(named), C.byref(found))
        return events_of(found)

    def _family_of(self, family: Optional[Family]) -> int:
        """Returns the handle of a family; None means `default`."""
        raise NotImplementedError


def explanation_of(handle: C.c_void_p) -> Explanation:
    """Returns the content of an explanation, and destroys the explanation object."""
    try:
        known, events, steps = _abi.waxseal_explained_t(), C.c_void_p(), C.c_void_p()
        _c.function("waxseal_explanation_get")(handle, C.byref(known))
        _c.function("waxseal_explanation_events")(handle, C.byref(events))
        _c.function("waxseal_explanation_lineage")(handle, C.byref(steps))
        lies = _LIES.get(known.lies, "nowhere")
        place = Place(text_of(known.file), bytes(known.uid).hex(), known.level, known.offset)
        return Explanation(
            target=text_of(known.target),
            verdict=text_of(known.verdict),
            value=_c.bytes_of(known.value) if known.has_value else None,
            writer=text_of(known.writer) or None,
            written=moment_of(known.written_micros) if known.written_micros else None,
            seqno=known.seqno if known.has_version else None,
            seal=bytes(known.seal.bytes) if known.has_seal else None,
            verified=moment_of(known.verified_micros) if known.verified_micros else None,
            lies=lies,
            table=place if lies == "table" else None,
            events=events_of(events),
            lineage=events_of(steps),
        )
    finally:
        _c.function("waxseal_explanation_destroy")(handle)
