//! The call that makes a stream of a scan.

use super::abi::ArrowArrayStream;
use super::columns::Column;
use super::stream::{Limits, Source, streamed};
use crate::call::answer;
use crate::error::{Failure, Result, waxseal_error_t};
use crate::family::waxseal_family_t;
use crate::handle::with;
use crate::lent::{Out, lent_array, out};
use crate::range::{Bounds, bounds, waxseal_range_t};
use crate::snapshot::{read, waxseal_snapshot_t};

/// The keys of a scan, as column `key`.
pub const WAXSEAL_COLUMN_KEY: u32 = 1;
/// The values, as column `value`.
pub const WAXSEAL_COLUMN_VALUE: u32 = 2;
/// Their places in the order of commits, as column `seqno`; 0 once no snapshot can tell.
pub const WAXSEAL_COLUMN_SEQNO: u32 = 4;
/// The seals of the records as numbers, their bytes low first, as column `seal`; null where a record has none.
pub const WAXSEAL_COLUMN_SEAL: u32 = 8;
/// All columns.
pub const WAXSEAL_COLUMN_ALL: u32 = 15;

const _: () = assert!(
    WAXSEAL_COLUMN_KEY == Column::Key.bit()
        && WAXSEAL_COLUMN_VALUE == Column::Value.bit()
        && WAXSEAL_COLUMN_SEQNO == Column::Seqno.bit()
        && WAXSEAL_COLUMN_SEAL == Column::Seal.bit()
);

/// Rows of a batch, if nothing else is said.
const BATCH_ROWS: usize = 64 * 1024;
/// Bytes of keys and values of a batch, if nothing else is said.
const BATCH_BYTES: usize = 16 << 20;
/// No batch is asked to have more: its keys are found by offsets of 32 bits.
const MOST_ROWS: usize = 16 << 20;
/// Likewise.
const MOST_BYTES: usize = 1 << 30;

/// A scan as an Arrow C stream: batches with the columns `key` (binary), `value` (large binary), `seqno` (uint64) and `seal` (uint64, null where
/// a record has none), of which `columns` chooses by `WAXSEAL_COLUMN_..`, 0 for all. A batch has at most `batch_rows` rows (0: 65,536) and
/// ends with the row by which its keys and values reach `batch_bytes` (0: 16 MiB). `snapshot` null: as it is now; `range` null: all keys.
///
/// Nothing of a batch points into the store: batches live until they are released, also after the store is closed. What stands in
/// `*stream` is overwritten, not released. The stream holds its view of the store until it is released. Damage is told and passed: the rows
/// before it come first, then one `get_next` fails with EIO and `get_last_error` says why, the next one goes on behind it. After any other
/// failure, that of the store's comparator among them, the stream says the same for ever.
///
/// Thread-safe; the stream is used by one thread at a time. On success `*stream` is the caller's, to be ended by its `release`. Errors:
/// `WAXSEAL_INVALID` for columns that there are not, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_scan_arrow(
    family: *const waxseal_family_t,
    snapshot: *const waxseal_snapshot_t,
    range: *const waxseal_range_t,
    columns: u32,
    batch_rows: usize,
    batch_bytes: usize,
    stream: *mut ArrowArrayStream,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (range, place, error) = unsafe { (bounds(range), out(stream), out(error)) };
    answer(error, || {
        if columns & !WAXSEAL_COLUMN_ALL != 0 {
            return Err(Failure::invalid(format!("there are no columns {columns:#x}")));
        }
        let columns = if columns == 0 { WAXSEAL_COLUMN_ALL } else { columns };
        let columns = Column::ALL.into_iter().filter(|column| columns & column.bit() != 0).collect();
        scan(family, snapshot, range?, columns, (batch_rows, batch_bytes), place)
    })
}

/// `waxseal_scan_arrow` with the columns in a chosen order: `count` of `WAXSEAL_COLUMN_..`, each at most once.
///
/// Thread-safe; the stream is used by one thread at a time. On success `*stream` is the caller's, to be ended by its `release`. Errors: as of
/// `waxseal_scan_arrow`; `WAXSEAL_INVALID` without columns, and for one that is named twice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_scan_arrow_columns(
    family: *const waxseal_family_t,
    snapshot: *const waxseal_snapshot_t,
    range: *const waxseal_range_t,
    columns: *const u32,
    count: usize,
    batch_rows: usize,
    batch_bytes: usize,
    stream: *mut ArrowArrayStream,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (range, columns, place, error) =
        unsafe { (bounds(range), lent_array(columns, count), out(stream), out(error)) };
    answer(error, || {
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
        scan(family, snapshot, range?, chosen, (batch_rows, batch_bytes), place)
    })
}

/// Makes the stream of a scan.
fn scan(
    family: *const waxseal_family_t,
    snapshot: *const waxseal_snapshot_t,
    range: Bounds,
    columns: Vec<Column>,
    (batch_rows, batch_bytes): (usize, usize),
    place: Out<'_, ArrowArrayStream>,
) -> Result<()> {
    let place = place.needed("stream")?;
    let or = |said: usize, default: usize, most: usize| if said == 0 { default } else { said.min(most) };
    let limits =
        Limits { rows: or(batch_rows, BATCH_ROWS, MOST_ROWS), bytes: or(batch_bytes, BATCH_BYTES, MOST_BYTES) };
    let cursor = with(family, |family| {
        read(snapshot, || Ok(family.cursor_in(range.clone())), |snapshot| Ok(snapshot.cursor_in(family, range.clone())))
    })?;
    cursor.check()?;
    place.set(streamed(Source::new(cursor, columns, limits)));
    Ok(())
}
