//! What a pass over a store found, and what was done about it: for people (`Display`) and for programs (`json`).

use std::fmt::{self, Write};
use std::io;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::codec::Reader;
use waxseal_lsm::db::{Family, Remedy, TableRef};
use waxseal_lsm::error::{Damage, Error, ErrorKind, Verdict};
use waxseal_lsm::fence::Fence;
use waxseal_lsm::key_text::RangeText;
use waxseal_lsm::ledger::{Entry, Ledger};
use waxseal_lsm::record::Record;
use waxseal_lsm::seam::Check;

/// What `verify`, `scrub`, `repair` and `salvage` answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records looked at.
    pub records: u64,
    /// Those that match their seal.
    pub validated: u64,
    /// Those that do not, or that nothing speaks for.
    pub corrupted: u64,
    /// Those whose seal is gone although their file promised one.
    pub missing: u64,
    /// Those that have no seal and were promised none.
    pub unverified: u64,
    /// Places that cannot be decoded: what stood there is not counted among the records.
    pub structural: u64,
    /// Blocks and records that were made right again.
    pub repaired: u64,
    /// Records that cannot be had any more, as far as known: those that tables and log count and that nobody found.
    pub lost: u64,
    /// Entries and stamps beside records that cannot be had any more; their records are right.
    pub lost_beside: u64,
    /// Files that could not be read, which is not to say that they are damaged.
    pub unread: u64,
    /// Bytes looked at.
    pub bytes: u64,
    /// Files looked at.
    pub files: u64,
    /// Every place of damage, in the order in which it was met.
    pub damage: Vec<Finding>,
    /// Where a scrub that stopped early goes on; none: it came to the end.
    pub resume: Option<Token>,
    /// The caller ended it before it was through.
    pub cancelled: bool,
    /// Every table that was looked at to its end, in order, as it was before any repair.
    pub tables: Vec<Visited>,
    /// How long it took, by the store's clock.
    pub nanos: u64,
}

/// A table that a pass looked at: what a log of such passes says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visited {
    /// The name of its family.
    pub family: String,
    /// The number in its file name.
    pub number: u64,
    /// The file's own name, for ever.
    pub uid: Uid,
    /// Hash of its block sums.
    pub digest: u64,
    /// Records that it counts.
    pub records: u64,
    /// Places of damage that were found in it.
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

/// One place of damage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// The file; empty: in memory.
    pub file: String,
    /// The offset of the block or frame.
    pub offset: u64,
    /// The family, if one is concerned.
    pub family: Option<String>,
    /// First and last user key that may be concerned.
    pub key_range: Option<(Vec<u8>, Vec<u8>)>,
    /// What is wrong.
    pub verdict: Verdict,
    /// The same in words.
    pub message: String,
    /// What was tried, in order.
    pub steps: Vec<Step>,
    /// What became of it.
    pub outcome: Outcome,
}

/// One attempt to make something right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What was tried.
    pub rung: Rung,
    /// Whether it helped.
    pub helped: bool,
}

/// The ladder, lowest rung first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rung {
    /// The file read again, past what memory held of it.
    ReadAgain,
    /// Other copies in memory.
    Memory,
    /// One or two flipped bits, by the block's sum and its seals.
    Correction,
    /// What the block, the log and the properties say without it: index, filter, properties made anew from the data.
    Rebuild,
    /// The log, as far as it still holds the records.
    Log,
    /// Tables that compaction had replaced.
    Trash,
    /// The caller's source.
    Source,
    /// The caller's handler.
    Handler,
}

/// What became of a place of damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It was reported, and nothing was changed.
    #[default]
    Reported,
    /// Nothing was lost: this rung helped.
    Repaired(Rung),
    /// A fence stands in its place.
    Fenced,
    /// The file stays as it is, barred from compaction.
    Barred,
    /// The loss was accepted: reads go on as if the records had never been.
    Accepted,
    /// What was hit beside a record is gone; the record, and what else stands beside it, is right.
    LeftOut,
    /// It could not be looked at: the device, or the operating system, answered an error.
    Unread,
}

/// Where a scrub goes on. It survives compactions: if the table is gone, so are its damages, and the next one in line is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Token {
    /// The family's id.
    pub family: u32,
    /// The number of the table; numbers only grow.
    pub table: u64,
    /// The table's uid.
    pub uid: Uid,
    /// The first block that was not looked at; as many as there are, and more: all were, and so many more of the table's values.
    pub block: u64,
    /// What the blocks before it hold, so that whoever goes on can close the table's count.
    pub ledger: Ledger,
}

impl Token {
    /// Bytes of a token.
    pub const BYTES: usize = 84;

