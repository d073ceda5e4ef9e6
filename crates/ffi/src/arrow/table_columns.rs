//! Columns of a batch of rows of a table: filled row by row, exported as an Arrow struct array.
//!
//! ```text
//! bytes, text            large binary, large string    64-bit offsets: one value may have 3 GiB
//! json                   large string                  extension type arrow.json
//! bool                   bool
//! empty                  bool                          extension type waxseal.empty: true or null
//! i32, i64, u64          int32, int64, uint64
//! f32, f64               float, double
//! decimal(p, s)          decimal128(p, s)
//! date, timestamp        date32, timestamp[us, UTC]
//! uuid                   fixed size binary             extension type arrow.uuid
//! list<T>                large list, whose elements are not null
//! ```

use std::collections::TryReserveError;
use std::ffi::CString;

use waxseal_table::{ColumnType, Row, Value};

use super::abi::{ArrowArray, ArrowSchema, NULLABLE};
use super::buffer::ColumnBuffer;
use super::columns::{ArrayMemory, SchemaMemory};

/// A column of a table, as Arrow has it.
#[derive(Clone, Debug)]
pub(super) struct TableColumn {
    pub(super) name: String,
    pub(super) column_type: ColumnType,
}

/// Returns the schema of batches with these columns, which its owner must release.
pub(super) fn table_schema(columns: &[TableColumn]) -> ArrowSchema {
    let fields = columns.iter().map(|column| field_of(&column.column_type, &column.name, NULLABLE));
    SchemaMemory::structure(fields.collect())
}

fn field_of(column_type: &ColumnType, name: &str, flags: i64) -> ArrowSchema {
    let children = match column_type {
        ColumnType::List(element) => vec![field_of(element, "item", 0)],
        _ => Vec::new(),
    };
    let extension = extension_of(column_type);
    let metadata =
        extension.map(|name| metadata_of(&[("ARROW:extension:name", name), ("ARROW:extension:metadata", "")]));
    let text = |text: &str| CString::new(text).unwrap_or_default(); // a name has no control characters
    SchemaMemory::schema(text(&format_of(column_type)), text(name), metadata, flags, children)
}

/// Returns the extension type of a column that has no Arrow type of its own.
fn extension_of(column_type: &ColumnType) -> Option<&'static str> {
    match column_type {
        ColumnType::Uuid => Some("arrow.uuid"),
        ColumnType::Json => Some("arrow.json"),
        ColumnType::Empty => Some("waxseal.empty"),
        _ => None,
    }
}

fn format_of(column_type: &ColumnType) -> String {
    match column_type {
        ColumnType::Text | ColumnType::Json => "U".to_owned(),
        ColumnType::Bool | ColumnType::Empty => "b".to_owned(),
        ColumnType::I32 => "i".to_owned(),
        ColumnType::I64 => "l".to_owned(),
        ColumnType::U64 => "L".to_owned(),
        ColumnType::F32 => "f".to_owned(),
        ColumnType::F64 => "g".to_owned(),
        ColumnType::Decimal { precision, scale } => format!("d:{precision},{scale}"),
        ColumnType::Date => "tdD".to_owned(),
        ColumnType::Timestamp => "tsu:UTC".to_owned(),
        ColumnType::Uuid => "w:16".to_owned(),
        ColumnType::List(_) => "+L".to_owned(),
        _ => "Z".to_owned(),
    }
}

