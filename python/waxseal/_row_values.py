"""Types of columns, and values of rows: Python's objects and the library's structs.

| column | Python |
|---|---|
| `bytes`, `text`, `bool` | `bytes` (or a buffer), `str`, `bool` |
| `i32`, `i64`, `u64`, `f32`, `f64` | `int`, `float` |
| `decimal(p, s)` | `decimal.Decimal` |
| `date`, `timestamp` | `datetime.date`, `datetime.datetime` in UTC; the number outside of the years 1 to 9999 |
| `uuid` | `uuid.UUID` |
| `json` | `Json`, a `str` with the document; other objects are written as JSON |
| `list<T>` | `list` |
| `empty` | `EMPTY` |
"""

from __future__ import annotations

import ctypes as C
import enum
import json
import re
import struct
import types
import typing
import uuid
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union

from . import _abi, _c

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
#: The largest number of digits of a decimal.
_MOST_DIGITS = 38
_LAST_64_BITS = (1 << 64) - 1


class Empty(enum.Enum):
    """The type of `EMPTY`."""

    EMPTY = "empty"

    def __repr__(self) -> str:
        return "EMPTY"


#: The value of a column without values: a row has the column, or lacks it.
EMPTY = Empty.EMPTY


class Json(str):
    """A JSON document, as text."""

    __slots__ = ()

    @classmethod
    def of(cls, value: object) -> Json:
        """Returns the document of an object, as `json.dumps` writes it."""
        return cls(json.dumps(value, ensure_ascii=False, allow_nan=False))

    def load(self) -> Any:
        """Returns the object that the document describes."""
        return json.loads(self)

    def __repr__(self) -> str:
        return f"Json({str.__repr__(self)})"


_NAMES: Dict[int, str] = {
    _abi.WAXSEAL_TYPE_BYTES: "bytes",
    _abi.WAXSEAL_TYPE_TEXT: "text",
    _abi.WAXSEAL_TYPE_BOOL: "bool",
    _abi.WAXSEAL_TYPE_I32: "i32",
    _abi.WAXSEAL_TYPE_I64: "i64",
    _abi.WAXSEAL_TYPE_U64: "u64",
    _abi.WAXSEAL_TYPE_F32: "f32",
    _abi.WAXSEAL_TYPE_F64: "f64",
    _abi.WAXSEAL_TYPE_DECIMAL: "decimal",
    _abi.WAXSEAL_TYPE_DATE: "date",
    _abi.WAXSEAL_TYPE_TIMESTAMP: "timestamp",
    _abi.WAXSEAL_TYPE_UUID: "uuid",
    _abi.WAXSEAL_TYPE_JSON: "json",
    _abi.WAXSEAL_TYPE_EMPTY: "empty",
}
_KINDS = {name: kind for kind, name in _NAMES.items()}
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")

#: Python's types as types of columns.
_OF_PYTHON: Dict[Any, str] = {
    bytes: "bytes",
    str: "text",
    bool: "bool",
    int: "i64",
    float: "f64",
    date: "date",
    datetime: "timestamp",
    uuid.UUID: "uuid",
    Json: "json",
    Empty: "empty",
}


class ColumnType(NamedTuple):
    """The type of a column, as the library has it."""

    kind: int
    #: The type of the elements of a list, otherwise 0.
    element: int = 0
    #: Digits of a decimal, and digits behind the point.
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind == _abi.WAXSEAL_TYPE_LIST:
            return f"list<{self.items}>"
        if self.kind == _abi.WAXSEAL_TYPE_DECIMAL:
            return f"decimal({self.precision}, {self.scale})"
        return _NAMES.get(self.kind, str(self.kind))

    @property
    def items(self) -> ColumnType:
        """The type of the elements of a list."""
        return ColumnType(self.element, 0, self.precision, self.scale)

    def c(self) -> Any:
        """Returns the library's struct."""
        return _abi.waxseal_table_type_t(self.kind, self.element, self.precision, self.scale)


