//! Tests of value files: writing, reading, damage, and scans.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::batch::Batch;
use crate::env::sim::{Fault, SimFs};
use crate::env::{Env, Open, SeededRandom};
use crate::error::{ErrorKind, IoContext, Result};
use crate::left_files::LeftFiles;
use crate::names::StoreFileName;
use crate::options::{CfOptions, Compression, MIB};
use crate::pointer::Pointer;
use crate::record::{Kind, Record};
use crate::seam::Plain;
use crate::wal::{Stop, Tolerates};

const DIR: &str = "/values";

struct Stage {
    env: Env,
    sim: SimFs,
    blob_files: Arc<BlobFiles>,
}

fn stage(seed: u64) -> Stage {
    let sim = SimFs::new(seed);
    let env = sim.env(seed);
    env.fs.create_dir_all(Path::new(DIR)).unwrap();
    let blob_files = BlobFiles::new(env.fs.clone(), Path::new(DIR), Arc::new(Plain));
    Stage { env, sim, blob_files }
}

fn value(number: usize) -> Vec<u8> {
    let lengths = [0, 1, 100, 4096, 5000, 70_000, 600_000];
    let random = SeededRandom::new(number as u64);
    let packs = number.is_multiple_of(2);
    (0..lengths[number % lengths.len()])
        .map(|_| if packs { random.below(4) as u8 } else { random.below(256) as u8 })
        .collect()
}

fn key(number: usize) -> Vec<u8> {
    format!("key{number}").into_bytes()
}

/// Returns a value file with `count` values, held, and the pointers into it.
fn written(stage: &Stage, number: u64, count: usize, compression: Compression) -> (Arc<BlobFile>, Vec<[u8; 56]>) {
    let mut writer = BlobWriter::create(&stage.env, Path::new(DIR), number, compression).unwrap();
    let pointers = (0..count).map(|n| writer.add(&key(n), &value(n), n as u64).unwrap().encode()).collect();
    let meta = Arc::new(writer.finish().unwrap());
    assert_eq!(meta.count, count as u64);
    let bytes = meta.entry_bytes();
    (stage.blob_files.hold(&BlobRef { file: meta, count: count as u64, bytes }), pointers)
}

fn read(stage: &Stage, key: &[u8], pointer: &[u8], checked: bool) -> Result<Vec<u8>> {
    let record = Record { key, seqno: 7, kind: Kind::BlobPointer, value: pointer, companion: b"beside" };
    let mut room = BlobBuffer::default();
    let whole = stage.blob_files.resolve(&record, checked, &mut room)?;
    assert_eq!((whole.key, whole.seqno, whole.kind, whole.companion), (key, 7, Kind::Put, &b"beside"[..]));
    Ok(whole.value.to_vec())
}

fn codecs() -> Vec<Compression> {
    if cfg!(feature = "lz4") { vec![Compression::None, Compression::Lz4] } else { vec![Compression::None] }
}

#[test]
fn values_come_back_by_their_pointers_and_by_a_walk() {
    for compression in codecs() {
        let stage = stage(1);
        let (file, pointers) = written(&stage, 3, 14, compression);
        for (n, pointer) in pointers.iter().enumerate() {
            for checked in [true, false] {
                assert_eq!(read(&stage, &key(n), pointer, checked).unwrap(), value(n), "{n}");
            }
        }
        let mut seen = Vec::new();
        walk("000003.val", file.file(), file.meta().map(|meta| &**meta), &mut |entry| {
            seen.push(entry);
            Ok(())
        })
        .unwrap();
        assert_eq!(seen.len(), pointers.len());
        for (n, (entry, pointer)) in seen.iter().zip(&pointers).enumerate() {
            assert_eq!((&entry.key, entry.term, &entry.pointer.encode()), (&key(n), n as u64, pointer));
        }
        let bytes: u64 = seen.iter().map(|entry| entry.pointer.entry_bytes(entry.key.len())).sum();
        assert_eq!(bytes, file.meta().unwrap().entry_bytes());
    }
}

