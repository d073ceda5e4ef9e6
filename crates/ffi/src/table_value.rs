//! Typed values and the cells of rows, as C passes and reads them.

use waxseal_table::{Changes, ColumnType, Decimal, GroupEntry, Row, Value};

use crate::failure::{Failure, Result};
use crate::lent::{Lend, copied_array, copied_text, lent, waxseal_slice_t};

/// No value: the column is absent.
pub const WAXSEAL_TYPE_NULL: i32 = 0;
/// Any bytes, in `bytes`.
pub const WAXSEAL_TYPE_BYTES: i32 = 1;
/// UTF-8 text, in `bytes`.
pub const WAXSEAL_TYPE_TEXT: i32 = 2;
/// 0 or 1, in `integer`.
pub const WAXSEAL_TYPE_BOOL: i32 = 3;
/// A signed integer of 32 bits, in `integer`.
pub const WAXSEAL_TYPE_I32: i32 = 4;
/// A signed integer of 64 bits, in `integer`.
pub const WAXSEAL_TYPE_I64: i32 = 5;
/// An unsigned integer of 64 bits; `integer` has its bits.
pub const WAXSEAL_TYPE_U64: i32 = 6;
/// A floating-point number of 32 bits, in `real`.
pub const WAXSEAL_TYPE_F32: i32 = 7;
/// A floating-point number of 64 bits, in `real`.
pub const WAXSEAL_TYPE_F64: i32 = 8;
/// A decimal number of at most 38 digits: an integer of 128 bits, whose upper half is `high` and whose lower half are
/// the bits of `integer`, divided by 10 to the power of `scale`.
pub const WAXSEAL_TYPE_DECIMAL: i32 = 9;
/// Days since 1970-01-01, a signed integer of 32 bits, in `integer`.
pub const WAXSEAL_TYPE_DATE: i32 = 10;
/// Microseconds since 1970 in UTC, in `integer`.
pub const WAXSEAL_TYPE_TIMESTAMP: i32 = 11;
/// A universally unique identifier: 16 bytes, in `bytes`.
pub const WAXSEAL_TYPE_UUID: i32 = 12;
/// A JSON document as UTF-8 text, in `bytes`.
pub const WAXSEAL_TYPE_JSON: i32 = 13;
/// A list, in `items`.
pub const WAXSEAL_TYPE_LIST: i32 = 14;
/// The value of a column without values, which is present or absent.
pub const WAXSEAL_TYPE_EMPTY: i32 = 15;

/// An element of a list: a typed value that is no list and no null. `kind` says which of the other fields hold it, as
/// in `waxseal_value_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_element_t {
    /// One of `WAXSEAL_TYPE_..`.
    pub kind: i32,
    /// The digits of a decimal behind the point.
    pub scale: u32,
    /// A truth value, an integer, a date, a timestamp, or the lower half of a decimal.
    pub integer: i64,
    /// The upper half of a decimal.
    pub high: i64,
    /// A floating-point number.
    pub real: f64,
    /// Bytes, text, a JSON document or a UUID.
    pub bytes: waxseal_slice_t,
}

/// A typed value. `kind` says which of the other fields hold it; the library ignores the rest, and returns zeros in
/// them. All zeros are a null.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_value_t {
    /// One of `WAXSEAL_TYPE_..`.
    pub kind: i32,
    /// The digits of a decimal behind the point.
    pub scale: u32,
    /// A truth value, an integer, a date, a timestamp, or the lower half of a decimal.
    pub integer: i64,
    /// The upper half of a decimal.
    pub high: i64,
    /// A floating-point number.
    pub real: f64,
    /// Bytes, text, a JSON document or a UUID.
    pub bytes: waxseal_slice_t,
    /// The elements of a list, which have one type.
    pub items: *const waxseal_element_t,
    /// Number of elements of a list.
    pub item_count: usize,
}

/// Values: a key or the beginning of one, a bound of a range, or the values of a condition. Null with count 0 are none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_value_list_t {
    /// The first value.
    pub values: *const waxseal_value_t,
    /// Number of values.
    pub count: usize,
}

