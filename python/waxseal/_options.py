"""Options of stores and families: converts Python keywords to the library's options objects."""

from __future__ import annotations

import math
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from . import _abi, _interrupt
from ._c import Owned, answer_raised, bytes_at, call, encoded, function, lent, made
from ._errors import CALLBACK, Error, MakeError, make_error
from ._merge import Operator, take_raised

if TYPE_CHECKING:
    from typing_extensions import Buffer

Comparator = Callable[[bytes, bytes], int]
#: A word, or a word and a number: "never", "on_fill", "always", ("sampled", 64).
Verify = Union[str, Tuple[str, int]]
#: Capacity of the event ring, and the behavior when it is full: "wait", "sync" or "drop". The ring is also full at 16
#: MiB of rows.
Ring = Tuple[int, str]

DEFAULT_FAMILY = "default"

_DURABILITIES = {
    "none": _abi.WAXSEAL_DURABILITY_BUFFERED,
    "os": _abi.WAXSEAL_DURABILITY_OS,
    "sync": _abi.WAXSEAL_DURABILITY_SYNC,
}
_COMPRESSIONS = {
    "none": _abi.WAXSEAL_COMPRESSION_NONE,
    "lz4": _abi.WAXSEAL_COMPRESSION_LZ4,
    "zstd": _abi.WAXSEAL_COMPRESSION_ZSTD,
}
_SEALS = {
    "by_codec": _abi.WAXSEAL_SEALS_BY_CODEC,
    "following": _abi.WAXSEAL_SEALS_FOLLOWING,
    "column": _abi.WAXSEAL_SEALS_COLUMN,
}
_MERGE_OPERATORS = {
    "add_i64": _abi.WAXSEAL_MERGE_ADD_I64,
    "add_u64": _abi.WAXSEAL_MERGE_ADD_U64,
    "append": _abi.WAXSEAL_MERGE_APPEND,
    "min": _abi.WAXSEAL_MERGE_MIN,
    "max": _abi.WAXSEAL_MERGE_MAX,
    "bit_or": _abi.WAXSEAL_MERGE_BIT_OR,
    "union": _abi.WAXSEAL_MERGE_UNION,
}
_WHEN_FULL = {
    "wait": _abi.WAXSEAL_WHEN_FULL_WAIT,
    "sync": _abi.WAXSEAL_WHEN_FULL_SYNC,
    "drop": _abi.WAXSEAL_WHEN_FULL_DROP,
}
_POLICIES = {
    "never": _abi.WAXSEAL_VERIFY_NEVER,
    "on_fill": _abi.WAXSEAL_VERIFY_ON_FILL,
    "sampled": _abi.WAXSEAL_VERIFY_SAMPLED,
    "always": _abi.WAXSEAL_VERIFY_ALWAYS,
}
_DEFAULT_SAMPLE = 64
_MOST = (1 << 63) - 1
_ANY_AGE = (1 << 64) - 1

_SIZES = (
    "cache_bytes",
    "memtable_bytes",
    "memory_bytes",
    "block_bytes",
    "background_threads",
    "open_tables",
    "index_bytes",
    "subcompactions",
    "background_bytes_per_second",
    "trash_bytes",
    "segment_bytes",
    "ring_bytes",
    "drain_bytes",
    "manifest_bytes",
    "chronicle_lines",
    "engine_events",
    "keep_log_bytes",
    "cursor_log_bytes",
)
_AGES = ("engine_event_age", "keep_log_age", "cursor_log_age")
_SWITCHES = ("create_if_missing", "beside_other_files", "wal_mapped", "plain", "registry", "accept_loss")
_FAMILY_SIZES = (
    "block_bytes",
    "restart_interval",
    "filter_bits",
    "table_bytes",
    "level_base_bytes",
    "fanout",
    "level0_tables",
    "large_value_bytes",
)
_CHECKS = ("verify_reads", "verify_scans")


def word(value: object, words: Mapping[str, int], name: str) -> int:
    """Returns the number of a word."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is a word, not {type(value).__name__}")
    if value not in words:
        known = ", ".join(repr(one) for one in words)
        raise ValueError(f"{name} is one of {known}, not {value!r}")
    return words[value]


def durability(value: object) -> int:
    """Returns the number of a durability; None means the store's default."""
    return _abi.WAXSEAL_DURABILITY_DEFAULT if value is None else word(value, _DURABILITIES, "durability")