#[test]
fn every_flipped_byte_is_an_error_of_the_values_it_is_in_and_the_walk_sees_what_lies_between() {
    for compression in codecs() {
        let stage = stage(2);
        let (file, pointers) = written(&stage, 3, 4, compression);
        let name = Path::new(DIR).join("000003.val");
        let open = stage.env.fs.open(&name, Open::Write).unwrap();
        let size = file.meta().unwrap().size;
        let places = (0..size.min(600)).chain(size - 48..size).chain((600..size).step_by(97));
        for at in places {
            let mut byte = [0];
            open.read_at(&mut byte, at).unwrap();
            open.write_at(&[byte[0] ^ 0x10], at).unwrap();
            let mut wrong = 0;
            for (n, pointer) in pointers.iter().enumerate() {
                for checked in [true, false] {
                    match read(&stage, &key(n), pointer, checked) {
                        Ok(found) => assert_eq!(found, value(n), "byte {at}"),
                        Err(error) => {
                            let damage = error.damage().unwrap();
                            assert_eq!(damage.file, "000003.val");
                            assert_eq!(damage.key_range, Some((key(n), key(n))));
                            wrong += usize::from(checked);
                        }
                    }
                }
            }
            assert!(wrong <= 1, "byte {at}: {wrong} values");
            let walked = walk("000003.val", &*open, file.meta().map(|meta| &**meta), &mut |_| Ok(()));
            let is_in_a_value = wrong == 1;
            assert!(walked.is_err() || is_in_a_value || at < size, "byte {at}");
            open.write_at(&byte, at).unwrap();
        }
        for (n, pointer) in pointers.iter().enumerate() {
            assert_eq!(read(&stage, &key(n), pointer, true).unwrap(), value(n));
        }
    }
}

#[test]
fn a_file_that_is_short_missing_or_another_one_is_an_error() {
    let stage = stage(3);
    let (file, pointers) = written(&stage, 3, 7, Compression::None);
    let name = Path::new(DIR).join("000003.val");
    let open = stage.env.fs.open(&name, Open::Write).unwrap();
    open.set_len(file.meta().unwrap().size - 100_000).unwrap();
    assert!(read(&stage, &key(6), &pointers[6], true).unwrap_err().is_corruption());
    assert!(read(&stage, &key(3), &pointers[3], true).is_ok());
    assert!(walk("v", &*open, None, &mut |_| Ok(())).unwrap_err().is_corruption());
    // The entry of another key in the same file, and in another file.
    assert!(read(&stage, &key(10), &pointers[3], true).is_err(), "a longer key reads behind the value");
    let (other, _) = written(&stage, 4, 7, Compression::None);
    assert!(stage.blob_files.find(&other.meta().unwrap().uid).is_some());
    let uid = other.meta().unwrap().uid;
    drop(other);
    assert!(stage.blob_files.find(&uid).is_none());
    let lost = Pointer { uid, ..Pointer::decode(&pointers[3]).unwrap() };
    let error = read(&stage, &key(3), &lost.encode(), true).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("no table names"));
}

#[test]
fn a_file_is_dead_when_nobody_names_it_and_nobody_holds_it() {
    let stage = stage(4);
    let (file, _) = written(&stage, 3, 2, Compression::None);
    let heard = Arc::new(AtomicUsize::new(0));
    let hears = heard.clone();
    stage.blob_files.dead().on_new(move || {
        hears.fetch_add(1, Ordering::Relaxed);
    });
    let dead = || std::iter::from_fn(|| stage.blob_files.dead().take()).collect::<Vec<u64>>();
    let again = stage.blob_files.hold(&BlobRef { file: file.meta().unwrap().clone(), count: 1, bytes: 9 });
    assert!(Arc::ptr_eq(&file, &again));
    file.unname();
    drop(file);
    assert_eq!(dead(), []);
    let reader = stage.blob_files.find(&again.meta().unwrap().uid).unwrap();
    again.unname();
    drop(again);
    assert_eq!(dead(), [], "somebody reads it");
    drop(reader);
    assert_eq!((dead(), heard.load(Ordering::Relaxed)), (vec![3], 1));
    // Closing a store releases all files and retires none.
    let (file, _) = written(&stage, 5, 2, Compression::None);
    drop(file);
    assert_eq!(dead(), []);
}

