"""Arrow schemas as types of columns, and Arrow streams as rows of tables, through pyarrow.

The library makes the streams of tables (`waxseal_table_scan_arrow`). Columns without an Arrow type of their own have
extension types, so that a table is made again from Arrow or Parquet with the same types.
"""

from __future__ import annotations

import importlib
from itertools import accumulate
from typing import Any, Dict, Iterator, List, Mapping, Optional, Set
from uuid import UUID

from . import _abi
from ._row_values import EMPTY, ColumnType, Json, column_type

#: Types of columns by the names of extension types.
_EXTENSIONS = {"arrow.uuid": "uuid", "arrow.json": "json", "waxseal.empty": "empty"}


def pyarrow() -> Any:
    """Returns the module pyarrow, which the package does not need otherwise."""
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise ImportError("rows as Arrow need pyarrow: pip install pyarrow") from error


def _arrow_type(type_: ColumnType) -> Any:
    """Returns the Arrow type of a column, as the library has it."""
    pa = pyarrow()
    if type_.kind == _abi.WAXSEAL_TYPE_DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    if type_.kind == _abi.WAXSEAL_TYPE_LIST:
        return pa.large_list(pa.field("item", _arrow_type(type_.items), nullable=False))
    return {
        _abi.WAXSEAL_TYPE_BYTES: pa.large_binary,
        _abi.WAXSEAL_TYPE_TEXT: pa.large_string,
        _abi.WAXSEAL_TYPE_BOOL: pa.bool_,
        _abi.WAXSEAL_TYPE_I32: pa.int32,
        _abi.WAXSEAL_TYPE_I64: pa.int64,
        _abi.WAXSEAL_TYPE_U64: pa.uint64,
        _abi.WAXSEAL_TYPE_F32: pa.float32,
        _abi.WAXSEAL_TYPE_F64: pa.float64,
        _abi.WAXSEAL_TYPE_DATE: pa.date32,
        _abi.WAXSEAL_TYPE_TIMESTAMP: lambda: pa.timestamp("us", "UTC"),
        _abi.WAXSEAL_TYPE_UUID: lambda: pa.binary(16),
        _abi.WAXSEAL_TYPE_JSON: pa.large_string,
        _abi.WAXSEAL_TYPE_EMPTY: pa.bool_,
    }[type_.kind]()


def column_types(schema: Any) -> Optional[Dict[str, ColumnType]]:
    """Returns the types of the columns of an Arrow schema; None for anything else."""
    if not hasattr(schema, "__arrow_c_schema__"):
        return None
    pa = pyarrow()
    return {field.name: _column_type(pa, field) for field in pa.schema(schema)}


def _column_type(pa: Any, field: Any) -> ColumnType:
    """Returns the type of a column that holds every value of an Arrow field."""
    types, kind = pa.types, field.type
    extension = _extension(pa, field)
    if extension in _EXTENSIONS:
        return column_type(_EXTENSIONS[extension])
    if types.is_dictionary(kind):
        return _column_type(pa, pa.field(field.name, kind.value_type))
    if isinstance(kind, pa.BaseExtensionType):
        return _column_type(pa, pa.field(field.name, kind.storage_type))
    if types.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= 38:
        return column_type(f"decimal({kind.precision}, {kind.scale})")
    if _is_list(types, kind):
        return column_type(f"list<{_column_type(pa, kind.value_field)}>")
    for name, kinds in (
        ("bool", (types.is_boolean,)),
        ("i32", (types.is_int8, types.is_int16, types.is_int32, types.is_uint8, types.is_uint16)),
        ("i64", (types.is_int64, types.is_uint32)),
        ("u64", (types.is_uint64,)),
        ("f32", (types.is_float16, types.is_float32)),
        ("f64", (types.is_float64,)),
        ("text", (types.is_string, types.is_large_string, types.is_string_view)),
        ("bytes", (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)),
        ("date", (types.is_date32,)),
    ):
        if any(is_it(kind) for is_it in kinds):
            return column_type(name)
    if types.is_timestamp(kind) and _is_utc(kind.tz):
        return column_type("timestamp")
    raise TypeError(f"column {field.name!r}: no column of a table holds every value of {kind}")


def _extension(pa: Any, field: Any) -> Optional[str]:
    """Returns the name of a field's extension type, which pyarrow knows or leaves in the metadata."""
    if isinstance(field.type, pa.BaseExtensionType):
        return str(field.type.extension_name)
    name = (field.metadata or {}).get(b"ARROW:extension:name")
    return None if name is None else name.decode("utf-8", "replace")


def _is_utc(zone: Optional[str]) -> bool:
    return zone in ("UTC", "Etc/UTC", "Z", "+00:00")


def _is_list(types: Any, kind: Any) -> bool:
    checks = ("is_list", "is_large_list", "is_fixed_size_list", "is_list_view", "is_large_list_view")
    return any(getattr(types, check)(kind) for check in checks if hasattr(types, check))


