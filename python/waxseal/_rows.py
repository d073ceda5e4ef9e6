"""Rows of tables, their keys and the options of their writes, as the library takes and lends them."""

from __future__ import annotations

import ctypes as C
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from . import _abi, _c
from ._options import durability as durability_number
from ._row_schema import Layout, text_of
from ._row_values import ColumnType, Kept, array_of, kept_slice, put_value, read_value, value_list
from ._sealed import Expires, expiry

#: A row: values by the names of columns, and the entries of repeated groups, as in {"pages": {"1": {"text": ".."}}}.
Row = Dict[str, Any]


def typed(values: Any, types: Sequence[Optional[ColumnType]]) -> List[Tuple[Any, Optional[ColumnType]]]:
    """Returns the values of a key, or of the beginning of one, with their types."""
    listed = list(values) if isinstance(values, (tuple, list)) else [values]
    return [(value, types[at] if at < len(types) else None) for at, value in enumerate(listed)]


def range_of(
    types: Sequence[Optional[ColumnType]],
    prefix: Any,
    start: Any,
    stop: Any,
    include_start: bool,
    include_stop: bool,
    kept: Kept,
) -> Any:
    """Returns the library's range of the columns behind a prefix."""
    behind = types[len(prefix) if isinstance(prefix, (tuple, list)) else 1 :]
    ends = []
    for bound, is_included in ((start, include_start), (stop, include_stop)):
        end = _abi.waxseal_value_bound_t()
        if bound is not None:
            end.kind = _abi.WAXSEAL_INCLUDED if is_included else _abi.WAXSEAL_EXCLUDED
            end.values = value_list(typed(bound, behind), kept)
        ends.append(end)
    return _abi.waxseal_value_range_t(*ends)


def cells_of(layout: Layout, row: Mapping[str, Any], kept: Kept, are_changes: bool = False) -> Any:
    """Returns the library's cells of a row, or of changes, in which None removes."""
    listed: List[Tuple[Optional[str], Optional[str], str, Any, Optional[ColumnType]]] = []
    for name, value in row.items():
        if name not in layout.repeated:
            if value is not None or are_changes:
                listed.append((None, None, name, value, layout.types.get(name)))
            continue
        if value is None and are_changes:
            raise ValueError(f"{name!r} is a repeated group: only its entries can be None")
        for entry, columns in ({} if value is None else value).items():
            types = layout.repeated[name]
            if not columns:
                if (columns is None) != are_changes:
                    say = "say None to remove it" if are_changes else "say {} for an entry without columns"
                    raise ValueError(f"entry {entry!r} of {name!r}: {say}")
                # The cell without a column is an entry without columns in a row, and removes an entry in changes.
                listed.append((name, entry, "", None, None))
                continue
            for column_name, of_entry in columns.items():
                listed.append((name, entry, column_name, of_entry, types.get(column_name)))
    cells = (_abi.waxseal_cell_t * len(listed))()
    kept.append(cells)
    for at, (group, entry, name, value, type_) in enumerate(listed):
        cell = cells[at]
        cell.column = kept_slice(name, kept)
        if group is not None and entry is not None:
            cell.group, cell.entry = kept_slice(group, kept), kept_slice(entry, kept)
        try:
            put_value(cell.value, value, type_, kept)
        except (TypeError, ValueError, OverflowError) as error:
            kinds = (TypeError, OverflowError, ValueError)
            raise next(kind for kind in kinds if isinstance(error, kind))(f"column {name!r}: {error}") from None
    return _abi.waxseal_cells_t(C.cast(cells, C.POINTER(_abi.waxseal_cell_t)), len(listed))


def read_row(lent: Any) -> Row:
    """Returns the columns of a row that the library lent."""
    row: Row = {}
    cells = lent.cells
    for at in range(lent.count):
        cell = cells[at]
        name = text_of(cell.column)
        if not cell.group.len:
            row[name] = read_value(cell.value)
            continue
        entry = row.setdefault(text_of(cell.group), {}).setdefault(text_of(cell.entry), {})
        if name:
            entry[name] = read_value(cell.value)
    return row


def options_of(
    durability: Optional[str], expires: Expires, group_expires: Optional[Mapping[str, Expires]], kept: Kept
) -> Any:
    """Returns the library's options of a write; None for the defaults."""
    if durability is None and expires is None and not group_expires:
        return None
    options = _abi.waxseal_row_options_t(durability=durability_number(durability))
    _set_expiry(options, expires)
    groups = []
    for name, of_group in (group_expires or {}).items():
        group = _abi.waxseal_group_expiry_t(group=kept_slice(name, kept))
        _set_expiry(group, of_group)
        groups.append(group)
    options.groups, options.group_count = array_of(_abi.waxseal_group_expiry_t, groups, kept)
    return C.byref(options)


def _set_expiry(place: Any, expires: Expires) -> None:
    if expires is None:
        return
    name, micros = expiry(expires)
    if name.endswith("_in"):
        place.expires_in_micros = max(micros, 1)  # 0 is no expiry
    else:
        place.expires_at_micros = micros