#[test]
fn a_crash_before_the_end_leaves_no_file_that_passes() {
    let stage = stage(5);
    let mut writer = BlobWriter::create(&stage.env, Path::new(DIR), 9, Compression::None).unwrap();
    writer.add(b"k", &vec![7; 2 * MIB], 1).unwrap();
    drop(writer);
    let open = stage.env.fs.open(&Path::new(DIR).join(StoreFileName::Values(9).to_string()), Open::Read).unwrap();
    assert!(walk("v", &*open, None, &mut |_| Ok(())).is_err());
    assert!(stage.sim.env(1).fs.exists(Path::new(DIR)).unwrap());
}

/// The annotated bytes of a small file and its pointers. If this fails, the format has changed: that requires a new
/// format level. `BLESS=1 cargo test -p waxseal-lsm golden` rewrites the file.
#[test]
#[expect(clippy::disallowed_methods, reason = "a golden file is no file of a store")]
fn golden_bytes_of_a_small_file() {
    use std::fmt::Write;
    let stage = stage(9);
    let mut writer = BlobWriter::create(&stage.env, Path::new(DIR), 12, Compression::None).unwrap();
    let values: [(&[u8], &[u8], u64); 3] =
        [(b"", b"the empty key", 1), (b"apple", b"red", 0x0123_4567_89AB_CDEF), (b"apple", b"", 0)];
    let pointers: Vec<_> = values.iter().map(|(key, value, term)| writer.add(key, value, *term).unwrap()).collect();
    writer.finish().unwrap();
    let bytes = stage.sim.read_all(Path::new(DIR).join("000012.val")).unwrap();
    let mut text = String::new();
    let mut section = |name: &str, at: usize, bytes: &[u8]| {
        writeln!(text, "# {name}").unwrap();
        for (row, line) in bytes.chunks(16).enumerate() {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            let shown: String =
                line.iter().map(|byte| if (32..127).contains(byte) { *byte as char } else { '.' }).collect();
            writeln!(text, "{:06x}  {:<47}  {shown}", at + row * 16, hex.join(" ")).unwrap();
        }
    };
    section("header", 0, &bytes[..64]);
    for (n, (pointer, (key, ..))) in pointers.iter().zip(&values).enumerate() {
        let (head, value) = (pointer.offset as usize, pointer.offset as usize + 32 + key.len());
        let behind = value + pointer.stored_len as usize;
        section(&format!("entry {n}: head"), head, &bytes[head..head + 32]);
        section("key", head + 32, &bytes[head + 32..value]);
        section("value", value, &bytes[value..behind]);
        section("codec and crc", behind, &bytes[behind..behind + 5]);
        section("its pointer", 0, &pointer.encode());
    }
    section("footer", bytes.len() - 40, &bytes[bytes.len() - 40..]);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/values.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let kept = String::from_utf8(std::fs::read(path).unwrap()).unwrap();
    assert_eq!(text, kept, "the format has changed");
}

/// Adds a value to an intake, with the parameters that it needs.
fn take(stage: &Stage, intake: &CommitBlobs, unsynced: &UnsyncedBlobs, n: usize) -> Result<(Pointer, Arc<BlobFile>)> {
    add(stage, intake, unsynced, n).map(|(pointer, added)| (pointer, added.file().clone()))
}

fn add(stage: &Stage, intake: &CommitBlobs, unsynced: &UnsyncedBlobs, n: usize) -> Result<(Pointer, AddedValue)> {
    let making = BlobSetup {
        env: &stage.env,
        dir: Path::new(DIR),
        left: &LeftFiles::default(),
        options: &|| Arc::new(CfOptions { compression: Compression::Lz4, ..CfOptions::default() }),
        new_number: &|| 3,
        oldest: 0,
        sync_names: &|| stage.env.fs.sync_dir(Path::new(DIR)).during(|| "syncing"),
        unsynced,
    };
    intake.add(making, &stage.blob_files, (&key(n), &value(n), n as u64))
}

