//! The report of a pass over a store: findings and repairs, for people (`Display`) and for programs (`json`).

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::io;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::codec::Reader;
use waxseal_lsm::db::{Family, Remedy, TableRef};
use waxseal_lsm::error::{Damage, Error, ErrorKind, Result, Verdict};
use waxseal_lsm::key_text::RangeText;
use waxseal_lsm::ledger::{Ledger, LedgerEntry};
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::record::Record;
use waxseal_lsm::seam::Check;

/// The result of `verify`, `scrub`, `repair` and `salvage`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records checked.
    pub records: u64,
    /// Records that match their seal.
    pub validated: u64,
    /// Records that do not match their seal, or that no seal confirms.
    pub corrupted: u64,
    /// Records without a seal in a file that guarantees one.
    pub missing: u64,
    /// Records without a seal in a file that does not guarantee one.
    pub unverified: u64,
    /// Places that cannot be decoded; their records are not in the other counts.
    pub structural: u64,
    /// Blocks and records that were repaired.
    pub repaired: u64,
    /// Records known to be lost: tables or log count them, and no place has them.
    pub lost: u64,
    /// Lost entries and stamps of intact records.
    pub lost_beside: u64,
    /// Files that could not be read; their state is unknown.
    pub unread: u64,
    /// Files of other stores that a salvage left alone: each is a finding with `Outcome::LeftAlone`.
    pub left_alone: u64,
    /// Bytes looked at.
    pub bytes: u64,
    /// Files read.
    pub files: u64,
    /// Every damaged place, in the order of discovery.
    pub damage: Vec<Finding>,
    /// Where the next scrub resumes; `None` if this one was complete.
    pub resume: Option<Token>,
    /// True if the caller ended the pass early.
    pub cancelled: bool,
    /// True if the store failed to open, so that only the reason was looked at: repair needs an open store, salvage
    /// does not.
    pub unopened: bool,
    /// Every table that was checked completely, in order, as it was before any repair.
    pub tables: Vec<Visited>,
    /// Duration in nanoseconds of the store's clock.
    pub nanos: u64,
}

/// A table that a pass has checked, as recorded in the event log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visited {
    /// The name of its family.
    pub family: String,
    /// The number in its file name.
    pub number: u64,
    /// The file's permanent unique id.
    pub uid: Uid,
    /// Hash of its block checksums.
    pub digest: u64,
    /// Number of records by its ledger.
    pub records: u64,
    /// Number of damaged places found in it.
    pub found: u64,
}

impl Visited {
    pub(super) fn of(table: &TableRef, found: usize) -> Visited {
        let meta = table.meta();
        Visited {
            family: table.family().name().to_owned(),
            number: meta.number,
            uid: meta.uid,
            digest: meta.digest,
            records: meta.ledger.count(),
            found: found as u64,
        }
    }
}

/// One damaged place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// The file; empty for damage in memory.
    pub file: String,
    /// The offset of the block or frame.
    pub offset: u64,
    /// The family, if one is affected.
    pub family: Option<String>,
    /// First and last user key that may be affected.
    pub key_range: Option<(Vec<u8>, Vec<u8>)>,
    /// The kind of damage.
    pub verdict: Verdict,
    /// The damage as text.
    pub message: String,
    /// The repair steps that were tried, in order.
    pub steps: Vec<Step>,
    /// The final state of the place.
    pub outcome: Outcome,
}

/// One attempted repair step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The step.
    pub rung: Rung,
    /// True if it repaired the damage.
    pub helped: bool,
}

/// The repair steps, in the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rung {
    /// Read the file again, bypassing caches.
    ReadAgain,
    /// Use other copies in memory.
    Memory,
    /// Correct one or two flipped bits, confirmed by the block's checksum and its seals.
    Correction,
    /// Rebuild index, filter and properties from the data.
    Rebuild,
    /// Use the log, as far as it still has the records.
    Log,
    /// Use tables that compaction replaced.
    Trash,
    /// Use the caller's source.
    Source,
    /// Ask the caller's handler.
    Handler,
}

