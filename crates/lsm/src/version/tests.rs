//! Manifests on a real file system, and the states that result from edits.

use std::path::Path;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::edit::{Edit, EditChange};
use super::manifest::Manifest;
use super::recover::{RecoveredManifest, recover};
use super::state::ManifestState;
use super::table_meta::TableMeta;
use crate::checksum::Uid;
use crate::env::{Env, Open};
use crate::error::{ErrorKind, Verdict};
use crate::header::{FileHeader, FileKind};
use crate::left_files::LeftFiles;
use crate::table_property::{PropertyCollectors, TableProperty};
use crate::values::{BlobMeta, BlobRef};
use crate::wal::LogPlace;

const STORE: Uid = Uid([7; 16]);

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn table(number: u64) -> Arc<TableMeta> {
    Arc::new(TableMeta { number, smallest: b"a".to_vec(), largest: b"z".to_vec(), ..TableMeta::default() })
}

/// A value file of which an item is known.
fn values(uid: u8) -> BlobRef {
    let property = TableProperty::new("item", move |_, _, add| {
        add(&[uid; 40]);
        Ok(())
    });
    let mut collectors = PropertyCollectors::begin(&[property]);
    collectors.add(b"key", b"value");
    let (uid, collected) = (Uid([uid; 16]), collectors.finish());
    BlobRef { file: Arc::new(BlobMeta { uid, collected, ..BlobMeta::default() }), ..BlobRef::default() }
}

/// A table that points into value files.
fn table_with(number: u64, uids: impl IntoIterator<Item = u8>) -> Arc<TableMeta> {
    let values = uids.into_iter().map(values).collect();
    Arc::new(TableMeta { values, ..TableMeta::clone(&table(number)) })
}

fn added(number: u64) -> Edit {
    vec![EditChange::TableAdded { family: 0, level: 0, table: table(number) }].into()
}

fn family(id: u32, name: &str) -> EditChange {
    EditChange::FamilyCreated { id, name: name.into(), comparator: "wax.bytewise".into(), options: vec![] }
}

fn create(env: &Env, dir: &Path) -> Manifest {
    Manifest::create(env, dir, 1, STORE, &vec![family(0, "default")].into()).unwrap()
}

fn reopened(env: &Env, dir: &Path) -> RecoveredManifest {
    recover(env, dir).unwrap().unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names = Env::real().fs.list(dir).unwrap();
    names.sort();
    names
}

fn bytes(dir: &Path, name: &str) -> Vec<u8> {
    let file = Env::real().fs.open(&dir.join(name), Open::Read).unwrap();
    crate::env::read_exact(&*file, 0, file.len().unwrap() as usize).unwrap()
}

/// Replaces a file.
fn put(dir: &Path, name: &str, bytes: &[u8]) {
    let path = dir.join(name);
    let _ = Env::real().fs.remove(&path);
    Env::real().fs.open(&path, Open::Create).unwrap().write_at(bytes, 0).unwrap();
}

#[test]
fn edits_are_there_after_reopening_without_a_close() {
    let (env, dir) = (Env::real(), dir());
    let mut manifest = create(&env, dir.path());
    for number in 5..9 {
        manifest.append(&added(number)).unwrap();
    }
    let found = reopened(&env, dir.path());
    assert_eq!((&found.state, found.identity.store, found.torn), (manifest.state(), STORE, None));
    assert_eq!((found.state.families[&0].tables.len(), found.next_file), (4, 9));
}

#[test]
fn the_items_of_a_value_file_are_stated_once_and_known_to_all_of_its_tables() {
    let (env, dir) = (Env::real(), dir());
    let mut manifest = create(&env, dir.path());
    let added = |number: u64| EditChange::TableAdded { family: 0, level: 0, table: table_with(number, [1, 2]) };
    let removed = |number: u64| EditChange::TableRemoved { family: 0, level: 0, number };
    let mut lengths = Vec::new();
    for number in 5..40 {
        let before = manifest.bytes();
        let gone = (number > 5).then(|| removed(number - 1)); // before the table that holds its files from now on
        manifest.append(&gone.into_iter().chain([added(number)]).collect::<Vec<_>>().into()).unwrap();
        lengths.push(manifest.bytes() - before);
    }
    assert!(lengths[0] > lengths[1] + 80 && lengths[1..].iter().all(|length| *length <= lengths[1] + 8), "{lengths:?}");
    let found = reopened(&env, dir.path());
    assert_eq!(found.state, *manifest.state());
    let (_, table) = &found.state.families[&0].tables[&39];
    let has = |at: usize, item: u8| table.values[at].file.collected.may_have("item", &[item; 40]);
    assert_eq!([has(0, 1), has(0, 2), has(1, 1), has(1, 2)], [true, false, false, true]);
    manifest.append(&vec![removed(39)].into()).unwrap();
    let of_none = manifest.state().snapshot().changes;
    assert!(
        !of_none.iter().any(|change| matches!(change, EditChange::ValuesCollected { .. })),
        "no table names a file"
    );
}

