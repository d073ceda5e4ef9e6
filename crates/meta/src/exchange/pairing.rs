//! Matches rows to their versions by seqno in one pass. The paper's store, the exporter and the importer share this
//! stream.
//!
//! In:     records in internal order, first passed to `takes`, then, if they are not rows, to `sees`.
//! Out:    groups of records and rows in internal order. A group is a cluster: all versions of a key, the keys between
//!         `key` and `key ‖ 01`, and all rows of the key. Clusters can nest, since `key ‖ 00` sorts between.
//! Holds:  every kept version has one row, with its own seqno, directly after its cluster. The row of a dropped version
//!         is dropped. An orphan, a row whose version does not exist, is removed.
//! Memory: a map entry of 16 bytes for each version in the open clusters (the paper's count; `peak_map_bytes`), and the
//!         group itself. A group above `GROUP_BYTES` is emitted early, followed by its rows.
//!
//! If a version was lost or damaged so that its row does not match, the paper's algorithm hides the damage: it removes
//! the row as an orphan, takes the version for one from an old node, and makes a new row for it.

use std::cmp::Ordering;
use std::collections::VecDeque;

use waxseal_lsm::error::Result;
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::{PassRecord, Protection, RecordSource, RowRewriter};

use super::row::{MARK, RowForm, StoredChecksum, check, encode_safe, key_of, word};
use crate::verdict::{SealVerdict, paper};

/// Larger groups are emitted before their clusters end.
const GROUP_BYTES: usize = 1 << 20;

/// Size of one entry of the paper's map: seqno and checksum.
const MAP_ENTRY_BYTES: u64 = 16;

/// The counts of a pairing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PairingCounts {
    /// Versions that are not rows.
    pub versions: u64,
    /// Rows that match their version.
    pub bound: u64,
    /// Damaged rows of intact versions, which were rewritten.
    pub rewritten: u64,
    /// Versions that do not match their row.
    pub corrupted: u64,
    /// Rows, or their parts, without a version.
    pub orphans: u64,
    /// Rows made for versions from memory.
    pub created_from_memory: u64,
    /// Rows made for versions from a table without rows, presumably written by an old node.
    pub created_from_table: u64,
    /// Rows that were not written because a user's record occupies their position.
    pub collided: u64,
    /// The largest map size in bytes, counted as in the paper.
    pub peak_map_bytes: u64,
}

impl PairingCounts {
    /// Adds the counts of another pass.
    pub fn merge(&mut self, other: &PairingCounts) {
        self.versions += other.versions;
        self.bound += other.bound;
        self.rewritten += other.rewritten;
        self.corrupted += other.corrupted;
        self.orphans += other.orphans;
        self.created_from_memory += other.created_from_memory;
        self.created_from_table += other.created_from_table;
        self.collided += other.collided;
        self.peak_map_bytes = self.peak_map_bytes.max(other.peak_map_bytes);
    }
}

/// A version that does not match its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairingFault {
    /// The user key.
    pub key: Vec<u8>,
    /// The version.
    pub seqno: Seqno,
    /// The paper's branch for the version.
    pub verdict: SealVerdict,
}

/// Called for mismatching versions. An error ends the pass; otherwise version and row are copied unchanged.
pub type OnFault = Box<dyn FnMut(&PairingFault) -> Result<()> + Send>;

/// Called with the counts at the end of the pass.
pub type OnEnd = Box<dyn FnMut(&PairingCounts) + Send>;

/// The output of a pairing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PairingOutput {
    /// Versions and their rows.
    Both,
    /// Only rows, one for all versions of a key, in the safe form.
    SafeRows,
    /// Nothing: the pass only checks pairs.
    Nothing,
}

/// The state of one pass.
pub struct Pairing {
    form: RowForm,
    written: PairingOutput,
    /// Clusters whose rows may still follow; each key lies within the previous key's span.
    open: Vec<Cluster>,
    map_entries: u64,
    group: Vec<PassRecord>,
    group_bytes: usize,
    ready: VecDeque<Vec<PassRecord>>,
    tally: PairingCounts,
    on_fault: OnFault,
    on_end: Option<OnEnd>,
}