/// The final state of a damaged place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Reported; nothing was changed.
    #[default]
    Reported,
    /// Repaired by this step, without loss.
    Repaired(Rung),
    /// Marked as a lost range.
    Fenced,
    /// The file is unchanged and excluded from compaction.
    Barred,
    /// The loss was accepted: reads continue as if the records had never existed.
    Accepted,
    /// A damaged companion was dropped; the record and its other companions are intact.
    LeftOut,
    /// A salvage did not take the file: it is another store's.
    LeftAlone,
    /// It could not be looked at: the device, or the operating system, answered an error.
    Unread,
}

/// The position at which a scrub resumes. It survives compactions: if the table was replaced, the scrub continues with
/// the next table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Token {
    /// The family's id.
    pub family: u32,
    /// The number of the table; numbers only increase.
    pub table: u64,
    /// The table's uid.
    pub uid: Uid,
    /// Index of the first unchecked block. From the number of blocks on, all blocks are checked, and the excess is the
    /// number of checked values.
    pub block: u64,
    /// Ledger of the checked blocks, so that the next pass can balance the table's ledger.
    pub ledger: Ledger,
}

impl Token {
    /// Length of an encoded token.
    pub const BYTES: usize = 84;

    /// Encodes the token, little-endian.
    pub fn to_bytes(self) -> [u8; Token::BYTES] {
        let mut out = [0; Token::BYTES];
        out[..4].copy_from_slice(&self.family.to_le_bytes());
        out[4..12].copy_from_slice(&self.table.to_le_bytes());
        out[12..28].copy_from_slice(&self.uid.0);
        out[28..36].copy_from_slice(&self.block.to_le_bytes());
        let Ledger { puts, deletes, others } = self.ledger;
        let numbers = [puts, deletes, others].into_iter().flat_map(|entry| [entry.count, entry.sum]);
        out[36..]
            .chunks_exact_mut(8)
            .zip(numbers)
            .for_each(|(part, number)| part.copy_from_slice(&number.to_le_bytes()));
        out
    }

    /// Decodes the bytes of `to_bytes`. Any bytes are valid: if the table does not exist, the scrub starts at the next
    /// one.
    pub fn from_bytes(bytes: &[u8; Token::BYTES]) -> Token {
        let mut reader = Reader::new(bytes); // the array has enough bytes for all fields
        let (family, table) = (reader.u32().unwrap_or_default(), reader.u64().unwrap_or_default());
        let (uid, block) = (Uid(reader.array().unwrap_or_default()), reader.u64().unwrap_or_default());
        let mut entry =
            || LedgerEntry { count: reader.u64().unwrap_or_default(), sum: reader.u64().unwrap_or_default() };
        let ledger = Ledger { puts: entry(), deletes: entry(), others: entry() };
        Token { family, table, uid, block, ledger }
    }
}

impl Report {
    /// Returns true if the pass was not ended early and all damage was repaired.
    pub fn is_clean(&self) -> bool {
        !self.cancelled && self.damage.iter().all(|finding| matches!(finding.outcome, Outcome::Repaired(_)))
    }

