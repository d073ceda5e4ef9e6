//! The bytes of a manifest and a segment that are kept for the change feed, beside their meaning. When this fails, the
//! format has changed: that is a new format level. `BLESS=1 cargo test -p waxseal-lsm --test store kept_for_the_feed`
//! writes the file anew; tests/reader reads it too.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use waxseal_lsm::batch::{Batch, BatchOperations};
use waxseal_lsm::checksum::Uid;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Fs, Open};
use waxseal_lsm::format_level::FormatLevel;
use waxseal_lsm::names::StoreFileName;
use waxseal_lsm::options::CfOptions;
use waxseal_lsm::record::Kind;
use waxseal_lsm::sst::Expected;
use waxseal_lsm::version::{
    ChangePosition, Edit, EditChange, FeedCursor, FeedEdit, FeedHistory, FeedMark, FeedState, KeptFile, KeptSegment,
    Manifest, MarkedTable, family, recover,
};
use waxseal_lsm::wal::{KeptLogCopy, LogCursor};
use waxseal_testing::golden;
use waxseal_testing::store::sim_bytes;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/changes.txt");
const DIR: &str = "/golden";

/// Writes the segment: `a` is put at seqno 6; `b` is put and `a` deleted at 7 and 8.
fn segment(sim: &SimFs) -> KeptSegment {
    let next = Arc::new(AtomicU64::new(3));
    let numbers = Arc::new(move || next.fetch_add(1, Ordering::Relaxed));
    let mut copy = KeptLogCopy::new(&sim.env(1), (Path::new(DIR), &Uid([9; 16]).into()), 1 << 20, numbers);
    let mut seqno = 6;
    for commit in [&[(Kind::Put, b"a", &b"1"[..])][..], &[(Kind::Put, b"b", b"2"), (Kind::Delete, b"a", b"")]] {
        let mut batch = Batch::new();
        commit.iter().for_each(|(kind, key, value)| batch.push_with(0, *kind, *key, value, &[]).unwrap());
        copy.push(seqno, commit.len() as u64, &batch.seal().bytes).unwrap();
        seqno += commit.len() as u64;
    }
    let copied = copy.finish().unwrap().remove(0);
    let (number, nonce, end, next_seqno) = (copied.number, copied.nonce, copied.end, copied.next_seqno);
    KeptSegment { number, nonce, first: 0, end, next_seqno, closed_micros: 7 }
}

/// One change of each kind.
fn edits(segment: KeptSegment) -> Vec<FeedEdit> {
    let expected = Expected { uid: Uid([4; 16]), size: 100, digest: 6, ingest_seqno: 9 };
    let tables = vec![MarkedTable { number: 4, expected, values: vec![(5, Uid([5; 16]))] }];
    let dropped = ("gone".to_owned(), "wax.bytewise".to_owned());
    let cursor = |name: &str| {
        let position = ChangePosition { history: Uid([1; 16]), seqno: 3 };
        FeedCursor { name: name.to_owned(), position, moved_micros: 8 }
    };
    vec![
        FeedEdit::HistoryBegun(FeedHistory { id: Uid([1; 16]), branch: 0, start: 0 }),
        FeedEdit::HistoryBegun(FeedHistory { id: Uid([2; 16]), branch: 3, start: 5 }),
        FeedEdit::KeptFrom(Some(3)),
        FeedEdit::SegmentKept(segment),
        FeedEdit::FileKept(KeptFile { name: StoreFileName::Table(4), through: 9 }),
        FeedEdit::FileKept(KeptFile { name: StoreFileName::Values(5), through: 9 }),
        FeedEdit::Marked(FeedMark { seqno: 9, family: 0, ingested: Some(tables), dropped: Default::default() }),
        FeedEdit::Marked(FeedMark { seqno: 10, family: 2, ingested: None, dropped }),
        FeedEdit::Marked(FeedMark::nothing(11, 0)),
        FeedEdit::CursorSet(cursor("copy")),
        FeedEdit::CursorSet(cursor("gone")),
        FeedEdit::CursorRemoved("gone".to_owned()),
    ]
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the golden file is a file of the repository")]
fn the_bytes_of_what_is_kept_for_the_feed() {
    let (sim, dir) = (SimFs::new(1), Path::new(DIR));
    sim.create_dir_all(dir).unwrap();
    let mut changes = vec![EditChange::FormatLevel(FormatLevel::RANGES)];
    changes.extend(family::creation(0, "default".to_owned(), &CfOptions::default()));
    changes.extend(edits(segment(&sim)).into_iter().map(EditChange::Feed));
    changes.push(EditChange::Counters { next_file: 6, last_seqno: 11, next_family: 3 });
    drop(Manifest::create(&sim.env(1), dir, 2, Uid([9; 16]), &Edit::from(changes)).unwrap());
    let text = golden::hex_of(&sim_bytes(&sim, dir));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(GOLDEN, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(GOLDEN).unwrap(), "the format has changed");
}

#[test]
fn the_kept_bytes_are_the_state_and_the_frames_of_the_feed() {
    let (sim, dir) = (SimFs::new(1), Path::new(DIR));
    sim.create_dir_all(dir).unwrap();
    for (name, bytes) in golden::files_of(include_str!("../golden/changes.txt")) {
        sim.open(&dir.join(name), Open::Create).unwrap().write_at(&bytes, 0).unwrap();
    }
    let env = sim.env(1);
    let feed: Arc<FeedState> = recover(&env, dir).unwrap().unwrap().state.feed;
    let kept = *feed.segments.values().next().unwrap();
    let expected = FeedState {
        histories: vec![
            FeedHistory { id: Uid([1; 16]), branch: 0, start: 0 },
            FeedHistory { id: Uid([2; 16]), branch: 3, start: 5 },
        ],
        from: Some(3),
        segments: [(9, kept)].into(),
        files: [(StoreFileName::Table(4), 9), (StoreFileName::Values(5), 9)].into(),
        marks: edits(kept)
            .into_iter()
            .filter_map(|edit| match edit {
                FeedEdit::Marked(mark) => Some((mark.seqno, mark)),
                _ => None,
            })
            .collect(),
        cursors: edits(kept)
            .into_iter()
            .filter_map(|edit| match edit {
                FeedEdit::CursorSet(cursor) if cursor.name == "copy" => Some((cursor.name.clone(), cursor)),
                _ => None,
            })
            .collect(),
    };
    assert_eq!(*feed, expected);
    let position = |seqno| ChangePosition { history: Uid([1; 16]), seqno };
    assert_eq!(feed.resolve(&position(3)).unwrap(), 5);
    assert!(feed.resolve(&position(4)).is_err());
    let mut cursor = LogCursor::open(&env, dir, kept.number, kept.nonce, kept.first).unwrap();
    let mut found = Vec::new();
    while let Some(frame) = cursor.next(kept.end).unwrap() {
        for (seqno, operation) in (frame.seqno..).zip(BatchOperations::new(frame.body).unwrap()) {
            let operation = operation.unwrap();
            found.push((seqno, operation.kind, operation.key.to_vec(), operation.value.to_vec()));
        }
    }
    let expected = [(6, Kind::Put, "a", "1"), (7, Kind::Put, "b", "2"), (8, Kind::Delete, "a", "")];
    assert_eq!(found, expected.map(|(seqno, kind, key, value)| (seqno, kind, key.into(), value.into())));
}
