//! What the manifest records for the change feed: histories, cursors, and the files that the feed keeps. docs/format.md,
//! section 6.5.
//!
//! Pure. One floor, `from`, governs everything: each commit after it can be read, so raising it releases segments, files
//! and marks in the same edit. The floor is `None` while nothing keeps the log for the feed.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::checksum::Uid;
use crate::codec::{Reader, put_bytes, put_varint};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::PAGE_BYTES;
use crate::names::StoreFileName;
use crate::record::{MAX_SEQNO, Seqno};
use crate::sst::Expected;

/// Histories that a store names, the newest ones. A position in an older history is refused.
const MOST_HISTORIES: usize = 64;

/// Maximum number of cursors of a store.
pub const MOST_CURSORS: usize = 1024;

/// Maximum length of a cursor's name in bytes.
pub const MAX_CURSOR_NAME_BYTES: usize = 255;

/// A position in the change feed: all commits up to a seqno of a history. Its text is the history's id in hexadecimal
/// digits, a colon and the seqno.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChangePosition {
    /// The history.
    pub history: Uid,
    /// The last seqno before the changes that follow.
    pub seqno: Seqno,
}

impl fmt::Display for ChangePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.history.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ":{}", self.seqno)
    }
}

impl FromStr for ChangePosition {
    type Err = Error;

    fn from_str(text: &str) -> Result<ChangePosition> {
        let parse = || {
            let (history, seqno) = text.split_once(':')?;
            let mut id = Uid([0; 16]);
            if history.len() != 32 || !history.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return None;
            }
            for (at, byte) in id.0.iter_mut().enumerate() {
                *byte = u8::from_str_radix(&history[2 * at..2 * at + 2], 16).ok()?;
            }
            let seqno = seqno.parse().ok().filter(|seqno| *seqno <= MAX_SEQNO)?;
            Some(ChangePosition { history: id, seqno })
        };
        parse().ok_or_else(|| Error::invalid(format!("{text:?} is no position of a change feed")))
    }
}

/// A history of commits. It shares all commits up to `branch` with the history before it in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedHistory {
    /// Its id.
    pub id: Uid,
    /// The last seqno that it shares with its parent; 0 for the first history.
    pub branch: Seqno,
    /// The last seqno before its own commits. No commit lies between `branch` and this seqno.
    pub start: Seqno,
}

/// A log segment that the feed keeps. It is no part of the live log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSegment {
    /// The number in its file name.
    pub number: u64,
    /// The nonce in its header, which is the link before its first frame.
    pub nonce: u64,
    /// Logical offset of its first frame.
    pub first: u64,
    /// Logical offset of the end of its last frame.
    pub end: u64,
    /// The seqno after its last operation.
    pub next_seqno: Seqno,
    /// When the log left it, in microseconds since 1970.
    pub closed_micros: u64,
}

impl KeptSegment {
    /// Returns the name of its file.
    pub fn name(&self) -> StoreFileName {
        StoreFileName::Segment(self.number)
    }

    /// Returns the length of its file up to the end of its frames.
    pub fn file_bytes(&self) -> u64 {
        PAGE_BYTES as u64 + self.bytes()
    }

    /// Returns the number of log bytes in it.
    pub fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.first)
    }
}

/// A table or blob file that kept log records need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptFile {
    /// Its name: a table or a blob file.
    pub name: StoreFileName,
    /// No commit after this seqno needs it.
    pub through: Seqno,
}

/// A table that was ingested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedTable {
    /// The number in its file name.
    pub number: u64,
    /// What its file must agree with.
    pub expected: Expected,
    /// The number and the unique id of each blob file that it points into.
    pub values: Vec<(u64, Uid)>,
}

/// A change that the log holds no operations of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedMark {
    /// Its seqno, for which the log holds an operation without a family.
    pub seqno: Seqno,
    /// The id of the family.
    pub family: u32,
    /// The ingested tables: none if the job failed. `None` if the family was dropped.
    pub ingested: Option<Vec<MarkedTable>>,
    /// The name of a dropped family, and that of its order; empty for an ingestion.
    pub dropped: (String, String),
}

impl FeedMark {
    /// Returns the mark of a job that failed after it had taken a seqno.
    pub fn nothing(seqno: Seqno, family: u32) -> FeedMark {
        FeedMark { seqno, family, ingested: Some(Vec::new()), dropped: Default::default() }
    }
}

/// A named cursor of the change feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedCursor {
    /// Its name.
    pub name: String,
    /// Its position: the consumer needs the changes after it.
    pub position: ChangePosition,
    /// When it was created or last moved, in microseconds since 1970.
    pub moved_micros: u64,
}