/// A column of a row with its value.
///
/// A column of a repeated group also has the names of the group and of the entry. An entry without columns is one cell
/// with an empty name of the column and a null; among the changes of a row that cell removes the entry.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_cell_t {
    /// The name of the column.
    pub column: waxseal_slice_t,
    /// The name of a repeated group; null for columns of the row.
    pub group: waxseal_slice_t,
    /// The name of an entry of the group.
    pub entry: waxseal_slice_t,
    /// The value. Among the changes of a row, a null removes the column; in a row it counts as absent.
    pub value: waxseal_value_t,
}

/// A row, or changes of a row: cells in any order. Null with count 0 is no row. A row with two cells of one column is
/// `WAXSEAL_INVALID`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_cells_t {
    /// The first cell.
    pub cells: *const waxseal_cell_t,
    /// Number of cells.
    pub count: usize,
}

/// A cell that was copied from a caller.
pub(crate) struct Cell {
    column: String,
    /// The repeated group, and the entry of it.
    entry: Option<(String, String)>,
    value: Value,
}

/// Cells that were copied from a caller.
pub(crate) struct Cells(Vec<Cell>);

impl Cells {
    /// Returns the cells as a row. Errors: `Invalid` for two cells of one column.
    pub(crate) fn row(self) -> Result<Row> {
        let (of_row, of_entries): (Vec<Cell>, Vec<Cell>) = self.0.into_iter().partition(|cell| cell.entry.is_none());
        let mut row = Row::from_columns(of_row.into_iter().map(|cell| (cell.column, cell.value)))?;
        for Cell { column, entry, value } in of_entries {
            let (group, entry) = entry.unwrap_or_default();
            if row.entry(&group, &entry).is_some_and(|found| found.get(&column).is_some()) {
                return Err(Failure::invalid(format!(
                    "entry {entry:?} of group {group:?} has column {column:?} twice"
                )));
            }
            row.set_entry(&group, &entry, &column, value);
        }
        Ok(row)
    }

    /// Returns the cells as a row; no cells are no row. Errors: as for [`row`](Cells::row).
    pub(crate) fn optional_row(self) -> Result<Option<Row>> {
        if self.0.is_empty() { Ok(None) } else { self.row().map(Some) }
    }

    /// Returns the cells as changes of a row.
    pub(crate) fn changes(self) -> Changes {
        self.0.into_iter().fold(Changes::new(), |changes, Cell { column, entry, value }| match entry {
            Some((group, entry)) if column.is_empty() && value.is_null() => changes.remove_entry(&group, &entry),
            Some((group, entry)) => changes.set_entry(&group, &entry, &column, value),
            None => changes.set(&column, value),
        })
    }
}

impl Lend for waxseal_value_t {
    type Copied = Value;

    unsafe fn copied(self) -> Result<Value> {
        let waxseal_value_t { kind, scale, integer, high, real, bytes, items, item_count } = self;
        // SAFETY: the caller's promise.
        unsafe {
            match kind {
                WAXSEAL_TYPE_NULL => Ok(Value::Null),
                WAXSEAL_TYPE_LIST => copied_array(items, item_count).map(Value::List),
                _ => waxseal_element_t { kind, scale, integer, high, real, bytes }.copied(),
            }
        }
    }
}

impl Lend for waxseal_element_t {
    type Copied = Value;

    unsafe fn copied(self) -> Result<Value> {
        // SAFETY: the caller's promise.
        let bytes = unsafe { lent(self.bytes.data, self.bytes.len) };
        let wrong = |what: &str| Failure::invalid(format!("{} is no {what}", self.integer));
        Ok(match self.kind {
            WAXSEAL_TYPE_BYTES => Value::Bytes(bytes.value()?.to_vec()),
            WAXSEAL_TYPE_TEXT => Value::Text(bytes.text("text")?.to_owned()),
            WAXSEAL_TYPE_BOOL => match self.integer {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                _ => return Err(wrong("truth value")),
            },
            WAXSEAL_TYPE_I32 => Value::I32(i32::try_from(self.integer).map_err(|_| wrong("integer of 32 bits"))?),
            WAXSEAL_TYPE_I64 => Value::I64(self.integer),
            WAXSEAL_TYPE_U64 => Value::U64(self.integer.cast_unsigned()),
            WAXSEAL_TYPE_F32 => Value::F32(self.narrow()?),
            WAXSEAL_TYPE_F64 => Value::F64(self.real),
            WAXSEAL_TYPE_DECIMAL => Value::Decimal(self.decimal()?),
            WAXSEAL_TYPE_DATE => Value::Date(i32::try_from(self.integer).map_err(|_| wrong("number of days"))?),
            WAXSEAL_TYPE_TIMESTAMP => Value::Timestamp(self.integer),
            WAXSEAL_TYPE_UUID => {
                let bytes = bytes.bytes("UUID")?;
                let wrong = |_| Failure::invalid(format!("a UUID has 16 bytes, not {}", bytes.len()));
                Value::Uuid(bytes.try_into().map_err(wrong)?)
            }
            WAXSEAL_TYPE_JSON => Value::Json(bytes.text("JSON document")?.to_owned()),
            WAXSEAL_TYPE_EMPTY => Value::Empty,
            WAXSEAL_TYPE_NULL | WAXSEAL_TYPE_LIST => {
                return Err(Failure::invalid("the elements of a list are neither lists nor nulls"));
            }
            other => return Err(Failure::invalid(format!("{other} is no type of a value"))),
        })
    }
}

