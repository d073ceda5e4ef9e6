//! Block repair, for one damaged block: read it again bypassing memory and page cache, correct it, or salvage its
//! readable part.
//!
//! In:    the number of a block whose CRC does not match, or with a record that does not match its companion.
//! Out:   the whole block, and the repair that succeeded; or its readable part, and the error.
//! Holds: a block is whole if its CRC matches, its format is valid, and every record may be returned. A correction is
//!        accepted only if, in addition, every record is confirmed by its seal. Index and properties are not corrected
//!        here.

use std::sync::Arc;

use super::block_salvage::{SalvageContext, after, nothing, salvage};
use crate::checksum::{Role, block_seed, hash_key};
use crate::env::read_into;
use crate::error::{Damage, Error, Remedy, Result, Verdict};
use crate::planted;
use crate::record::{MAX_SEQNO, Record, Seqno};
use crate::seam::{Check, Companions, Protection};
use crate::sst::block::block::Block;
use crate::sst::block::frame::{BlockHandle, LOST, TRIES, check_frame, drop_cached_pages, read_error, read_framed};
use crate::sst::block::partial_block::{PartialBlock, PartialItem};
use crate::sst::index::index::Index;
use crate::sst::table::ingested::AsStored;
use crate::sst::table::table::{LoadedBlock, ReadDoubt, ReadOutcome, Table, promised};
use crate::sst::table::verify_read::{Checks, PointRead};

/// The result of a block repair.
#[expect(clippy::large_enum_variant, reason = "lives for a moment")]
pub(in crate::sst) enum RepairResult {
    /// The whole block; the repair that was needed, if any; the check result of its records, if they all have the same
    /// result.
    Whole(Block, Option<Remedy>, Option<Check>),
    /// The readable part of a block that cannot be repaired; the error.
    Salvaged(PartialBlock, Error),
}

/// Maximum length of a rebuilt table's gap that is loaded as one block: a longer one contains nothing that can be
/// distinguished.
const MOST_GAP_BYTES: usize = 4 << 20;

/// Corrections must be confirmed by every seal of the block.
fn is_confirmed() -> bool {
    planted!(HealedBlockNotConfirmed, false, true)
}

/// Returns the error for a record that must not be returned.
#[cold]
pub(in crate::sst) fn mismatch(record: &Record<'_>, check: Check) -> Error {
    let damage = Damage {
        verdict: if check == Check::Missing { Verdict::Missing } else { Verdict::Seal },
        key_range: Some((record.key.to_vec(), record.key.to_vec())),
        ..Damage::default()
    };
    Error::corruption(damage, "a record does not match its companion")
}