    /// Returns a summary in a few words.
    pub fn outcome(&self) -> &'static str {
        let is_unread = |finding: &Finding| finding.outcome == Outcome::Unread;
        match (self.cancelled, self.resume.is_some(), self.damage.is_empty(), self.is_clean()) {
            (true, ..) => "ended before it was through",
            (_, true, ..) => "to be continued",
            (_, _, true, _) => "no damage",
            (_, _, _, true) => "all damage was repaired",
            _ if self.damage.iter().all(is_unread) => "not all of it could be read",
            _ => "damaged",
        }
    }

    /// Counts a record by the result of its check.
    pub(super) fn count(&mut self, check: Check) {
        self.records += 1;
        *match check {
            Check::Validated => &mut self.validated,
            Check::Unverified => &mut self.unverified,
            Check::Missing => &mut self.missing,
            Check::CompanionDamaged | Check::Corrupted => &mut self.corrupted,
        } += 1;
    }

    /// Adds a family's lost ranges, without those that a repair of this pass has reported.
    pub(super) fn add_lost_ranges(&mut self, family: &Family, lost_ranges: Vec<(u64, LostRange)>) {
        let is_reported =
            |finding: &Finding| finding.outcome == Outcome::Fenced && finding.family.as_deref() == Some(family.name());
        let reported: HashSet<_> = self
            .damage
            .iter()
            .filter(|finding| is_reported(finding))
            .map(|finding| finding.key_range.clone())
            .collect();
        for (_, lost_range) in lost_ranges {
            let finding = Finding { outcome: Outcome::Fenced, ..finding_of(family, &lost_range) };
            if !reported.contains(&finding.key_range) {
                self.damage.push(finding);
            }
        }
    }

    /// Returns the report as one JSON object without a newline.
    pub fn json(&self) -> String {
        let mut out = String::new();
        out.push('{');
        let _ = write!(out, "\"ok\":{}", self.is_clean()); // writing to a string cannot fail
        for (name, number) in self.numbers() {
            let _ = write!(out, ",\"{name}\":{number}");
        }
        let _ = write!(out, ",\"cancelled\":{},\"unopened\":{}", self.cancelled, self.unopened);
        if let Some(token) = self.resume {
            let _ = write!(out, ",\"resume\":\"{}\"", hex(&token.to_bytes()));
        }
        out.push_str(",\"damage\":[");
        for (at, finding) in self.damage.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            finding.put_json(&mut out);
        }
        out.push_str("]}");
        out
    }

    fn numbers(&self) -> [(&'static str, u64); 13] {
        [
            ("records", self.records),
            ("validated", self.validated),
            ("corrupted", self.corrupted),
            ("missing", self.missing),
            ("unverified", self.unverified),
            ("structural", self.structural),
            ("repaired", self.repaired),
            ("lost", self.lost),
            ("lost_beside", self.lost_beside),
            ("unread", self.unread),
            ("left_alone", self.left_alone),
            ("bytes", self.bytes),
            ("files", self.files),
        ]
    }
}

impl Finding {
    /// Creates a finding from an error. An error other than corruption is an unreadable place.
    pub(super) fn of(error: &Error, family: Option<&str>) -> Finding {
        let outcome = if is_unread(error) { Outcome::Unread } else { Outcome::Reported };
        let unreadable = Damage { verdict: Verdict::Missing, ..Damage::default() };
        let damage = error.damage().cloned().unwrap_or(unreadable);
        Finding {
            file: damage.file,
            offset: damage.offset,
            family: family.map(str::to_owned).or(damage.cf),
            key_range: damage.key_range,
            verdict: damage.verdict,
            message: error.to_string(),
            steps: Vec::new(),
            outcome,
        }
    }

    /// Creates a finding for an intact record with a damaged seal (recomputed) or dropped companions.
    pub(super) fn beside(family: &str, record: &Record<'_>, left_out: &[&str], accepted: bool) -> Finding {
        let message = match left_out {
            [] => "the seal of a record was hit, its record is right".to_owned(),
            parts => format!("{} beside a record was hit and is left out, its record is right", parts.join(" and ")),
        };
        Finding {
            family: Some(family.to_owned()),
            key_range: Some((record.key.to_vec(), record.key.to_vec())),
            verdict: Verdict::Seal,
            message,
            steps: vec![Step { rung: Rung::Correction, helped: left_out.is_empty() }],
            outcome: match (left_out.is_empty(), accepted) {
                (true, _) => Outcome::Repaired(Rung::Correction),
                (false, true) => Outcome::Accepted,
                (false, false) => Outcome::LeftOut,
            },
            ..Finding::default()
        }
    }

    /// Creates a finding for a table in which this number of records have lost their extra companions; the records
    /// affected are unknown.
    pub(super) fn beside_some(family: &str, keys: (Vec<u8>, Vec<u8>), records: u64, accepted: bool) -> Finding {
        Finding {
            family: Some(family.to_owned()),
            key_range: Some(keys),
            verdict: Verdict::Seal,
            message: format!("what stood beside {records} of the table's records is gone, the records are right"),
            steps: vec![Step { rung: Rung::Correction, helped: false }],
            outcome: if accepted { Outcome::Accepted } else { Outcome::LeftOut },
            ..Finding::default()
        }
    }