    /// As bytes, little-endian.
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

    /// From bytes that `to_bytes` made; any bytes are a token, and one of no table begins behind where it would stand.
    pub fn from_bytes(bytes: &[u8; Token::BYTES]) -> Token {
        let mut reader = Reader::new(bytes); // it has bytes enough for all of them
        let (family, table) = (reader.u32().unwrap_or_default(), reader.u64().unwrap_or_default());
        let (uid, block) = (Uid(reader.array().unwrap_or_default()), reader.u64().unwrap_or_default());
        let mut entry = || Entry { count: reader.u64().unwrap_or_default(), sum: reader.u64().unwrap_or_default() };
        let ledger = Ledger { puts: entry(), deletes: entry(), others: entry() };
        Token { family, table, uid, block, ledger }
    }
}

impl Report {
    /// True if it was not ended early, and nothing was found that is not right now.
    pub fn is_clean(&self) -> bool {
        !self.cancelled && self.damage.iter().all(|finding| matches!(finding.outcome, Outcome::Repaired(_)))
    }

    /// What it came to, in a few words.
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

    /// Counts a record by what its seal says.
    pub(super) fn count(&mut self, check: Check) {
        self.records += 1;
        *match check {
            Check::Validated => &mut self.validated,
            Check::Unverified => &mut self.unverified,
            Check::Missing => &mut self.missing,
            Check::CompanionDamaged | Check::Corrupted => &mut self.corrupted,
        } += 1;
    }

    /// One object, no newline.
    pub fn json(&self) -> String {
        let mut out = String::new();
        out.push('{');
        let _ = write!(out, "\"ok\":{}", self.is_clean()); // writing to a string cannot fail
        for (name, number) in self.numbers() {
            let _ = write!(out, ",\"{name}\":{number}");
        }
        let _ = write!(out, ",\"cancelled\":{}", self.cancelled);
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

    fn numbers(&self) -> [(&'static str, u64); 12] {
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
            ("bytes", self.bytes),
            ("files", self.files),
        ]
    }
}

impl Finding {
    /// What an error tells of damage; an error of another kind is a place that could not be looked at.
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

    /// What is told of a right record beside which something was hit: its seal, which is as it was, or parts that are left out.
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

    /// What is told of right records of a table of which so many have nothing beside them any more, and nothing says which.
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

    /// What is wrong, in a word.
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
        writeln!(f, "{} records in {} files, {} bytes", self.records, self.files, self.bytes)?;
        let words = [
            (self.validated, "match their seal"),
            (self.unverified, "have no seal and were promised none"),
            (self.corrupted, "do not match their seal"),
            (self.missing, "have lost their seal"),
            (self.structural, "places cannot be decoded"),
            (self.repaired, "were repaired"),
            (self.lost, "are lost"),
            (self.lost_beside, "entries and stamps beside records are lost"),
            (self.unread, "files could not be read"),
        ];
        for (count, what) in words.iter().filter(|(count, _)| *count > 0) {
            writeln!(f, "{count:>12} {what}")?;
        }
        for finding in &self.damage {
            writeln!(f, "{finding}")?;
        }
        f.write_str(self.outcome())
    }
}

/// True of an error that says nothing of what a file holds. One that is not there is lost.
pub(super) fn is_unread(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io(kind) if *kind != io::ErrorKind::NotFound)
}

/// What the engine calls a remedy, as a rung.
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

/// The steps of a ladder of which one helped.
pub(super) fn ladder_up_to(rung: Rung) -> Vec<Step> {
    let below = [Rung::ReadAgain].into_iter().filter(|lower| *lower < rung);
    below.map(|rung| Step { rung, helped: false }).chain([Step { rung, helped: true }]).collect()
}

/// A loss, as it is told.
pub(super) fn finding_of(family: &Family, fence: &Fence) -> Finding {
    Finding {
        file: fence.file.clone(),
        offset: fence.offset,
        family: Some(family.name().to_owned()),
        key_range: Some((fence.from.0.clone(), fence.to.0.clone())),
        verdict: fence.verdict,
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
                "\"repaired\":1,\"lost\":0,\"lost_beside\":0,\"unread\":0,\"bytes\":0,\"files\":0,\"cancelled\":false,\"damage\":[{\"file\":\"000007.tbl\",",
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
            let [puts, deletes, others] = numbers.map(|(count, sum)| Entry { count, sum });
            let token = Token { family, table, uid: Uid(uid), block, ledger: Ledger { puts, deletes, others } };
            prop_assert_eq!(Token::from_bytes(&token.to_bytes()), token);
        }
    }
}