/// A change of the feed's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedEdit {
    /// The store continues in another history.
    HistoryBegun(FeedHistory),
    /// The floor: every later commit is kept. Releases what only earlier commits need. `None`: nothing is kept.
    KeptFrom(Option<Seqno>),
    /// A segment that the live log does not need any more is kept.
    SegmentKept(KeptSegment),
    /// A file is kept, even if no table or memtable needs it.
    FileKept(KeptFile),
    /// A family was dropped, or tables were ingested.
    Marked(FeedMark),
    /// A cursor is created or moved.
    CursorSet(FeedCursor),
    /// A cursor is removed.
    CursorRemoved(String),
}

/// The recorded state of the change feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedState {
    /// The histories, the current one last. Empty until the feed is first used.
    pub histories: Vec<FeedHistory>,
    /// The floor: every commit after this seqno is kept.
    pub from: Option<Seqno>,
    /// The kept segments by the seqno after their last operation.
    pub segments: BTreeMap<Seqno, KeptSegment>,
    /// The kept files, each with the last seqno that needs it.
    pub files: BTreeMap<StoreFileName, Seqno>,
    /// Drops and ingestions by seqno.
    pub marks: BTreeMap<Seqno, FeedMark>,
    /// The cursors by name.
    pub cursors: BTreeMap<String, FeedCursor>,
}

impl FeedState {
    /// Applies a change. Returns the reason if it does not fit.
    pub(super) fn apply(&mut self, edit: &FeedEdit) -> std::result::Result<(), &'static str> {
        match edit {
            FeedEdit::HistoryBegun(history) => {
                if self.histories.iter().any(|known| known.id == history.id) {
                    return Err("begins a history that exists");
                }
                if self.histories.len() == MOST_HISTORIES {
                    self.histories.remove(0);
                }
                self.histories.push(*history);
            }
            FeedEdit::KeptFrom(from) => {
                let floor = from.unwrap_or(Seqno::MAX);
                self.from = *from;
                self.segments.retain(|next, _| *next > floor.saturating_add(1));
                self.files.retain(|_, through| *through > floor);
                self.marks.retain(|seqno, _| *seqno > floor);
            }
            FeedEdit::SegmentKept(segment) => {
                self.segments.insert(segment.next_seqno, *segment);
            }
            FeedEdit::FileKept(KeptFile { name, through }) => {
                let kept = self.files.entry(*name).or_default();
                *kept = (*kept).max(*through);
            }
            FeedEdit::Marked(mark) => {
                self.marks.insert(mark.seqno, mark.clone());
            }
            FeedEdit::CursorSet(cursor) => {
                self.cursors.insert(cursor.name.clone(), cursor.clone());
            }
            FeedEdit::CursorRemoved(name) => {
                self.cursors.remove(name).ok_or("removes a cursor that does not exist")?;
            }
        }
        Ok(())
    }

    /// Returns the changes that make an empty state equal to this one.
    pub(super) fn snapshot(&self) -> impl Iterator<Item = FeedEdit> + '_ {
        let histories = self.histories.iter().copied().map(FeedEdit::HistoryBegun);
        let from = self.from.is_some().then_some(FeedEdit::KeptFrom(self.from));
        let segments = self.segments.values().copied().map(FeedEdit::SegmentKept);
        let files = self.files.iter().map(|(name, through)| KeptFile { name: *name, through: *through });
        let marks = self.marks.values().cloned().map(FeedEdit::Marked);
        let cursors = self.cursors.values().cloned().map(FeedEdit::CursorSet);
        histories.chain(from).chain(segments).chain(files.map(FeedEdit::FileKept)).chain(marks).chain(cursors)
    }

    /// Returns the histories alone: nothing is kept, and there are no cursors.
    pub(super) fn without_log(&self) -> FeedState {
        FeedState { histories: self.histories.clone(), ..FeedState::default() }
    }

    /// Returns the state of a copy of the store that holds the commits up to `through` and continues after `start`. The
    /// copy keeps no log and has no cursors.
    pub fn of_copy(&self, id: Uid, through: Seqno, start: Seqno) -> FeedState {
        let mut copy = self.without_log();
        if !copy.histories.is_empty() {
            let history = FeedHistory { id, branch: through, start };
            let _ = copy.apply(&FeedEdit::HistoryBegun(history)); // a random id is not taken
        }
        copy
    }

    /// Returns the id of the current history.
    pub fn history(&self) -> Option<Uid> {
        self.histories.last().map(|history| history.id)
    }

    /// Returns the position in the history before the current one at which the current one branched.
    pub fn branch(&self) -> Option<ChangePosition> {
        let [.., parent, current] = &self.histories[..] else { return None };
        Some(ChangePosition { history: parent.id, seqno: current.branch })
    }

    /// Returns the oldest position from which the feed can be read.
    pub fn oldest(&self) -> Option<ChangePosition> {
        Some(ChangePosition { history: self.history()?, seqno: self.from? })
    }

    /// Returns the seqno in the current history that a position stands for. Errors: `OutOfReach` if the position's
    /// history is not this store's, or branched before it.
    pub fn resolve(&self, position: &ChangePosition) -> Result<Seqno> {
        let at = self.histories.iter().position(|history| history.id == position.history);
        let Some(at) = at else {
            return Err(self.out_of_reach(position, "belongs to a history that this store does not know"));
        };
        let mut seqno = position.seqno;
        for child in &self.histories[at + 1..] {
            if seqno > child.branch {
                let why = format!("lies behind seqno {}, after which that history was cut", child.branch);
                return Err(self.out_of_reach(position, &why));
            }
            if seqno == child.branch {
                seqno = child.start;
            }
        }
        Ok(seqno)
    }

    /// Returns the seqno that follows `seqno` in the log: greater than `seqno + 1` where a history begins.
    pub fn following(&self, seqno: Seqno) -> Seqno {
        let jump = self.histories.iter().skip(1).find(|history| history.branch == seqno && history.start > seqno);
        jump.map_or(seqno, |history| history.start) + 1
    }

    /// Returns the error for a position that cannot be read.
    pub fn out_of_reach(&self, position: &ChangePosition, why: &str) -> Error {
        let oldest = match self.oldest() {
            Some(oldest) => format!("the oldest position is {oldest}"),
            None => "the store keeps no log for a change feed".to_owned(),
        };
        let what = format!("the position {position} {why}; {oldest}; start again from a checkpoint or a backup");
        Error::of(ErrorKind::OutOfReach, what)
    }
}