def column_type(given: Any) -> ColumnType:
    """Returns the type of a column: from its name, as in "decimal(10, 2)" and "list<text>", or from a type of Python,
    as in `str`, `list[int]` and `Annotated[Decimal, "decimal(10, 2)"]`."""
    if isinstance(given, ColumnType):
        return given
    if isinstance(given, str):
        return _named(given)
    if given in _OF_PYTHON:
        return _named(_OF_PYTHON[given])
    if given is Decimal:
        raise TypeError('a Decimal has digits: say decimal(precision, scale), as in "decimal(10, 2)"')
    origin, arguments = typing.get_origin(given), typing.get_args(given)
    if origin is typing.Annotated:
        names = [extra for extra in arguments[1:] if isinstance(extra, str)]
        return column_type(names[0] if names else arguments[0])
    if origin in (Union, types.UnionType):
        others = [argument for argument in arguments if argument is not type(None)]
        if len(others) == 1:
            return column_type(others[0])
    if origin is list and len(arguments) == 1:
        element = column_type(arguments[0])
        return _list_of(element)
    raise TypeError(f"{given!r} is no type of a column")


def _named(name: str) -> ColumnType:
    text = name.strip()
    if text in _KINDS and text != "decimal":
        return ColumnType(_KINDS[text])
    if match := _DECIMAL.fullmatch(text):
        return ColumnType(_abi.WAXSEAL_TYPE_DECIMAL, 0, int(match[1]), int(match[2]))
    if text.startswith("list<") and text.endswith(">"):
        return _list_of(_named(text[5:-1]))
    raise ValueError(f"{name!r} is no type of a column")


def _list_of(element: ColumnType) -> ColumnType:
    if element.kind in (_abi.WAXSEAL_TYPE_LIST, _abi.WAXSEAL_TYPE_EMPTY):
        raise ValueError(f"the elements of a list are values of a simple type, not {element}")
    return ColumnType(_abi.WAXSEAL_TYPE_LIST, element.kind, element.precision, element.scale)


def slice_of(content: bytes) -> Any:
    """Returns the library's slice of bytes. The caller keeps the bytes alive."""
    return _abi.waxseal_slice_t(C.cast(C.c_char_p(content), C.c_void_p), len(content))


#: Objects that a struct points to.
Kept = List[Any]


def _put_bytes(place: Any, content: bytes, kept: Kept) -> None:
    kept.append(content)
    place.bytes.data = C.cast(C.c_char_p(content), C.c_void_p)
    place.bytes.len = len(content)


def _wrong(value: object, wanted: str) -> TypeError:
    return TypeError(f"a value is {wanted}, and this is {type(value).__name__}")


def _bytes(place: Any, value: Any, type_: ColumnType, kept: Kept) -> None:
    _put_bytes(place, _c.lent(value, "value"), kept)


def _text(place: Any, value: Any, type_: ColumnType, kept: Kept) -> None:
    if not isinstance(value, str):
        raise _wrong(value, "str")
    _put_bytes(place, _c.encoded(value, "a text"), kept)


def _bool(place: Any, value: Any, type_: ColumnType, kept: Kept) -> None:
    if not isinstance(value, bool):
        raise _wrong(value, "bool")
    place.integer = int(value)


def _integer(place: Any, value: Any, type_: ColumnType, kept: Kept) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(value, "int")
    bits = 32 if type_.kind in (_abi.WAXSEAL_TYPE_I32, _abi.WAXSEAL_TYPE_DATE) else 64
    least, end = (0, 1 << 64) if type_.kind == _abi.WAXSEAL_TYPE_U64 else (-(1 << bits - 1), 1 << bits - 1)
    if not least <= value < end:
        raise OverflowError(f"{value} does not fit into {type_}")
    place.integer = value if value < 1 << 63 else value - (1 << 64)


def _real(place: Any, value: Any, type_: ColumnType, kept: Kept) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(value, "float")
    real = float(value)
    if real != value and real == real:
        raise OverflowError(f"{value} is no floating-point number")
    if type_.kind == _abi.WAXSEAL_TYPE_F32:
        real = struct.unpack("<f", struct.pack("<f", real))[0]  # raises OverflowError
        if isinstance(value, int) and real != value:
            raise OverflowError(f"{value} is no floating-point number of 32 bits")
    place.real = real


