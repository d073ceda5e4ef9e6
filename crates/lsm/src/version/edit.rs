//! Edits: the changes that one flush, compaction or change of families makes to the store, encoded. docs/format.md,
//! section 6.
//!
//! An edit is a list of changes, applied in order and atomically. Each is encoded as `tag varint | bytes`. An unknown
//! even tag changes the contents of the store, so the edit is rejected; an unknown odd tag may be skipped.

use std::sync::Arc;

use super::LEVELS;
use super::feed::FeedEdit;
use super::table_meta::TableMeta;
use crate::checksum::Uid;
use crate::codec::{Reader, put_bytes, put_varint};
use crate::error::{Error, ErrorKind, Result};
use crate::expiry::Expiries;
use crate::format_level::FormatLevel;
use crate::frame::Mark;
use crate::ledger::{Ledger, LedgerEntry};
use crate::lost_range::LostRange;
use crate::names::system_number;
use crate::range_delete::RangeDelete;
use crate::record::{MAX_KEY_BYTES, MAX_SEQNO, Seqno};
use crate::table_property::CollectedSets;
use crate::values::{BlobMeta, BlobRef};
use crate::wal::LogPlace;

/// Changes that are atomic: all of them or none survive a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// In order of application: a table that moves is removed before it is added.
    pub changes: Vec<EditChange>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditChange {
    /// A column family is created.
    FamilyCreated {
        /// Its id, never used again.
        id: u32,
        /// Its name.
        name: String,
        /// The name of its order.
        comparator: String,
        /// Its options, as `family::encode` made them.
        options: Vec<u8>,
    },
    /// A column family is dropped, with all its tables.
    FamilyDropped {
        /// Its id.
        id: u32,
    },
    /// A table is added to a level.
    TableAdded {
        /// The family.
        family: u32,
        /// The level, 0 to 6.
        level: u8,
        /// The table.
        table: Arc<TableMeta>,
    },
    /// A table is removed from a level.
    TableRemoved {
        /// The family.
        family: u32,
        /// The level it was in.
        level: u8,
        /// Its number.
        number: u64,
    },
    /// All records of a family up to a seqno are in tables.
    Flushed {
        /// The family.
        family: u32,
        /// The seqno.
        seqno: Seqno,
    },
    /// The position where reading of the log begins.
    LogStart {
        /// The first segment, its nonce, its first logical offset, and the link before it.
        place: LogPlace,
        /// The ring's number.
        ring: u64,
        /// The ring's nonce.
        ring_nonce: u64,
    },
    /// A segment is whole and durable up to its end.
    SegmentSealed(LogPlace),
    /// The log was durable up to this offset before this edit (I15).
    Permanent {
        /// The logical offset.
        offset: u64,
        /// The greatest seqno below it.
        seqno: Seqno,
    },
    /// The counters; they never decrease.
    Counters {
        /// The next file's number.
        next_file: u64,
        /// The last seqno assigned.
        last_seqno: Seqno,
        /// The next family's id.
        next_family: u32,
    },
    /// A segment is no longer needed.
    SegmentRetired {
        /// Its number.
        segment: u64,
    },
    /// The log was observed to be durable up to this offset.
    LogWitness {
        /// The logical offset, a multiple of 8.
        offset: u64,
    },
    /// Recovery cut the log.
    Cut {
        /// The logical offset of the log's new end.
        offset: u64,
        /// Number of bytes set aside.
        bytes: u64,
        /// The number of the `.cut` file that holds them.
        file: u64,
    },
    /// The store has this format level from this edit on.
    FormatLevel(FormatLevel),
    /// Frames of the log may point into value files from this edit on.
    LogPoints,
    /// Records were permanently lost: from this edit on, reads in the range return a corruption error.
    LostRangeAdded {
        /// The family.
        family: u32,
        /// The lost range's number, from the counter that numbers files: never reused.
        id: u64,
        /// The range, and the known details of the loss.
        lost_range: Arc<LostRange>,
    },
    /// Frames of the log may hold range deletes from this edit on.
    LogDeletesRanges,
    /// A range delete leaves the log: it hides older records in the family's tables.
    RangeDeleteAdded {
        /// The family.
        family: u32,
        /// The range delete.
        range: Arc<RangeDelete>,
    },
    /// No table holds a record that a range delete hides.
    RangeDeleteRetired {
        /// The family.
        family: u32,
        /// The seqno of the range delete.
        seqno: Seqno,
    },
    /// A family has a merge operator: the log and its tables may hold operands from this edit on.
    MergeOperatorNamed {
        /// The family.
        family: u32,
        /// The operator's name.
        name: String,
    },
    /// The options of a family were changed.
    OptionsChanged {
        /// The family.
        family: u32,
        /// Its options, as `family::encode` made them.
        options: Vec<u8>,
    },
    /// A lost range is lifted.
    LostRangeLifted {
        /// The family.
        family: u32,
        /// The lost range's number.
        id: u64,
    },
    /// A table is quarantined: compactions leave it alone until it is removed (a table that is removed and added again
    /// is no longer quarantined).
    TableQuarantined {
        /// The family.
        family: u32,
        /// The table's number.
        number: u64,
    },
    /// An event log entry for the action of this edit.
    Line {
        /// The previous entry's number plus one.
        number: u64,
        /// The encoded event.
        bytes: Arc<[u8]>,
    },
    /// Event log entries were moved to the rows of a family.
    LinesTakenOut {
        /// Highest number moved.
        through: u64,
    },
    /// A compaction dropped expired records of a family.
    Expired {
        /// The family.
        family: u32,
        /// Time by which all dropped records had expired, in microseconds since 1970.
        through: u64,
        /// Counts and sums of the dropped records.
        dropped: Ledger,
    },
    /// The compaction filter of a family has this name from here on.
    CompactionFilterNamed {
        /// The family.
        family: u32,
        /// The filter's name.
        name: String,
    },
    /// A compaction filter dropped and changed records of a family.
    Filtered {
        /// The family.
        family: u32,
        /// Counts and sums of the dropped records.
        dropped: Ledger,
        /// Counts and sums of the original records that were changed.
        changed: Ledger,
    },
    /// A change of what the change feed keeps.
    Feed(FeedEdit),
    /// The items of all values that were ever written into a value file, for the tables that point into it.
    ValuesCollected {
        /// The file.
        uid: Uid,
        /// The sets of items, not empty.
        collected: CollectedSets,
    },
    /// A change written by a later version, which this version may ignore.
    Skipped {
        /// An odd tag.
        tag: u64,
        /// Its contents.
        bytes: Vec<u8>,
    },
}