#[test]
fn what_is_taken_in_is_read_at_once_and_walked_when_it_is_finished() {
    let stage = stage(8);
    let (intake, unsynced) = (CommitBlobs::default(), UnsyncedBlobs::default());
    let taken: Vec<_> = (0..20).map(|n| take(&stage, &intake, &unsynced, n).unwrap()).collect();
    let reads = || {
        for (n, (pointer, _)) in taken.iter().enumerate() {
            assert_eq!(read(&stage, &key(n), &pointer.encode(), true).unwrap(), value(n), "{n}");
        }
    };
    reads();
    let file = taken[0].1.clone();
    assert!(file.meta().is_none() && taken.iter().all(|(_, of)| Arc::ptr_eq(of, &file)));
    intake.end().unwrap().expect("one is open").sync(&unsynced).unwrap();
    reads();
    let meta = file.meta().expect("it is finished");
    let mut walked = Vec::new();
    let visit = &mut |entry: BlobEntry| {
        walked.push((entry.key, entry.term, entry.pointer));
        Ok(())
    };
    walk("000003.val", file.file(), Some(meta), visit).unwrap();
    let expected: Vec<_> = taken.iter().enumerate().map(|(n, (pointer, _))| (key(n), n as u64, *pointer)).collect();
    assert_eq!(walked, expected);
    // No table names it: it becomes obsolete with its last holder.
    drop((taken, file));
    assert_eq!((stage.blob_files.dead().take(), stage.blob_files.dead().take()), (Some(3), None));
}

#[test]
fn a_file_is_unnamed_until_a_table_that_names_it_is_shown() {
    let stage = stage(10);
    let (intake, unsynced) = (CommitBlobs::default(), UnsyncedBlobs::default());
    let (_, file) = take(&stage, &intake, &unsynced, 2).unwrap();
    intake.end().unwrap().expect("one is open").sync(&unsynced).unwrap();
    let unnamed = || stage.blob_files.dead().oldest_seqno();
    let named = stage.blob_files.hold(&BlobRef { file: file.meta().unwrap().clone(), count: 1, bytes: 9 });
    assert_eq!(unnamed(), Some(0), "no view shows the table yet");
    named.shown();
    assert_eq!(unnamed(), None);
    named.unname();
    named.shown();
    assert_eq!(unnamed(), Some(0), "no table names it any more");
}

#[test]
fn no_room_is_made_for_a_value_that_its_file_cannot_hold() {
    let stage = stage(9);
    let (pointer, file) = take(&stage, &CommitBlobs::default(), &UnsyncedBlobs::default(), 4).unwrap();
    assert!(file.meta().is_none());
    let longer = Pointer { stored_len: 1 << 28, raw_len: 1 << 28, ..pointer };
    let mut room = BlobBuffer::default();
    let mut resolve = |pointer: &Pointer| {
        let value = pointer.encode();
        let record = Record { key: &key(4), seqno: 7, kind: Kind::BlobPointer, value: &value, companion: b"" };
        stage
            .blob_files
            .read(&record, true, &mut room)
            .map(|()| room.value().to_vec())
            .map_err(|error| (error, room.bytes()))
    };
    let (error, bytes) = resolve(&longer).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("ends too early") && bytes == 0, "{error}, {bytes}");
    assert_eq!(resolve(&pointer).unwrap(), value(4));
}