/// Encodes metadata as the Arrow C data interface asks.
#[expect(clippy::host_endian_bytes, reason = "the interface has numbers in the byte order of the machine")]
fn metadata_of(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = (pairs.len() as i32).to_ne_bytes().to_vec();
    for text in pairs.iter().flat_map(|(key, value)| [key, value]) {
        out.extend_from_slice(&(text.len() as i32).to_ne_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// The reason why a row was not added to a batch.
pub(super) enum Unfit {
    Memory(TryReserveError),
    /// The value of the column with this name has another type.
    Type(String),
}

impl From<TryReserveError> for Unfit {
    fn from(error: TryReserveError) -> Unfit {
        Unfit::Memory(error)
    }
}

/// The rows of one batch.
pub(super) struct TableBatch {
    rows: usize,
    columns: Vec<(String, Filling)>,
}

impl TableBatch {
    /// Creates a batch without rows.
    pub(super) fn new(columns: &[TableColumn]) -> Result<TableBatch, TryReserveError> {
        let filled = columns.iter().map(|column| Ok((column.name.clone(), Filling::new(&column.column_type)?)));
        Ok(TableBatch { rows: 0, columns: filled.collect::<Result<_, TryReserveError>>()? })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the bytes of its buffers.
    pub(super) fn bytes(&self) -> usize {
        self.columns.iter().map(|(_, filling)| filling.bytes()).sum()
    }

    /// Adds a row. After an error the batch is unusable.
    pub(super) fn push(&mut self, row: &Row) -> Result<(), Unfit> {
        for (name, filling) in &mut self.columns {
            if !filling.push(row.get(name))? {
                return Err(Unfit::Type(name.clone()));
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Converts the batch to an array, which its owner must release.
    pub(super) fn into_array(self) -> ArrowArray {
        let children = self.columns.into_iter().map(|(_, filling)| filling.into_array()).collect();
        ArrayMemory::array(self.rows as i64, 0, vec![None], children)
    }
}

/// A column, or the elements of a column of lists, during filling.
struct Filling {
    column_type: ColumnType,
    length: usize,
    nulls: usize,
    validity: ColumnBuffer,
    /// The start of each value and the end of the last, of values of variable length and of lists.
    offsets: ColumnBuffer,
    data: ColumnBuffer,
    /// The elements of lists.
    elements: Option<Box<Filling>>,
}

impl Filling {
    fn new(column_type: &ColumnType) -> Result<Filling, TryReserveError> {
        let mut offsets = ColumnBuffer::default();
        if layout_of(column_type) == ArrayLayout::Variable || layout_of(column_type) == ArrayLayout::List {
            offsets.push(0i64)?;
        }
        let elements = match column_type {
            ColumnType::List(element) => Some(Box::new(Filling::new(element)?)),
            _ => None,
        };
        let (validity, data) = (ColumnBuffer::default(), ColumnBuffer::default());
        Ok(Filling { column_type: column_type.clone(), length: 0, nulls: 0, validity, offsets, data, elements })
    }

    /// Returns the bytes of its buffers. Offsets and validity count too: a list of empty texts has nothing else.
    fn bytes(&self) -> usize {
        let own = self.validity.len() + self.offsets.len() + self.data.len();
        own + self.elements.as_ref().map_or(0, |elements| elements.bytes())
    }

    /// Adds a value; `None` is a null. Returns false for a value of another type: the column is unusable then.
    fn push(&mut self, value: Option<&Value>) -> Result<bool, TryReserveError> {
        let is_of_type = match value {
            Some(value) => self.put(value)?,
            None => {
                self.put_null()?;
                true
            }
        };
        self.validity.set_bit(self.length, value.is_some())?;
        self.nulls += usize::from(value.is_none());
        self.length += 1;
        Ok(is_of_type)
    }

    fn put(&mut self, value: &Value) -> Result<bool, TryReserveError> {
        let data = &mut self.data;
        match (&self.column_type, value) {
            (ColumnType::Bool, Value::Bool(truth)) => data.set_bit(self.length, *truth)?,
            (ColumnType::Empty, Value::Empty) => data.set_bit(self.length, true)?,
            (ColumnType::I32, Value::I32(number)) | (ColumnType::Date, Value::Date(number)) => data.push(*number)?,
            (ColumnType::I64, Value::I64(number)) | (ColumnType::Timestamp, Value::Timestamp(number)) => {
                data.push(*number)?;
            }
            (ColumnType::U64, Value::U64(number)) => data.push(*number)?,
            (ColumnType::F32, Value::F32(number)) => data.push(*number)?,
            (ColumnType::F64, Value::F64(number)) => data.push(*number)?,
            (ColumnType::Decimal { scale, .. }, Value::Decimal(number)) => match number.rescale(*scale) {
                Some(number) => data.push(number.unscaled())?,
                None => return Ok(false),
            },
            (ColumnType::Uuid, Value::Uuid(bytes)) => data.extend(bytes)?,
            (ColumnType::Bytes, Value::Bytes(bytes)) => return self.put_bytes(bytes),
            (ColumnType::Text, Value::Text(text)) | (ColumnType::Json, Value::Json(text)) => {
                return self.put_bytes(text.as_bytes());
            }
            (ColumnType::List(_), Value::List(values)) => {
                let Some(elements) = &mut self.elements else { return Ok(false) };
                for value in values {
                    if !elements.push(Some(value))? {
                        return Ok(false);
                    }
                }
                self.offsets.push(elements.length as i64)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn put_bytes(&mut self, bytes: &[u8]) -> Result<bool, TryReserveError> {
        self.data.extend(bytes)?;
        self.offsets.push(self.data.len() as i64)?;
        Ok(true)
    }

    fn put_null(&mut self) -> Result<(), TryReserveError> {
        match layout_of(&self.column_type) {
            ArrayLayout::Bits => self.data.set_bit(self.length, false),
            ArrayLayout::Fixed(bytes) => self.data.extend(&[0; 16][..bytes]),
            ArrayLayout::Variable => self.offsets.push(self.data.len() as i64),
            ArrayLayout::List => self.offsets.push(self.elements.as_ref().map_or(0, |elements| elements.length) as i64),
        }
    }

    fn into_array(self) -> ArrowArray {
        let validity = (self.nulls > 0).then_some(self.validity);
        let (buffers, children) = match layout_of(&self.column_type) {
            ArrayLayout::Bits | ArrayLayout::Fixed(_) => (vec![validity, Some(self.data)], Vec::new()),
            ArrayLayout::Variable => (vec![validity, Some(self.offsets), Some(self.data)], Vec::new()),
            ArrayLayout::List => {
                let elements = self.elements.into_iter().map(|elements| elements.into_array()).collect();
                (vec![validity, Some(self.offsets)], elements)
            }
        };
        ArrayMemory::array(self.length as i64, self.nulls as i64, buffers, children)
    }
}

/// The layout of an array of values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ArrayLayout {
    Bits,
    /// Values of this number of bytes, at most 16.
    Fixed(usize),
    Variable,
    List,
}

fn layout_of(column_type: &ColumnType) -> ArrayLayout {
    match column_type {
        ColumnType::Bool | ColumnType::Empty => ArrayLayout::Bits,
        ColumnType::I32 | ColumnType::F32 | ColumnType::Date => ArrayLayout::Fixed(4),
        ColumnType::I64 | ColumnType::U64 | ColumnType::F64 | ColumnType::Timestamp => ArrayLayout::Fixed(8),
        ColumnType::Decimal { .. } | ColumnType::Uuid => ArrayLayout::Fixed(16),
        ColumnType::List(_) => ArrayLayout::List,
        _ => ArrayLayout::Variable,
    }
}