const FAMILY_CREATED: u64 = 2;
const FAMILY_DROPPED: u64 = 4;
const TABLE_ADDED: u64 = 6;
const TABLE_REMOVED: u64 = 8;
const FLUSHED: u64 = 10;
const LOG_START: u64 = 12;
const SEGMENT_SEALED: u64 = 14;
const PERMANENT: u64 = 16;
const COUNTERS: u64 = 18;
const SEGMENT_RETIRED: u64 = 20;
const LOST_RANGE_ADDED: u64 = 22;
const LOG_WITNESS: u64 = 23;
const LOST_RANGE_LIFTED: u64 = 24;
const CUT: u64 = 25;
const TABLE_WITH_VALUES_ADDED: u64 = 26;
const LINE: u64 = 27;
const LOG_POINTS: u64 = 28;
const TABLE_QUARANTINED: u64 = 29;
const LOG_DELETES_RANGES: u64 = 30;
const LINES_TAKEN_OUT: u64 = 31;
const RANGE_DELETE_ADDED: u64 = 32;
const EXPIRED: u64 = 33;
const RANGE_DELETE_RETIRED: u64 = 34;
const TABLE_EXPIRES: u64 = 35;
const MERGE_OPERATOR_NAMED: u64 = 36;
const TABLE_HIDES: u64 = 37;
const TABLE_INGESTED: u64 = 38;
const COMPACTION_FILTER_NAMED: u64 = 39;
const FILTERED: u64 = 41;
const OPTIONS_CHANGED: u64 = 43;
const FORMAT_LEVEL: u64 = 46;
const FEED: u64 = 48;
const VALUES_COLLECTED: u64 = 49;

impl Edit {
    /// Encodes the edit as the body of its frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut body = Vec::new();
        for change in &self.changes {
            body.clear();
            let tag = change.encode(&mut body);
            put_varint(&mut out, tag);
            put_bytes(&mut out, &body);
            if let Some((number, expiry)) = change.expires() {
                body.clear();
                put_varints(&mut body, [number, expiry.count, expiry.least, expiry.greatest - expiry.least]);
                put_varint(&mut out, TABLE_EXPIRES);
                put_bytes(&mut out, &body);
            }
            if let EditChange::TableAdded { table, .. } = change
                && (table.cleared_through > 0 || table.retains_nothing)
            {
                body.clear();
                put_varints(&mut body, [table.number, table.cleared_through, table.retains_nothing.into()]);
                put_varint(&mut out, TABLE_HIDES);
                put_bytes(&mut out, &body);
            }
            if let EditChange::TableAdded { table, .. } = change
                && table.ingest_seqno > 0
            {
                body.clear();
                put_varint(&mut body, table.number);
                put_varint(&mut out, TABLE_INGESTED);
                put_bytes(&mut out, &body);
            }
        }
        out
    }

    /// Returns the edit's weight for manifest rotation: the bytes caused by users' data. Neither the event log nor
    /// system families may change the moment at which a file number is taken and a nonce is drawn.
    pub(super) fn weight(&self) -> u64 {
        let mut body = Vec::new();
        let mut weight = 0;
        for change in self.changes.iter().filter(|change| !change.is_light()) {
            body.clear();
            change.encode(&mut body);
            weight += body.len() as u64 + 3;
        }
        weight
    }

    /// Decodes the body of an edit's frame.
    pub fn decode(bytes: &[u8]) -> Result<Edit> {
        let mut reader = Reader::new(bytes);
        let mut changes = Vec::new();
        while !reader.is_empty() {
            let (tag, body) = (reader.varint()?, reader.length_prefixed()?);
            match tag {
                TABLE_EXPIRES => set_expiry(changes.last_mut(), body)?,
                TABLE_HIDES => set_hidden(changes.last_mut(), body)?,
                TABLE_INGESTED => check_ingested(changes.last(), body)?,
                _ => changes.push(EditChange::decode(tag, body)?),
            }
        }
        Ok(Edit { changes })
    }
}

