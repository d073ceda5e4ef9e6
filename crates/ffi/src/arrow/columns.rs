//! Columns of one batch: filled row by row, exported as an Arrow struct array.
//!
//! ```text
//! key     binary         z   32-bit offsets: the keys of a batch stay below a gigabyte
//! value   large binary   Z   64-bit offsets: a single value may have 3 GiB
//! seqno   uint64         L   0 once no snapshot needs it
//! seal    uint64         L   its 8 bytes as a little-endian number; null if the record has none
//! ```

use std::collections::TryReserveError;
use std::ffi::{CStr, CString, c_void};
use std::ptr::null;

use face::Row;

use super::abi::{ArrowArray, ArrowSchema, NULLABLE};
use super::buffer::ColumnBuffer;

/// A kind of column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Column {
    Key,
    Value,
    Seqno,
    Seal,
}

impl Column {
    /// All columns, in their default order.
    pub(super) const ALL: [Column; 4] = [Column::Key, Column::Value, Column::Seqno, Column::Seal];

    /// Returns the bit that selects the column.
    pub(super) const fn bit(self) -> u32 {
        1 << self as u32
    }

    fn name(self) -> &'static CStr {
        match self {
            Column::Key => c"key",
            Column::Value => c"value",
            Column::Seqno => c"seqno",
            Column::Seal => c"seal",
        }
    }

    fn format(self) -> &'static CStr {
        match self {
            Column::Key => c"z",
            Column::Value => c"Z",
            Column::Seqno | Column::Seal => c"L",
        }
    }
}

/// The rows of one batch.
pub(super) struct RowBatch {
    rows: usize,
    bytes: usize,
    columns: Vec<(Column, Filling)>,
}

/// A column during filling.
#[derive(Default)]
struct Filling {
    /// The validity bitmap, one bit per row; `None` until the first null.
    validity: Option<ColumnBuffer>,
    nulls: usize,
    /// The start of each row and the end of the last; of binary columns only.
    offsets: ColumnBuffer,
    data: ColumnBuffer,
}