const HISTORY_BEGUN: u64 = 1;
const KEPT_FROM: u64 = 2;
const SEGMENT_KEPT: u64 = 3;
const FILE_KEPT: u64 = 4;
const MARKED: u64 = 5;
const CURSOR_SET: u64 = 6;
const CURSOR_REMOVED: u64 = 7;

impl FeedEdit {
    /// Appends the encoding: a kind, and what belongs to it.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut put = |values: &[u64]| values.iter().for_each(|value| put_varint(out, *value));
        match self {
            FeedEdit::HistoryBegun(FeedHistory { id, branch, start }) => {
                put(&[HISTORY_BEGUN, *branch, *start]);
                out.extend_from_slice(&id.0);
            }
            FeedEdit::KeptFrom(from) => put(&[KEPT_FROM, from.map_or(0, |from| from + 1)]),
            FeedEdit::SegmentKept(KeptSegment { number, nonce, first, end, next_seqno, closed_micros }) => {
                put(&[SEGMENT_KEPT, *number, *first, *end, *next_seqno, *closed_micros]);
                out.extend_from_slice(&nonce.to_le_bytes());
            }
            FeedEdit::FileKept(KeptFile { name, through }) => {
                let is_table = matches!(name, StoreFileName::Table(_));
                put(&[FILE_KEPT, is_table.into(), name.number().unwrap_or(0), *through]);
            }
            FeedEdit::Marked(FeedMark { seqno, family, ingested, dropped }) => {
                put(&[MARKED, *seqno, (*family).into(), ingested.is_some().into()]);
                match ingested {
                    Some(tables) => {
                        put_varint(out, tables.len() as u64);
                        tables.iter().for_each(|table| table.encode(out));
                    }
                    None => {
                        put_bytes(out, dropped.0.as_bytes());
                        put_bytes(out, dropped.1.as_bytes());
                    }
                }
            }
            FeedEdit::CursorSet(FeedCursor { name, position, moved_micros }) => {
                put(&[CURSOR_SET, position.seqno, *moved_micros]);
                out.extend_from_slice(&position.history.0);
                put_bytes(out, name.as_bytes());
            }
            FeedEdit::CursorRemoved(name) => {
                put(&[CURSOR_REMOVED]);
                put_bytes(out, name.as_bytes());
            }
        }
    }

    /// Decodes a change; trailing bytes are left to the caller.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<FeedEdit> {
        Ok(match reader.varint()? {
            HISTORY_BEGUN => {
                let (branch, start) = (seqno(reader)?, seqno(reader)?);
                if start < branch {
                    return Err(Error::structural("a history that starts before its branch"));
                }
                FeedEdit::HistoryBegun(FeedHistory { branch, start, id: Uid(reader.array()?) })
            }
            KEPT_FROM => {
                let from = reader.varint()?.checked_sub(1);
                if from.is_some_and(|from| from > MAX_SEQNO) {
                    return Err(Error::structural("seqno above 56 bits"));
                }
                FeedEdit::KeptFrom(from)
            }
            SEGMENT_KEPT => {
                let (number, first, end) = (reader.varint()?, reader.varint()?, reader.varint()?);
                let (next_seqno, closed_micros, nonce) = (reader.varint()?, reader.varint()?, reader.u64()?);
                if end < first || !(1..=MAX_SEQNO + 1).contains(&next_seqno) {
                    return Err(Error::structural("a kept segment that cannot be"));
                }
                FeedEdit::SegmentKept(KeptSegment { number, nonce, first, end, next_seqno, closed_micros })
            }
            FILE_KEPT => {
                let (is_table, number) = (flag(reader)?, reader.varint()?);
                let name = if is_table { StoreFileName::Table(number) } else { StoreFileName::Values(number) };
                FeedEdit::FileKept(KeptFile { name, through: seqno(reader)? })
            }
            MARKED => {
                let (seqno, family) = (seqno(reader)?, reader.varint()?);
                let family = u32::try_from(family).map_err(|_| Error::structural("family id above 32 bits"))?;
                let (mut ingested, mut dropped) = (None, Default::default());
                if flag(reader)? {
                    let count = reader.varint()?;
                    let mut tables = Vec::new();
                    for _ in 0..count {
                        tables.push(MarkedTable::decode(reader)?);
                    }
                    ingested = Some(tables);
                } else {
                    dropped = (text(reader)?, text(reader)?);
                }
                FeedEdit::Marked(FeedMark { seqno, family, ingested, dropped })
            }
            CURSOR_SET => {
                let (seqno, moved_micros) = (seqno(reader)?, reader.varint()?);
                let position = ChangePosition { history: Uid(reader.array()?), seqno };
                FeedEdit::CursorSet(FeedCursor { name: text(reader)?, position, moved_micros })
            }
            CURSOR_REMOVED => FeedEdit::CursorRemoved(text(reader)?),
            kind => {
                let what = format!("a change of kind {kind} to the change feed: written by a newer version");
                return Err(Error::of(ErrorKind::FormatTooNew, what));
            }
        })
    }
}

