"""Conditions on the columns of rows."""

from __future__ import annotations

from typing import Any, Iterable, Tuple

from . import _abi
from ._row_schema import Layout
from ._row_values import Kept, array_of, kept_slice, value_list


class Condition:
    """A condition on the columns of a row. Nulls count as in SQL: a comparison with a null is neither true nor
    false."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Tuple[Tuple[int, str, Tuple[Any, ...]], ...]) -> None:
        """Created by `column`."""
        self._steps = steps

    def __and__(self, other: Condition) -> Condition:
        return self._with(other, _abi.WAXSEAL_CONDITION_AND)

    def __or__(self, other: Condition) -> Condition:
        return self._with(other, _abi.WAXSEAL_CONDITION_OR)

    def __invert__(self) -> Condition:
        return Condition((*self._steps, (_abi.WAXSEAL_CONDITION_NOT, "", ())))

    def __bool__(self) -> bool:
        raise TypeError("conditions are connected by &, | and ~, not by and, or and not")

    def _with(self, other: Condition, kind: int) -> Condition:
        if not isinstance(other, Condition):
            return NotImplemented
        return Condition((*self._steps, *other._steps, (kind, "", ())))


class ColumnName:
    """The name of a column, whose comparisons are conditions. Created by `column`."""

    __slots__ = ("_name",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        self._name = name

    def _condition(self, kind: int, *values: Any) -> Condition:
        if any(value is None for value in values):
            raise TypeError("a comparison with None is never true: say is_null() or is_not_null()")
        return Condition(((kind, self._name, values),))

    def __eq__(self, value: Any) -> Condition:  # type: ignore[override]
        return self._condition(_abi.WAXSEAL_CONDITION_EQ, value)

    def __ne__(self, value: Any) -> Condition:  # type: ignore[override]
        return self._condition(_abi.WAXSEAL_CONDITION_NE, value)

    def __lt__(self, value: Any) -> Condition:
        return self._condition(_abi.WAXSEAL_CONDITION_LT, value)

    def __le__(self, value: Any) -> Condition:
        return self._condition(_abi.WAXSEAL_CONDITION_LE, value)

    def __gt__(self, value: Any) -> Condition:
        return self._condition(_abi.WAXSEAL_CONDITION_GT, value)

    def __ge__(self, value: Any) -> Condition:
        return self._condition(_abi.WAXSEAL_CONDITION_GE, value)

    def is_in(self, values: Iterable[Any]) -> Condition:
        """The column equals one of the values."""
        return self._condition(_abi.WAXSEAL_CONDITION_IN, *values)

    def is_null(self) -> Condition:
        """The row does not have the column."""
        return self._condition(_abi.WAXSEAL_CONDITION_IS_NULL)

    def is_not_null(self) -> Condition:
        """The row has the column."""
        return ~self.is_null()


def column(name: str) -> ColumnName:
    """Names a column in a condition, as in `(column("year") >= 1900) & column("genre").is_null()`."""
    return ColumnName(name)


def filter_of(layout: Layout, condition: Condition, kept: Kept) -> Any:
    """Returns the library's filter."""
    if not isinstance(condition, Condition):
        raise TypeError(f"where is a condition on columns, as in column('year') > 1900, not {condition!r}")
    conditions = []
    for kind, name, values in condition._steps:
        typed = [(value, layout.types.get(name)) for value in values]
        conditions.append(_abi.waxseal_condition_t(kind, kept_slice(name, kept), value_list(typed, kept)))
    return _abi.waxseal_filter_t(*array_of(_abi.waxseal_condition_t, conditions, kept))