#[test]
fn a_value_that_could_not_be_written_leaves_its_place_to_the_next() {
    for large in [4, 6] {
        let stage = stage(9);
        let (intake, unsynced) = (CommitBlobs::default(), UnsyncedBlobs::default());
        let first = take(&stage, &intake, &unsynced, 2).unwrap().0;
        stage.sim.fail_at(stage.sim.steps(), Fault::Error(std::io::ErrorKind::StorageFull));
        assert!(take(&stage, &intake, &unsynced, large).is_err());
        stage.sim.clear_faults();
        let (second, file) = take(&stage, &intake, &unsynced, 3).unwrap();
        assert_eq!(second.offset, first.offset + first.entry_bytes(key(2).len()));
        // The footer write fails too, and succeeds once there is room.
        stage.sim.fail_at(stage.sim.steps(), Fault::Error(std::io::ErrorKind::StorageFull));
        assert!(intake.end().is_err());
        stage.sim.clear_faults();
        intake.end().unwrap().expect("it is open still").sync(&unsynced).unwrap();
        let mut count = 0;
        let visit = &mut |_| {
            count += 1;
            Ok(())
        };
        walk("000003.val", file.file(), file.meta().map(|meta| &**meta), visit).unwrap();
        assert_eq!(count, 2);
        assert_eq!(read(&stage, &key(3), &second.encode(), true).unwrap(), value(3));
    }
}

#[test]
fn only_what_nothing_stands_behind_is_taken_back() {
    let stage = stage(12);
    let (intake, unsynced) = (CommitBlobs::default(), UnsyncedBlobs::default());
    let added: Vec<_> = (2..6).map(|n| add(&stage, &intake, &unsynced, n).unwrap()).collect();
    let length = || added[0].1.file().file().len().unwrap();
    let full = length();
    intake.take_back(&added[2].1); // another value follows it
    assert_eq!(length(), full);
    intake.take_back(&added[3].1);
    assert_eq!(length(), added[3].0.offset);
    intake.take_back(&added[3].1); // a second call removes nothing more
    let (next, of_next) = add(&stage, &intake, &unsynced, 3).unwrap();
    assert_eq!(next.offset, added[3].0.offset);
    let kept: Vec<_> = [(2, added[0].0), (3, added[1].0), (4, added[2].0), (3, next)].into();
    for (n, pointer) in &kept {
        assert_eq!(read(&stage, &key(*n), &pointer.encode(), true).unwrap(), value(*n), "{n}");
    }
    let ended = intake.end().unwrap().expect("one is open");
    intake.take_back(&of_next); // too late
    ended.sync(&unsynced).unwrap();
    let (mut walked, file) = (Vec::new(), of_next.file());
    let visit = &mut |entry: BlobEntry| {
        walked.push((entry.term as usize, entry.pointer));
        Ok(())
    };
    walk("000003.val", file.file(), file.meta().map(|meta| &**meta), visit).unwrap();
    assert_eq!(walked, kept);
}

#[test]
fn a_file_that_cannot_be_begun_is_not_there() {
    for step in 0..3 {
        let stage = stage(10);
        let (intake, unsynced) = (CommitBlobs::default(), UnsyncedBlobs::default());
        stage.sim.fail_at(stage.sim.steps() + step, Fault::Error(std::io::ErrorKind::StorageFull));
        assert!(take(&stage, &intake, &unsynced, 2).is_err());
        stage.sim.clear_faults();
        assert_eq!(stage.sim.files(DIR), Vec::<String>::new(), "step {step}");
        take(&stage, &intake, &unsynced, 2).unwrap();
        assert_eq!(stage.sim.files(DIR), ["000003.val"]);
    }
}

proptest::proptest! {
    #[test]
    fn a_frame_that_points_to_nothing_is_not_whole(
        key in proptest::collection::vec(proptest::prelude::any::<u8>(), 1..9), wanted: bool, offset in 0..9u64,
    ) {
        let mut batch = Batch::new();
        let logged = Pointer { offset, stored_len: 9, raw_len: 9, ..Pointer::default() }.encode_logged(7);
        batch.push(3, Kind::Put, b"a", b"1", &Plain).unwrap();
        batch.push(3, Kind::BlobPointer, &key, &logged, &Plain).unwrap();
        let body = batch.seal();
        let mut values = LoggedValues::new(SimFs::new(1).env(1).fs, Path::new(DIR), Arc::new(Plain));
        match values.expand(&body.bytes, &mut |_, at| wanted && at == 1, &mut LostValues::default()) {
            Ok(same) => proptest::prop_assert!(!wanted && same == &**body.bytes),
            Err(stop) => proptest::prop_assert!(wanted && matches!(stop, Stop::NotWhole(_))),
        }
        // If a proof shows that the frame was whole, only that value is lost, and its pointer stays in place.
        let mut losses = LostValues::of(Tolerates { damaged: true, unread: false });
        let same = values.expand(&body.bytes, &mut |_, at| wanted && at == 1, &mut losses).unwrap_or_default();
        proptest::prop_assert_eq!(same, &**body.bytes);
        proptest::prop_assert_eq!((losses.at(0).is_some(), losses.at(1).is_some()), (false, wanted));
    }
}

