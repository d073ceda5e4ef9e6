//! The calls that create a stream from a scan.

use super::abi::ArrowArrayStream;
use super::columns::Column;
use super::stream::{Limits, RowSource, streamed};
use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::family::waxseal_family_t;
use crate::handle::with;
use crate::lent::Out;
use crate::range::{CallerBounds, waxseal_range_t};
use crate::snapshot::{read, waxseal_snapshot_t};

/// The keys of a scan, as column `key`.
pub const WAXSEAL_COLUMN_KEY: u32 = 1;
/// The values, as column `value`.
pub const WAXSEAL_COLUMN_VALUE: u32 = 2;
/// The sequence numbers of the records, as column `seqno`; 0 once no snapshot needs them.
pub const WAXSEAL_COLUMN_SEQNO: u32 = 4;
/// The seals of the records as little-endian numbers, as column `seal`; null if a record has none.
pub const WAXSEAL_COLUMN_SEAL: u32 = 8;
/// All columns.
pub const WAXSEAL_COLUMN_ALL: u32 = 15;

const _: () = assert!(
    WAXSEAL_COLUMN_KEY == Column::Key.bit()
        && WAXSEAL_COLUMN_VALUE == Column::Value.bit()
        && WAXSEAL_COLUMN_SEQNO == Column::Seqno.bit()
        && WAXSEAL_COLUMN_SEAL == Column::Seal.bit()
);

/// Default number of rows per batch.
const BATCH_ROWS: usize = 64 * 1024;
/// Default bytes of keys and values per batch.
const BATCH_BYTES: usize = 16 << 20;
/// Maximum number of rows per batch: the 32-bit offsets of its keys must not overflow.
const MOST_ROWS: usize = 16 << 20;
/// Maximum bytes per batch, for the same reason.
const MOST_BYTES: usize = 1 << 30;

calls! {
    /// Scans a range as an Arrow C stream. The batches have the columns `key` (binary), `value` (large binary), `seqno`
    /// (uint64) and `seal` (uint64, null if a record has none). `columns` selects them by `WAXSEAL_COLUMN_..`, 0 for
    /// all. A batch has at most `batch_rows` rows (0 means 65,536), and ends with the row at which its keys and values
    /// reach `batch_bytes` (0 means 16 MiB). A null `snapshot` reads the current state; a null `range` means all keys.
    ///
    /// A batch has no pointers into the store: batches stay valid until they are released, even after the store is
    /// closed. The previous content of `*stream` is overwritten, not released. The stream pins its view of the store
    /// until it is released. Damage does not end the stream: the rows before it come first, then one `get_next` fails
    /// with EIO and `get_last_error` describes the damage, and the next call continues behind it. After any other
    /// failure, such as one of the store's comparator, every call returns the same failure.
    ///
    /// Thread-safe; the stream is used by one thread at a time. On success the caller owns `*stream` and frees it with
    /// its `release`. Errors: `WAXSEAL_INVALID` for unknown columns, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_scan_arrow(
        family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, bounds range: *const waxseal_range_t,
        columns: u32, batch_rows: usize, batch_bytes: usize, out stream: *mut ArrowArrayStream,
    ) {
        if columns & !WAXSEAL_COLUMN_ALL != 0 {
            return Err(Failure::invalid(format!("there are no columns {columns:#x}")));
        }
        let columns = if columns == 0 { WAXSEAL_COLUMN_ALL } else { columns };
        let columns = Column::ALL.into_iter().filter(|column| columns & column.bit() != 0).collect();
        scan(family, snapshot, range?, columns, (batch_rows, batch_bytes), stream)
    }

    /// As `waxseal_scan_arrow`, with the columns in a chosen order: `count` of `WAXSEAL_COLUMN_..`, each at most once.
    ///
    /// Thread-safe; the stream is used by one thread at a time. On success the caller owns `*stream` and frees it with
    /// its `release`. Errors: as of `waxseal_scan_arrow`; `WAXSEAL_INVALID` if no column is chosen, or one twice.
    fn waxseal_scan_arrow_columns(
        family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, bounds range: *const waxseal_range_t,
        array columns: *const u32, batch_rows: usize, batch_bytes: usize, out stream: *mut ArrowArrayStream,
    ) {
        let mut chosen: Vec<Column> = Vec::new();
        for number in columns? {
            let column = Column::ALL.into_iter().find(|column| column.bit() == *number);
            let column = column.ok_or_else(|| Failure::invalid(format!("there is no column {number:#x}")))?;
            if chosen.contains(&column) {
                return Err(Failure::invalid(format!("the column {number:#x} is chosen twice")));
            }
            chosen.push(column);
        }
        if chosen.is_empty() {
            return Err(Failure::invalid("a scan without columns"));
        }
        scan(family, snapshot, range?, chosen, (batch_rows, batch_bytes), stream)
    }
}

/// Creates the stream of a scan.
fn scan(
    family: *const waxseal_family_t,
    snapshot: *const waxseal_snapshot_t,
    range: CallerBounds,
    columns: Vec<Column>,
    (batch_rows, batch_bytes): (usize, usize),
    place: Out<'_, ArrowArrayStream>,
) -> Result<()> {
    let place = place.needed("stream")?;
    let limits = limits_of(batch_rows, batch_bytes);
    let cursor = with(family, |family| {
        read(snapshot, || Ok(family.cursor_in(range.clone())), |snapshot| Ok(snapshot.cursor_in(family, range.clone())))
    })?;
    cursor.check()?;
    place.set(streamed(RowSource::new(cursor, columns, limits)));
    Ok(())
}

/// Returns the limits of batches; 0 is the default.
pub(super) fn limits_of(batch_rows: usize, batch_bytes: usize) -> Limits {
    let or = |said: usize, default: usize, most: usize| if said == 0 { default } else { said.min(most) };
    Limits { rows: or(batch_rows, BATCH_ROWS, MOST_ROWS), bytes: or(batch_bytes, BATCH_BYTES, MOST_BYTES) }
}