def _decimal(place: Any, value: Any, type_: ColumnType, kept: Kept) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise _wrong(value, "Decimal")
    number = Decimal(value)
    if not number.is_finite() or number.adjusted() > _MOST_DIGITS:
        raise OverflowError(f"{number} does not fit into {type_}")
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    if exponent > 0:
        text, exponent = text + "0" * exponent, 0
    spare = max(0, -exponent - (type_.scale if type_.precision else _MOST_DIGITS))
    if spare and text[-spare:].strip("0"):
        raise OverflowError(f"{number} has more digits behind the point than {type_}")
    unscaled = int(text[:-spare] or "0") if spare else int(text)
    if unscaled >= 10**_MOST_DIGITS:
        raise OverflowError(f"{number} does not fit into {type_}")
    put_decimal(place, -unscaled if sign else unscaled, -exponent - spare)


def put_decimal(place: Any, unscaled: int, scale: int) -> None:
    """Writes a decimal into the library's struct."""
    low = unscaled & _LAST_64_BITS
    place.integer = low if low < 1 << 63 else low - (1 << 64)
    place.high, place.scale = unscaled >> 64, scale


def _date(place: Any, value: Any, type_: ColumnType, kept: Kept) -> None:
    if isinstance(value, date) and not isinstance(value, datetime):
        place.integer = value.toordinal() - _EPOCH_DAY
    else:
        _integer(place, value, type_, kept)


def _timestamp(place: Any, value: Any, type_: ColumnType, kept: Kept) -> None:
    if not isinstance(value, datetime):
        return _integer(place, value, type_, kept)
    if value.tzinfo is None:
        raise ValueError("a time without a time zone could be any: say tzinfo, as in datetime.now(timezone.utc)")
    micros = (value - _EPOCH) // _MICROSECOND
    if value != _EPOCH + timedelta(microseconds=micros):  # a pandas.Timestamp has nanoseconds
        raise ValueError(f"{value!r} has a fraction of a microsecond")
    place.integer = micros


def _uuid(place: Any, value: Any, type_: ColumnType, kept: Kept) -> None:
    if not isinstance(value, uuid.UUID):
        raise _wrong(value, "UUID")
    _put_bytes(place, value.bytes, kept)


def _json(place: Any, value: Any, type_: ColumnType, kept: Kept) -> None:
    text = value if isinstance(value, str) else Json.of(value)
    _put_bytes(place, _c.encoded(text, "a JSON text"), kept)


def _list(place: Any, value: Any, type_: ColumnType, kept: Kept) -> None:
    if not isinstance(value, (list, tuple)):
        raise _wrong(value, "list")
    items = (_abi.waxseal_element_t * len(value))()
    of = type_.items if type_.element else None
    for at, item in enumerate(value):
        if item is None:
            raise ValueError("a list has no None")
        put_value(items[at], item, of, kept)
    kept.append(items)
    place.items, place.item_count = C.cast(items, C.POINTER(_abi.waxseal_element_t)), len(value)


def _empty(place: Any, value: Any, type_: ColumnType, kept: Kept) -> None:
    if value is not EMPTY:
        raise _wrong(value, "EMPTY")


_WRITERS: Dict[int, Callable[[Any, Any, ColumnType, Kept], None]] = {
    _abi.WAXSEAL_TYPE_BYTES: _bytes,
    _abi.WAXSEAL_TYPE_TEXT: _text,
    _abi.WAXSEAL_TYPE_BOOL: _bool,
    _abi.WAXSEAL_TYPE_I32: _integer,
    _abi.WAXSEAL_TYPE_I64: _integer,
    _abi.WAXSEAL_TYPE_U64: _integer,
    _abi.WAXSEAL_TYPE_F32: _real,
    _abi.WAXSEAL_TYPE_F64: _real,
    _abi.WAXSEAL_TYPE_DECIMAL: _decimal,
    _abi.WAXSEAL_TYPE_DATE: _date,
    _abi.WAXSEAL_TYPE_TIMESTAMP: _timestamp,
    _abi.WAXSEAL_TYPE_UUID: _uuid,
    _abi.WAXSEAL_TYPE_JSON: _json,
    _abi.WAXSEAL_TYPE_LIST: _list,
    _abi.WAXSEAL_TYPE_EMPTY: _empty,
}


def put_value(place: Any, value: Any, type_: Optional[ColumnType], kept: Kept) -> None:
    """Writes a value into the library's struct, which is zero before: as the type of its column, or as the type that
    fits the object. None is a null."""
    if value is None:
        return
    known = _type_of(value) if type_ is None else type_
    place.kind = known.kind
    _WRITERS[known.kind](place, value, known, kept)


