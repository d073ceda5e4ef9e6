"""Schemas of tables, as the library takes and lends them."""

from __future__ import annotations

import dataclasses
import typing
from datetime import datetime, timezone
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Union

from . import _abi, _c
from ._row_values import ColumnType, Kept, array_of, column_type, kept_slice
from ._times import moment_of


_ROLES = {
    _abi.WAXSEAL_ROLE_VALUE: "value",
    _abi.WAXSEAL_ROLE_PARTITION: "partition",
    _abi.WAXSEAL_ROLE_CLUSTERING: "clustering",
    _abi.WAXSEAL_ROLE_CLUSTERING_DESCENDING: "clustering descending",
}

_STATES = {
    _abi.WAXSEAL_COLUMN_STATE_ACTIVE: "active",
    _abi.WAXSEAL_COLUMN_STATE_TENTATIVE: "tentative",
    _abi.WAXSEAL_COLUMN_STATE_PURGING: "purging",
}


class Column(NamedTuple):
    """A column of a table."""

    name: str
    #: The name of the type, as in "decimal(10, 2)".
    type: str
    #: "value", "partition", "clustering" or "clustering descending".
    role: str
    group: str
    #: "active"; "tentative" after a drop, until the deadline; "purging" while its values are removed.
    state: str
    deadline: Optional[datetime]
    #: Never used again.
    id: int


class Index(NamedTuple):
    """A secondary index: its name, and its columns in ascending order; "-year" is descending."""

    name: str
    columns: Sequence[str]
    #: Each combination of values has one row.
    unique: bool = False
    #: The index has the rows that lack a column.
    with_missing: bool = False
    #: The index is being built, and cannot be read yet.
    building: bool = False


class Schema(NamedTuple):
    """The schema of a table at one version."""

    #: The visible columns, key columns first.
    columns: List[Column]
    #: The columns that were dropped and whose values are not purged yet.
    dropped: List[Column]
    groups: List[str]
    repeated_groups: List[str]
    indexes: List[Index]
    hashed: bool
    dynamic_columns: bool
    version: int


class Layout(NamedTuple):
    """What a table needs of its schema to convert rows."""

    schema: Schema
    types: Dict[str, ColumnType]
    #: The types of the columns of each repeated group.
    repeated: Dict[str, Dict[str, ColumnType]]
    key: List[Optional[ColumnType]]


def names_of(names: Union[str, Iterable[str]]) -> List[str]:
    return [names] if isinstance(names, str) else list(names)


def field_types(row: Any) -> Dict[str, Any]:
    """Returns the types of the fields of a dataclass."""
    if not dataclasses.is_dataclass(row):
        raise TypeError(f"{getattr(row, '__name__', row)!s} is no dataclass")
    for field in dataclasses.fields(row):
        if not field.init:
            raise TypeError(f"field {field.name!r} is no argument of its dataclass, so no row can be read into it")
    hints = typing.get_type_hints(row, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(row)}


def schema_of(
    types: Mapping[str, Any],
    partition: List[str],
    clustering: List[str],
    groups: Mapping[str, Sequence[str]],
    repeated: Mapping[str, Mapping[str, Any]],
    indexes: List[Index],
    kept: Kept,
) -> Any:
    """Returns the library's schema of a new table."""
    columns = []

    def add(name: str, type_: Any, role: int, group: str) -> None:
        place = _abi.waxseal_table_column_t(
            name=kept_slice(name, kept), column_type=column_type(type_).c(), role=role, group=kept_slice(group, kept)
        )
        columns.append(place)

    key = [(name, _abi.WAXSEAL_ROLE_PARTITION) for name in partition]
    for name in clustering:
        role = _abi.WAXSEAL_ROLE_CLUSTERING_DESCENDING if name.startswith("-") else _abi.WAXSEAL_ROLE_CLUSTERING
        key.append((name.removeprefix("-"), role))
    named = [*(name for name, _ in key), *(name for group in groups.values() for name in group)]
    for name in named:
        if name not in types:
            raise ValueError(f"{name!r} is no column")
    group_of = {name: group for group, names in groups.items() for name in names}
    for name, role in key:
        add(name, types[name], role, group_of.get(name, ""))
    for name, type_ in types.items():
        if name not in dict(key) and name not in repeated:
            add(name, type_, _abi.WAXSEAL_ROLE_VALUE, group_of.get(name, ""))
    for group, of_group in repeated.items():
        for name, type_ in of_group.items():
            add(name, type_, _abi.WAXSEAL_ROLE_VALUE, group)
    schema = _abi.waxseal_table_schema_t()
    listed = [_abi.waxseal_table_group_t(kept_slice(name, kept), True) for name in repeated]
    schema.columns, schema.column_count = array_of(_abi.waxseal_table_column_t, columns, kept)
    schema.groups, schema.group_count = array_of(_abi.waxseal_table_group_t, listed, kept)
    schema.indexes, schema.index_count = array_of(
        _abi.waxseal_table_index_t, [c_index(index, kept) for index in indexes], kept
    )
    return schema


def c_index(index: Index, kept: Kept) -> Any:
    columns = [
        _abi.waxseal_table_index_column_t(kept_slice(name.removeprefix("-"), kept), name.startswith("-"))
        for name in names_of(index.columns)
    ]
    array, count = array_of(_abi.waxseal_table_index_column_t, columns, kept)
    return _abi.waxseal_table_index_t(kept_slice(index.name, kept), array, count, index.unique, index.with_missing)


def text_of(lent: Any) -> str:
    return _c.bytes_of(lent).decode("utf-8")


def layout_of(lent: Any) -> Layout:
    """Converts a schema that the library lent."""
    columns, types = [], []
    for at in range(lent.column_count):
        one = lent.columns[at]
        of = one.column_type
        types.append(ColumnType(of.kind, of.element, of.precision, of.scale))
        deadline = _deadline(one.deadline_micros) if one.state == _abi.WAXSEAL_COLUMN_STATE_TENTATIVE else None
        role, state = _ROLES[one.role], _STATES[one.state]
        columns.append(Column(text_of(one.name), str(types[-1]), role, text_of(one.group), state, deadline, one.id))
    groups: List[str] = []
    repeated: List[str] = []
    for at in range(lent.group_count):
        (repeated if lent.groups[at].is_repeated else groups).append(text_of(lent.groups[at].name))
    indexes = []
    for at in range(lent.index_count):
        index = lent.indexes[at]
        of_index = [index.columns[column] for column in range(index.column_count)]
        names = [("-" if one.is_descending else "") + text_of(one.name) for one in of_index]
        indexes.append(Index(text_of(index.name), names, index.is_unique, index.has_missing, index.is_building))
    active = [(column, type_) for column, type_ in zip(columns, types) if column.state == "active"]
    schema = Schema(
        [column for column, _ in active],
        [column for column in columns if column.state != "active"],
        groups,
        repeated,
        indexes,
        lent.is_hashed,
        lent.has_dynamic_columns,
        lent.version,
    )
    of_group: Dict[str, Dict[str, ColumnType]] = {name: {} for name in repeated}
    of_row: Dict[str, ColumnType] = {}
    for column, type_ in active:
        of_group.get(column.group, of_row)[column.name] = type_
    return Layout(schema, of_row, of_group, [type_ for column, type_ in active if column.role != "value"])


def _deadline(micros: int) -> datetime:
    try:
        return moment_of(micros)
    except OverflowError:
        return datetime.max.replace(tzinfo=timezone.utc)