def size(value: object, name: str) -> int:
    """Validates a size."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a number, not {type(value).__name__}")
    if not 0 <= value <= _MOST:
        raise ValueError(f"{name} is {value}, which is no size")
    return value


def _mode(value: object) -> int:
    """Validates a permission mode."""
    mode = size(value, "file_mode")
    if mode > 0o777:
        raise ValueError(f"file_mode is {mode:#o}, which has more than the nine permission bits")
    return mode


def format_level(value: object) -> int:
    """Validates a format level; the store knows which there are."""
    level = size(value, "format_level")
    if level >= 1 << 32:
        raise ValueError(f"there is no format level {level}")
    return level


def _lifetime(value: object) -> int:
    """Converts a time to live, a timedelta or seconds, to microseconds."""
    if isinstance(value, timedelta):
        micros = value // timedelta(microseconds=1)
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"default_ttl is a timedelta or seconds, not {type(value).__name__}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"default_ttl is {value}, which is no time to live")
    else:
        micros = round(value * 1_000_000)
    if not 0 < micros <= _MOST:
        raise ValueError(f"default_ttl is {value}, which is no time to live")
    return micros


def _age(value: object, name: str) -> int:
    """Converts an age, a timedelta or seconds, to microseconds. A value that is infinite or too large means no
    limit."""
    if isinstance(value, timedelta):
        micros: float = value // timedelta(microseconds=1)
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a timedelta or seconds, not {type(value).__name__}")
    else:
        micros = value * 1_000_000
    if not micros >= 0:
        raise ValueError(f"{name} is {value}, which is no age")
    return _ANY_AGE if micros > _MOST else round(micros)


def switch(value: object, name: str) -> bool:
    """Validates a truth value."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not {type(value).__name__}")
    return value


def policy(value: object, name: str) -> Tuple[int, int]:
    """Returns the numbers of a verification policy."""
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "sampled":
        one_in = size(value[1], f"{name}'s sample")
        if not 1 <= one_in < 1 << 32:
            raise ValueError(f"{name} samples one record in {one_in}")
        return _abi.WAXSEAL_VERIFY_SAMPLED, one_in
    return word(value, _POLICIES, name), _DEFAULT_SAMPLE


def _ring(value: object) -> Tuple[int, int]:
    """Returns the numbers of a ring."""
    if not (isinstance(value, tuple) and len(value) == 2):
        raise TypeError("a ring is a pair: how many events may wait, and what happens to more")
    return size(value[0], "ring's events"), word(value[1], _WHEN_FULL, "ring")


class Order:
    """A key order: its name, and the callback, which must live as long as a store uses it."""

    def __init__(self, said: Any) -> None:
        if not (isinstance(said, tuple) and len(said) == 2 and isinstance(said[0], str)):
            raise TypeError("a comparator is a pair of its name and a function of two keys")
        name, compare = said[0], said[1]
        if not callable(compare):
            raise TypeError("a comparator's function can be called")
        self.name = encoded(name, "a comparator's name")
        #: The first exception of the function; the store is unusable from then on.
        self.raised: Optional[BaseException] = None
        self._compare = compare
        #: The function that the library calls, and the context that it passes.
        self.hook, self.context = self._entry()

    def arguments(self) -> Tuple[Any, ...]:
        """What the library wants to know: keys of other bytes may be equal, and nothing is to be ended."""
        return self.name, len(self.name), self.hook, False, self.context, _NO_DESTROY

    def _entry(self) -> Tuple[Any, Optional[int]]:
        from ._backend import backend, name

        if name == "native":
            self._said = self._answer  # alive as long as the order: its address is the context
            return _abi.waxseal_compare_fn(backend.compare_address()), id(self._said)
        _interrupt.watch("comparator", function("waxseal_compare_again"))
        return _abi.waxseal_compare_fn(self._called), None

    def _called(self, _context: Any, a: int, a_len: int, b: int, b_len: int) -> int:
        """Called through ctypes, which has no answer if this raises: `_interrupt` has the library ask again then."""
        return self._answer(bytes_at(a, a_len), bytes_at(b, b_len))

    def _answer(self, a: bytes, b: bytes) -> int:
        """The order of two keys. Raises only what the handler of a signal raises outside of the caller's function."""
        try:
            return _sign(self._compare(a, b))
        except BaseException as error:
            return self._once_more(a, b, error)

    def _once_more(self, a: bytes, b: bytes, first: BaseException) -> int:
        """What a signal's handler raised in the caller's function is not the function's. That would raise it again."""
        try:
            if not _interrupt.is_main_thread():
                raise first
            found = _sign(self._compare(a, b))
        except BaseException:
            self.raised = self.raised or first
            return _FAILED
        _interrupt.keep(first)
        return found


def _sign(found: Any) -> int:
    return int(found > 0) - int(found < 0)


_FAILED = int(_abi.WAXSEAL_COMPARE_FAILED)
_NO_DESTROY = _abi.waxseal_destroy_fn(0)


#: Decides on a value: True keeps it, False deletes its key, bytes replace it.
FilterFunction = Callable[[bytes, bytes], Union[bool, bytes]]