def _type_of(value: Any) -> ColumnType:
    """Returns the type of a column that the schema does not name."""
    if isinstance(value, bool):
        return ColumnType(_abi.WAXSEAL_TYPE_BOOL)
    if isinstance(value, int):
        return ColumnType(_abi.WAXSEAL_TYPE_U64 if value >= 1 << 63 else _abi.WAXSEAL_TYPE_I64)
    if isinstance(value, (bytearray, memoryview)):
        return ColumnType(_abi.WAXSEAL_TYPE_BYTES)
    if isinstance(value, (list, tuple)):
        return ColumnType(_abi.WAXSEAL_TYPE_LIST)
    if isinstance(value, Decimal):
        return ColumnType(_abi.WAXSEAL_TYPE_DECIMAL)
    for kind in type(value).__mro__:
        if kind in _OF_PYTHON:
            return _named(_OF_PYTHON[kind])
    raise TypeError(f"no column has values of the type {type(value).__name__}")


def _read_decimal(value: Any) -> Decimal:
    unscaled = value.high << 64 | value.integer & _LAST_64_BITS
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -value.scale))


def _read_date(value: Any) -> Union[date, int]:
    try:
        return date.fromordinal(value.integer + _EPOCH_DAY)
    except (ValueError, OverflowError):
        return int(value.integer)


def _read_timestamp(value: Any) -> Union[datetime, int]:
    try:
        return _EPOCH + timedelta(microseconds=value.integer)
    except OverflowError:
        return int(value.integer)


def _read_list(value: Any) -> List[Any]:
    return [read_value(value.items[at]) for at in range(value.item_count)]


_READERS: Dict[int, Callable[[Any], Any]] = {
    _abi.WAXSEAL_TYPE_NULL: lambda value: None,
    _abi.WAXSEAL_TYPE_BYTES: lambda value: _c.bytes_of(value.bytes),
    _abi.WAXSEAL_TYPE_TEXT: lambda value: _c.bytes_of(value.bytes).decode("utf-8"),
    _abi.WAXSEAL_TYPE_BOOL: lambda value: bool(value.integer),
    _abi.WAXSEAL_TYPE_I32: lambda value: value.integer,
    _abi.WAXSEAL_TYPE_I64: lambda value: value.integer,
    _abi.WAXSEAL_TYPE_U64: lambda value: value.integer & _LAST_64_BITS,
    _abi.WAXSEAL_TYPE_F32: lambda value: value.real,
    _abi.WAXSEAL_TYPE_F64: lambda value: value.real,
    _abi.WAXSEAL_TYPE_DECIMAL: _read_decimal,
    _abi.WAXSEAL_TYPE_DATE: _read_date,
    _abi.WAXSEAL_TYPE_TIMESTAMP: _read_timestamp,
    _abi.WAXSEAL_TYPE_UUID: lambda value: uuid.UUID(bytes=_c.bytes_of(value.bytes)),
    _abi.WAXSEAL_TYPE_JSON: lambda value: Json(_c.bytes_of(value.bytes).decode("utf-8")),
    _abi.WAXSEAL_TYPE_LIST: _read_list,
    _abi.WAXSEAL_TYPE_EMPTY: lambda value: EMPTY,
}


def read_value(value: Any) -> Any:
    """Returns the object of a value that the library lent."""
    return _READERS[value.kind](value)


def value_list(values: List[Tuple[Any, Optional[ColumnType]]], kept: Kept) -> Any:
    """Returns the library's list of values with their types."""
    array = (_abi.waxseal_value_t * len(values))()
    for at, (value, type_) in enumerate(values):
        put_value(array[at], value, type_, kept)
    kept.append(array)
    return _abi.waxseal_value_list_t(C.cast(array, C.POINTER(_abi.waxseal_value_t)), len(values))


def kept_slice(text: str, kept: Kept) -> Any:
    """Returns the library's slice of a text."""
    encoded = _c.encoded(text, "a name of a schema")
    kept.append(encoded)
    return slice_of(encoded)


def array_of(kind: Any, items: List[Any], kept: Kept) -> Tuple[Any, int]:
    """Returns an array of structs as a pointer and a count."""
    array = (kind * len(items))(*items)
    kept.append(array)
    return C.cast(array, C.POINTER(kind)), len(items)
