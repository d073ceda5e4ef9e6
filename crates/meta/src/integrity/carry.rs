//! The companions that a record keeps when it is salvaged into another store, and its ledger term in the old store.

use waxseal_lsm::checksum::hash;
use waxseal_lsm::codec::Reader;
use waxseal_lsm::error::Result;
use waxseal_lsm::record::{Record, companion};
use waxseal_lsm::seam::{Check, Companions};

use crate::rebuild_companions::rebuilt_companions;
use crate::seal::Seal;
use crate::stamp::Stamp;
use crate::stamped::as_emitted;

/// Returns the ledger term of a record, from its original seal even if that is damaged now.
pub(super) fn term(protector: &dyn Companions, record: &Record<'_>, check: Check) -> u64 {
    match (check == Check::CompanionDamaged).then(|| rebuilt_companions(protector, record)).flatten() {
        Some(mended) => protector.term(&Record { companion: &mended.companions, ..*record }),
        None => protector.term(record),
    }
}

/// The companions of a record for another store.
pub(super) struct CarriedCompanions {
    /// The companions, without a seqno; `None` if they must be made anew.
    pub(super) companions: Option<Vec<u8>>,
    /// Short names of the damaged companions that were dropped.
    pub(super) left_out: Vec<&'static str>,
}

/// Returns the companions of a record for another store. Unless a flush has yet to write the record's event row, its
/// stamp is changed: the row exists elsewhere, and the older version need not be kept, because the row refers to the
/// record's position in the old store.
pub(super) fn carried(
    protector: &dyn Companions,
    record: &Record<'_>,
    check: Check,
    is_unemitted: bool,
) -> Result<CarriedCompanions> {
    let (companions, left_out) = match check {
        Check::CompanionDamaged => match rebuilt_companions(protector, record) {
            Some(mended) => (mended.companions, mended.left_out),
            None => return Ok(CarriedCompanions { companions: None, left_out: vec!["what stands"] }),
        },
        _ => (record.companion.to_vec(), Vec::new()),
    };
    let unbound = unbound(&Record { companion: &companions, ..*record });
    let key_hash = hash(record.key);
    let stands_elsewhere = || matches!(Stamp::standing(&unbound, key_hash), Ok(Some(Stamp { elsewhere: true, .. })));
    let companions = if is_unemitted && !stands_elsewhere() { unbound } else { as_emitted(&unbound, key_hash)? };
    Ok(CarriedCompanions { companions: Some(companions), left_out })
}

/// Returns companions as they were before their record had a seqno: with the seal itself in place of the bound word.
/// Undecodable companions are dropped.
fn unbound(record: &Record<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(record.companion.len());
    let mut reader = Reader::new(record.companion);
    let mut copy = || -> Result<()> {
        while !reader.is_empty() {
            let (kind, before) = (reader.u8()?, reader.rest());
            if kind == companion::WORD8 {
                out.push(kind);
                out.extend_from_slice(&Seal::from_word(reader.u64()?, record.seqno).to_bytes());
                continue;
            }
            let at = reader.position();
            let length = if kind == companion::WORD4 { 4 } else { reader.varint_len()? };
            reader.bytes(length)?;
            out.push(kind);
            out.extend_from_slice(&before[..reader.position() - at]);
        }
        Ok(())
    };
    match copy() {
        Ok(()) => out,
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use waxseal_lsm::record::Kind;

    proptest! {
        #[test]
        fn a_companion_is_what_it_was_before_it_was_bound(key: Vec<u8>, value: Vec<u8>, seqno in 0u64..1 << 56, list: Vec<u8>) {
            let seal = Seal::of(&key, &value);
            let companion = |word: u64| {
                let mut out = vec![companion::WORD8];
                out.extend_from_slice(&word.to_le_bytes());
                out.push(companion::LIST);
                waxseal_lsm::codec::put_bytes(&mut out, &list);
                out
            };
            let bound = companion(seal.at(seqno));
            let record = Record { key: &key, seqno, kind: Kind::Put, value: &value, companion: &bound };
            prop_assert_eq!(unbound(&record), companion(seal.number()));
        }
    }
}