impl waxseal_element_t {
    /// Returns the number as one of 32 bits, if that loses nothing.
    fn narrow(&self) -> Result<f32> {
        let narrow = self.real as f32;
        match f64::from(narrow) == self.real || self.real.is_nan() {
            true => Ok(narrow),
            false => Err(Failure::invalid(format!("{} is no floating-point number of 32 bits", self.real))),
        }
    }

    fn decimal(&self) -> Result<Decimal> {
        let unscaled = i128::from(self.high) << 64 | i128::from(self.integer.cast_unsigned());
        let scale = u8::try_from(self.scale).unwrap_or(u8::MAX);
        Ok(Decimal::new(unscaled, scale)?)
    }

    const NULL: waxseal_element_t = waxseal_element_t {
        kind: WAXSEAL_TYPE_NULL,
        scale: 0,
        integer: 0,
        high: 0,
        real: 0.0,
        bytes: waxseal_slice_t::EMPTY,
    };

    fn number(kind: i32, integer: i64) -> waxseal_element_t {
        waxseal_element_t { kind, integer, ..waxseal_element_t::NULL }
    }

    fn real(kind: i32, real: f64) -> waxseal_element_t {
        waxseal_element_t { kind, real, ..waxseal_element_t::NULL }
    }

    fn bytes(kind: i32, bytes: &[u8]) -> waxseal_element_t {
        waxseal_element_t { kind, bytes: waxseal_slice_t::of(bytes), ..waxseal_element_t::NULL }
    }

    /// Lends a value that is no list to the caller.
    fn lending(value: &Value) -> waxseal_element_t {
        match value {
            Value::Null => waxseal_element_t::NULL,
            Value::Bytes(bytes) => waxseal_element_t::bytes(WAXSEAL_TYPE_BYTES, bytes),
            Value::Text(text) => waxseal_element_t::bytes(WAXSEAL_TYPE_TEXT, text.as_bytes()),
            Value::Bool(truth) => waxseal_element_t::number(WAXSEAL_TYPE_BOOL, i64::from(*truth)),
            Value::I32(number) => waxseal_element_t::number(WAXSEAL_TYPE_I32, i64::from(*number)),
            Value::I64(number) => waxseal_element_t::number(WAXSEAL_TYPE_I64, *number),
            Value::U64(number) => waxseal_element_t::number(WAXSEAL_TYPE_U64, number.cast_signed()),
            Value::F32(number) => waxseal_element_t::real(WAXSEAL_TYPE_F32, f64::from(*number)),
            Value::F64(number) => waxseal_element_t::real(WAXSEAL_TYPE_F64, *number),
            Value::Decimal(number) => waxseal_element_t {
                scale: u32::from(number.scale()),
                high: (number.unscaled() >> 64) as i64,
                ..waxseal_element_t::number(WAXSEAL_TYPE_DECIMAL, number.unscaled() as i64)
            },
            Value::Date(days) => waxseal_element_t::number(WAXSEAL_TYPE_DATE, i64::from(*days)),
            Value::Timestamp(micros) => waxseal_element_t::number(WAXSEAL_TYPE_TIMESTAMP, *micros),
            Value::Uuid(bytes) => waxseal_element_t::bytes(WAXSEAL_TYPE_UUID, bytes),
            Value::Json(text) => waxseal_element_t::bytes(WAXSEAL_TYPE_JSON, text.as_bytes()),
            Value::Empty => waxseal_element_t { kind: WAXSEAL_TYPE_EMPTY, ..waxseal_element_t::NULL },
            _ => waxseal_element_t { kind: -1, ..waxseal_element_t::NULL }, // a type unknown to this library
        }
    }
}