struct Cluster {
    key: Vec<u8>,
    /// Newest first, as they arrive.
    versions: Vec<Version>,
}

struct Version {
    seqno: Seqno,
    /// The checksum computed from the version.
    word: u64,
    stays: bool,
    from_memory: bool,
    row: Option<StoredChecksum>,
}

impl Pairing {
    /// Creates a pass that reads rows of this form; `on_fault` is called for mismatching versions.
    pub fn new(form: RowForm, written: PairingOutput, on_fault: OnFault) -> Pairing {
        Pairing {
            form,
            written,
            open: Vec::new(),
            map_entries: 0,
            group: Vec::new(),
            group_bytes: 0,
            ready: VecDeque::new(),
            tally: PairingCounts::default(),
            on_fault,
            on_end: None,
        }
    }

    /// Returns the pass with a callback for its counts.
    #[must_use]
    pub fn with_on_end(self, on_end: OnEnd) -> Pairing {
        Pairing { on_end: Some(on_end), ..self }
    }

    /// Returns the counts so far.
    pub fn tally(&self) -> &PairingCounts {
        &self.tally
    }

    /// Closes the clusters whose rows would precede `next`, or, if no rows are read, would share its key.
    fn close_before(&mut self, next: Option<&[u8]>) {
        while let Some(cluster) = self.open.last() {
            let is_over = next.is_none_or(|next| match compare_row_key(&cluster.key, next) {
                Ordering::Less => true,
                Ordering::Equal => self.written == PairingOutput::SafeRows,
                Ordering::Greater => false,
            });
            if !is_over {
                return;
            }
            if let Some(cluster) = self.open.pop() {
                self.map_entries -= cluster.versions.len() as u64;
                self.end_cluster(&cluster);
            }
        }
        self.send_group();
    }

    fn end_cluster(&mut self, cluster: &Cluster) {
        let mut rows = Vec::new();
        for version in cluster.versions.iter().filter(|version| version.stays) {
            rows.push(version.row.unwrap_or_else(|| {
                match version.from_memory {
                    true => self.tally.created_from_memory += 1,
                    false => self.tally.created_from_table += 1,
                }
                StoredChecksum::new(version.seqno, version.word)
            }));
        }
        let key = key_of(&cluster.key);
        match self.written {
            PairingOutput::Nothing => {}
            PairingOutput::SafeRows if rows.is_empty() => {}
            PairingOutput::SafeRows => self.put_row(key, 0, encode_safe(&rows)),
            PairingOutput::Both => {
                rows.iter().for_each(|row| self.put_row(key.clone(), row.seqno, row.encode().to_vec()))
            }
        }
    }

    /// Inserts a row into the waiting group in key order: at the end, but before rows of larger keys and among users'
    /// records of the same key by seqno.
    fn put_row(&mut self, key: Vec<u8>, seqno: Seqno, value: Vec<u8>) {
        let place = |row: &PassRecord| row.key.cmp(&key).then_with(|| seqno.cmp(&row.seqno));
        let at = self.group.iter().rposition(|row| place(row).is_le()).map_or(0, |at| at + 1);
        if at > 0 && place(&self.group[at - 1]).is_eq() {
            self.tally.collided += 1;
            return;
        }
        self.group_bytes += key.len() + value.len();
        let protection = Protection::None;
        let row = PassRecord { key, seqno, kind: Kind::Delete, value, companion: Vec::new(), protection, made: true };
        self.group.insert(at, row);
    }

    fn send_group(&mut self) {
        self.group_bytes = 0;
        if !self.group.is_empty() {
            self.ready.push_back(std::mem::take(&mut self.group));
        }
    }

    /// Emits a group that is too large, except for its last key, whose rows may belong between its versions.
    fn send_early(&mut self) {
        let Some(last) = self.group.last() else { return };
        let keep = self.group.iter().position(|row| row.key == last.key).unwrap_or(0);
        if keep > 0 {
            let rest = self.group.split_off(keep);
            self.send_group();
            self.group = rest;
        }
    }