impl RowBatch {
    /// Creates a batch without rows, with capacity for approximately `rows` rows, and `bytes` bytes of values.
    pub(super) fn new(columns: &[Column], rows: usize, bytes: usize) -> Result<RowBatch, TryReserveError> {
        let mut batch = RowBatch { rows: 0, bytes: 0, columns: Vec::new() };
        for column in columns {
            let mut filling = Filling::default();
            match column {
                Column::Key => {
                    filling.offsets = ColumnBuffer::with_room((rows + 1) * size_of::<i32>());
                    filling.offsets.push(0i32)?;
                }
                Column::Value => {
                    filling.offsets = ColumnBuffer::with_room((rows + 1) * size_of::<i64>());
                    filling.offsets.push(0i64)?;
                    filling.data = ColumnBuffer::with_room(bytes);
                }
                Column::Seqno | Column::Seal => filling.data = ColumnBuffer::with_room(rows * size_of::<u64>()),
            }
            batch.columns.push((*column, filling));
        }
        Ok(batch)
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the bytes of its keys and values.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a row. If an allocation fails, the batch keeps the rows before it.
    pub(super) fn push(&mut self, row: &Row<'_>) -> Result<(), TryReserveError> {
        for (column, filling) in &mut self.columns {
            match column {
                Column::Key => {
                    filling.data.extend(row.key)?;
                    filling.offsets.push(filling.data.len() as i32)?; // the batch's byte limit prevents an overflow
                    self.bytes += row.key.len();
                }
                Column::Value => {
                    filling.data.extend(row.value)?;
                    filling.offsets.push(filling.data.len() as i64)?;
                    self.bytes += row.value.len();
                }
                Column::Seqno => filling.data.push(row.seqno)?,
                Column::Seal => {
                    filling.note(self.rows, row.seal.is_some())?;
                    filling.data.push(row.seal.map_or(0, |seal| seal.number()))?;
                }
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Converts the batch to an array, which its owner must release.
    pub(super) fn into_array(self) -> ArrowArray {
        let rows = self.rows as i64;
        let children = self.columns.into_iter().map(|(column, filling)| filling.into_array(column, rows)).collect();
        ArrayMemory::array(rows, 0, vec![None], children)
    }
}

impl Filling {
    /// Records whether a row has a value.
    fn note(&mut self, row: usize, is_valid: bool) -> Result<(), TryReserveError> {
        if self.validity.is_none() && !is_valid {
            let mut bits = ColumnBuffer::default();
            (0..row).try_for_each(|before| bits.set_bit(before, true))?;
            self.validity = Some(bits);
        }
        if let Some(bits) = &mut self.validity {
            bits.set_bit(row, is_valid)?;
            self.nulls += usize::from(!is_valid);
        }
        Ok(())
    }

    fn into_array(self, column: Column, rows: i64) -> ArrowArray {
        let buffers = match column {
            Column::Key | Column::Value => vec![self.validity, Some(self.offsets), Some(self.data)],
            Column::Seqno | Column::Seal => vec![self.validity, Some(self.data)],
        };
        ArrayMemory::array(rows, self.nulls as i64, buffers, Vec::new())
    }
}

/// Memory that an array owns until it is released. A consumer may move children out of it, and release them separately.
pub(super) struct ArrayMemory {
    _buffers: Vec<Option<ColumnBuffer>>,
    addresses: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

impl ArrayMemory {
    pub(super) fn array(
        length: i64,
        null_count: i64,
        buffers: Vec<Option<ColumnBuffer>>,
        children: Vec<ArrowArray>,
    ) -> ArrowArray {
        let buffers: Vec<Option<ColumnBuffer>> =
            buffers.into_iter().map(|buffer| buffer.map(ColumnBuffer::finished)).collect();
        let addresses = buffers.iter().map(|buffer| buffer.as_ref().map_or(null(), ColumnBuffer::as_ptr)).collect();
        let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let mut held = Box::new(ArrayMemory { _buffers: buffers, addresses, children });
        ArrowArray {
            length,
            null_count,
            n_buffers: held.addresses.len() as i64,
            n_children: held.children.len() as i64,
            buffers: held.addresses.as_mut_ptr(),
            children: held.children.as_mut_ptr(),
            release: Some(release_array),
            private_data: Box::into_raw(held).cast(),
            ..ArrowArray::released()
        }
    }
}

/// # Safety
/// `array` is null, or was made by `ArrayMemory::array` and possibly moved.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: as the caller promises.
    let Some(array) = (unsafe { array.as_mut() }) else { return };
    if array.release.take().is_none() {
        return;
    }
    // SAFETY: `private_data` is the box that `ArrayMemory::array` leaked. It is taken back once: `release` was still
    // set.
    let held = unsafe { Box::from_raw(array.private_data.cast::<ArrayMemory>()) };
    for child in held.children {
        // SAFETY: each child is a box that `ArrayMemory::array` leaked. A child that was moved out has no `release`,
        // but its box still belongs to the parent.
        unsafe {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
    }
}

/// Returns the schema of batches with these columns, which its owner must release.
pub(super) fn schema(columns: &[Column]) -> ArrowSchema {
    let children = columns.iter().map(|column| {
        let flags = if *column == Column::Seal { NULLABLE } else { 0 };
        SchemaMemory::schema(column.format().into(), column.name().into(), None, flags, Vec::new())
    });
    SchemaMemory::structure(children.collect())
}

/// Memory that a schema owns until it is released.
pub(super) struct SchemaMemory {
    format: CString,
    name: CString,
    metadata: Option<Vec<u8>>,
    children: Vec<*mut ArrowSchema>,
}

impl SchemaMemory {
    /// Returns the schema of batches with these columns.
    pub(super) fn structure(children: Vec<ArrowSchema>) -> ArrowSchema {
        SchemaMemory::schema(c"+s".into(), c"".into(), None, 0, children)
    }

    /// Returns a schema, which its owner must release. `metadata` is in the encoding of the specification.
    pub(super) fn schema(
        format: CString,
        name: CString,
        metadata: Option<Vec<u8>>,
        flags: i64,
        children: Vec<ArrowSchema>,
    ) -> ArrowSchema {
        let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let mut held = Box::new(SchemaMemory { format, name, metadata, children });
        ArrowSchema {
            format: held.format.as_ptr(),
            name: held.name.as_ptr(),
            metadata: held.metadata.as_ref().map_or(null(), |bytes| bytes.as_ptr().cast()),
            flags,
            n_children: held.children.len() as i64,
            children: held.children.as_mut_ptr(),
            release: Some(release_schema),
            private_data: Box::into_raw(held).cast(),
            ..ArrowSchema::released()
        }
    }
}

/// # Safety
/// `schema` is null, or was made by `SchemaMemory::schema` and possibly moved.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: as the caller promises.
    let Some(schema) = (unsafe { schema.as_mut() }) else { return };
    if schema.release.take().is_none() {
        return;
    }
    // SAFETY: `private_data` is the box that `SchemaMemory::schema` leaked, and it is taken back once.
    let held = unsafe { Box::from_raw(schema.private_data.cast::<SchemaMemory>()) };
    for child in held.children {
        // SAFETY: as in `release_array`.
        unsafe {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
    }
}