/// The remains of a failed write are removed before the footer is written: the file has the length that it states.
#[test]
fn a_file_ends_with_its_footer_although_a_write_was_cut_short() {
    let mut failed = 0;
    for fault in [Fault::Short, Fault::Error(std::io::ErrorKind::StorageFull)] {
        for step in 0..6 {
            let stage = stage(3);
            let mut writer = BlobWriter::create(&stage.env, Path::new(DIR), 1, Compression::None).unwrap();
            writer.add_through(&key(1), &value(3), 1).unwrap();
            stage.sim.fail_at(stage.sim.steps() + step, fault);
            let added = writer.add_through(&key(2), &value(5), 2);
            let ended = writer.end();
            failed += usize::from(added.is_err()) + usize::from(ended.is_err());
            stage.sim.clear_faults();
            ended.or_else(|_| writer.end()).unwrap();
            let meta = writer.sync().unwrap();
            let path = Path::new(DIR).join(StoreFileName::Values(1).to_string());
            let length = stage.env.fs.open(&path, Open::Read).unwrap().len().unwrap();
            assert_eq!((length, meta.count), (meta.size, 1 + u64::from(added.is_ok())), "{fault:?} at {step}");
        }
    }
    assert!(failed > 3, "{failed}");
}

/// A writer waits for the next value as long as no flush happens, and no budget accounts for its buffers.
#[test]
fn a_writer_lets_go_of_the_buffers_of_its_largest_value() {
    for compression in codecs() {
        let stage = stage(17);
        let (place, new_name) =
            ((&stage.env, Path::new(DIR)), || stage.env.fs.sync_dir(Path::new(DIR)).during(|| "syncing"));
        let place = (place.0, place.1, &LeftFiles::default());
        let mut writer = BlobWriter::create_shared(place, 3, compression, &new_name).unwrap();
        let large: Vec<u8> = (0..12 << 20).map(|n: u32| (n >> 6) as u8).collect();
        for (n, value) in [value(1), large.clone(), value(2), large].iter().enumerate() {
            writer.add_through(&key(n), value, n as u64).unwrap();
            assert!(writer.kept_bytes() <= 8 << 20, "{compression:?}: {} bytes", writer.kept_bytes());
        }
    }
}

/// The system reports lost pages once, and a flush and a group leader may sync the same file.
#[test]
fn whoever_syncs_behind_a_sync_that_failed_hears_of_it() {
    for by_a_flush in [false, true] {
        let stage = stage(4);
        let (intake, unsynced) = (CommitBlobs::default(), UnsyncedBlobs::default());
        let _added = add(&stage, &intake, &unsynced, 3).unwrap();
        let ended = intake.end().unwrap().unwrap();
        stage.sim.fail_at(stage.sim.steps(), Fault::Error(std::io::ErrorKind::Other));
        let failed = if by_a_flush { ended.sync(&unsynced) } else { unsynced.sync() };
        stage.sim.clear_faults();
        assert_eq!(unsynced.sync().unwrap_err().to_string(), failed.unwrap_err().to_string());
    }
}

/// A commit that passed its checks before the family was dropped may run afterwards.
#[test]
fn an_intake_that_was_abandoned_begins_no_file() {
    let stage = stage(5);
    let (intake, unsynced) = (CommitBlobs::default(), UnsyncedBlobs::default());
    intake.abandon(&unsynced);
    assert_eq!(*add(&stage, &intake, &unsynced, 3).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(stage.sim.files(DIR).is_empty());
}