    /// Checks one version against its row.
    fn bind(&mut self, key: &[u8], stored: StoredChecksum) -> Result<()> {
        let cluster = self.open.iter_mut().rfind(|cluster| cluster.key == key);
        let version =
            cluster.and_then(|cluster| cluster.versions.iter_mut().find(|version| version.seqno == stored.seqno));
        let Some(version) = version else {
            self.tally.orphans += 1;
            return Ok(());
        };
        let verdict = paper(stored.word, stored.check, version.word, check);
        match verdict {
            SealVerdict::Validated => {
                self.tally.bound += 1;
                version.row = Some(stored);
            }
            verdict if verdict.serves() => {
                self.tally.rewritten += 1;
                version.row = Some(StoredChecksum::new(version.seqno, version.word));
            }
            verdict => {
                version.row = Some(stored);
                self.tally.corrupted += 1;
                let fault = PairingFault { key: key.to_vec(), seqno: stored.seqno, verdict };
                (self.on_fault)(&fault)?;
            }
        }
        Ok(())
    }
}

impl RowRewriter for Pairing {
    fn takes(&mut self, record: &Record<'_>, _: RecordSource<'_>) -> Result<bool> {
        let Some((key, stored)) = self.form.read(record) else { return Ok(false) };
        self.close_before(Some(record.key));
        if stored.is_empty() {
            self.tally.orphans += 1; // to the paper, a row without a version
        }
        stored.into_iter().try_for_each(|stored| self.bind(key, stored)).map(|()| true)
    }

    fn sees(&mut self, record: &Record<'_>, stays: bool, source: RecordSource<'_>) -> Result<()> {
        self.close_before(Some(record.key));
        self.tally.versions += 1;
        let word = word(record.key, record.value, record.seqno, record.kind);
        let version = Version { seqno: record.seqno, word, stays, from_memory: source.file.is_empty(), row: None };
        match self.open.last_mut() {
            Some(cluster) if cluster.key == record.key => cluster.versions.push(version),
            _ => self.open.push(Cluster { key: record.key.to_vec(), versions: vec![version] }),
        }
        self.map_entries += 1;
        self.tally.peak_map_bytes = self.tally.peak_map_bytes.max(self.map_entries * MAP_ENTRY_BYTES);
        if stays && self.written == PairingOutput::Both {
            self.group_bytes += record.key.len() + record.value.len();
            self.group.push(PassRecord::copy(record, source.protection));
            if self.group_bytes > GROUP_BYTES {
                self.send_early();
            }
        }
        Ok(())
    }

    fn ends(&mut self) -> Result<()> {
        self.close_before(None);
        self.send_group();
        if let Some(on_end) = &mut self.on_end {
            on_end(&self.tally);
        }
        Ok(())
    }

    fn next_group(&mut self) -> Option<Vec<PassRecord>> {
        self.ready.pop_front()
    }
}

/// Compares the row key of `key` with another key.
fn compare_row_key(key: &[u8], other: &[u8]) -> Ordering {
    match other.strip_prefix(key) {
        Some(rest) => [MARK][..].cmp(rest),
        None => key.cmp(other),
    }
}