#: Returns the items of a key and its value, for a property of tables.
PropertyFunction = Callable[[bytes, bytes], "Iterable[Buffer]"]


class Filter:
    """A compaction filter: its name, and the callback, which must live as long as a store uses it."""

    def __init__(self, said: Any) -> None:
        if not (isinstance(said, tuple) and len(said) == 2 and isinstance(said[0], str)):
            raise TypeError("a compaction filter is a pair of its name and a function of key and value")
        if not callable(said[1]):
            raise TypeError("a compaction filter's function can be called")
        self.name = encoded(said[0], "a compaction filter's name")
        self._decide: FilterFunction = said[1]
        self._hook = _abi.waxseal_filter_fn(self._called)

    def arguments(self) -> Tuple[Any, ...]:
        """What the library wants to know: it filters by values, without a context."""
        return self.name, len(self.name), self._hook, False, None, _NO_DESTROY

    def _called(
        self, _context: Any, key: int, key_len: int, value: int, value_len: int, changed: Any, error: Any
    ) -> int:
        """Called through ctypes, on a thread of the store. An exception keeps the value, and becomes the reason of the
        failure that is reported."""
        try:
            decision = self._decide(bytes_at(key, key_len), bytes_at(value, value_len))
            if decision is True:
                return int(_abi.WAXSEAL_FILTER_KEEP)
            if decision is False:
                return int(_abi.WAXSEAL_FILTER_DROP)
            new = lent(decision, "value")
            return int(
                function("waxseal_bytes_create")(new, len(new), changed, error)
                or _abi.WAXSEAL_FILTER_CHANGE
            )
        except BaseException as raised:
            return answer_raised(raised, error)


class Property:
    """A property of tables: its name, and the callback, which must live as long as a store uses it."""

    def __init__(self, said: Any) -> None:
        name, collect = said
        if not isinstance(name, str) or not callable(collect):
            raise TypeError("a property is a name and a function of key and value")
        self.name = encoded(name, "a property's name")
        self._collect: PropertyFunction = collect
        self._hook = _abi.waxseal_property_fn(self._called)
        _interrupt.watch("property", _fail_property)

    def arguments(self) -> Tuple[Any, ...]:
        """What the library wants to know: it collects by values, without a context."""
        return self.name, len(self.name), self._hook, None, _NO_DESTROY

    def _called(self, _context: Any, key: int, key_len: int, value: int, value_len: int, error: Any) -> int:
        """Called through ctypes, on a thread of the store. An exception leaves the file without the property."""
        try:
            for item in self._collect(bytes_at(key, key_len), bytes_at(value, value_len)):
                new = lent(item, "item")
                call("waxseal_property_add_item", new, len(new))
            return 0
        except BaseException as raised:
            return answer_raised(raised, error)


def _fail_property() -> None:
    """Makes the function of a property that runs on this thread fail: no item is null."""
    function("waxseal_property_add_item")(None, 1, None)


class Opening:
    """Options of an open, with the callbacks of the store."""

    def __init__(
        self, settings: Mapping[str, Any], make: MakeError = make_error, path: Optional[str] = None
    ) -> None:
        self._make = make
        self._path = path
        self.options = made("waxseal_options_create", destroy="waxseal_options_destroy", make=make)
        self.orders: List[Order] = []
        self.filters: List[Union[Filter, Property]] = []
        self.operators: List[Operator] = []
        for name, value in settings.items():
            if value is not None:
                self._set(name, value)

    def make(self, code: int, message: str, *story: Any) -> Exception:
        """Returns the exception of a status; a failed callback's own exception becomes the cause."""
        error = self._make(code, message, *story)
        if code == CALLBACK:
            raised = [take_raised(message)] + [order.raised for order in self.orders]
            error.__cause__ = next(filter(None, raised), None)
        if isinstance(error, Error) and self._path is not None:
            error.filename = self._path if error.file is None else os.path.join(self._path, error.file)
        return error

    def _set(self, name: str, value: Any) -> None:
        if name in _SIZES:
            self._put(name, size(value, name))
        elif name == "file_mode":
            self._put(name, _mode(value))
        elif name == "format_level":
            self._put(name, format_level(value))
        elif name in _SWITCHES:
            self._put(name, switch(value, name))
        elif name in _CHECKS:
            self._put(name, *policy(value, name))
        elif name == "compression":
            self._put(name, word(value, _COMPRESSIONS, name))
        elif name == "durability":
            self._put(name, durability(value))
        elif name == "ring":
            self._put(name, *_ring(value))
        elif name in _AGES:
            self._put(name, _age(value, name))
        elif name == "comparators":
            for pair in value.items() if isinstance(value, Mapping) else value:
                self._know(Order(pair))
        elif name == "compaction_filters":
            for pair in value.items() if isinstance(value, Mapping) else value:
                self._filter(Filter(pair))
        elif name == "merge_operators":
            for pair in value.items() if isinstance(value, Mapping) else value:
                self._merge(Operator(pair))
        elif name == "comparator":
            self._order_default(Order(value))
        else:
            raise TypeError(f"there is no option {name!r}")

    def _put(self, name: str, *values: Any) -> None:
        status = function(f"waxseal_options_set_{name}")(self.options.handle, *values)
        if status < 0:
            raise self._make(status, f"{name} cannot be {values[0]}", None, None, None, None, None)

    def _know(self, order: Order) -> None:
        """Allows families of the store to have this order."""
        self.orders.append(order)
        call("waxseal_options_add_comparator", self.options.handle, *order.arguments(), make=self._make)

    def _filter(self, filter: Filter) -> None:
        """Lets families of the store find this filter."""
        self.filters.append(filter)
        arguments = filter.arguments()
        call("waxseal_options_add_compaction_filter", self.options.handle, *arguments, make=self._make)

    def _merge(self, operator: Operator) -> None:
        """Lets families of the store find this merge operator."""
        self.operators.append(operator)
        arguments = operator.arguments()
        call("waxseal_options_add_merge_operator", self.options.handle, *arguments, make=self._make)

    def _order_default(self, order: Order) -> None:
        """Sets the order of the family `default`."""
        self._know(order)
        family = made(
            "waxseal_family_options_create", destroy="waxseal_family_options_destroy", make=self._make
        )
        call("waxseal_family_options_set_comparator", family.handle, *order.arguments(), make=self._make)
        name = DEFAULT_FAMILY.encode()
        call("waxseal_options_add_family", self.options.handle, name, len(name), family.handle, make=self._make)