impl waxseal_value_t {
    const NULL: waxseal_value_t = waxseal_value_t::of(waxseal_element_t::NULL);

    const fn of(element: waxseal_element_t) -> waxseal_value_t {
        let waxseal_element_t { kind, scale, integer, high, real, bytes } = element;
        waxseal_value_t { kind, scale, integer, high, real, bytes, items: std::ptr::null(), item_count: 0 }
    }

    /// Lends a value to the caller. The elements of a list are put into `lists`.
    fn lending(value: &Value, lists: &mut Vec<Box<[waxseal_element_t]>>) -> waxseal_value_t {
        let Value::List(values) = value else { return waxseal_value_t::of(waxseal_element_t::lending(value)) };
        let elements: Box<[_]> = values.iter().map(waxseal_element_t::lending).collect();
        let (items, item_count) = (elements.as_ptr(), elements.len());
        lists.push(elements); // which stay where they are
        waxseal_value_t { kind: WAXSEAL_TYPE_LIST, items, item_count, ..waxseal_value_t::NULL }
    }
}

impl Lend for waxseal_value_list_t {
    type Copied = Vec<Value>;

    unsafe fn copied(self) -> Result<Vec<Value>> {
        // SAFETY: the caller's promise.
        unsafe { copied_array(self.values, self.count) }
    }
}

impl Lend for waxseal_cell_t {
    type Copied = Cell;

    unsafe fn copied(self) -> Result<Cell> {
        // SAFETY: the caller's promise.
        unsafe {
            let column = copied_text(self.column, "name of a column")?;
            let entry = match self.group.data.is_null() && self.group.len == 0 {
                true => None,
                false => {
                    Some((copied_text(self.group, "name of a group")?, copied_text(self.entry, "name of an entry")?))
                }
            };
            Ok(Cell { column, entry, value: self.value.copied()? })
        }
    }
}

impl Lend for waxseal_cells_t {
    type Copied = Cells;

    unsafe fn copied(self) -> Result<Cells> {
        // SAFETY: the caller's promise.
        unsafe { copied_array(self.cells, self.count) }.map(Cells)
    }
}

/// A row, and the cells that lend it to the caller.
#[derive(Default)]
pub(crate) struct LentRow {
    /// Owns the bytes that the cells point to.
    row: Row,
    cells: Vec<waxseal_cell_t>,
    lists: Vec<Box<[waxseal_element_t]>>,
}

// SAFETY: the pointers of the cells and of the lists point into `row` and `lists`, which move to another thread with
// them and are not changed before the cells are made anew.
unsafe impl Send for LentRow {}

impl LentRow {
    /// Lends another row.
    pub(crate) fn lend(&mut self, row: Row) -> waxseal_cells_t {
        let LentRow { row: own, cells, lists } = self;
        cells.clear();
        lists.clear();
        *own = row;
        for (name, value) in own.columns() {
            cells.push(cell(None, name, waxseal_value_t::lending(value, lists)));
        }
        for entry in own.all_entries() {
            let before = cells.len();
            for (name, value) in entry.columns() {
                cells.push(cell(Some(entry), name, waxseal_value_t::lending(value, lists)));
            }
            if cells.len() == before {
                cells.push(cell(Some(entry), "", waxseal_value_t::NULL));
            }
        }
        waxseal_cells_t { cells: cells.as_ptr(), count: cells.len() }
    }
}

fn cell(entry: Option<&GroupEntry>, column: &str, value: waxseal_value_t) -> waxseal_cell_t {
    let (group, entry) = entry.map_or((waxseal_slice_t::EMPTY, waxseal_slice_t::EMPTY), |entry| {
        (waxseal_slice_t::text(entry.group()), waxseal_slice_t::text(entry.name()))
    });
    waxseal_cell_t { column: waxseal_slice_t::text(column), group, entry, value }
}

