"""Sessions, registry and log: what is watched, what happened, and why a key is what it is.

Everything here is asked through a session; a store asks through that of nobody in particular. Targets (`users`, `users.john`, `cluster:`) and
operations (`Row.Update`, `*` for any) are text, read by the library.
"""

from __future__ import annotations

import ctypes as C
import warnings
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from . import _abi, _c, _options
from ._care import text_of
from ._map import range_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._family import Family
    from ._handles import Handles
    from ._snapshot import Snapshot

#: A moment: of a time zone, or microseconds since 1970. Nothing has happened before that: a span that begins earlier begins there, and in
#: one that ends earlier is nothing.
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
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
#: Events of one page of a query, unless somebody says otherwise.
_PAGE = 1000


@dataclass(frozen=True)
class Event:
    """Something that happened to something."""

    #: To what, as people write it: `users.john`.
    target: str
    #: What, by name: `Row.Update`.
    operation: str
    #: The name of the session in which it was done; `-` for nobody in particular.
    client: str
    #: When.
    at: datetime
    #: The same moment as a number, in the order in which things happened; the events of one commit share it.
    time: int
    #: Its commit's place in the order of commits.
    seqno: int
    #: What else there is to say, by name: numbers, texts, bytes; a name that stands there twice has a list.
    fields: Dict[str, Any]
    #: In a lineage: how many steps it lies behind the file that was asked for.
    back: int


class Registration(NamedTuple):
    """What is watched, and how it is logged."""

    target: str
    operation: str
    scope: str
    mode: str
    values: str
    history: bool
    #: After how long events may be dropped; None: never.
    retention: Optional[timedelta]


class Provenance(NamedTuple):
    """Why a key is what it is: the registrations that watch it, and what happened to it, oldest first."""

    watched_by: List[Registration]
    events: List[Event]


class Place(NamedTuple):
    """A place in a table file."""

    file: str
    uid: str
    level: int
    offset: int


@dataclass(frozen=True)
class Explanation:
    """Everything that is known of a key. Damage is told here, not raised."""

    #: The key by its full name.
    target: str
    #: What the checks say: "validated", "absent", or why the value is not given out.
    verdict: str
    value: Optional[bytes]
    #: Who wrote it and when, if it was watched then.
    writer: Optional[str]
    written: Optional[datetime]
    seqno: Optional[int]
    seal: Optional[bytes]
    #: When all of the store was last checked.
    verified: Optional[datetime]
    #: Where it lies: "memory", "table" or "nowhere"; and in which table.
    lies: str
    table: Optional[Place]
    events: List[Event]
    #: How the table came to be.
    lineage: List[Event]


def moment_of(micros: int) -> datetime:
    """A moment out of microseconds."""
    return _EPOCH + timedelta(microseconds=micros)


def micros_of(moment: Moment) -> int:
    """Microseconds of a moment, below 0 for one before 1970."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError("a moment without a time zone could be any: say tzinfo, as in datetime.now(timezone.utc)")
        return (moment - _EPOCH) // _MICROSECOND
    return _options.size(moment, "moment")


def span_of(start: Optional[Moment], end: Optional[Moment]) -> Optional[Tuple[int, int]]:
    """The first and the last microsecond of a span; None if it ends before 1970: the library's numbers begin there."""
    first = _abi.WAXSEAL_TIME_FIRST if start is None else max(micros_of(start), _abi.WAXSEAL_TIME_FIRST)
    last = _abi.WAXSEAL_TIME_LAST if end is None else micros_of(end)
    return None if last < _abi.WAXSEAL_TIME_FIRST else (first, last)


def _read_at(snapshot: Optional[Snapshot]) -> Optional[int]:
    """The handle of a snapshot that is asked; None for the store as it is now."""
    return None if snapshot is None else snapshot._open_handle()


