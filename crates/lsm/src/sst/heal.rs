//! The ladder of one block that is not right: read again past what memory holds of it, corrected, or what is left of it.
//!
//! In:    the number of a block whose sum does not fit, or a record of which does not match its companion.
//! Out:   the block whole, and what helped; or its remains, and what was wrong.
//! Holds: a block is whole if its sum fits, it reads as the format says, and every record may be given out. A correction is
//!        accepted if every record is confirmed by its seal besides. Index and properties are not corrected here.

use super::block::Block;
use super::format::{Handle, check};
use super::remains::{Remains, Site, after, nothing, remains};
use super::table::{Table, promised, read_framed};
use crate::checksum::{Role, block_seed, hash_key};
use crate::error::{Damage, Error, Remedy, Result, Verdict};
use crate::record::{MAX_SEQNO, Record, Seqno};
use crate::seam::{Check, Companions, Protection};

/// How often a block is read again.
pub(super) const TRIES: usize = 3;

/// Pages that a block lies in are dropped whole.
const PAGE_BYTES: u64 = 4096;

/// What a block was found to be.
pub(super) enum Recovered {
    /// Whole, and what made it so if it was not at first.
    Whole(Block, Option<Remedy>),
    /// Not to be made whole; what was wrong.
    Broken(Remains, Error),
}

/// How a record that may not be given out is reported.
#[cold]
pub(super) fn mismatch(record: &Record<'_>, check: Check) -> Error {
    let damage = Damage {
        verdict: if check == Check::Missing { Verdict::Missing } else { Verdict::Seal },
        key_range: Some((record.key.to_vec(), record.key.to_vec())),
        ..Damage::default()
    };
    Error::corruption(damage, "a record does not match its companion")
}

impl Table {
    /// Reads a block from its file, up to `tries` times again past the page cache, and corrects it if that does not help
    /// and it may be tried (`tries` is not 0). `before`: the record that stands in front of the block, if that is known.
    pub(super) fn recover(
        &self,
        number: usize,
        keeper: &dyn Companions,
        tries: usize,
        before: Option<(&[u8], Seqno)>,
    ) -> Result<Recovered> {
        let Some(handle) = self.index.handle(number) else {
            return Err(Error::structural("a block that the index does not name"));
        };
        let protection = promised(&self.properties, keeper);
        let (mut bytes, mut error) = (Vec::new(), None);
        for again in 0..=tries {
            if again > 0 {
                self.drop_pages(handle);
            }
            let read = read_framed(&self.name, &*self.file, handle);
            match read.and_then(|framed| Ok((self.whole(&framed, handle, keeper, protection), framed))) {
                Ok((Ok(block), _)) => return Ok(Recovered::Whole(block, (again > 0).then_some(Remedy::ReadAgain))),
                Ok((Err(found), framed)) => (bytes, error) = (framed, Some(found)),
                // What was read before says more than a device that does not answer now.
                Err(found) => error = error.or(Some(found)),
            }
        }
        if tries > 0 && !bytes.is_empty() && self.correct(&mut bytes, handle, keeper, protection) {
            let block = self.whole(&bytes, handle, keeper, protection)?;
            return Ok(Recovered::Whole(block, Some(Remedy::Corrected)));
        }
        let error = error.unwrap_or_else(|| Error::structural("a block that cannot be read"));
        let error = error.in_file(&self.name, handle.offset);
        let site =
            self.site(number, keeper, before, &error, check(&bytes, &self.expected.uid, Role::Data, handle).is_ok());
        let left = if bytes.is_empty() { nothing(&site) } else { remains(&bytes, handle, &site) };
        Ok(Recovered::Broken(left, error))
    }

    /// The block, if its sum fits, it reads as it should and every record of it may be given out.
    fn whole(&self, framed: &[u8], handle: &Handle, keeper: &dyn Companions, protection: Protection) -> Result<Block> {
        let block = self.load(framed.to_vec(), handle, true)?;
        block.each(&mut Vec::new(), |record| match keeper.verify(record, hash_key(record.key), protection) {
            check if check.serves() => Ok(()),
            check => Err(mismatch(record, check)),
        })?;
        Ok(block)
    }

    /// Lets the keeper correct a block; every record of it must be confirmed by its seal.
    fn correct(&self, framed: &mut [u8], handle: &Handle, keeper: &dyn Companions, protection: Protection) -> bool {
        let seed = block_seed(&self.expected.uid, handle.offset, Role::Data);
        let mut key = Vec::new();
        keeper.correct(framed, seed, &mut |candidate| {
            let confirmed = self.load(candidate.to_vec(), handle, false).and_then(|block| {
                block.each(&mut key, |record| match keeper.verify(record, hash_key(record.key), protection) {
                    Check::Validated => Ok(()),
                    check => Err(mismatch(record, check)),
                })
            });
            confirmed.is_ok()
        })
    }

    /// What is known of a block from elsewhere.
    fn site<'a>(
        &'a self,
        number: usize,
        keeper: &'a dyn Companions,
        before: Option<(&[u8], Seqno)>,
        error: &Error,
        fits: bool,
    ) -> Site<'a> {
        let single = self.properties.versions == Some(0);
        let from = match (number.checked_sub(1), before) {
            (None, _) => (self.properties.smallest.clone(), MAX_SEQNO),
            (Some(_), Some((key, seqno))) => after(&self.order, key, seqno, single),
            // The last key of the block before may be its separator, with versions that go on here.
            (Some(left), None) => (self.index.separator(left), if single { 0 } else { MAX_SEQNO }),
        };
        let to = match number + 1 == self.index.len() {
            true => (self.properties.largest.clone(), 0),
            false => (self.index.separator(number), 0),
        };
        Site {
            order: &self.order,
            base: self.base,
            keeper,
            protection: promised(&self.properties, keeper),
            span: [from, to],
            bound: self.properties.greatest_seqno,
            single,
            fits,
            file: &self.name,
            offset: self.index.handle(number).map_or(0, |handle| handle.offset),
            verdict: error.damage().map_or(Verdict::Missing, |damage| damage.verdict),
        }
    }

    /// Lets the operating system forget what it holds of a block.
    fn drop_pages(&self, handle: &Handle) {
        let from = handle.offset / PAGE_BYTES * PAGE_BYTES;
        let to = handle.end().next_multiple_of(PAGE_BYTES);
        self.file.advise(from, to - from, false);
    }
}
