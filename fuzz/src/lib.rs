//! Mended sums: a mutated file whose checks hold again, so that fuzzing reaches what stands behind them.
//!
//! In: bytes that were a file of the store before libFuzzer changed some. Out: the same bytes with every sum, link and
//! digest that can still be found computed anew (docs/format.md). Lengths and contents stay as they were changed; where
//! a length leads outside, mending stops there and the rest keeps its old sums.

use waxseal_lsm::checksum::{hash, mix};

const HEADER: usize = 64;
const PAGE: usize = 4096;
const FRAME: usize = 24;
const FOOTER: usize = 136;

/// Mends a manifest: header, page 0, witness, and the chain of edits.
pub fn manifest(data: &mut [u8]) {
    if data.len() < PAGE {
        return;
    }
    mend_header(data);
    put_u64(data, 80, hash(&data[..80]));
    let nonce = get_u64(data, 72);
    let end = chain(&mut data[PAGE..], 0, nonce);
    for at in [512, 1536] {
        put_u64(data, at, mark(end, nonce, 3));
    }
}

/// Mends the description of a backup: header, and the check at its end.
pub fn backup(data: &mut [u8]) {
    if data.len() < HEADER + 8 {
        return;
    }
    mend_header(data);
    let end = data.len() - 8;
    put_u64(data, end, hash(&data[..end]));
}

/// Mends a log segment: header, page 0, and the chain of frames.
pub fn segment(data: &mut [u8]) {
    if data.len() < PAGE {
        return;
    }
    mend_header(data);
    put_u64(data, 120, hash(&data[..120]));
    let (nonce, first) = (get_u64(data, 72), get_u64(data, 80));
    chain(&mut data[PAGE..], first, nonce);
}

/// Mends a table: header, blocks, index entries, filter lines, digest and footer.
pub fn table(data: &mut [u8]) {
    if data.len() < HEADER + FOOTER {
        return;
    }
    mend_header(data);
    let end = data.len() - FOOTER;
    let mut crcs = mend_data_blocks(data, end);
    mend_filter(data, end);
    // Places of handles in the footer and roles, in the order of the blocks in the file.
    for (handle, role) in [(60, 5), (20, 3), (40, 4), (0, 2)] {
        let (offset, stored) = (get_u64(data, end + handle), get_u32(data, end + handle + 8));
        let Some(crc) = mend_block(data, end, offset, stored as usize, role) else { continue };
        put_u32(data, end + handle + 16, crc);
        crcs.extend_from_slice(&crc.to_le_bytes());
    }
    put_u64(data, end + 112, hash(&crcs));
    let covered = [&data[end..end + 120], &data[24..40]].concat();
    put_u64(data, end + 120, hash(&covered));
}

/// Mends a value file: header, heads, values that are not packed, and the footer.
pub fn values(data: &mut [u8]) {
    const HEAD: usize = 32;
    const FOOT: usize = 40;
    if data.len() < HEADER + FOOT {
        return;
    }
    mend_header(data);
    let end = data.len() - FOOT;
    let (mut at, mut count, mut digest) = (HEADER, 0, 0);
    while at + HEAD <= end {
        let key = usize::from(data[at + 4]) | usize::from(data[at + 5]) << 8;
        let (stored, offset) = (get_u32(data, at + 8) as usize, at + HEAD + key);
        let Some(crc) = mend_block(data, end, offset as u64, stored, 8) else { break };
        if data[offset + stored] == 0 {
            put_u64(data, at + 16, hash(&data[offset..offset + stored]));
        }
        let seed = mix(get_u64(data, 24) ^ mix(get_u64(data, 32) ^ mix((at as u64) << 8 | 7))) as u32;
        let mut head = crc32fast::Hasher::new_with_initial(seed);
        head.update(&data[at + 4..offset]);
        let head = head.finalize();
        put_u32(data, at, head);
        digest = mix(digest ^ (u64::from(head) | u64::from(crc) << 32));
        (at, count) = (offset + stored + 5, count + 1);
    }
    put_u64(data, end, count);
    put_u64(data, end + 8, (end - HEADER) as u64);
    put_u64(data, end + 16, digest);
    let covered = [&data[end..end + 24], &data[24..40]].concat();
    put_u64(data, end + 24, hash(&covered));
}

fn mend_header(data: &mut [u8]) {
    put_u64(data, 56, hash(&data[..56]));
}