def text(value: object, what: str) -> bytes:
    """A text as the library takes it."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is str, not {type(value).__name__}")
    return value.encode("utf-8")


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
    return data


def events_of(handle: C.c_void_p) -> List[Event]:
    """The content of a list of events, which is ended."""
    try:
        count = _c.function("waxseal_events_count")(handle)
        return [_event(handle, at) for at in range(count)]
    finally:
        _c.function("waxseal_events_destroy")(handle)


def fields_of(call: str, holder: C.c_void_p, at: int, count: int) -> Dict[str, Any]:
    """The fields of what a list holds at a place."""
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
    """The content of a list of registrations, which is ended."""
    try:
        found, one = [], _abi.waxseal_registration_t()
        for at in range(_c.function("waxseal_registrations_count")(handle)):
            _c.function("waxseal_registrations_get")(handle, at, C.byref(one))
            forever = one.retention_micros == _abi.WAXSEAL_FOREVER
            found.append(
                Registration(
                    target=text_of(one.target),
                    operation=text_of(one.operation),
                    scope=_word(_SCOPES, one.scope),
                    mode=_word(_MODES, one.mode),
                    values=_word(_VALUES, one.values),
                    history=one.history,
                    retention=None if forever else timedelta(microseconds=one.retention_micros),
                )
            )
        return found
    finally:
        _c.function("waxseal_registrations_destroy")(handle)


def _word(words: Dict[str, int], number: int) -> str:
    return next((word for word, known in words.items() if known == number), str(number))


class Asker:
    """Asks registry and log of a store, in the name of a session."""

    _handles: Handles

    def _session(self) -> int:
        """The handle of the session."""
        raise NotImplementedError

    def _ask(self, name: str, *arguments: Any) -> int:
        return self._handles.call(name, self._session(), *arguments)

    def _pair(self, target: str, operation: str) -> Tuple[bytes, int, bytes, int]:
        named, meant = text(target, "a target"), text(operation, "an operation")
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
        """From now on an operation on a target is logged. True if the pair is new. `InvalidArgument` if the operation cannot occur there.

        A UserWarning where the operation logs less than its name promises: `Row.Insert` is logged only for puts with `log_as_insert`; `Row.Write`
        is every put.

        `scope` is "exact" or "subtree"; `mode` says when log rows are written: "sync", "async" or "deferred"; `values` what they keep of values:
        "none", "new", "old_new" or "hash". What is None suits the pair.
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
        warning, named = _abi.waxseal_slice_t(), text(operation, "an operation")
        if self._ask("waxseal_operation_warning", named, len(named), C.byref(warning)) == _abi.WAXSEAL_OK:
            warnings.warn(text_of(warning), UserWarning, stacklevel=2)
        return new.value

    def unregister(self, target: str, operation: str = "*") -> bool:
        """The pair is not logged any more; its events stay. False if it was not registered."""
        there = C.c_bool()
        self._ask("waxseal_unregister", *self._pair(target, operation), C.byref(there))
        return there.value

    def is_registered(self, target: str, operation: str) -> bool:
        """True if an operation on a target is logged, by whatever registration."""
        there = C.c_bool()
        self._ask("waxseal_is_registered", *self._pair(target, operation), C.byref(there))
        return there.value

    def registrations(self) -> List[Registration]:
        """Everything that is registered."""
        found = C.c_void_p()
        self._ask("waxseal_registrations", C.byref(found))
        return registrations_of(found)

    def define_operation(self, name: str) -> int:
        """Defines an operation of your own, and gives its number."""
        number, named = C.c_uint16(), text(name, "an operation")
        self._ask("waxseal_define_operation", named, len(named), C.byref(number))
        return number.value

    def query_all(self, target: str, operation: str = "*") -> List[Event]:
        """All events of a target itself, by operation and then by time."""
        found = C.c_void_p()
        self._ask("waxseal_query_all", *self._pair(target, operation), C.byref(found))
        return events_of(found)

    def query_latest(self, target: str, operation: str = "*") -> Optional[Event]:
        """The latest event of a target itself."""
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
        """The events that are asked for, a page at a time: with `below` also of what lies below the target, of a span of time (both ends
        included; none before 1970), of one client."""
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
            named = text(client, "a client")
            self._handles.call("waxseal_query_set_client", query.handle, named, len(named))
        return query

    def log_add(
        self, target: str, operation: str, value: Buffer = b"", *, time: Optional[Moment] = None
    ) -> int:
        """Adds an event: something happened that the store cannot know of. Gives its place in the order of commits. ValueError for a time
        before 1970."""
        data, seqno = _c.lent(value, "value"), C.c_uint64()
        when = _abi.WAXSEAL_TIME_LAST if time is None else micros_of(time)
        if when < _abi.WAXSEAL_TIME_FIRST:
            raise ValueError(f"no event can be of {time}, which is before 1970")
        self._ask("waxseal_log_add", *self._pair(target, operation), when, data, len(data), C.byref(seqno))
        return seqno.value

    def log_query(
        self, target: str, operation: str = "*", *, start: Optional[Moment] = None, end: Optional[Moment] = None
    ) -> List[Event]:
        """The events of a target itself in a span of time, both ends included; none are before 1970."""
        found, pair, span = C.c_void_p(), self._pair(target, operation), span_of(start, end)
        if span is None:
            self._handles.store.check()
            return []
        self._ask("waxseal_log_query", *pair, *span, C.byref(found))
        return events_of(found)

    def log_delete(
        self, target: str, operation: str = "*", *, start: Optional[Moment] = None, end: Optional[Moment] = None
    ) -> int:
        """Deletes the events of a target itself in a span of time, both ends included, and says how many there were; none are before 1970."""
        deleted, pair, span = C.c_uint64(), self._pair(target, operation), span_of(start, end)
        if span is None:
            self._handles.store.check()
            return 0
        self._ask("waxseal_log_delete", *pair, *span, C.byref(deleted))
        return deleted.value

    def query_range(
        self, family: Family, start: Optional[Buffer] = None, stop: Optional[Buffer] = None
    ) -> List[Event]:
        """The events of all keys of a family from `start` to `stop`."""
        first = None if start is None else _c.lent(start, "start")
        last = None if stop is None else _c.lent(stop, "stop")
        between, found = range_of(first, last), C.c_void_p()
        handle = family._family.handle
        self._ask("waxseal_query_range", handle, C.byref(between), None, 0, 0, C.byref(found))
        return events_of(found)

    def provenance(self, key: Buffer, family: Optional[Family] = None) -> Provenance:
        """Where a key is watched, and what happened to it."""
        data, watched, events = _c.lent(key, "key"), C.c_void_p(), C.c_void_p()
        handle = self._family_of(family)
        self._ask("waxseal_provenance", handle, data, len(data), C.byref(watched), C.byref(events))
        return Provenance(registrations_of(watched), events_of(events))

    def explain(self, key: Buffer, family: Optional[Family] = None) -> Explanation:
        """Everything that is known of a key."""
        data, explanation = _c.lent(key, "key"), C.c_void_p()
        handle = self._family_of(family)
        self._ask("waxseal_explain", handle, data, len(data), C.byref(explanation))
        return explanation_of(explanation)

    def lineage(self, file: str) -> List[Event]:
        """How a table file came to be: what wrote it, what that had read, and so on back."""
        named, found = text(file, "a file"), C.c_void_p()
        self._ask("waxseal_lineage", named, len(named), C.byref(found))
        return events_of(found)

    def _family_of(self, family: Optional[Family]) -> int:
        """The handle of a family; without one, that of `default`."""
        raise NotImplementedError


def explanation_of(handle: C.c_void_p) -> Explanation:
    """The content of an explanation, which is ended."""
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
