//! Fuzzing entry point: recovers arbitrary bytes as a log.

use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::checksum::hash;
use waxseal_lsm::env::{Env, Machine, ManualClock, MemoryFs, Open, SeededRandom, work};
use waxseal_lsm::frame::{FRAME_HEADER_BYTES, FrameHeader};
use waxseal_lsm::names::StoreFileName;

use waxseal_lsm::wal::fuzzing::{PAGE, first_pages};
use waxseal_lsm::wal::{LogPlace, LogProofs, LogStart, recover, set_aside};

const NONCE: u64 = 7;
const MACHINE: Machine = Machine { boot_id: Some([1; 16]), device: 1 };

/// Recovers a log made of `data`, with one segment and a ring. The bits of the first byte choose the variant: checksums
/// and links corrected so that frames pass; another kernel; accepting a loss; with a ring. Recovery must not panic, and
/// must not use more memory than the files' size.
pub fn log(data: &[u8]) {
    let Some((flags, data)) = data.split_first() else { return };
    let (mended, moved, accept_loss, has_ring) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0, flags & 8 != 0);
    let mut frames = data.to_vec();
    if mended {
        mend(&mut frames);
    }
    let ring_bytes = if has_ring { frames.len() as u64 / 2 / PAGE * PAGE } else { 0 };
    let length = PAGE + frames.len() as u64;
    let start =
        LogStart { place: LogPlace { segment: 2, nonce: NONCE, offset: 0, link: NONCE }, ring: 1, ring_nonce: NONCE };
    let [mut segment, mut ring] = first_pages(MACHINE, NONCE, length, ring_bytes, (*flags as u64 >> 4) * 64);
    segment.extend_from_slice(&frames);
    ring.extend_from_slice(&frames[..ring_bytes as usize]);

    let env = Env {
        fs: Arc::new(MemoryFs::new()),
        clock: Arc::new(ManualClock::default()),
        random: Arc::new(SeededRandom::new(1)),
        work: work::Mode::Stepped,
    };
    let dir = Path::new("/log");
    let write = |name: StoreFileName, bytes: &[u8]| {
        let file = env.fs.open(&dir.join(name.to_string()), Open::Create)?;
        file.write_at(bytes, 0)
    };
    let written = env
        .fs
        .create_dir_all(dir)
        .and_then(|()| write(StoreFileName::Segment(2), &segment))
        .and_then(|()| write(StoreFileName::Ring(1), &ring));
    debug_assert!(written.is_ok(), "files in memory");
    let machine = if moved { Machine { device: 2, ..MACHINE } } else { MACHINE };
    let facts = LogProofs { permanent: *flags as u64, ..LogProofs::default() };
    let mut last = 0;
    let end = recover(&env, dir, &start, &facts, machine, accept_loss, &mut |replayed| {
        assert!(replayed.offset >= last && replayed.end > replayed.offset);
        last = replayed.end;
        Ok(())
    });
    if let Ok(end) = end {
        assert!(end.place.offset >= last && end.next_start >= end.place.offset);
        if let Some(cut) = end.cut {
            let mut bytes = 0;
            let kept = set_aside(&env, dir, &cut, &mut |piece| {
                bytes += piece.len() as u64;
                Ok(())
            });
            assert!(kept.is_ok() && bytes <= cut.bytes);
        }
    }
}

/// Corrects the checksums and link of every frame whose length permits it.
fn mend(frames: &mut [u8]) {
    let (mut offset, mut link) = (0, NONCE);
    while let Some(bytes) = frames.get(offset..).and_then(|rest| rest.first_chunk::<FRAME_HEADER_BYTES>()) {
        let Ok(header) = FrameHeader::decode(bytes) else { return };
        let begin = offset + FRAME_HEADER_BYTES;
        let Some(body) = frames.get(begin..).and_then(|rest| rest.get(..header.length as usize)) else { return };
        let header = FrameHeader::chained(link, offset as u64, header.kind, header.seqno, header.length, hash(body));
        frames[offset..begin].copy_from_slice(&header.encode());
        link = header.link;
        offset += header.extent() as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_bytes_are_recovered_or_refused(flags: u8, bytes: Vec<u8>) {
            log(&[&[flags][..], &bytes].concat());
        }

        /// Headers of every kind with any seqno and body, so that corrected frames follow each other.
        #[test]
        fn any_frames_are_recovered_or_refused(flags: u8, frames in proptest::collection::vec((0usize..5, 0u64..4, proptest::collection::vec(any::<u8>(), 0..5000)), 0..8), tail: Vec<u8>) {
            let mut bytes = vec![flags | 1];
            for (kind, seqno, body) in frames {
                let kind = [0x33, 0x69, 0x5A, 0x66, 0x55u64][kind];
                let word1 = seqno | kind << 56;
                bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
                bytes.extend_from_slice(&word1.to_le_bytes());
                bytes.extend_from_slice(&[0; 8]);
                bytes.extend_from_slice(&body);
                let unit = if kind == 0x69 { 4096 } else { 8 };
                bytes.resize(1 + (bytes.len() - 1).next_multiple_of(unit), 0);
            }
            bytes.extend_from_slice(&tail);
            log(&bytes);
        }
    }
}
