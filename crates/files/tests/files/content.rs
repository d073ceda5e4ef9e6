//! Whole files: sizes around every limit, streams, copies, holes.

use std::io::Write;

use waxseal::Db;
use waxseal_files::{Condition, ErrorKind, FileStore, Files, MAX_INLINE_BYTES, OpenOptions, SetAttributes};

use crate::store::{assert_clean, bytes, fails, memory, names};

/// Sizes at which a content changes its form: inline, one chunk, many, one batch, stream.
const SIZES: &[usize] = &[
    0,
    1,
    MAX_INLINE_BYTES,
    MAX_INLINE_BYTES + 1,
    4095,
    4096,
    4097,
    8192,
    100_000,
    (4 << 20) - 1,
    4 << 20,
    (4 << 20) + 1,
];

#[test]
fn files_of_all_sizes_are_read_as_they_were_written() {
    let fs = memory();
    for size in SIZES {
        let content = bytes(*size, *size as u64);
        fs.write("whole", &content).unwrap();
        let mut writer = fs.writer("stream").unwrap();
        content.chunks(3000).for_each(|part| writer.write_all(part).unwrap());
        writer.finish().unwrap();
        fs.copy("stream", "copy").unwrap();
        for path in ["whole", "stream", "copy"] {
            assert!(fs.read(path).unwrap() == content, "{path} of {size} bytes");
            assert_eq!(fs.stat(path).unwrap().size, *size as u64);
        }
        let digest = |path| fs.stat(path).unwrap().digest;
        assert!(digest("whole") == digest("stream") && digest("whole") == digest("copy"), "{size} bytes");
    }
    assert_clean(&fs);
}