impl std::fmt::Debug for Pairing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pairing").field("form", &self.form).field("tally", &self.tally).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use proptest::sample::select;
    use std::collections::BTreeMap;

    /// A record: key, seqno, kind, value.
    type Owned = (Vec<u8>, Seqno, Kind, Vec<u8>);

    fn carried() -> OnFault {
        Box::new(|_| Ok(()))
    }

    fn record((key, seqno, kind, value): &Owned) -> Record<'_> {
        Record { key, seqno: *seqno, kind: *kind, value, companion: &[] }
    }

    /// Runs a pass over records; the indices in `dropped` are not kept.
    fn drive(pairing: &mut Pairing, records: &[Owned], file: &str, dropped: &[usize]) -> Vec<Vec<Owned>> {
        let source = RecordSource { protection: Protection::None, file, offset: 64 };
        for (at, owned) in records.iter().enumerate() {
            if !pairing.takes(&record(owned), source).unwrap() {
                pairing.sees(&record(owned), !dropped.contains(&at), source).unwrap();
            }
        }
        pairing.ends().unwrap();
        let groups = std::iter::from_fn(|| pairing.next_group());
        groups.map(|group| group.into_iter().map(|row| (row.key, row.seqno, row.kind, row.value)).collect()).collect()
    }

    fn put(key: &[u8], seqno: Seqno) -> Owned {
        (key.to_vec(), seqno, Kind::Put, format!("v{seqno}").into_bytes())
    }

    /// Nested keys, the difficult case in bytewise order.
    fn keys() -> impl Strategy<Value = Vec<u8>> {
        vec(select(vec![0u8, 1, 2, 0xFF]), 0..5).prop_filter("no row's key", |key| key.last() != Some(&1))
    }

    fn stores() -> impl Strategy<Value = Vec<Owned>> {
        btree_map(keys(), btree_map(1..20u64, any::<bool>(), 1..4), 0..12).prop_map(|store| {
            let versions = |(key, versions): (Vec<u8>, BTreeMap<Seqno, bool>)| {
                let kind = |dead| if dead { Kind::Delete } else { Kind::Put };
                let owned = |(seqno, dead)| (key.clone(), seqno, kind(dead), b"v".repeat(seqno as usize % 3));
                versions.into_iter().rev().map(owned).collect::<Vec<_>>()
            };
            store.into_iter().flat_map(versions).collect()
        })
    }

    proptest! {
        /// A flush gives every version its row, in order; a second pass matches all of them and changes nothing.
        #[test]
        fn every_version_has_its_row_behind_its_cluster(records in stores()) {
            let mut flush = Pairing::new(RowForm::Faithful, PairingOutput::Both, carried());
            let groups = drive(&mut flush, &records, "", &[]);
            let written: Vec<Owned> = groups.concat();
            prop_assert_eq!(flush.tally().created_from_memory, records.len() as u64);
            prop_assert_eq!(written.len(), 2 * records.len());
            prop_assert!(written.is_sorted_by(|a, b| (&a.0, b.1) < (&b.0, a.1)));
            for group in &groups {
                let rows: Vec<&Owned> = group.iter().filter(|owned| RowForm::Literal.read(&record(owned)).is_some()).collect();
                prop_assert_eq!(2 * rows.len(), group.len(), "a cluster is not torn apart");
            }
            for form in [RowForm::Faithful, RowForm::Literal] {
                let mut again = Pairing::new(form, PairingOutput::Both, carried());
                prop_assert_eq!(drive(&mut again, &written, "000001.tbl", &[]).concat(), written.clone());
                let tally = *again.tally();
                prop_assert_eq!((tally.bound, tally.orphans, tally.created_from_table), (records.len() as u64, 0, 0));
                prop_assert!(tally.peak_map_bytes <= 16 * records.len() as u64);
            }
        }

        /// The row of a dropped version is dropped, and no other.
        #[test]
        fn a_row_goes_with_its_version(records in stores(), every in 1usize..5) {
            let written = drive(&mut Pairing::new(RowForm::Faithful, PairingOutput::Both, carried()), &records, "", &[]).concat();
            let is_version = |owned: &Owned| RowForm::Literal.read(&record(owned)).is_none();
            let dropped: Vec<usize> = (0..written.len()).filter(|at| at % every == 0 && is_version(&written[*at])).collect();
            let stays: Vec<Owned> = written.iter().enumerate().filter(|(at, owned)| is_version(owned) && !dropped.contains(at))
                .map(|(_, owned)| owned.clone()).collect();
            let mut pass = Pairing::new(RowForm::Faithful, PairingOutput::Both, carried());
            let left = drive(&mut pass, &written, "000001.tbl", &dropped).concat();
            prop_assert_eq!(pass.tally().orphans, 0);
            let expected = drive(&mut Pairing::new(RowForm::Faithful, PairingOutput::Both, carried()), &stays, "", &[]).concat();
            prop_assert_eq!(left, expected);
        }

        /// Safe rows: one for each key, at seqno 0, in order.
        #[test]
        fn safe_rows_speak_for_all_versions_of_a_key(records in stores()) {
            let mut pass = Pairing::new(RowForm::Safe, PairingOutput::SafeRows, carried());
            let rows = drive(&mut pass, &records, "", &[]).concat();
            prop_assert!(rows.is_sorted_by(|a, b| a.0 < b.0));
            let mut told = BTreeMap::new();
            for row in &rows {
                prop_assert_eq!((row.1, row.2), (0, Kind::Delete));
                let (key, versions) = RowForm::Safe.read(&record(row)).unwrap();
                told.extend(versions.into_iter().map(|stored| ((key.to_vec(), stored.seqno), stored)));
            }
            let expected = records.iter().map(|owned| ((owned.0.clone(), owned.1), StoredChecksum::of(&record(owned)))).collect();
            prop_assert_eq!(told, expected);
        }
    }

    #[test]
    fn the_four_branches_and_what_becomes_of_them() {
        let version = put(b"k", 5);
        let right = StoredChecksum::of(&record(&version));
        let hit = |stored: StoredChecksum| (b"k\x01".to_vec(), 5, Kind::Delete, stored.encode().to_vec());
        let rows = [
            (right, SealVerdict::Validated),
            (StoredChecksum { check: 0, ..right }, SealVerdict::CheckDamaged),
            (StoredChecksum { word: 0, ..right }, SealVerdict::SealDamaged),
            (StoredChecksum::new(5, 77), SealVerdict::RecordDamaged),
            (StoredChecksum { word: 1, check: 1, ..right }, SealVerdict::BothDamaged),
        ];
        for (stored, verdict) in rows {
            let (told, heard) = std::sync::mpsc::channel();
            let on_fault = Box::new(move |fault: &PairingFault| {
                told.send(fault.clone()).unwrap();
                Ok(())
            });
            let mut pass = Pairing::new(RowForm::Faithful, PairingOutput::Both, on_fault);
            let left = drive(&mut pass, &[version.clone(), hit(stored)], "000001.tbl", &[]).concat();
            let kept = if verdict.serves() { right } else { stored };
            assert_eq!(left, [version.clone(), hit(kept)], "{verdict:?}");
            drop(pass);
            let faults: Vec<SealVerdict> = heard.iter().map(|fault| fault.verdict).collect();
            assert_eq!(faults, if verdict.serves() { vec![] } else { vec![verdict] });
        }
    }

    /// The paper's algorithm with a key damaged in transit: the row is an orphan, the damaged version gets its own row,
    /// and is valid from then on.
    #[test]
    fn damage_to_a_key_is_sealed_in() {
        let flushed =
            drive(&mut Pairing::new(RowForm::Faithful, PairingOutput::Both, carried()), &[put(b"k", 5)], "", &[])
                .concat();
        let mut damaged = flushed.clone();
        damaged[0].0 = b"j".to_vec();
        let mut pass = Pairing::new(RowForm::Faithful, PairingOutput::Both, carried());
        let left = drive(&mut pass, &damaged, "000001.tbl", &[]).concat();
        assert_eq!((pass.tally().orphans, pass.tally().created_from_table, pass.tally().corrupted), (1, 1, 0));
        let mut later = Pairing::new(RowForm::Faithful, PairingOutput::Both, carried());
        drive(&mut later, &left, "000002.tbl", &[]);
        assert_eq!((later.tally().bound, later.tally().corrupted), (1, 0));
    }

    #[test]
    fn a_large_group_goes_out_early_and_in_order() {
        let large = |key: &[u8], seqno| (key.to_vec(), seqno, Kind::Put, vec![7; GROUP_BYTES / 2]);
        let records = [large(b"k", 9), large(b"k\0a", 8), large(b"k\0b", 7), large(b"k\0c", 6), large(b"l", 5)];
        let mut pass = Pairing::new(RowForm::Faithful, PairingOutput::Both, carried());
        let groups = drive(&mut pass, &records, "", &[]);
        assert!(groups.len() > 2, "{}", groups.len());
        let written = groups.concat();
        assert_eq!(written.len(), 10);
        assert!(written.is_sorted_by(|a, b| (&a.0, b.1) < (&b.0, a.1)));
    }
}