impl From<Vec<EditChange>> for Edit {
    fn from(changes: Vec<EditChange>) -> Edit {
        Edit { changes }
    }
}

impl EditChange {
    /// Returns the format level that a store with this change has.
    pub(crate) fn level(&self) -> FormatLevel {
        match self {
            EditChange::FormatLevel(level) => *level,
            EditChange::TableAdded { table, .. } if table.ingest_seqno != 0 => FormatLevel::RANGES,
            EditChange::LogDeletesRanges
            | EditChange::RangeDeleteAdded { .. }
            | EditChange::RangeDeleteRetired { .. }
            | EditChange::MergeOperatorNamed { .. }
            | EditChange::Feed(_) => FormatLevel::RANGES,
            EditChange::FamilyCreated { .. }
            | EditChange::FamilyDropped { .. }
            | EditChange::TableAdded { .. }
            | EditChange::TableRemoved { .. }
            | EditChange::Flushed { .. }
            | EditChange::LogStart { .. }
            | EditChange::SegmentSealed(_)
            | EditChange::Permanent { .. }
            | EditChange::Counters { .. }
            | EditChange::SegmentRetired { .. }
            | EditChange::LogWitness { .. }
            | EditChange::Cut { .. }
            | EditChange::LogPoints
            | EditChange::LostRangeAdded { .. }
            | EditChange::LostRangeLifted { .. }
            | EditChange::OptionsChanged { .. }
            | EditChange::CompactionFilterNamed { .. }
            | EditChange::Filtered { .. }
            | EditChange::TableQuarantined { .. }
            | EditChange::Line { .. }
            | EditChange::LinesTakenOut { .. }
            | EditChange::Expired { .. }
            | EditChange::ValuesCollected { .. }
            | EditChange::Skipped { .. } => FormatLevel::FIRST,
        }
    }

    /// Returns number and expiry times of an added table whose records expire. They are encoded as a separate change,
    /// which older versions skip.
    fn expires(&self) -> Option<(u64, Expiries)> {
        match self {
            EditChange::TableAdded { table, .. } => table.expiry.map(|expiry| (table.number, expiry)),
            _ => None,
        }
    }

    /// True for changes caused by the event log and the system families, and for those present in every edit.
    fn is_light(&self) -> bool {
        match self {
            EditChange::Line { .. }
            | EditChange::LinesTakenOut { .. }
            | EditChange::Counters { .. }
            | EditChange::Expired { .. }
            | EditChange::Filtered { .. } => true,
            EditChange::FamilyCreated { id: family, .. }
            | EditChange::FamilyDropped { id: family }
            | EditChange::TableAdded { family, .. }
            | EditChange::TableRemoved { family, .. }
            | EditChange::Flushed { family, .. }
            | EditChange::LostRangeAdded { family, .. }
            | EditChange::LostRangeLifted { family, .. }
            | EditChange::RangeDeleteAdded { family, .. }
            | EditChange::RangeDeleteRetired { family, .. }
            | EditChange::TableQuarantined { family, .. } => system_number(*family).is_some(),
            _ => false,
        }
    }