    /// Returns the kind of damage as one word.
    fn verdict_name(&self) -> &'static str {
        match (self.outcome, self.verdict) {
            (Outcome::Unread, _) => "io",
            (_, verdict) => verdict.name(),
        }
    }

    fn put_json(&self, out: &mut String) {
        out.push_str("{\"file\":");
        put_text(out, &self.file);
        let _ = write!(out, ",\"offset\":{}", self.offset); // writing to a string cannot fail
        if let Some(family) = &self.family {
            out.push_str(",\"family\":");
            put_text(out, family);
        }
        if let Some((from, to)) = &self.key_range {
            out.push_str(",\"from\":");
            put_bytes(out, from);
            out.push_str(",\"to\":");
            put_bytes(out, to);
        }
        let _ = write!(out, ",\"verdict\":\"{}\",\"message\":", self.verdict_name());
        put_text(out, &self.message);
        out.push_str(",\"steps\":[");
        for (at, step) in self.steps.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = write!(out, "{comma}{{\"rung\":\"{}\",\"helped\":{}}}", step.rung, step.helped);
        }
        let _ = write!(out, "],\"outcome\":\"{}\"}}", self.outcome);
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rung::ReadAgain => "read again",
            Rung::Memory => "memory",
            Rung::Correction => "correction",
            Rung::Rebuild => "rebuild",
            Rung::Log => "log",
            Rung::Trash => "trash",
            Rung::Source => "source",
            Rung::Handler => "handler",
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Reported => f.write_str("reported"),
            Outcome::Repaired(rung) => write!(f, "repaired by {rung}"),
            Outcome::Fenced => f.write_str("fenced"),
            Outcome::Barred => f.write_str("barred"),
            Outcome::Accepted => f.write_str("accepted as lost"),
            Outcome::LeftOut => f.write_str("left out"),
            Outcome::LeftAlone => f.write_str("left alone"),
            Outcome::Unread => f.write_str("not read"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = if self.file.is_empty() { "(in memory)" } else { &self.file };
        write!(f, "{file} at {}: {}", self.offset, self.message)?;
        if let Some((from, to)) = &self.key_range {
            write!(f, ", {}", RangeText(from, to))?;
        }
        for step in &self.steps {
            write!(f, "; {} {}", step.rung, if step.helped { "helped" } else { "did not help" })?;
        }
        write!(f, "; {}", self.outcome)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = |count: u64| if count == 1 { "" } else { "s" };
        let (records, files) = (ending(self.records), ending(self.files));
        writeln!(f, "{} record{records} in {} file{files}, {} bytes", self.records, self.files, self.bytes)?;
        let words = [
            (self.validated, "matches its seal", "match their seal"),
            (self.unverified, "has no seal and was promised none", "have no seal and were promised none"),
            (self.corrupted, "does not match its seal", "do not match their seal"),
            (self.missing, "has lost its seal", "have lost their seal"),
            (self.structural, "place cannot be decoded", "places cannot be decoded"),
            (self.repaired, "was repaired", "were repaired"),
            (self.lost, "is lost", "are lost"),
            (self.lost_beside, "entry or stamp of a record is lost", "entries and stamps beside records are lost"),
            (self.unread, "file could not be read", "files could not be read"),
            (
                self.left_alone,
                "file is another store's and was left alone",
                "files are another store's and were left alone",
            ),
        ];
        for (count, one, more) in words.iter().filter(|(count, ..)| *count > 0) {
            writeln!(f, "{count:>12} {}", if *count == 1 { one } else { more })?;
        }
        for finding in &self.damage {
            writeln!(f, "{finding}")?;
        }
        f.write_str(self.outcome())
    }
}

/// Returns true for an error that says nothing about the file's content. A missing file counts as lost instead.
pub(super) fn is_unread(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io(kind) if *kind != io::ErrorKind::NotFound)
}

/// Returns corruption and read failures as findings, and all other errors as errors.
pub(super) fn bearable(error: Error) -> Result<Error> {
    match error.kind() {
        _ if error.needs_refresh() => Err(error), // the file has been removed from the store
        ErrorKind::Corruption(_) | ErrorKind::Io(_) => Ok(error),
        _ => Err(error),
    }
}