#[test]
fn a_read_at_a_position_is_a_part_of_the_file() {
    let fs = memory();
    for size in [0, 700, 4096, 10_000] {
        let content = bytes(size, 3);
        fs.write("file", &content).unwrap();
        let (file, snapshot) = (fs.open("file").unwrap(), fs.snapshot().open("file").unwrap());
        for offset in [0, 1, 699, 700, 4095, 4096, 9999, 10_000, 20_000] {
            for length in [0, 1, 4096, 5000, 20_000] {
                let end = (offset + length).min(size);
                let expected = content.get(offset..end).unwrap_or_default();
                let mut out = vec![1; length];
                let read = file.read_at(&mut out, offset as u64).unwrap();
                assert_eq!(&out[..read], expected, "{length} at {offset} of {size}");
                let read = snapshot.read_at(&mut out, offset as u64).unwrap();
                assert_eq!(&out[..read], expected, "{length} at {offset} of {size} in a snapshot");
            }
        }
        let mut out = [0; 10];
        assert_eq!(file.read_at(&mut out, u64::MAX).unwrap(), 0);
    }
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing() {
    let fs = memory();
    fs.write("file", "old").unwrap();
    let mut writer = fs.writer("file").unwrap();
    writer.write_all(&bytes(50_000, 1)).unwrap();
    assert_eq!((fs.read("file").unwrap(), fs.reclaim().unwrap()), (b"old".to_vec(), 0));
    assert!(fs.fsck().unwrap().is_clean(), "chunks of a stream have a reclaim record");
    drop(writer);
    assert_clean(&fs);
    let mut writer = fs.writer("file").unwrap();
    writer.write_all(&bytes(50_000, 1)).unwrap();
    fs.remove("file").unwrap();
    fs.mkdir("file").unwrap();
    fails(writer.finish(), ErrorKind::IsDirectory);
    assert_clean(&fs);
}

#[test]
fn several_files_get_their_contents_in_one_step() {
    let fs = memory();
    fs.write("old", bytes(20_000, 1)).unwrap();
    fs.set_attributes("old", &SetAttributes::new().mode(0o600)).unwrap();
    fs.mkdir("dir").unwrap();
    let writer = |fs: &Files, path: &str, length| {
        let mut writer = fs.writer(path).unwrap();
        writer.write_all(&bytes(length, 2)).unwrap();
        writer
    };
    let (before, reader) = (fs.snapshot(), fs.open("old").unwrap());
    let written = fs
        .finish_all([
            writer(&fs, "old", 9_000),
            writer(&fs, "twice", 50_000),
            writer(&fs, "dir/new", 7),
            writer(&fs, "twice", 8),
        ])
        .unwrap();
    let seen = written.iter().map(|metadata| (metadata.size, metadata.mode)).collect::<Vec<_>>();
    assert_eq!(seen, [(9_000, 0o600), (7, 0o644), (8, 0o644)], "of two writers of one path the last one counts");
    for (path, length) in [("old", 9_000), ("dir/new", 7), ("twice", 8)] {
        assert!(fs.read(path).unwrap() == bytes(length, 2) && fs.stat(path).unwrap().size == length as u64);
    }
    assert!(before.read("old").unwrap() == bytes(20_000, 1) && !before.exists("twice").unwrap());
    assert_eq!((reader.path(), reader.metadata().size), (None, 20_000));
    drop((before, reader));
    assert_clean(&fs);
    // None appears if one cannot, and no content stays.
    fs.mkdir("taken").unwrap();
    fails(fs.finish_all([writer(&fs, "a", 40_000), writer(&fs, "taken", 40_000)]), ErrorKind::IsDirectory);
    let absent = || writer(&fs, "b", 40_000).only_if(Condition::Absent);
    fails(fs.finish_all([absent(), absent()]), ErrorKind::ConditionFailed);
    let other = memory();
    fails(fs.finish_all([writer(&fs, "a", 40_000), writer(&other, "b", 40_000)]), ErrorKind::Invalid);
    assert_eq!(names(&fs, ""), ["dir", "old", "taken", "twice"]);
    assert_clean(&fs);
    assert_clean(&other);
    assert!(fs.finish_all([]).unwrap().is_empty());
}

/// What does not fit into one batch of 4 MiB is written before it, as a stream: with a reclaim record that the batch
/// removes.
#[test]
fn contents_beyond_one_batch_are_written_before_it() {
    let db = Db::memory().unwrap();
    let fs = FileStore::open(&db, "files").unwrap();
    let writers = (0..40).map(|number: u64| {
        let mut writer = fs.writer(number.to_string()).unwrap();
        writer.write_all(&bytes(200_000, number)).unwrap();
        writer
    });
    let (writers, before) = (writers.collect::<Vec<_>>(), db.metrics().visible_seqno);
    fs.finish_all(writers).unwrap();
    let records = db.metrics().visible_seqno - before;
    let (files, streams) = (40, 20); // 20 contents fit
    assert!(records > 2 * files + 2 * (streams - 5) && records < 4 * files, "{records} records");
    for number in 0..40 {
        assert!(fs.read(number.to_string()).unwrap() == bytes(200_000, number));
    }
    assert_clean(&fs);
}

#[test]
fn the_last_of_several_writers_wins_whole() {
    let fs = memory();
    let contents: Vec<Vec<u8>> = (0..8).map(|n| bytes(30_000 + n as usize, n)).collect();
    std::thread::scope(|scope| {
        for content in &contents {
            let fs = &fs;
            scope.spawn(move || {
                for n in 0..10 {
                    fs.write("shared", content).unwrap();
                    let own = format!("own-{}-{n}", content.len());
                    fs.write(&own, content).unwrap();
                    let read = fs.read("shared").unwrap();
                    assert!(read.len() >= 30_000 && read == bytes(read.len(), read.len() as u64 - 30_000));
                }
            });
        }
    });
    assert_eq!(names(&fs, "").len(), 81);
    assert_clean(&fs);
}

#[test]
fn a_terabyte_of_holes_takes_no_space() {
    const TERABYTE: u64 = 1 << 40;
    let fs = FileStore::open(&Db::memory().unwrap(), "files").unwrap();
    fs.write("sparse", "begin").unwrap();
    fs.truncate("sparse", TERABYTE).unwrap();
    let file = fs.open_with("sparse", &OpenOptions::new().read(true).write(true)).unwrap();
    file.write_at(b"middle", TERABYTE / 2).unwrap();
    assert_eq!(file.append(b"end").unwrap(), TERABYTE);
    file.close().unwrap();
    fs.copy("sparse", "copy").unwrap();
    for path in ["sparse", "copy"] {
        let metadata = fs.stat(path).unwrap();
        assert_eq!((metadata.size, metadata.allocated), (TERABYTE + 3, 3 * 256 * 1024));
        let file = fs.open(path).unwrap();
        for (place, expected) in [(0, &b"begin\0"[..]), (TERABYTE / 2 - 1, b"\0middle\0"), (TERABYTE - 2, b"\0\0end")] {
            let mut out = vec![9; expected.len()];
            assert_eq!(file.read_at(&mut out, place).unwrap(), expected.len());
            assert_eq!(out, expected, "at {place}");
        }
    }
    assert_eq!(fs.stat("sparse").unwrap().digest, fs.stat("copy").unwrap().digest);
    assert_clean(&fs);
}

/// A skip is a write of zeros, wherever it begins and ends.
#[test]
fn skipped_bytes_are_zeros() {
    let fs = memory();
    for parts in
        [&[(5, 0), (0, 4091), (1, 4096)][..], &[(4096, 4096), (0, 1)], &[(3, 20_000), (9_000, 8192 + 7)], &[(0, 7)]]
    {
        let (mut skipped, mut content) = (fs.writer("skipped").unwrap(), Vec::new());
        for (length, zeros) in parts {
            skipped.write_all(&bytes(*length, 1)).unwrap();
            skipped.skip(*zeros).unwrap();
            content.extend(bytes(*length, 1));
            content.resize(content.len() + *zeros as usize, 0);
        }
        let skipped = skipped.finish().unwrap();
        fs.write("written", &content).unwrap();
        let written = fs.stat("written").unwrap();
        assert_eq!(fs.read("skipped").unwrap(), content);
        assert_eq!((skipped.digest, skipped.allocated), (written.digest, written.allocated), "{parts:?}");
    }
    let mut writer = fs.writer("endless").unwrap();
    fails(writer.skip(u64::MAX), ErrorKind::TooLarge);
    drop(writer);
    assert_clean(&fs);
}

#[test]
fn zeros_are_holes_and_have_one_digest() {
    let fs = memory();
    fs.write("zeros", vec![0; 40_960]).unwrap();
    fs.write("hole", "").unwrap();
    fs.truncate("hole", 40_960).unwrap();
    let (zeros, hole) = (fs.stat("zeros").unwrap(), fs.stat("hole").unwrap());
    assert_eq!((zeros.allocated, hole.allocated), (0, 0));
    assert_eq!((zeros.digest, zeros.size), (hole.digest, hole.size));
    assert_eq!(fs.read("hole").unwrap(), vec![0; 40_960]);
    assert_clean(&fs);
}

#[test]
fn more_holes_than_an_entry_lists_are_filled() {
    let fs = memory();
    fs.write("comb", "").unwrap();
    let file = fs.open_with("comb", &OpenOptions::new().write(true)).unwrap();
    for tooth in 0..1100 {
        file.write_at(b"x", tooth * 2 * 4096 + 4096).unwrap();
    }
    file.close().unwrap();
    fs.copy("comb", "copy").unwrap();
    for path in ["comb", "copy"] {
        let content = fs.read(path).unwrap();
        assert_eq!(content.iter().filter(|byte| **byte == b'x').count(), 1100);
        assert_eq!(fs.stat(path).unwrap().allocated, (1100 + 76) * 4096);
    }
    assert_clean(&fs);
}

/// The holes that an entry cannot list are filled in one batch, which is bounded: the write fails before anything changes.
#[test]
fn holes_that_are_too_large_to_fill_are_refused_at_once() {
    let fs = memory();
    let file = fs.open_with("comb", &OpenOptions::new().read(true).write(true).create(true)).unwrap();
    let (mut teeth, gap) = (0u64, 30_001);
    while file.write_at(b"x", (teeth * gap + gap - 1) * 4096).is_ok() {
        teeth += 1;
        assert!(teeth < 2000, "a flush would fill {} chunks", (teeth - 1024) * (gap - 1));
    }
    assert_eq!(teeth, 1024 + 2, "two holes of 30,000 chunks can be filled");
    let size = file.metadata().size;
    fails(file.write_at(b"x", (teeth * gap + gap - 1) * 4096), ErrorKind::TooLarge);
    fails(file.set_len(size + (1 << 40)), ErrorKind::TooLarge);
    assert_eq!(file.metadata().size, size);
    file.write_at(b"y", size).unwrap(); // behind the last tooth
    file.close().unwrap();
    assert_eq!(fs.stat("comb").unwrap().allocated, (1026 + 60_000) * 4096);
    assert!(fs.fsck().unwrap().is_clean());
}

/// Positions as `lseek` returns them for `SEEK_HOLE` and `SEEK_DATA`.
#[test]
fn holes_and_data_are_found() {
    let fs = memory();
    fs.write("small", "0123456789").unwrap();
    let small = fs.open("small").unwrap();
    assert_eq!(
        [0, 9, 10].map(|at| (small.next_hole(at), small.next_data(at))),
        [(Some(10), Some(0)), (Some(10), Some(9)), (None, None)]
    );
    fs.write("full", bytes(10_000, 1)).unwrap();
    let full = fs.open("full").unwrap();
    assert_eq!((full.next_hole(5_000), full.next_data(5_000)), (Some(10_000), Some(5_000)));
    let file = fs.open_with("file", &OpenOptions::new().write(true).read(true).create(true)).unwrap();
    assert_eq!((file.next_hole(0), file.next_data(0)), (None, None));
    file.write_at(b"x", 2 * 4096 + 5).unwrap();
    file.write_at(&[1; 5000], 6 * 4096).unwrap();
    file.set_len(10 * 4096 - 1).unwrap();
    let cases = [
        (0, 0, 8192),
        (4097, 4097, 8192),
        (8192, 12_288, 8192),
        (9000, 12_288, 9000),
        (12_288, 12_288, 24_576),
        (30_000, 32_768, 30_000),
    ];
    for is_flushed in [false, true] {
        if is_flushed {
            file.flush().unwrap();
            let snapshot = fs.snapshot().open("file").unwrap();
            assert_eq!(
                cases.map(|(at, ..)| (snapshot.next_hole(at), snapshot.next_data(at))),
                cases.map(|(_, hole, data)| (Some(hole), Some(data)))
            );
        }
        for (at, hole, data) in cases {
            assert_eq!(
                (file.next_hole(at), file.next_data(at)),
                (Some(hole), Some(data)),
                "{at}, flushed: {is_flushed}"
            );
        }
        assert_eq!((file.next_hole(33_000), file.next_data(33_000)), (Some(33_000), None));
        assert_eq!((file.next_hole(40_959), file.next_data(u64::MAX)), (None, None));
    }
}