impl MarkedTable {
    fn encode(&self, out: &mut Vec<u8>) {
        let Expected { uid, size, digest, ingest_seqno } = self.expected;
        [self.number, size, ingest_seqno, self.values.len() as u64].iter().for_each(|value| put_varint(out, *value));
        out.extend_from_slice(&uid.0);
        out.extend_from_slice(&digest.to_le_bytes());
        for (number, uid) in &self.values {
            put_varint(out, *number);
            out.extend_from_slice(&uid.0);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<MarkedTable> {
        let (number, size, ingest_seqno, count) =
            (reader.varint()?, reader.varint()?, seqno(reader)?, reader.varint()?);
        let (uid, digest) = (Uid(reader.array()?), reader.u64()?);
        let mut values = Vec::new();
        for _ in 0..count {
            values.push((reader.varint()?, Uid(reader.array()?)));
        }
        Ok(MarkedTable { number, expected: Expected { uid, size, digest, ingest_seqno }, values })
    }
}

fn seqno(reader: &mut Reader<'_>) -> Result<Seqno> {
    Some(reader.varint()?).filter(|seqno| *seqno <= MAX_SEQNO).ok_or_else(|| Error::structural("seqno above 56 bits"))
}

fn flag(reader: &mut Reader<'_>) -> Result<bool> {
    match reader.varint()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::structural("a flag that is neither 0 nor 1")),
    }
}