#[test]
fn a_rotation_keeps_everything_and_leaves_one_manifest() {
    let (env, dir) = (Env::real(), dir());
    let mut manifest = create(&env, dir.path());
    let mut next = 10;
    for number in 100..140 {
        manifest.append(&added(number)).unwrap();
        if manifest.is_full(5000) {
            manifest.rotate(next, &LeftFiles::default()).unwrap();
            next += 1;
        }
    }
    assert!((12..30).contains(&next), "rotated {} times", next - 10);
    assert_eq!(names(dir.path()), ["CURRENT".to_owned(), format!("MANIFEST-{:06}", next - 1)]);
    manifest.close().unwrap();
    assert_eq!(*manifest.append(&added(1)).unwrap_err().kind(), ErrorKind::Closed);
    let found = reopened(&env, dir.path());
    assert_eq!((&found.state, found.number), (manifest.state(), next - 1));
}

/// With or without the event log, a number is taken for a new manifest at the same moment.
#[test]
fn lines_and_system_families_do_not_change_when_a_manifest_is_rotated() {
    let rotations = |watched: bool| {
        let (env, dir) = (Env::real(), dir());
        let mut manifest = create(&env, dir.path());
        if watched {
            manifest.append(&vec![family(crate::names::system_id(1), "system_metadata.log")].into()).unwrap();
        }
        let mut rotated = Vec::new();
        for number in 100..200 {
            let mut edit = added(number);
            if watched {
                edit.changes.push(EditChange::Line { number, bytes: [7; 80].as_slice().into() });
                edit.changes.push(EditChange::Flushed { family: crate::names::system_id(1), seqno: number });
            }
            manifest.append(&edit).unwrap();
            if manifest.is_full(6000) {
                manifest.rotate(number + 1000, &LeftFiles::default()).unwrap();
                rotated.push(number);
            }
        }
        assert_eq!(manifest.state().lines.len(), if watched { 100 } else { 0 });
        assert_eq!(reopened(&env, dir.path()).state, *manifest.state());
        rotated
    };
    let plain = rotations(false);
    assert_eq!(rotations(true), plain);
    assert!((2..20).contains(&plain.len()), "{plain:?}");
}

/// Changes without weight still take space.
#[test]
fn a_manifest_of_lines_alone_is_rotated_in_the_end() {
    let (env, dir) = (Env::real(), dir());
    let mut manifest = create(&env, dir.path());
    let lines = |number| Edit::from(vec![EditChange::Line { number, bytes: [7; 1000].as_slice().into() }]);
    for number in 1.. {
        manifest.append(&lines(number)).unwrap();
        if manifest.is_full(5000) {
            assert!(manifest.bytes() > 40_000);
            break;
        }
        assert!(number < 100);
    }
}

#[test]
fn resuming_begins_a_fresh_manifest_with_what_recovery_did() {
    let (env, dir) = (Env::real(), dir());
    create(&env, dir.path()).append(&added(5)).unwrap();
    let found = reopened(&env, dir.path());
    let mut manifest = Manifest::resume(&env, dir.path(), &found, found.next_file, &added(6)).unwrap();
    assert_eq!(names(dir.path()), ["CURRENT", "MANIFEST-000001", "MANIFEST-000006"]); // the caller removes the old one
    manifest.append(&added(7)).unwrap();
    let tables: Vec<u64> = reopened(&env, dir.path()).state.families[&0].tables.keys().copied().collect();
    assert_eq!(tables, [5, 6, 7]);
}