/// The type of a column. A simple type has its number in `kind` and zeros in the other fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct waxseal_table_type_t {
    /// One of `WAXSEAL_TYPE_..`, but not null.
    pub kind: i32,
    /// The type of the elements of a list, one of `WAXSEAL_TYPE_..`; otherwise 0.
    pub element: i32,
    /// The number of digits of a decimal, 1 to 38, also of a list of decimals; otherwise 0.
    pub precision: u32,
    /// The digits of a decimal behind the point, also of a list of decimals; otherwise 0.
    pub scale: u32,
}

impl waxseal_table_type_t {
    pub(crate) fn column_type(self) -> Result<ColumnType> {
        match self.kind {
            WAXSEAL_TYPE_LIST => Ok(self.simple(self.element)?.list()),
            kind => self.simple(kind),
        }
    }

    fn simple(self, kind: i32) -> Result<ColumnType> {
        Ok(match kind {
            WAXSEAL_TYPE_BYTES => ColumnType::Bytes,
            WAXSEAL_TYPE_TEXT => ColumnType::Text,
            WAXSEAL_TYPE_BOOL => ColumnType::Bool,
            WAXSEAL_TYPE_I32 => ColumnType::I32,
            WAXSEAL_TYPE_I64 => ColumnType::I64,
            WAXSEAL_TYPE_U64 => ColumnType::U64,
            WAXSEAL_TYPE_F32 => ColumnType::F32,
            WAXSEAL_TYPE_F64 => ColumnType::F64,
            WAXSEAL_TYPE_DECIMAL => {
                let digits = |number: u32| u8::try_from(number).unwrap_or(u8::MAX); // refused by the table
                ColumnType::Decimal { precision: digits(self.precision), scale: digits(self.scale) }
            }
            WAXSEAL_TYPE_DATE => ColumnType::Date,
            WAXSEAL_TYPE_TIMESTAMP => ColumnType::Timestamp,
            WAXSEAL_TYPE_UUID => ColumnType::Uuid,
            WAXSEAL_TYPE_JSON => ColumnType::Json,
            WAXSEAL_TYPE_EMPTY => ColumnType::Empty,
            other => return Err(Failure::invalid(format!("{other} is no type of a column"))),
        })
    }

    pub(crate) fn of(column: &ColumnType) -> waxseal_table_type_t {
        let kind = match column {
            ColumnType::Bytes => WAXSEAL_TYPE_BYTES,
            ColumnType::Text => WAXSEAL_TYPE_TEXT,
            ColumnType::Bool => WAXSEAL_TYPE_BOOL,
            ColumnType::I32 => WAXSEAL_TYPE_I32,
            ColumnType::I64 => WAXSEAL_TYPE_I64,
            ColumnType::U64 => WAXSEAL_TYPE_U64,
            ColumnType::F32 => WAXSEAL_TYPE_F32,
            ColumnType::F64 => WAXSEAL_TYPE_F64,
            ColumnType::Decimal { precision, scale } => {
                let (precision, scale) = (u32::from(*precision), u32::from(*scale));
                return waxseal_table_type_t { kind: WAXSEAL_TYPE_DECIMAL, precision, scale, element: 0 };
            }
            ColumnType::Date => WAXSEAL_TYPE_DATE,
            ColumnType::Timestamp => WAXSEAL_TYPE_TIMESTAMP,
            ColumnType::Uuid => WAXSEAL_TYPE_UUID,
            ColumnType::Json => WAXSEAL_TYPE_JSON,
            ColumnType::List(element) => {
                let element = waxseal_table_type_t::of(element);
                return waxseal_table_type_t { kind: WAXSEAL_TYPE_LIST, element: element.kind, ..element };
            }
            ColumnType::Empty => WAXSEAL_TYPE_EMPTY,
            _ => -1, // a type unknown to this library
        };
        waxseal_table_type_t { kind, ..waxseal_table_type_t::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_of_38_digits_has_two_halves() {
        for unscaled in [0, -1, 10i128.pow(38) - 1, 1 - 10i128.pow(38), 1 << 64, -(1 << 64)] {
            let value = Value::Decimal(Decimal::new(unscaled, 7).unwrap());
            let lent = waxseal_value_t::lending(&value, &mut Vec::new());
            // SAFETY: a value of ours.
            assert!(matches!(unsafe { lent.copied() }, Ok(Value::Decimal(found)) if found.unscaled() == unscaled));
        }
    }
}