fn text(reader: &mut Reader<'_>) -> Result<String> {
    let bytes = reader.length_prefixed()?;
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::structural("a name that is no text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn edits() -> impl Strategy<Value = FeedEdit> {
        let seqno = || 0..=MAX_SEQNO;
        let uid = || any::<[u8; 16]>().prop_map(Uid);
        let name = || "[a-z]{1,9}";
        let file = any::<(bool, u64)>().prop_map(|(is_table, number)| match is_table {
            true => StoreFileName::Table(number),
            false => StoreFileName::Values(number),
        });
        let expected = (uid(), any::<u64>(), any::<u64>(), seqno());
        let expected =
            expected.prop_map(|(uid, size, digest, ingest_seqno)| Expected { uid, size, digest, ingest_seqno });
        let table = (any::<u64>(), expected, vec((any::<u64>(), uid()), 0..3));
        let table = table.prop_map(|(number, expected, values)| MarkedTable { number, expected, values });
        let ingested = (seqno(), any::<u32>(), vec(table, 0..3)).prop_map(|(seqno, family, tables)| FeedMark {
            ingested: Some(tables),
            ..FeedMark::nothing(seqno, family)
        });
        let dropped = (seqno(), any::<u32>(), name(), name());
        let dropped = dropped.prop_map(|(seqno, family, name, order)| FeedMark {
            ingested: None,
            dropped: (name, order),
            ..FeedMark::nothing(seqno, family)
        });
        let segment = (any::<[u64; 3]>(), any::<[u32; 2]>(), 1..=MAX_SEQNO + 1);
        prop_oneof![
            (uid(), seqno(), any::<u16>()).prop_map(|(id, branch, gap)| {
                let start = branch.saturating_add(gap.into()).min(MAX_SEQNO);
                FeedEdit::HistoryBegun(FeedHistory { id, branch, start })
            }),
            proptest::option::of(seqno()).prop_map(FeedEdit::KeptFrom),
            segment.prop_map(|([number, nonce, closed_micros], [first, more], next_seqno)| {
                let (first, end) = (first.into(), u64::from(first) + u64::from(more));
                FeedEdit::SegmentKept(KeptSegment { number, nonce, first, end, next_seqno, closed_micros })
            }),
            (file, seqno()).prop_map(|(name, through)| FeedEdit::FileKept(KeptFile { name, through })),
            ingested.prop_map(FeedEdit::Marked),
            dropped.prop_map(FeedEdit::Marked),
            (name(), uid(), seqno(), any::<u64>()).prop_map(|(name, history, seqno, moved_micros)| {
                FeedEdit::CursorSet(FeedCursor { name, position: ChangePosition { history, seqno }, moved_micros })
            }),
            name().prop_map(FeedEdit::CursorRemoved),
        ]
    }

    proptest! {
        #[test]
        fn changes_come_back(edit in edits()) {
            let mut bytes = Vec::new();
            edit.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(FeedEdit::decode(&mut reader).unwrap(), edit);
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn any_bytes_are_a_change_or_refused(bytes in vec(any::<u8>(), 0..80)) {
            let _ = FeedEdit::decode(&mut Reader::new(&bytes));
        }

        #[test]
        fn a_state_is_made_again_of_its_changes(edits in vec(edits(), 0..20)) {
            let (mut state, mut again) = (FeedState::default(), FeedState::default());
            for edit in &edits {
                let _ = state.apply(edit);
            }
            state.snapshot().for_each(|edit| again.apply(&edit).unwrap());
            prop_assert_eq!(again, state);
        }

        #[test]
        fn positions_come_back(history: [u8; 16], seqno in 0..=MAX_SEQNO) {
            let position = ChangePosition { history: Uid(history), seqno };
            prop_assert_eq!(position.to_string().parse::<ChangePosition>().unwrap(), position);
        }
    }

    #[test]
    fn a_position_goes_on_up_to_the_branch_and_no_further() {
        let id = |byte| Uid([byte; 16]);
        let history = |byte, branch, start| FeedHistory { id: id(byte), branch, start };
        let histories = vec![history(1, 0, 0), history(2, 10, 14), history(3, 20, 20)];
        let state = FeedState { histories, from: Some(3), ..FeedState::default() };
        let resolved = |byte, seqno| state.resolve(&ChangePosition { history: id(byte), seqno }).ok();
        assert_eq!([7, 10, 11].map(|seqno| resolved(1, seqno)), [Some(7), Some(14), None]);
        assert_eq!([15, 20, 21].map(|seqno| resolved(2, seqno)), [Some(15), Some(20), None]);
        assert_eq!((resolved(3, 99), resolved(4, 1)), (Some(99), None));
        assert_eq!([9, 10, 11].map(|seqno| state.following(seqno)), [10, 15, 12]);
        assert_eq!(state.branch(), Some(ChangePosition { history: id(2), seqno: 20 }));
        let copy = state.of_copy(id(5), 30, 33);
        assert_eq!((copy.histories.last(), copy.from), (Some(&history(5, 30, 33)), None));
        assert!(FeedState::default().of_copy(id(5), 30, 33).histories.is_empty());
    }
}