#[test]
fn an_edit_that_cannot_follow_changes_nothing() {
    let (env, dir) = (Env::real(), dir());
    let mut manifest = create(&env, dir.path());
    let before = bytes(dir.path(), "MANIFEST-000001");
    for change in [
        EditChange::TableRemoved { family: 0, level: 0, number: 5 },
        EditChange::FamilyDropped { id: 3 },
        family(0, "again"),
        family(1, "default"),
    ] {
        let edit = vec![family(9, "other"), change].into();
        assert_eq!(*manifest.append(&edit).unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert_eq!(bytes(dir.path(), "MANIFEST-000001"), before);
    manifest.append(&added(5)).unwrap();
}

#[test]
fn no_directory_or_an_interrupted_creation_is_no_store_and_a_lost_pointer_is_damage() {
    let (env, dir) = (Env::real(), dir());
    assert!(recover(&env, &dir.path().join("nowhere")).unwrap().is_none());
    assert!(recover(&env, dir.path()).unwrap().is_none());
    drop(create(&env, dir.path()));
    env.fs.remove(&dir.path().join("CURRENT")).unwrap();
    assert!(recover(&env, dir.path()).unwrap().is_none());
    put(dir.path(), "000002.log", b"somebody's own notes");
    assert!(recover(&env, dir.path()).unwrap().is_none(), "a name proves nothing");
    put(dir.path(), "000002.log", &FileHeader::new(FileKind::Segment, Uid([8; 16])).encode());
    let error = recover(&env, dir.path()).unwrap_err();
    let damage = error.damage().unwrap();
    assert_eq!((damage.file.as_str(), damage.verdict), ("CURRENT", Verdict::Missing));
}

#[test]
fn a_missing_manifest_or_one_of_another_store_is_named() {
    let (env, dir) = (Env::real(), dir());
    drop(create(&env, dir.path()));
    let other = self::dir();
    drop(Manifest::create(&env, other.path(), 1, Uid([8; 16]), &Edit::default()).unwrap());
    put(dir.path(), "MANIFEST-000001", &bytes(other.path(), "MANIFEST-000001"));
    let error = recover(&env, dir.path()).unwrap_err();
    assert_eq!(error.damage().map(|damage| damage.verdict), Some(Verdict::Misplaced));
    env.fs.remove(&dir.path().join("MANIFEST-000001")).unwrap();
    let error = recover(&env, dir.path()).unwrap_err();
    let damage = error.damage().unwrap();
    assert_eq!((damage.file.as_str(), damage.verdict), ("MANIFEST-000001", Verdict::Missing));
}

#[test]
fn every_flipped_bit_is_named_or_changes_nothing() {
    let (env, dir) = (Env::real(), dir());
    let mut manifest = create(&env, dir.path());
    manifest.append(&added(5)).unwrap();
    manifest.append(&added(6)).unwrap();
    let whole = bytes(dir.path(), "MANIFEST-000001");
    let mut named = 0;
    for bit in (0..whole.len() * 8).filter(|bit| bit / 8 < 88 || bit / 8 >= 4096 || (504..528).contains(&(bit / 8))) {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match replay(&flipped) {
            Ok(state) => assert_eq!(state, *manifest.state(), "bit {bit}"),
            Err(error) => {
                assert_eq!(error.damage().unwrap().file, "MANIFEST-000001", "bit {bit}: {error}");
                named += 1;
            }
        }
    }
    assert!(named > (whole.len() - 4096) * 7, "{named}");
}

/// Reads a manifest from bytes.
fn replay(bytes: &[u8]) -> crate::error::Result<ManifestState> {
    let read = |offset: u64, length: usize| Ok(bytes[offset as usize..offset as usize + length].to_vec());
    super::recover::replay("MANIFEST-000001", || Ok(bytes.len() as u64), read).map(|replay| replay.state)
}

#[test]
fn an_edit_that_is_confirmed_while_the_first_page_is_read_is_there() {
    let (env, dir) = (Env::real(), dir());
    let mut manifest = create(&env, dir.path());
    let before = bytes(dir.path(), "MANIFEST-000001");
    manifest.append(&added(5)).unwrap();
    let after = bytes(dir.path(), "MANIFEST-000001");
    // The writer appends and confirms after the reader has first looked at the file and before it reads the first page.
    let shown = std::cell::RefCell::new(before);
    let length = || Ok(shown.borrow().len() as u64);
    let read = |offset: u64, length: usize| {
        shown.borrow_mut().clone_from(&after);
        Ok(after[offset as usize..offset as usize + length].to_vec())
    };
    let state = super::recover::replay("MANIFEST-000001", length, read).unwrap().state;
    assert_eq!(state, *manifest.state());
}

#[test]
fn a_file_cut_anywhere_keeps_what_was_confirmed_or_says_so() {
    let (env, dir) = (Env::real(), dir());
    let mut manifest = create(&env, dir.path());
    manifest.append(&added(5)).unwrap();
    let confirmed = bytes(dir.path(), "MANIFEST-000001");
    let page = confirmed[..4096].to_vec();
    let before = manifest.state().clone();
    manifest.append(&added(6)).unwrap();
    let mut whole = bytes(dir.path(), "MANIFEST-000001");
    for cut in 0..whole.len() {
        assert!(replay(&whole[..cut]).unwrap_err().is_corruption(), "{cut}");
    }
    // A crash before the second edit was confirmed: the page is the old one, and the edit is whole, torn or missing.
    whole[..4096].copy_from_slice(&page);
    assert_eq!(replay(&whole).unwrap(), *manifest.state());
    for cut in 0..whole.len() {
        match replay(&whole[..cut]) {
            Ok(state) => assert!(cut >= confirmed.len() && state == before, "{cut}"),
            Err(error) => assert!(cut < confirmed.len() && error.is_corruption(), "{cut}"),
        }
    }
}

#[test]
fn one_copy_of_the_witness_is_enough_and_none_is_damage() {
    let (env, dir) = (Env::real(), dir());
    drop(create(&env, dir.path()));
    let mut page = bytes(dir.path(), "MANIFEST-000001");
    page[512..520].fill(0xff);
    assert!(replay(&page).is_ok());
    page[1536..1544].fill(0xff);
    assert_eq!(replay(&page).unwrap_err().damage().map(|damage| damage.offset), Some(512));
}

/// Operations on a state that always fit.
fn states() -> impl Strategy<Value = ManifestState> {
    vec((0u8..14, 0u64..6, any::<u32>()), 0..40).prop_map(|steps| {
        let mut state = ManifestState::default();
        for (what, n, word) in steps {
            let place = LogPlace { segment: n, nonce: word as u64, offset: word as u64, link: 9 };
            let change = match what {
                0 => family(n as u32, &format!("family {n}")),
                1 => EditChange::FamilyDropped { id: n as u32 },
                2 | 3 => {
                    let table = table_with(word as u64 % 50, (0..word as u8 % 3).map(|of| of + word as u8 % 5));
                    EditChange::TableAdded { family: n as u32, level: (word % 7) as u8, table }
                }
                4 => EditChange::TableRemoved { family: n as u32, level: (word % 7) as u8, number: word as u64 % 50 },
                5 => EditChange::Flushed { family: n as u32, seqno: word as u64 },
                6 => EditChange::LogStart { place, ring: n, ring_nonce: 5 },
                7 => EditChange::SegmentSealed(place),
                8 => EditChange::Permanent { offset: word as u64, seqno: n },
                9 => EditChange::Cut { offset: word as u64, bytes: n, file: n },
                10 | 11 => EditChange::Line {
                    number: state.lines.last() + 1 + n / 4,
                    bytes: word.to_le_bytes().as_slice().into(),
                },
                12 => EditChange::LogPoints,
                _ => EditChange::LinesTakenOut { through: state.lines.last().saturating_sub(3) + n },
            };
            let mut next = state.clone();
            if next.apply(&vec![change].into()).is_ok() {
                state = next;
            }
        }
        state
    })
}

proptest! {
    #[test]
    fn a_snapshot_tells_the_whole_state(state in states()) {
        let mut told = ManifestState::default();
        told.apply(&Edit::decode(&state.snapshot().encode()).unwrap()).unwrap();
        prop_assert_eq!(told, state);
    }

    #[test]
    fn any_bytes_are_a_manifest_or_refused(bytes in vec(any::<u8>(), 0..9000)) {
        super::fuzzing::manifest(&bytes);
    }
}

/// `create`, `family`, `add`, `move`, `remove`, `flushed`, `log`, `seal`, `retire`, `rotate`, `reopen`: the manifest of
/// one store.
#[test]
fn scripts_tell_what_a_manifest_does() {
    struct Store {
        env: Env,
        dir: tempfile::TempDir,
        manifest: Manifest,
    }
    let fresh = || {
        let (env, dir) = (Env::real(), dir());
        let manifest = Manifest::create(&env, dir.path(), 1, STORE, &Edit::default()).unwrap();
        Store { env, dir, manifest }
    };
    waxseal_testing::golden::run("scripts/version", fresh, |store, input| {
        let mut out = String::new();
        for line in input.lines() {
            let outcome = match line {
                "show" => {
                    out += &show(store.manifest.state());
                    Ok(())
                }
                "files" => {
                    out += &(names(store.dir.path()).join(" ") + "\n");
                    Ok(())
                }
                "rotate" => store.manifest.rotate(store.manifest.state().next_file, &LeftFiles::default()),
                "reopen" => recover(&store.env, store.dir.path()).and_then(|found| {
                    let found = found.unwrap();
                    let number = found.next_file;
                    store.manifest = Manifest::resume(&store.env, store.dir.path(), &found, number, &Edit::default())?;
                    Ok(())
                }),
                _ => store.manifest.append(&Edit { changes: line.split("; ").map(change).collect() }),
            };
            if let Err(error) = outcome {
                out += &format!("{line}: {error}\n");
            }
        }
        out
    });
}

/// Parses one change from a line of a script.
fn change(line: &str) -> EditChange {
    use waxseal_testing::golden::{number, word};
    let n = |name: &str| number(line, name, 0);
    let family = n("family") as u32;
    let place = LogPlace { segment: n("segment"), nonce: n("nonce"), offset: n("offset"), link: n("link") };
    match line.split_whitespace().next().unwrap() {
        "create" => self::family(family, word(line, "name").unwrap()),
        "drop" => EditChange::FamilyDropped { id: family },
        "add" => {
            let (low, high) = word(line, "keys").unwrap().split_once("..").unwrap();
            let meta = TableMeta {
                number: n("table"),
                smallest: low.into(),
                largest: high.into(),
                greatest_seqno: n("seqno"),
                ..TableMeta::default()
            };
            EditChange::TableAdded { family, level: n("level") as u8, table: Arc::new(meta) }
        }
        "remove" => EditChange::TableRemoved { family, level: n("level") as u8, number: n("table") },
        "flushed" => EditChange::Flushed { family, seqno: n("seqno") },
        "log" => EditChange::LogStart { place, ring: n("ring"), ring_nonce: n("ring_nonce") },
        "sealed" => EditChange::SegmentSealed(place),
        "retired" => EditChange::SegmentRetired { segment: n("segment") },
        "permanent" => EditChange::Permanent { offset: n("offset"), seqno: n("seqno") },
        "line" => EditChange::Line { number: n("number"), bytes: word(line, "text").unwrap().as_bytes().into() },
        "points" => EditChange::LogPoints,
        "gone" => EditChange::LinesTakenOut { through: n("through") },
        "cut" => EditChange::Cut { offset: n("offset"), bytes: n("bytes"), file: n("file") },
        other => panic!("no such change: {other}"),
    }
}

fn show(state: &ManifestState) -> String {
    let mut out = String::new();
    for family in state.families.values() {
        out += &format!("family {} {:?} flushed={}\n", family.id, family.name, family.flushed);
        for (number, (level, meta)) in &family.tables {
            let (low, high) = (meta.smallest.escape_ascii(), meta.largest.escape_ascii());
            out += &format!("  L{level} {number:06} {low}..{high}\n");
        }
    }
    if let Some(log) = &state.log {
        out += &format!("log starts in segment {} at {}, ring {}\n", log.place.segment, log.place.offset, log.ring);
    }
    for (segment, end) in &state.sealed {
        out += &format!("segment {segment} is sealed at {}\n", end.offset);
    }
    if state.permanent_offset > 0 {
        out += &format!("permanent below {}, seqno {}\n", state.permanent_offset, state.permanent_seqno);
    }
    for cut in &state.cuts {
        out += &format!("cut at {}: {} bytes in {:06}.cut\n", cut.offset, cut.bytes, cut.file);
    }
    for (number, line) in state.lines.iter() {
        out += &format!("line {number}: {}\n", line.escape_ascii());
    }
    let ManifestState { next_file, last_seqno, next_family, .. } = state;
    out + &format!("next file {next_file}, next family {next_family}, last seqno {last_seqno}\n")
}