def _loses_nothing(pa: Any, kind: Any, type_: ColumnType) -> bool:
    """True if a checked cast from an Arrow type fails for each value that the column cannot hold."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _EXTENSIONS.get(kind.extension_name) == str(type_)
    if types.is_dictionary(kind):
        return _loses_nothing(pa, kind.value_type, type_)
    if type_.kind == _abi.WAXSEAL_TYPE_LIST:
        return _is_list(types, kind) and _loses_nothing(pa, kind.value_type, type_.items)
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    is_integer, is_decimal = types.is_integer(kind), types.is_decimal(kind)
    fits = {
        _abi.WAXSEAL_TYPE_BYTES: types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind),
        _abi.WAXSEAL_TYPE_TEXT: is_text,
        _abi.WAXSEAL_TYPE_JSON: is_text,
        _abi.WAXSEAL_TYPE_BOOL: types.is_boolean(kind),
        _abi.WAXSEAL_TYPE_EMPTY: types.is_boolean(kind),
        _abi.WAXSEAL_TYPE_I32: is_integer,
        _abi.WAXSEAL_TYPE_I64: is_integer,
        _abi.WAXSEAL_TYPE_U64: is_integer,
        _abi.WAXSEAL_TYPE_F32: types.is_float16(kind) or types.is_float32(kind),
        _abi.WAXSEAL_TYPE_F64: types.is_floating(kind) or (is_integer and kind.bit_width <= 32),
        _abi.WAXSEAL_TYPE_DECIMAL: is_integer or is_decimal,
        _abi.WAXSEAL_TYPE_DATE: types.is_date32(kind),
        _abi.WAXSEAL_TYPE_TIMESTAMP: types.is_timestamp(kind) and _is_utc(kind.tz),
        _abi.WAXSEAL_TYPE_UUID: types.is_fixed_size_binary(kind) and kind.byte_width == 16,
    }
    return bool(fits[type_.kind]) or types.is_null(kind)


def rows(data: Any, types: Mapping[str, ColumnType], key: Set[str]) -> Iterator[Dict[str, Any]]:
    """Returns the rows of an Arrow stream. Columns that can lose anything are refused before the first row, and nulls
    in columns of the key before the first row of their batch."""
    pa = pyarrow()
    source = pa.RecordBatchReader.from_stream(data) if hasattr(data, "__arrow_c_stream__") else None
    if source is None:
        batch = pa.record_batch(data)
        source = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    names = source.schema.names
    for at, name in enumerate(names):
        if name in names[:at]:
            raise ValueError(f"the data have two columns {name!r}")
        if name not in types:
            raise ValueError(f"the table has no column {name!r}")
        kind, type_ = source.schema.field(at).type, types[name]
        if not _loses_nothing(pa, kind, type_):
            raise TypeError(f"column {name!r}: {kind} may lose something as {type_}")
    return _rows(pa, source, types, key)


def _rows(pa: Any, source: Any, types: Mapping[str, ColumnType], key: Set[str]) -> Iterator[Dict[str, Any]]:
    names = source.schema.names
    for batch in source:
        for name in names:
            if name in key and _null_count(pa, batch.column(name)):
                raise ValueError(f"column {name!r} is of the key, and has a null")
        columns = [_objects(pa, batch.column(at), name, types[name]) for at, name in enumerate(names)]
        for values in zip(*columns):
            yield {name: value for name, value in zip(names, values) if value is not None}


def _null_count(pa: Any, array: Any) -> int:
    # A dictionary counts the nulls of its indices alone, and not those of its values.
    return int((array.dictionary_decode() if pa.types.is_dictionary(array.type) else array).null_count)


def _objects(pa: Any, array: Any, name: str, type_: ColumnType) -> List[Any]:
    """Returns the objects of an Arrow array, as a table takes them."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        return _objects(pa, array.dictionary_decode(), name, type_)
    try:
        if type_.kind == _abi.WAXSEAL_TYPE_LIST and not pa.types.is_null(array.type):
            return _lists(pa, array, name, type_.items)
        if type_.kind == _abi.WAXSEAL_TYPE_DECIMAL and pa.types.is_integer(array.type):
            return _whole_numbers(array, name, type_)
        exact = array.cast(_arrow_type(type_))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"column {name!r}: {error}") from None
    return _python(pa, exact, name, type_)


def _lists(pa: Any, array: Any, name: str, of: ColumnType) -> List[Any]:
    """Returns the lists of an array. Of a slice it converts only the slice's elements."""
    # A cast of a list view into a list returns empty lists.
    items = _objects(pa, array.flatten(), name, of)
    lengths = [length or 0 for length in importlib.import_module("pyarrow.compute").list_value_length(array).to_pylist()]
    ends = [0, *accumulate(lengths)]
    are_valid = array.is_valid().to_pylist()
    lists = [items[ends[at] : ends[at + 1]] if valid else None for at, valid in enumerate(are_valid)]
    if any(item is None for one in lists for item in one or ()):
        raise ValueError(f"column {name!r}: a list has no nulls")
    return lists


def _whole_numbers(array: Any, name: str, type_: ColumnType) -> List[Any]:
    """Returns integers for a column of decimals. Arrow casts them only into decimals that hold every integer."""
    numbers, end = list(array.to_pylist()), 10 ** (type_.precision - type_.scale)
    for number in numbers:
        if number is not None and not -end < number < end:
            raise ValueError(f"column {name!r}: {number} does not fit into {type_}")
    return numbers


def _python(pa: Any, array: Any, name: str, type_: ColumnType) -> List[Any]:
    if type_.kind == _abi.WAXSEAL_TYPE_DATE:
        return list(array.view(pa.int32()).to_pylist())
    if type_.kind == _abi.WAXSEAL_TYPE_TIMESTAMP:
        return list(array.view(pa.int64()).to_pylist())
    values = array.to_pylist()
    if type_.kind == _abi.WAXSEAL_TYPE_UUID:
        return [None if value is None else UUID(bytes=value) for value in values]
    if type_.kind == _abi.WAXSEAL_TYPE_JSON:
        return [None if value is None else Json(value) for value in values]
    if type_.kind == _abi.WAXSEAL_TYPE_EMPTY:
        if any(value is False for value in values):
            raise ValueError(f"column {name!r}: a column without values has no false")
        return [None if value is None else EMPTY for value in values]
    return list(values)