    /// Appends the change's encoding and returns its tag.
    fn encode(&self, out: &mut Vec<u8>) -> u64 {
        match self {
            EditChange::FamilyCreated { id, name, comparator, options } => {
                put_varint(out, *id as u64);
                put_bytes(out, name.as_bytes());
                put_bytes(out, comparator.as_bytes());
                put_bytes(out, options);
                FAMILY_CREATED
            }
            EditChange::FamilyDropped { id } => {
                put_varint(out, *id as u64);
                FAMILY_DROPPED
            }
            EditChange::TableAdded { family, level, table } => {
                put_varint(out, *family as u64);
                put_varint(out, *level as u64);
                put_table(out, table);
                if table.values.is_empty() {
                    return TABLE_ADDED;
                }
                put_values(out, &table.values);
                TABLE_WITH_VALUES_ADDED
            }
            EditChange::TableRemoved { family, level, number } => {
                put_varints(out, [*family as u64, *level as u64, *number]);
                TABLE_REMOVED
            }
            EditChange::Flushed { family, seqno } => {
                put_varints(out, [*family as u64, *seqno]);
                FLUSHED
            }
            EditChange::LogStart { place, ring, ring_nonce } => {
                put_place(out, place);
                put_varint(out, *ring);
                out.extend_from_slice(&ring_nonce.to_le_bytes());
                LOG_START
            }
            EditChange::SegmentSealed(place) => {
                put_place(out, place);
                SEGMENT_SEALED
            }
            EditChange::Permanent { offset, seqno } => {
                put_varints(out, [*offset, *seqno]);
                PERMANENT
            }
            EditChange::Counters { next_file, last_seqno, next_family } => {
                put_varints(out, [*next_file, *last_seqno, *next_family as u64]);
                COUNTERS
            }
            EditChange::SegmentRetired { segment } => {
                put_varint(out, *segment);
                SEGMENT_RETIRED
            }
            EditChange::LogWitness { offset } => {
                out.extend_from_slice(&Mark::Synced.encode(0, *offset).to_le_bytes());
                LOG_WITNESS
            }
            EditChange::Cut { offset, bytes, file } => {
                put_varints(out, [*offset, *bytes, *file]);
                CUT
            }
            EditChange::FormatLevel(level) => {
                put_varint(out, level.number() as u64);
                FORMAT_LEVEL
            }
            EditChange::LogPoints => LOG_POINTS,
            EditChange::LogDeletesRanges => LOG_DELETES_RANGES,
            EditChange::RangeDeleteAdded { family, range } => {
                put_varint(out, *family as u64);
                range.encode(out);
                RANGE_DELETE_ADDED
            }
            EditChange::RangeDeleteRetired { family, seqno } => {
                put_varints(out, [*family as u64, *seqno]);
                RANGE_DELETE_RETIRED
            }
            EditChange::MergeOperatorNamed { family, name } => {
                put_varint(out, *family as u64);
                put_bytes(out, name.as_bytes());
                MERGE_OPERATOR_NAMED
            }
            EditChange::OptionsChanged { family, options } => {
                put_varint(out, *family as u64);
                put_bytes(out, options);
                OPTIONS_CHANGED
            }
            EditChange::LostRangeAdded { family, id, lost_range } => {
                put_varints(out, [*family as u64, *id]);
                lost_range.encode(out);
                LOST_RANGE_ADDED
            }
            EditChange::LostRangeLifted { family, id } => {
                put_varints(out, [*family as u64, *id]);
                LOST_RANGE_LIFTED
            }
            EditChange::TableQuarantined { family, number } => {
                put_varints(out, [*family as u64, *number]);
                TABLE_QUARANTINED
            }
            EditChange::Line { number, bytes } => {
                put_varint(out, *number);
                out.extend_from_slice(bytes);
                LINE
            }
            EditChange::LinesTakenOut { through } => {
                put_varint(out, *through);
                LINES_TAKEN_OUT
            }
            EditChange::Expired { family, through, dropped } => {
                put_varints(out, [*family as u64, *through]);
                put_ledger(out, dropped);
                EXPIRED
            }
            EditChange::CompactionFilterNamed { family, name } => {
                put_varint(out, *family as u64);
                put_bytes(out, name.as_bytes());
                COMPACTION_FILTER_NAMED
            }
            EditChange::Filtered { family, dropped, changed } => {
                put_varint(out, *family as u64);
                put_ledger(out, dropped);
                put_ledger(out, changed);
                FILTERED
            }
            EditChange::ValuesCollected { uid, collected } => {
                out.extend_from_slice(&uid.0);
                collected.encode(out);
                VALUES_COLLECTED
            }
            EditChange::Feed(feed) => {
                feed.encode(out);
                FEED
            }
            EditChange::Skipped { tag, bytes } => {
                out.extend_from_slice(bytes);
                *tag
            }
        }
    }