def _merge_operator(value: "Union[str, Tuple[str, Buffer]]") -> Tuple[int, bytes, int]:
    """Returns the number of a merge operator, and its separator with the length."""
    kind, separator = value if isinstance(value, tuple) else (value, b"")
    text = lent(separator, "separator")
    return word(kind, _MERGE_OPERATORS, "merge_operator"), text, len(text)


def family_options(settings: Mapping[str, Any], make: MakeError = make_error) -> Optional[Owned]:
    """Returns options for the creation of a family; None if no option is set."""
    given = {name: value for name, value in settings.items() if value is not None}
    if not given:
        return None
    options = made("waxseal_family_options_create", destroy="waxseal_family_options_destroy", make=make)
    set_family_options(options, given, make)
    return options


def set_family_options(options: Owned, settings: Mapping[str, Any], make: MakeError = make_error) -> None:
    """Sets options of a family, each to a value that is not None."""
    for name, value in settings.items():
        numbers: Tuple[int, ...]
        if name == "default_ttl":
            numbers = (_lifetime(value),)
        elif name in _FAMILY_SIZES:
            numbers = (size(value, name),)
        elif name in _CHECKS:
            numbers = policy(value, name)
        elif name in ("compression", "bottom_compression"):
            numbers = (word(value, _COMPRESSIONS, name),)
        elif name == "seals":
            numbers = (word(value, _SEALS, name),)
        elif name == "comparator":
            call("waxseal_family_options_set_comparator", options.handle, *value.arguments(), make=make)
            continue
        elif name == "compaction_filter":
            call("waxseal_family_options_set_compaction_filter", options.handle, *value.arguments(), make=make)
            continue
        elif name == "merge_operator" and isinstance(value, Operator):
            arguments = value.arguments()
            call("waxseal_family_options_set_custom_merge_operator", options.handle, *arguments, make=make)
            continue
        elif name == "prefix_extractor":
            text = encoded(value, name)
            call("waxseal_family_options_set_prefix_extractor", options.handle, text, len(text), make=make)
            continue
        elif name == "table_properties":
            for one in value:
                call("waxseal_family_options_add_table_property", options.handle, *one.arguments(), make=make)
            continue
        elif name == "merge_operator":
            call("waxseal_family_options_set_merge_operator", options.handle, *_merge_operator(value), make=make)
            continue
        else:
            raise TypeError(f"there is no option {name!r} of a family")
        status = function(f"waxseal_family_options_set_{name}")(options.handle, *numbers)
        if status < 0:
            raise make(status, f"{name} cannot be {value!r}", None, None, None, None, None)


def within_limits(settings: Dict[str, Any]) -> Dict[str, Any]:
    """Clamps LevelDB's sizes to Waxseal's limits."""
    limits = {"memtable_bytes": (64 << 10, 4 << 30), "block_bytes": (64, 1 << 20)}
    moved = dict(settings)
    for name, (least, most) in limits.items():
        if name in moved:
            moved[name] = min(max(moved[name], least), most)
    return moved
