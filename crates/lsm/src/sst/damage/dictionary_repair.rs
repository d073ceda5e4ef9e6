//! Correction of a damaged dictionary by its CRC, confirmed by blocks that are compressed with it.

use crate::checksum::{Role, block_seed, hash_key};
use crate::env::File;
use crate::header::Header;
use crate::order::Order;
use crate::seam::{Check, Companions, Protection};
use crate::sst::block::codec::Dictionary;
use crate::sst::block::frame::{Handle, Stored, check, read_framed};
use crate::sst::block::scan::{Keys, walk};
use crate::sst::index::partitions::PartSource;
use crate::sst::table::tail::{Parts, Tail, read_ends};

/// Number of blocks that must confirm a correction.
const CONFIRMED_BY: usize = 8;

/// Corrects bit flips in a dictionary by its CRC. Returns the dictionary and its offset if blocks compressed with it
/// confirm the correction by all their seals.
#[cold]
pub(in crate::sst) fn corrected(
    name: &str,
    file: &dyn File,
    parts: &Parts,
    order: &Order,
    keeper: &dyn Companions,
) -> Option<(Dictionary, u64)> {
    let size = file.len().ok()?;
    let (Header { uid, .. }, footer) = read_ends(name, file, size, &Tail::read(file, size)).ok()?;
    let mut framed = read_framed(name, file, &footer.side).ok()?;
    let source = PartSource { name, file, uid, order, filtered: false };
    let of = |framed: &[u8]| Dictionary::of(framed.get(..footer.side.stored_len as usize)?).ok();
    let judged = |handle: &Handle, dictionary: &Dictionary| {
        let framed = read_framed(name, file, handle).ok()?;
        let (stored, codec) = check(&framed, &uid, Role::Data, handle).ok()?;
        let (stored, mut scratch) = (Stored::split(stored, codec).ok().filter(Stored::is_zstd)?, Vec::new());
        let Ok(body) = stored.body(handle.raw_len, &mut scratch, Some(dictionary)) else { return Some(false) };
        let mut sound = true;
        let walked = walk(body, stored.column, parts.base, order, &mut Keys::default(), |_, record| {
            sound &= keeper.verify(record, hash_key(record.key), Protection::Complete) == Check::Validated;
            Ok(())
        });
        Some(walked.is_ok() && sound)
    };
    let mut confirm = |framed: &[u8]| {
        let Some(dictionary) = of(framed) else { return false };
        let ranges = parts.guide.spans().iter().filter_map(|span| source.read(span).0.ok());
        let handles = parts.guide.loaded().flat_map(|part| part.index.handles().to_vec());
        let handles = handles.chain(ranges.flat_map(|index| index.handles().to_vec()));
        let mut judged = handles.filter_map(|handle| judged(&handle, &dictionary)).take(CONFIRMED_BY);
        judged.next() == Some(true) && judged.all(|sound| sound)
    };
    let seed = block_seed(&uid, footer.side.offset, Role::Side);
    let is_corrected = keeper.correct(&mut framed, seed, &mut confirm);
    is_corrected.then(|| of(&framed)).flatten().map(|dictionary| (dictionary, footer.side.offset))
}
