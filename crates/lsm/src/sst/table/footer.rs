//! The footer of a table file: where its other blocks are, and its digest. See docs/format.md, section 4.6.

use crate::checksum::{Uid, hash};
use crate::codec::Reader;
use crate::error::{Damage, Error, Result, Verdict};
use crate::sst::block::frame::BlockHandle;

/// Length of the footer.
pub(in crate::sst) const FOOTER_BYTES: usize = 136;

/// The last bytes of a table.
const MAGIC: &[u8; 8] = b"WAXTABLE";

/// The footer of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::sst) struct TableFooter {
    pub(in crate::sst) index: BlockHandle,
    pub(in crate::sst) filter: BlockHandle,
    pub(in crate::sst) properties: BlockHandle,
    pub(in crate::sst) range_deletes: BlockHandle,
    pub(in crate::sst) side: BlockHandle,
    /// The base that seqnos in blocks are relative to.
    pub(in crate::sst) base_seqno: u64,
    /// Hash of the CRCs of all blocks; the manifest stores it too.
    pub(in crate::sst) digest: u64,
}

impl TableFooter {
    /// Returns the blocks after the data blocks, in file order.
    pub(in crate::sst) fn sides(&self) -> [&BlockHandle; 4] {
        [&self.side, &self.filter, &self.properties, &self.index]
    }

    /// The bytes on disk.
    pub(in crate::sst) fn encode(&self, uid: &Uid) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        for handle in [&self.index, &self.filter, &self.properties, &self.range_deletes, &self.side] {
            handle.put(&mut out);
        }
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.base_seqno.to_le_bytes());
        out.extend_from_slice(&self.digest.to_le_bytes());
        out.extend_from_slice(&footer_check(&out, uid).to_le_bytes());
        out.extend_from_slice(MAGIC);
        debug_assert_eq!(out.len(), FOOTER_BYTES);
        out
    }

    /// Reads a footer. Its check covers the header's uid, so that both ends of a file belong together.
    pub(in crate::sst) fn decode(bytes: &[u8], uid: &Uid) -> Result<TableFooter> {
        let mut reader = Reader::new(bytes);
        let covered = reader.bytes(FOOTER_BYTES - 16)?;
        let expected = reader.u64()?;
        if reader.bytes(MAGIC.len())? != MAGIC {
            return Err(Error::structural("the file does not end like a table"));
        }
        let found = footer_check(covered, uid);
        if expected != found {
            return Err(Error::mismatch(expected, found, "table footer"));
        }
        let mut reader = Reader::new(covered);
        let [index, filter, properties, range_deletes, side] = [
            BlockHandle::take(&mut reader)?,
            BlockHandle::take(&mut reader)?,
            BlockHandle::take(&mut reader)?,
            BlockHandle::take(&mut reader)?,
            BlockHandle::take(&mut reader)?,
        ];
        reader.u32()?;
        let (base_seqno, digest) = (reader.u64()?, reader.u64()?);
        Ok(TableFooter { index, filter, properties, range_deletes, side, base_seqno, digest })
    }
}

fn footer_check(covered: &[u8], uid: &Uid) -> u64 {
    hash(&[covered, &uid.0].concat())
}

/// Computes the digest of a table: the hash of its blocks' CRCs in file order.
pub(in crate::sst) fn digest(crcs: impl Iterator<Item = u32>) -> u64 {
    let bytes: Vec<u8> = crcs.flat_map(u32::to_le_bytes).collect();
    hash(&bytes)
}

/// The error for valid bytes that belong elsewhere.
pub(in crate::sst) fn misplaced(message: &str) -> Error {
    Error::corruption(Damage { verdict: Verdict::Misplaced, ..Damage::default() }, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: Uid = Uid([3; 16]);

    #[test]
    fn footers_come_back_and_no_flipped_bit_passes() {
        let handle = BlockHandle { offset: 64, stored_len: 7, raw_len: 8, crc: 9 };
        let footer =
            TableFooter { index: handle, properties: handle, base_seqno: 5, digest: 6, ..TableFooter::default() };
        let bytes = footer.encode(&UID);
        assert_eq!(TableFooter::decode(&bytes, &UID).unwrap(), footer);
        assert!(TableFooter::decode(&bytes, &Uid([4; 16])).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(TableFooter::decode(&flipped, &UID).is_err(), "bit {bit}");
        }
    }
}
