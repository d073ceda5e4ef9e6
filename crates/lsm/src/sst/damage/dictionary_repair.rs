//! Correction of a damaged dictionary by its CRC, confirmed by blocks that are compressed with it.

use crate::checksum::{Role, block_seed, hash_key};
use crate::env::File;
use crate::header::FileHeader;
use crate::order::Order;
use crate::seam::{Check, Companions, Protection};
use crate::sst::block::codec::Dictionary;
use crate::sst::block::frame::{BlockHandle, StoredBlock, check_frame, read_framed};
use crate::sst::block::scan::{KeyBuffer, scan_entries};
use crate::sst::index::partitions::PartitionReader;
use crate::sst::table::tail::{TableMetadata, TableTail, read_ends};

/// Number of blocks that must confirm a correction.
const CONFIRMED_BY: usize = 8;

/// Corrects bit flips in a dictionary by its CRC. Returns the dictionary and its offset if blocks compressed with it
/// confirm the correction by all their seals.
#[cold]
pub(in crate::sst) fn corrected(
    name: &str,
    file: &dyn File,
    parts: &TableMetadata,
    order: &Order,
    protector: &dyn Companions,
) -> Option<(Dictionary, u64)> {
    let size = file.len().ok()?;
    let (FileHeader { uid, .. }, footer) = read_ends(name, file, size, &TableTail::read(file, size)).ok()?;
    let mut framed = read_framed(name, file, &footer.side).ok()?;
    let source = PartitionReader { name, file, uid, order, filtered: false };
    let of = |framed: &[u8]| Dictionary::of(framed.get(..footer.side.stored_len as usize)?).ok();
    let judged = |handle: &BlockHandle, dictionary: &Dictionary| {
        let framed = read_framed(name, file, handle).ok()?;
        let (stored, codec) = check_frame(&framed, &uid, Role::Data, handle).ok()?;
        let (stored, mut scratch) = (StoredBlock::split(stored, codec).ok().filter(StoredBlock::is_zstd)?, Vec::new());
        let Ok(body) = stored.body(handle.raw_len, &mut scratch, Some(dictionary)) else { return Some(false) };
        let mut sound = true;
        let walked = scan_entries(body, stored.column, parts.base, order, &mut KeyBuffer::default(), |_, record| {
            sound &= protector.verify(record, hash_key(record.key), Protection::Complete) == Check::Validated;
            Ok(())
        });
        Some(walked.is_ok() && sound)
    };
    let mut confirm = |framed: &[u8]| {
        let Some(dictionary) = of(framed) else { return false };
        let ranges = parts.table_index.spans().iter().filter_map(|span| source.read(span).0.ok());
        let handles = parts.table_index.loaded().flat_map(|part| part.index.handles().to_vec());
        let handles = handles.chain(ranges.flat_map(|index| index.handles().to_vec()));
        let mut judged = handles.filter_map(|handle| judged(&handle, &dictionary)).take(CONFIRMED_BY);
        judged.next() == Some(true) && judged.all(|sound| sound)
    };
    let seed = block_seed(&uid, footer.side.offset, Role::Side);
    let is_corrected = protector.correct(&mut framed, seed, &mut confirm);
    is_corrected.then(|| of(&framed)).flatten().map(|dictionary| (dictionary, footer.side.offset))
}