    /// Decodes one change. Trailing bytes after a known change are rejected, because they would have a meaning.
    fn decode(tag: u64, bytes: &[u8]) -> Result<EditChange> {
        let reader = &mut Reader::new(bytes);
        let change = match tag {
            FAMILY_CREATED => EditChange::FamilyCreated {
                id: family(reader)?,
                name: text(reader)?,
                comparator: text(reader)?,
                options: reader.length_prefixed()?.to_vec(),
            },
            FAMILY_DROPPED => EditChange::FamilyDropped { id: family(reader)? },
            TABLE_ADDED => EditChange::TableAdded {
                family: family(reader)?,
                level: level(reader)?,
                table: Arc::new(table(reader)?),
            },
            TABLE_WITH_VALUES_ADDED => {
                let (family, level, table) = (family(reader)?, level(reader)?, table(reader)?);
                let table = Arc::new(TableMeta { values: values(reader)?, ..table });
                EditChange::TableAdded { family, level, table }
            }
            TABLE_REMOVED => {
                EditChange::TableRemoved { family: family(reader)?, level: level(reader)?, number: reader.varint()? }
            }
            FLUSHED => EditChange::Flushed { family: family(reader)?, seqno: seqno(reader)? },
            LOG_START => {
                EditChange::LogStart { place: place(reader)?, ring: reader.varint()?, ring_nonce: reader.u64()? }
            }
            SEGMENT_SEALED => EditChange::SegmentSealed(place(reader)?),
            PERMANENT => EditChange::Permanent { offset: reader.varint()?, seqno: seqno(reader)? },
            COUNTERS => EditChange::Counters {
                next_file: reader.varint()?,
                last_seqno: seqno(reader)?,
                next_family: family(reader)?,
            },
            SEGMENT_RETIRED => EditChange::SegmentRetired { segment: reader.varint()? },
            LOG_WITNESS => {
                let offset = Mark::Synced.decode(0, reader.u64()?);
                EditChange::LogWitness {
                    offset: offset.ok_or_else(|| Error::structural("log witness does not check"))?,
                }
            }
            CUT => EditChange::Cut { offset: reader.varint()?, bytes: reader.varint()?, file: reader.varint()? },
            LOST_RANGE_ADDED => EditChange::LostRangeAdded {
                family: family(reader)?,
                id: reader.varint()?,
                lost_range: Arc::new(LostRange::decode(reader)?),
            },
            LOST_RANGE_LIFTED => EditChange::LostRangeLifted { family: family(reader)?, id: reader.varint()? },
            TABLE_QUARANTINED => EditChange::TableQuarantined { family: family(reader)?, number: reader.varint()? },
            LINE => return Ok(EditChange::Line { number: reader.varint()?, bytes: reader.rest().into() }),
            FORMAT_LEVEL => EditChange::FormatLevel(FormatLevel::recorded(reader.varint()?)?),
            LOG_POINTS => EditChange::LogPoints,
            LOG_DELETES_RANGES => EditChange::LogDeletesRanges,
            RANGE_DELETE_ADDED => {
                EditChange::RangeDeleteAdded { family: family(reader)?, range: Arc::new(RangeDelete::decode(reader)?) }
            }
            RANGE_DELETE_RETIRED => EditChange::RangeDeleteRetired { family: family(reader)?, seqno: seqno(reader)? },
            MERGE_OPERATOR_NAMED => EditChange::MergeOperatorNamed { family: family(reader)?, name: text(reader)? },
            OPTIONS_CHANGED => {
                EditChange::OptionsChanged { family: family(reader)?, options: reader.length_prefixed()?.to_vec() }
            }
            LINES_TAKEN_OUT => EditChange::LinesTakenOut { through: reader.varint()? },
            EXPIRED => {
                EditChange::Expired { family: family(reader)?, through: reader.varint()?, dropped: ledger(reader)? }
            }
            COMPACTION_FILTER_NAMED => {
                EditChange::CompactionFilterNamed { family: family(reader)?, name: text(reader)? }
            }
            FILTERED => {
                EditChange::Filtered { family: family(reader)?, dropped: ledger(reader)?, changed: ledger(reader)? }
            }
            FEED => EditChange::Feed(FeedEdit::decode(reader)?),
            VALUES_COLLECTED => {
                let (uid, collected) = (Uid(reader.array()?), CollectedSets::decode(reader.rest())?);
                if collected.is_empty() {
                    return Err(Error::structural("no items of a value file"));
                }
                return Ok(EditChange::ValuesCollected { uid, collected });
            }
            _ if tag % 2 == 1 => return Ok(EditChange::Skipped { tag, bytes: bytes.to_vec() }),
            _ => {
                let what = format!("edit with a change of kind {tag}: written by a newer version");
                return Err(Error::of(ErrorKind::FormatTooNew, what));
            }
        };
        if !reader.is_empty() {
            return Err(Error::structural("change is longer than its kind"));
        }
        Ok(change)
    }
}

fn put_varints<const N: usize>(out: &mut Vec<u8>, values: [u64; N]) {
    values.iter().for_each(|value| put_varint(out, *value));
}

fn put_place(out: &mut Vec<u8>, place: &LogPlace) {
    put_varint(out, place.segment);
    out.extend_from_slice(&place.nonce.to_le_bytes());
    put_varint(out, place.offset);
    out.extend_from_slice(&place.link.to_le_bytes());
}

fn place(reader: &mut Reader<'_>) -> Result<LogPlace> {
    Ok(LogPlace { segment: reader.varint()?, nonce: reader.u64()?, offset: reader.varint()?, link: reader.u64()? })
}

fn put_table(out: &mut Vec<u8>, table: &TableMeta) {
    put_varint(out, table.number);
    out.extend_from_slice(&table.uid.0);
    put_varint(out, table.size);
    put_bytes(out, &table.smallest);
    put_bytes(out, &table.largest);
    put_varints(out, [table.least_seqno, table.greatest_seqno]);
    out.extend_from_slice(&table.digest.to_le_bytes());
    put_varint(out, table.ingest_seqno);
    put_ledger(out, &table.ledger);
}

fn put_ledger(out: &mut Vec<u8>, ledger: &Ledger) {
    for (kind, entry) in [(0x33, &ledger.puts), (0x5A, &ledger.deletes), (0x00, &ledger.others)] {
        out.push(kind);
        put_varint(out, entry.count);
        out.extend_from_slice(&entry.sum.to_le_bytes());
    }
}