/// Repeats a point read after a contradiction. Unless the index is damaged, only the block is in doubt.
pub(in crate::sst) fn get(
    table: &Table,
    wanted: &PointRead<'_>,
    doubt: ReadDoubt,
    visit: &mut dyn FnMut(&Record<'_>),
) -> Result<bool> {
    match doubt {
        ReadDoubt::Block(number) if table.table_index.is_sound(wanted.index, &table.records.order) => {
            get_from(table, number, *wanted, false, visit)
        }
        _ => {
            let index = &table.trusted_partition_for(wanted.key)?.index;
            let number = index.find(wanted.key, &table.records.order);
            get_from(table, number, PointRead { index, follows: false, ..*wanted }, true, visit)
        }
    }
}

/// Performs a point read from a block on. `from_memory`: uses blocks in memory unless they contradict themselves.
fn get_from(
    table: &Table,
    mut number: usize,
    mut wanted: PointRead<'_>,
    from_memory: bool,
    visit: &mut dyn FnMut(&Record<'_>),
) -> Result<bool> {
    while number < wanted.index.end() {
        let mut outcome = Ok(ReadOutcome::Doubtful);
        if from_memory {
            outcome = match table.slots.slot(number).load_full() {
                Some(block) => ReadOutcome::in_memory(table.search_block(&block, number, &wanted, visit)),
                None => match table.fetch(number, Checks::NONE)? {
                    LoadedBlock::Whole(block) => {
                        ReadOutcome::in_memory(table.search_block(&block, number, &wanted, visit))
                    }
                    LoadedBlock::Partial(partial) => table.search_partial(&partial, &wanted, visit),
                },
            };
        }
        if matches!(outcome, Ok(ReadOutcome::Doubtful)) {
            outcome = match table.repair(number)? {
                LoadedBlock::Whole(block) => table.search_block(&block, number, &wanted, visit),
                LoadedBlock::Partial(partial) => table.search_partial(&partial, &wanted, visit),
            };
        }
        match outcome.map_err(|error| table.named(error, number))? {
            ReadOutcome::Found => return Ok(true),
            ReadOutcome::Absent => return Ok(false),
            ReadOutcome::Further => number += 1,
            ReadOutcome::Doubtful => return Err(table.disagree(number)),
        }
        wanted.follows = true;
    }
    Ok(false)
}

/// Repairs a block for a reader, or salvages its readable part, and replaces it in memory.
pub(in crate::sst) fn repair_block(table: &Table, number: usize) -> Result<LoadedBlock> {
    let before = last_before(table, number);
    let known = before.as_ref().map(|(key, seqno)| (&key[..], *seqno));
    let offset = table.offset_of(number);
    match recover(table, number, &*table.records.protector, TRIES, known)? {
        RepairResult::Whole(block, remedy, _) => {
            drop(table.slots.take(number));
            let block = table.slots.keep(number, block);
            table.watch.healed(&table.name, offset, remedy.unwrap_or(Remedy::ReadAgain));
            Ok(LoadedBlock::Whole(block))
        }
        RepairResult::Salvaged(_, error) if !error.is_corruption() => Err(error),
        RepairResult::Salvaged(partial, error) => {
            drop(table.slots.take(number));
            let partial = Arc::new(partial);
            if table.bad_blocks.add(number, &partial) {
                let keys = partial.first_gap().map(|gap| (&gap.from.0[..], &gap.to.0[..]));
                table.watch.damaged(&error.in_family(table.watch.family(), keys));
            }
            Ok(LoadedBlock::Partial(partial))
        }
    }
}

/// Returns the last record before a block, if that is more precise than the index.
fn last_before(table: &Table, number: usize) -> Option<(Vec<u8>, Seqno)> {
    let left = number.checked_sub(1).filter(|_| table.properties.versions != Some(0))?;
    if let Some(partial) = table.bad_blocks.find(left) {
        return match partial.items.last() {
            Some(PartialItem::Record(kept)) => Some((kept.record().key.to_vec(), kept.record().seqno)),
            _ => None,
        };
    }
    table.read_block(left, false).and_then(|block| block.last()).ok()
}

/// Reads a block from its file. If its check fails, rereads it up to `tries` times bypassing the page cache, then
/// tries to correct it (unless `tries` is 0). `before`: the record directly before the block, if known.
pub(in crate::sst) fn recover(
    table: &Table,
    number: usize,
    protector: &dyn Companions,
    tries: usize,
    before: Option<(&[u8], Seqno)>,
) -> Result<RepairResult> {
    let index = &table.trusted_partition_of(number)?.index;
    let Some(handle) = index.handle(number) else {
        return Err(Error::structural("a block that the index does not name"));
    };
    let protection = promised(&table.properties, protector);
    let (mut bytes, mut error) = (Vec::new(), None);
    for again in 0..=tries {
        if again > 0 {
            drop_cached_pages(&*table.file, handle.offset, handle.end());
        }
        let read = read_or_probe(table, handle);
        match read.map(|framed| (whole(table, &framed, handle, protector, protection), framed)) {
            Ok((Ok((block, check)), _)) => {
                return Ok(RepairResult::Whole(block, (again > 0).then_some(Remedy::ReadAgain), check));
            }
            Ok((Err(found), framed)) => (bytes, error) = (framed, Some(found)),
            // The bytes of an earlier read are more useful than a current device error.
            Err(found) => error = error.or(Some(found)),
        }
    }
    if tries > 0 && !bytes.is_empty() && correct(table, &mut bytes, handle, protector, protection) {
        let (block, check) = match is_confirmed() {
            true => whole(table, &bytes, handle, protector, protection)?,
            false => (table.load(bytes, handle, true)?, None),
        };
        return Ok(RepairResult::Whole(block, Some(Remedy::Corrected), check));
    }
    let error = error.unwrap_or_else(|| Error::structural("a block that cannot be read"));
    let error = error.in_file(&table.name, handle.offset);
    let fits = check_frame(&bytes, &table.expected.uid, Role::Data, handle).is_ok();
    let as_stored = AsStored(protector);
    let protector: &dyn Companions = if table.is_ingested() { &as_stored } else { protector };
    let site = site(table, index, number, protector, before, (&error, fits));
    let mut left = if bytes.is_empty() { nothing(&site) } else { salvage(&bytes, handle, &site) };
    table.bind_salvaged(&mut left);
    Ok(RepairResult::Salvaged(left, error))
}

/// Reads a block with its trailer. A long gap of a rebuilt table is only probed piece by piece, and its bytes are
/// discarded. Errors: device errors.
pub(in crate::sst) fn read_or_probe(table: &Table, handle: &BlockHandle) -> Result<Vec<u8>> {
    if handle.crc != LOST || handle.bytes() <= MOST_GAP_BYTES {
        return read_framed(&table.name, &*table.file, handle);
    }
    let mut piece = vec![0; MOST_GAP_BYTES];
    let mut at = handle.offset;
    while at < handle.end() {
        let part = (handle.end() - at).min(MOST_GAP_BYTES as u64) as usize;
        read_into(&*table.file, at, &mut piece[..part]).map_err(|error| read_error(&table.name, at, error))?;
        at += part as u64;
    }
    Ok(Vec::new())
}

/// Returns the block, if its CRC matches, its format is valid and every record may be returned. Also returns the
/// records' check result, if it is the same for all.
fn whole(
    table: &Table,
    framed: &[u8],
    handle: &BlockHandle,
    protector: &dyn Companions,
    protection: Protection,
) -> Result<(Block, Option<Check>)> {
    let block = table.load(framed.to_vec(), handle, true)?;
    let (mut first, mut same) = (None, true);
    block.each(&mut Vec::new(), |record| match protector.verify(record, hash_key(record.key), protection) {
        check if check.serves() => {
            same &= *first.get_or_insert(check) == check;
            Ok(())
        }
        check => Err(mismatch(record, check)),
    })?;
    Ok((block, first.filter(|_| same)))
}

/// Lets the protector correct a block; every record must then be confirmed by its seal.
fn correct(
    table: &Table,
    framed: &mut [u8],
    handle: &BlockHandle,
    protector: &dyn Companions,
    protection: Protection,
) -> bool {
    let seed = block_seed(&table.expected.uid, handle.offset, Role::Data);
    let mut key = Vec::new();
    protector.correct(framed, seed, &mut |candidate| {
        let confirmed = table.load(candidate.to_vec(), handle, false).and_then(|block| {
            block.each(&mut key, |record| match protector.verify(record, hash_key(record.key), protection) {
                Check::Validated => Ok(()),
                _ if !is_confirmed() => Ok(()),
                check => Err(mismatch(record, check)),
            })
        });
        confirmed.is_ok()
    })
}

/// Collects the context of a block for salvage.
fn site<'a>(
    table: &'a Table,
    index: &Index,
    number: usize,
    protector: &'a dyn Companions,
    before: Option<(&[u8], Seqno)>,
    (error, fits): (&Error, bool),
) -> SalvageContext<'a> {
    let single = table.properties.versions == Some(0);
    let from = match (number.checked_sub(1), before) {
        (None, _) => (table.properties.smallest.clone(), MAX_SEQNO),
        (Some(_), Some((key, seqno))) => after(&table.records.order, key, seqno, single),
        // The separator may be the last key of the block before, with versions that continue here.
        (Some(left), None) => (index.separator(left), if single { 0 } else { MAX_SEQNO }),
    };
    let to = match number + 1 == table.blocks() {
        true => (table.properties.largest.clone(), 0),
        false => (index.separator(number), 0),
    };
    let offset = index.handle(number).map_or(0, |handle| handle.offset);
    SalvageContext {
        order: &table.records.order,
        base: table.base,
        protector,
        protection: promised(&table.properties, protector),
        span: [from, to],
        bound: table.properties.greatest_seqno,
        single,
        dictionary: table.dictionary.as_deref(),
        more_beside: table.properties.may_have_more_beside(),
        fits,
        file: &table.name,
        seed: block_seed(&table.expected.uid, offset, Role::Data),
        offset,
        verdict: error.damage().map_or(Verdict::Missing, |damage| damage.verdict),
    }
}