/// Computes sums and links of frames anew, one after the other; gives the logical length of those it reached.
fn chain(data: &mut [u8], first: u64, nonce: u64) -> u64 {
    let (mut at, mut link) = (0, nonce);
    while at + FRAME <= data.len() {
        let length = get_u32(data, at) as usize;
        let Some(body) = data[at + FRAME..].get(..length) else { break };
        if data[at..at + FRAME] == [0; FRAME] {
            break;
        }
        let sum = hash(body);
        put_u32(data, at + 4, sum as u32);
        link = mix(link ^ mix((first + at as u64).wrapping_add(0x9E37_79B9_7F4A_7C15)));
        link = mix(link ^ get_u64(data, at));
        link = mix(link ^ get_u64(data, at + 8));
        link = mix(link ^ sum);
        put_u64(data, at + 16, link);
        let unit = if data[at + 15] == 0x69 { PAGE } else { 8 };
        at = (at + FRAME + length).next_multiple_of(unit);
    }
    at as u64
}

fn mark(offset: u64, nonce: u64, role: u64) -> u64 {
    let v = offset / 8 & ((1 << 48) - 1);
    v | mix(v ^ nonce ^ role << 48) >> 48 << 48
}

/// Computes the CRC of a block and stores it there. Returns `None` if the block exceeds the file.
fn mend_block(data: &mut [u8], end: usize, offset: u64, stored: usize, role: u64) -> Option<u32> {
    let at = usize::try_from(offset).ok().filter(|at| *at >= HEADER)?;
    let behind = at.checked_add(stored)?.checked_add(1).filter(|behind| behind + 4 <= end)?;
    let seed = mix(get_u64(data, 24) ^ mix(get_u64(data, 32) ^ mix(offset << 8 | role))) as u32;
    let mut crc = crc32fast::Hasher::new_with_initial(seed);
    crc.update(&data[at..behind]);
    let crc = crc.finalize();
    put_u32(data, behind, crc);
    Some(crc)
}

/// Mends the blocks that the index names, and their CRCs in the index; gives these CRCs.
fn mend_data_blocks(data: &mut [u8], end: usize) -> Vec<u8> {
    let (mut crcs, mut offset) = (Vec::new(), HEADER as u64);
    let mut at = get_u64(data, end).min(end as u64) as usize;
    let behind = at.saturating_add(get_u32(data, end + 8) as usize).min(end);
    if at < HEADER || at + 4 > behind {
        return crcs;
    }
    let n = get_u32(data, at);
    at += 4;
    for _ in 0..n {
        let entry = (|| {
            let (_shared, unshared) = (varint(data, &mut at)?, varint(data, &mut at)?);
            at = at.checked_add(usize::try_from(unshared).ok()?)?;
            let (stored, _raw) = (varint(data, &mut at)?, varint(data, &mut at)?);
            Some(stored).filter(|_| at + 4 <= behind)
        })();
        let Some(stored) = entry else { break };
        let Some(crc) = mend_block(data, end, offset, stored as usize, 1) else { break };
        put_u32(data, at, crc);
        crcs.extend_from_slice(&crc.to_le_bytes());
        at += 4;
        offset += stored + 5;
    }
    crcs
}

/// Mends the checks of filter lines.
fn mend_filter(data: &mut [u8], end: usize) {
    let at = get_u64(data, end + 20).min(end as u64) as usize;
    let behind = at.saturating_add(get_u32(data, end + 28) as usize).min(end);
    if at < HEADER {
        return;
    }
    for (number, line) in data[at..behind].get_mut(16..).unwrap_or_default().chunks_exact_mut(64).enumerate() {
        let check = hash(&line[..60]) ^ mix(number as u64 + 1);
        put_u32(line, 60, check as u32);
    }
}

fn varint(data: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *data.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn get_u32(data: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]])
}

fn get_u64(data: &[u8], at: usize) -> u64 {
    u64::from(get_u32(data, at)) | u64::from(get_u32(data, at + 4)) << 32
}

fn put_u32(data: &mut [u8], at: usize, value: u32) {
    data[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(data: &mut [u8], at: usize, value: u64) {
    data[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    type Mender = fn(&mut [u8]);

    /// The mender leaves every unchanged seed as it is, so it finds all checksums at their offsets.
    #[test]
    fn seeds_stay_as_they_are() {
        let folders: [(&str, Mender); 3] = [("manifest", manifest), ("table", table), ("wal", segment)];
        for (folder, mend) in folders {
            let files = std::fs::read_dir(format!("{}/seeds/{folder}", env!("CARGO_MANIFEST_DIR"))).unwrap();
            for file in files.flatten() {
                let whole = std::fs::read(file.path()).unwrap();
                let mut mended = whole.clone();
                mend(&mut mended);
                assert!(whole == mended, "{:?}", file.path());
            }
        }
    }

    #[test]
    fn short_and_wild_bytes_do_not_panic() {
        for length in [0, 1, 64, 200, 4095, 4096, 5000] {
            for byte in [0, 1, 0x7F, 0xFF] {
                for mend in [manifest, segment, table] {
                    mend(&mut vec![byte; length]);
                }
            }
        }
    }
}