fn table(reader: &mut Reader<'_>) -> Result<TableMeta> {
    Ok(TableMeta {
        number: reader.varint()?,
        uid: Uid(reader.array()?),
        size: reader.varint()?,
        smallest: key(reader)?,
        largest: key(reader)?,
        least_seqno: seqno(reader)?,
        greatest_seqno: seqno(reader)?,
        digest: reader.u64()?,
        ingest_seqno: seqno(reader)?,
        ledger: ledger(reader)?,
        values: Vec::new(),
        expiry: None,
        cleared_through: 0,
        retains_nothing: false,
    })
}

/// Decodes the expiry times of the table that the previous change adds.
fn set_expiry(before: Option<&mut EditChange>, body: &[u8]) -> Result<()> {
    let reader = &mut Reader::new(body);
    let (number, count, least) = (reader.varint()?, reader.varint()?, reader.varint()?);
    let greatest = least.checked_add(reader.varint()?);
    match (before, greatest) {
        (Some(EditChange::TableAdded { table, .. }), Some(greatest))
            if table.number == number && table.expiry.is_none() && count > 0 && reader.is_empty() =>
        {
            Arc::make_mut(table).expiry = Some(Expiries { count, least, greatest });
            Ok(())
        }
        _ => Err(Error::structural("expiries of a table that the change before does not add")),
    }
}

/// Decodes the facts about hidden records of the table that the previous change adds.
fn set_hidden(before: Option<&mut EditChange>, body: &[u8]) -> Result<()> {
    let reader = &mut Reader::new(body);
    let (number, cleared_through, flags) = (reader.varint()?, seqno(reader)?, reader.varint()?);
    let is_right = (cleared_through > 0 || flags == 1) && flags <= 1 && reader.is_empty();
    match before {
        Some(EditChange::TableAdded { table, .. })
            if table.number == number && table.cleared_through == 0 && !table.retains_nothing && is_right =>
        {
            let table = Arc::make_mut(table);
            (table.cleared_through, table.retains_nothing) = (cleared_through, flags == 1);
            Ok(())
        }
        _ => Err(Error::structural("a statement about a table that the change before does not add")),
    }
}

fn check_ingested(before: Option<&EditChange>, body: &[u8]) -> Result<()> {
    let reader = &mut Reader::new(body);
    let number = reader.varint()?;
    match before {
        Some(EditChange::TableAdded { table, .. })
            if table.number == number && table.ingest_seqno > 0 && reader.is_empty() =>
        {
            Ok(())
        }
        _ => Err(Error::structural("a statement about an ingested table that the change before does not add")),
    }
}

fn put_values(out: &mut Vec<u8>, values: &[BlobRef]) {
    put_varint(out, values.len() as u64);
    for BlobRef { file, count, bytes } in values {
        put_varint(out, file.number);
        out.extend_from_slice(&file.uid.0);
        put_varints(out, [file.size, file.count]);
        out.extend_from_slice(&file.digest.to_le_bytes());
        put_varints(out, [*count, *bytes]);
    }
}

/// Decodes the value files of a table that has some.
fn values(reader: &mut Reader<'_>) -> Result<Vec<BlobRef>> {
    let count = reader.varint()?;
    let mut values = Vec::new();
    for _ in 0..count {
        let (number, uid) = (reader.varint()?, Uid(reader.array()?));
        let (size, count, digest) = (reader.varint()?, reader.varint()?, reader.u64()?);
        let file = Arc::new(BlobMeta { number, uid, size, count, digest, collected: CollectedSets::default() });
        values.push(BlobRef { file, count: reader.varint()?, bytes: reader.varint()? });
    }
    if values.is_empty() {
        return Err(Error::structural("a table with values has none"));
    }
    Ok(values)
}

fn ledger(reader: &mut Reader<'_>) -> Result<Ledger> {
    Ok(Ledger { puts: entry(reader, 0x33)?, deletes: entry(reader, 0x5A)?, others: entry(reader, 0x00)? })
}

fn entry(reader: &mut Reader<'_>, kind: u8) -> Result<LedgerEntry> {
    if reader.u8()? != kind {
        return Err(Error::structural("ledger entry of another kind"));
    }
    Ok(LedgerEntry { count: reader.varint()?, sum: reader.u64()? })
}

fn key(reader: &mut Reader<'_>) -> Result<Vec<u8>> {
    let key = reader.length_prefixed()?;
    if key.len() > MAX_KEY_BYTES {
        return Err(Error::structural("key is too long"));
    }
    Ok(key.to_vec())
}

fn text(reader: &mut Reader<'_>) -> Result<String> {
    let text = std::str::from_utf8(reader.length_prefixed()?);
    Ok(text.map_err(|_| Error::structural("name is not UTF-8"))?.to_owned())
}

fn family(reader: &mut Reader<'_>) -> Result<u32> {
    u32::try_from(reader.varint()?).map_err(|_| Error::structural("family id is too large"))
}