/// Returns the repair step of an engine's remedy.
pub(super) fn rung_of(remedy: Remedy) -> Rung {
    match remedy {
        Remedy::Memory => Rung::Memory,
        Remedy::Corrected => Rung::Correction,
        Remedy::Log => Rung::Log,
        Remedy::Trash => Rung::Trash,
        Remedy::Source => Rung::Source,
        Remedy::Rebuilt => Rung::Rebuild,
        _ => Rung::ReadAgain,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}"); // writing to a string cannot fail
        out
    })
}

fn put_bytes(out: &mut String, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            out.push_str("{\"text\":");
            put_text(out, text);
        }
        Err(_) => {
            let _ = write!(out, "{{\"hex\":\"{}\"", hex(bytes));
        }
    }
    out.push('}');
}

fn put_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if (control as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
}

/// Returns the steps up to `rung`, of which only the last helped.
pub(super) fn ladder_up_to(rung: Rung) -> Vec<Step> {
    let below = [Rung::ReadAgain].into_iter().filter(|lower| *lower < rung);
    below.map(|rung| Step { rung, helped: false }).chain([Step { rung, helped: true }]).collect()
}

/// Creates a finding for a lost range.
pub(super) fn finding_of(family: &Family, lost_range: &LostRange) -> Finding {
    Finding {
        file: lost_range.file.clone(),
        offset: lost_range.offset,
        family: Some(family.name().to_owned()),
        key_range: Some((lost_range.from.0.clone(), lost_range.to.0.clone())),
        verdict: lost_range.verdict,
        message: "records may have been lost".to_owned(),
        ..Finding::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_report_for_programs_and_for_people() {
        let finding = Finding {
            file: "000007.tbl".to_owned(),
            offset: 64,
            family: Some("a\"b".to_owned()),
            key_range: Some((b"k\n".to_vec(), vec![0xff])),
            verdict: Verdict::Checksum,
            message: "block checksum".to_owned(),
            steps: vec![Step { rung: Rung::ReadAgain, helped: false }, Step { rung: Rung::Correction, helped: true }],
            outcome: Outcome::Repaired(Rung::Correction),
        };
        let mut report = Report { records: 2, validated: 2, repaired: 1, damage: vec![finding], ..Report::default() };
        assert!(report.is_clean());
        assert_eq!(
            report.json(),
            concat!(
                "{\"ok\":true,\"records\":2,\"validated\":2,\"corrupted\":0,\"missing\":0,\"unverified\":0,\"structural\":0,",
                "\"repaired\":1,\"lost\":0,\"lost_beside\":0,\"unread\":0,\"left_alone\":0,\"bytes\":0,\"files\":0,\"cancelled\":false,\"unopened\":false,\"damage\":[{\"file\":\"000007.tbl\",",
                "\"offset\":64,\"family\":\"a\\\"b\",\"from\":{\"text\":\"k\\u000a\"},\"to\":{\"hex\":\"ff\"},\"verdict\":",
                "\"checksum\",\"message\":\"block checksum\",\"steps\":[{\"rung\":\"read again\",\"helped\":false},{\"rung\":",
                "\"correction\",\"helped\":true}],\"outcome\":\"repaired by correction\"}]}"
            )
        );
        let text = report.to_string();
        assert!(text.contains("keys 0x6b0a to 0xff; read again did not help; correction helped"), "{text}");
        assert!(text.ends_with("all damage was repaired"), "{text}");
        report.damage[0].outcome = Outcome::Unread;
        assert!(!report.is_clean() && report.json().contains("\"verdict\":\"io\""));
        assert!(report.to_string().ends_with("not read\nnot all of it could be read"), "{report}");
        report.damage[0].outcome = Outcome::Fenced;
        assert!(!report.is_clean() && report.json().starts_with("{\"ok\":false"));
        let ended = Report { cancelled: true, ..Report::default() };
        assert!(Report::default().is_clean() && !ended.is_clean() && ended.json().starts_with("{\"ok\":false"));
    }

    proptest! {
        #[test]
        fn tokens_come_back(family: u32, table: u64, uid: [u8; 16], block: u64, numbers: [(u64, u64); 3]) {
            let [puts, deletes, others] = numbers.map(|(count, sum)| LedgerEntry { count, sum });
            let token = Token { family, table, uid: Uid(uid), block, ledger: Ledger { puts, deletes, others } };
            prop_assert_eq!(Token::from_bytes(&token.to_bytes()), token);
        }
    }
}