fn level(reader: &mut Reader<'_>) -> Result<u8> {
    match reader.varint()? {
        level if level < LEVELS as u64 => Ok(level as u8),
        _ => Err(Error::structural("no such level")),
    }
}

fn seqno(reader: &mut Reader<'_>) -> Result<Seqno> {
    match reader.varint()? {
        seqno if seqno <= MAX_SEQNO => Ok(seqno),
        _ => Err(Error::structural("seqno is too large")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::error::Verdict;
    use crate::range_delete::tests::range_deletes;
    use crate::table_property::tests::collected_sets;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// The first odd tag that no version uses.
    const FREE_TAG: u64 = VALUES_COLLECTED + 2;

    fn value_refs() -> impl Strategy<Value = Vec<BlobRef>> {
        let one = any::<([u64; 4], [u8; 16], [u64; 2])>();
        let one = one.prop_map(|([number, size, count, digest], uid, [live, bytes])| BlobRef {
            file: Arc::new(BlobMeta { number, uid: Uid(uid), size, count, digest, ..BlobMeta::default() }),
            count: live,
            bytes,
        });
        vec(one, 0..3)
    }

    fn metas() -> impl Strategy<Value = TableMeta> {
        let words = (any::<u64>(), any::<[u8; 16]>(), any::<u64>(), any::<u64>(), 0..=MAX_SEQNO, 0..=MAX_SEQNO);
        let entries = any::<[(u64, u64); 3]>();
        let expiry = proptest::option::of((1u64.., any::<u64>(), any::<u64>()).prop_map(|(count, a, b)| Expiries {
            count,
            least: a.min(b),
            greatest: a.max(b),
        }));
        (
            words,
            vec(any::<u8>(), 0..9),
            vec(any::<u8>(), 0..9),
            (0..=MAX_SEQNO, value_refs(), expiry, 0..=MAX_SEQNO, any::<bool>()),
            entries,
        )
            .prop_map(
                |(
                    words,
                    smallest,
                    largest,
                    (ingest_seqno, values, expiry, cleared_through, retains_nothing),
                    entries,
                )| {
                    let (number, uid, size, digest, least_seqno, greatest_seqno) = words;
                    let [puts, deletes, others] = entries.map(|(count, sum)| LedgerEntry { count, sum });
                    TableMeta {
                        number,
                        uid: Uid(uid),
                        size,
                        smallest,
                        largest,
                        least_seqno,
                        greatest_seqno,
                        digest,
                        ingest_seqno,
                        ledger: Ledger { puts, deletes, others },
                        values,
                        expiry,
                        cleared_through,
                        retains_nothing,
                    }
                },
            )
    }

    pub(crate) fn lost_ranges() -> impl Strategy<Value = LostRange> {
        let places = ((vec(any::<u8>(), 0..9), 0..=MAX_SEQNO), (vec(any::<u8>(), 0..9), 0..=MAX_SEQNO));
        (places, 0..=MAX_SEQNO, "[0-9]{6}\\.tbl", any::<u64>(), 0u64..6).prop_map(
            |((from, to), bound, file, offset, verdict)| {
                let verdict = Verdict::from_number(verdict);
                LostRange { from, to, bound, file, offset, verdict }
            },
        )
    }

    fn places() -> impl Strategy<Value = LogPlace> {
        any::<(u64, u64, u64, u64)>().prop_map(|(segment, nonce, offset, link)| LogPlace {
            segment,
            nonce,
            offset,
            link,
        })
    }

    fn changes() -> impl Strategy<Value = EditChange> {
        prop_oneof![
            (any::<u32>(), ".{0,5}", ".{0,5}", any::<Vec<u8>>()).prop_map(|(id, name, comparator, options)| {
                EditChange::FamilyCreated { id, name, comparator, options }
            }),
            any::<u32>().prop_map(|id| EditChange::FamilyDropped { id }),
            (any::<u32>(), any::<u64>(), any::<[(u64, u64); 3]>()).prop_map(|(family, through, entries)| {
                let [puts, deletes, others] = entries.map(|(count, sum)| LedgerEntry { count, sum });
                EditChange::Expired { family, through, dropped: Ledger { puts, deletes, others } }
            }),
            (any::<u32>(), any::<[(u64, u64); 6]>()).prop_map(|(family, entries)| {
                let [puts, deletes, others, put, delete, other] =
                    entries.map(|(count, sum)| LedgerEntry { count, sum });
                let changed = Ledger { puts: put, deletes: delete, others: other };
                EditChange::Filtered { family, dropped: Ledger { puts, deletes, others }, changed }
            }),
            any::<(u32, String)>().prop_map(|(family, name)| EditChange::CompactionFilterNamed { family, name }),
            (any::<u32>(), 0u8..7, metas()).prop_map(|(family, level, table)| EditChange::TableAdded {
                family,
                level,
                table: Arc::new(table)
            }),
            (any::<u32>(), 0u8..7, any::<u64>()).prop_map(|(family, level, number)| EditChange::TableRemoved {
                family,
                level,
                number
            }),
            (any::<u32>(), 0..=MAX_SEQNO).prop_map(|(family, seqno)| EditChange::Flushed { family, seqno }),
            (places(), any::<u64>(), any::<u64>()).prop_map(|(place, ring, ring_nonce)| EditChange::LogStart {
                place,
                ring,
                ring_nonce
            }),
            places().prop_map(EditChange::SegmentSealed),
            (any::<u64>(), 0..=MAX_SEQNO).prop_map(|(offset, seqno)| EditChange::Permanent { offset, seqno }),
            (any::<u64>(), 0..=MAX_SEQNO, any::<u32>()).prop_map(|(next_file, last_seqno, next_family)| {
                EditChange::Counters { next_file, last_seqno, next_family }
            }),
            any::<u64>().prop_map(|segment| EditChange::SegmentRetired { segment }),
            (0u64..1 << 48).prop_map(|eighth| EditChange::LogWitness { offset: eighth * 8 }),
            any::<(u64, u64, u64)>().prop_map(|(offset, bytes, file)| EditChange::Cut { offset, bytes, file }),
            (any::<u32>(), any::<u64>(), lost_ranges()).prop_map(|(family, id, lost_range)| {
                EditChange::LostRangeAdded { family, id, lost_range: Arc::new(lost_range) }
            }),
            any::<(u32, u64)>().prop_map(|(family, id)| EditChange::LostRangeLifted { family, id }),
            any::<(u32, u64)>().prop_map(|(family, number)| EditChange::TableQuarantined { family, number }),
            any::<(u64, Vec<u8>)>().prop_map(|(number, bytes)| EditChange::Line { number, bytes: bytes.into() }),
            any::<u64>().prop_map(|through| EditChange::LinesTakenOut { through }),
            Just(EditChange::FormatLevel(FormatLevel::NEWEST)),
            Just(EditChange::LogPoints),
            Just(EditChange::LogDeletesRanges),
            (any::<u32>(), range_deletes())
                .prop_map(|(family, range)| EditChange::RangeDeleteAdded { family, range: Arc::new(range) }),
            (any::<u32>(), 0..=MAX_SEQNO).prop_map(|(family, seqno)| EditChange::RangeDeleteRetired { family, seqno }),
            any::<(u32, String)>().prop_map(|(family, name)| EditChange::MergeOperatorNamed { family, name }),
            any::<(u32, Vec<u8>)>().prop_map(|(family, options)| EditChange::OptionsChanged { family, options }),
            (any::<[u8; 16]>(), collected_sets().prop_filter("any items", |sets| !sets.is_empty()))
                .prop_map(|(uid, collected)| EditChange::ValuesCollected { uid: Uid(uid), collected }),
            (0u64..100, any::<Vec<u8>>()).prop_map(|(n, bytes)| EditChange::Skipped { tag: FREE_TAG + n * 2, bytes }),
        ]
    }

    proptest! {
        #[test]
        fn edits_come_back(changes in vec(changes(), 0..5)) {
            let edit = Edit { changes };
            prop_assert_eq!(Edit::decode(&edit.encode()).unwrap(), edit);
        }

        #[test]
        fn any_bytes_are_an_edit_or_refused(bytes in vec(any::<u8>(), 0..200)) {
            if let Ok(edit) = Edit::decode(&bytes) {
                prop_assert_eq!(Edit::decode(&edit.encode()).unwrap(), edit);
            }
        }

        #[test]
        fn an_edit_that_is_cut_or_bent_never_panics(changes in vec(changes(), 1..4), at: prop::sample::Index, to: u8) {
            let mut bytes = Edit { changes }.encode();
            let at = at.index(bytes.len());
            let _ = Edit::decode(&bytes[..at]);
            bytes[at] = to;
            let _ = Edit::decode(&bytes);
        }
    }

    #[test]
    fn an_even_tag_from_the_future_is_too_new_and_an_odd_one_is_kept() {
        assert_eq!(*Edit::decode(&[200, 1, 1, 7]).unwrap_err().kind(), ErrorKind::FormatTooNew);
        let kept = Edit::decode(&[FREE_TAG as u8, 1, 7]).unwrap();
        assert_eq!(kept.changes, [EditChange::Skipped { tag: FREE_TAG, bytes: vec![7] }]);
    }

    #[test]
    fn a_change_with_something_behind_it_is_refused() {
        assert!(Edit::decode(&[4, 1, 7]).is_ok());
        assert!(Edit::decode(&[4, 2, 7, 0]).unwrap_err().is_corruption());
    }

    #[test]
    fn a_level_or_seqno_that_cannot_be_is_refused() {
        assert!(Edit::decode(&[8, 3, 1, 6, 9]).is_ok());
        assert!(Edit::decode(&[8, 3, 1, 7, 9]).unwrap_err().is_corruption());
        let mut body = vec![1];
        put_varint(&mut body, MAX_SEQNO + 1);
        let mut bytes = vec![10];
        put_bytes(&mut bytes, &body);
        assert!(Edit::decode(&bytes).unwrap_err().is_corruption());
    }
}
