//! Entry point for fuzzers: interprets any bytes as operations, including crashes, on a store on a simulated disk, and
//! compares it with a model.
//!
//! In:    bytes; the first selects the settings, each further one an operation, followed by the operation's arguments.
//! Holds: every read returns the model's result. A recovered store holds a prefix of the commits that contains all
//!        acknowledged ones (after a process crash) or all synced ones (after a machine crash). Errors occur only after
//!        a crash.
//! Out:   no result, or a panic that shows a bug. The run uses one thread and no clock, so the same bytes repeat the
//!        same run.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::batch::{Batch, SystemPass, seqno_of_before};
use waxseal_lsm::db::{At, DEFAULT_FAMILY, Db, IngestMode, Parts, ReadSet, Silent, Snapshot, Validation};
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::merge_operator::MergeOperator;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings};
use waxseal_lsm::prefix_extractor::PrefixExtractor;
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::Plain;

const FAMILIES: [&str; 3] = [DEFAULT_FAMILY, "other", "system_metadata.log"];
/// Index of the family with a merge operator.
const MERGING: usize = 1;
/// Index of the system family, whose keys end in a seqno.
const SYSTEM: usize = 2;
const DIR: &str = "/store";
const COPY: &str = "/copy";
/// Directory of table files that are ingested.
const FILES: &str = "/files";

/// Maximum number of steps of a run, so that no input takes long.
const MOST_STEPS: u64 = 60_000;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
/// One map for each of `FAMILIES`.
type Content = [Rows; 3];
/// A family, a key, and what is done to it.
type Change = (usize, Vec<u8>, Write);

#[derive(Clone, Debug)]
enum Write {
    Put(Vec<u8>),
    Delete,
    /// Deletes the keys from the change's key to this one, which is excluded.
    DeleteTo(Vec<u8>),
    /// Appends an operand to the value, in `MERGING`.
    Merge(Vec<u8>),
}

impl Write {
    /// Returns the kind and the value of a record of a key.
    fn record(&self) -> Option<(Kind, &[u8])> {
        match self {
            Write::Put(value) => Some((Kind::Put, value)),
            Write::Delete => Some((Kind::Delete, &[])),
            Write::Merge(operand) => Some((Kind::Merge, operand)),
            Write::DeleteTo(_) => None,
        }
    }
}

/// The read of a transaction: the keys of a family from `low` to `high`, which is excluded, or `low` alone.
struct ReadKeys {
    family: usize,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

impl ReadKeys {
    fn holds(&self, key: &[u8]) -> bool {
        self.high.as_ref().map_or(key == self.low, |high| key >= &self.low[..] && key < &high[..])
    }

    /// Returns true if a write may change what was read.
    fn is_touched_by(&self, (family, key, write): &Change) -> bool {
        *family == self.family
            && match write {
                Write::DeleteTo(end) => {
                    self.low < *end && self.high.as_ref().map_or(*key <= self.low, |high| key < high)
                }
                _ => self.holds(key),
            }
    }

    fn rows(&self, content: &Content) -> Rows {
        content[self.family].iter().filter(|(key, _)| self.holds(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }
}

/// Executes the operations encoded in `data`. Panics if the store and the model disagree.
pub fn ops(data: &[u8]) {
    drive(data);
}

fn drive(data: &[u8]) -> Run {
    let mut input = Input(data);
    let mut run = Run::new(input.byte());
    run.open_after_crash(false);
    while !input.0.is_empty() && run.sim.steps() < MOST_STEPS {
        let outcome = run.operation(&mut input);
        if run.sim.is_crashed() {
            run.come_back(&mut input);
        } else if let Err(error) = outcome {
            panic!("an error without a crash: {error}");
        }
    }
    run.check();
    run
}

/// Reads bytes one by one; returns zeros after the end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Returns one of 64 keys, mostly short, some with a long common prefix.
    fn key(&mut self) -> Vec<u8> {
        match self.byte() & 63 {
            0 => Vec::new(),
            n if n < 8 => vec![0xff; n as usize],
            n if n < 16 => [&[b'L'; 300][..], &[n]].concat(),
            n => vec![b'k', n],
        }
    }

    /// Returns a value: mostly short, rarely longer than a quarter of the ring.
    fn value(&mut self) -> Vec<u8> {
        let (size, fill) = (self.byte() as usize, self.byte());
        let length = if size >= 254 { 5000 * (size - 253) } else { size * size / 40 };
        (0..length).map(|at| if at % 8 < 4 { b'.' } else { fill.wrapping_add((at % 5) as u8) }).collect()
    }

    fn change(&mut self) -> Change {
        let how = self.byte();
        let key = self.key();
        let family = if how & 0x88 == 0x88 { SYSTEM } else { how as usize & 1 };
        match (how & 0x70, family) {
            (_, SYSTEM) => (family, key, Write::Put(self.value())),
            (0x70, MERGING) => (family, key, Write::Merge(self.value())),
            (0x60, _) => {
                let end = self.key();
                (family, key.clone().min(end.clone()), Write::DeleteTo(key.max(end)))
            }
            _ if how & 6 != 0 => (family, key, Write::Put(self.value())),
            _ => (family, key, Write::Delete),
        }
    }

    fn durability(&mut self) -> Durability {
        if self.byte().is_multiple_of(4) { Durability::Sync } else { Durability::Os }
    }

    fn crash(&mut self) -> Crash {
        let seed = self.byte() as u64;
        match self.byte() % 16 {
            0..6 => Crash::Process,
            n => Crash::Machine(Loss::all(seed)[(n as usize - 6) % 9]),
        }
    }
}

struct Run {
    sim: SimFs,
    how: u8,
    opens: u64,
    crashes: u64,
    counts: Counts,
    db: Option<Db>,
    snapshots: Vec<(Snapshot, Content)>,
    model: Model,
}

/// Numbers of what a run did.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    range_deletes: u64,
    operands: u64,
    ingestions: u64,
    transactions: u64,
    conflicts: u64,
}

impl Run {
    fn new(how: u8) -> Run {
        let sim = SimFs::new(how as u64);
        sim.set_mapped(how & 1 == 0);
        Run {
            sim,
            how,
            opens: 0,
            crashes: 0,
            counts: Counts::default(),
            db: None,
            snapshots: Vec::new(),
            model: Model::default(),
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            memtable_bytes: 4096,
            cache_bytes: if self.how & 2 == 0 { 1 << 20 } else { 0 },
            segment_bytes: 32 * 1024,
            ring_bytes: 16 * 1024,
            drain_bytes: 4096,
            manifest_bytes: 8192,
            wal_mapped: self.how & 1 == 0,
            ..Settings::default()
        }
    }

    fn parts(&mut self) -> Parts {
        self.opens += 1;
        let options = CfOptions {
            block_bytes: if self.how & 4 == 0 { 256 } else { 64 },
            restart_interval: 3,
            filter_bits: if self.how & 8 == 0 { 10 } else { 0 },
            prefix_extractor: (self.how & 8 == 0).then_some(PrefixExtractor::Fixed(1)),
            compression: if self.how & 16 == 0 { Compression::default() } else { Compression::None },
            table_bytes: 2048,
            level_base_bytes: 4096,
            fanout: 3,
            level0_tables: 2,
            part_blocks: if self.how & 32 == 0 { 2 } else { 512 },
            large_value_bytes: if self.how & 64 == 0 { 256 } else { 4096 },
            ..CfOptions::default()
        };
        let mut families: Vec<_> = FAMILIES.iter().map(|name| ((*name).to_owned(), options.clone())).collect();
        families[MERGING].1.merge_operator = Some(MergeOperator::append(""));
        if self.has_system() {
            let (_, options) = &mut families[SYSTEM];
            (options.system, options.key_ends_in_seqno) = (Some(1), true);
        } else {
            families.truncate(SYSTEM);
        }
        Parts {
            env: self.sim.env(self.opens),
            companions: Arc::new(Plain),
            listener: Arc::new(Silent),
            families,
            filters: Vec::new(),
            orders: Vec::new(),
            merge_operators: Vec::new(),
            engine_log: None,
            cache: None,
        }
    }

    /// Returns true if the store has a system family besides the users' families.
    fn has_system(&self) -> bool {
        self.how & 32 == 0
    }

    fn db(&self) -> Result<Db> {
        self.db.clone().ok_or_else(Error::closed)
    }

    fn operation(&mut self, input: &mut Input<'_>) -> Result<()> {
        match input.byte() % 27 {
            0..5 => {
                let change = input.change();
                self.commit(vec![change], Durability::Os)
            }
            5 => {
                let (change, durability) = (input.change(), input.durability());
                self.commit(vec![change], durability)
            }
            6..9 => {
                let changes = (0..input.byte() % 8).map(|_| input.change()).collect();
                let durability = input.durability();
                self.commit(changes, durability)
            }
            9 => self.overwrite(input),
            10..12 => self.get(input),
            12..15 => self.walk(input),
            15 => self.finish(Db::flush),
            16 => self.finish(Db::settle),
            17 => self.finish(Db::sync),
            18 => self.compact(input),
            19 => {
                for _ in 0..=input.byte() % 4 {
                    self.db()?.step()?;
                }
                Ok(())
            }
            20 => self.snapshot(input),
            21 => self.checkpoint_or_reader(input),
            22 => {
                self.sim.crash_at(self.sim.steps() + input.byte() as u64);
                Ok(())
            }
            23 => self.ingest(input),
            24..26 => self.transact(input),
            _ => self.end_boot(input),
        }
    }

    fn commit(&mut self, changes: Vec<Change>, durability: Durability) -> Result<()> {
        self.commit_when(changes, durability, None)
    }

    /// Commits, if a transaction's reads are still valid.
    fn commit_when(
        &mut self,
        mut changes: Vec<Change>,
        durability: Durability,
        validation: Option<&mut Validation<'_>>,
    ) -> Result<()> {
        let db = self.db()?;
        changes.retain(|(family, ..)| *family != SYSTEM || self.has_system());
        let mut batch = Batch::new();
        for (at, (family, key, write)) in (0u64..).zip(&changes) {
            let Some(id) = db.family(FAMILIES[*family]).map(|family| family.id()) else { return Err(Error::closed()) };
            let seqno = if *family == SYSTEM { &seqno_of_before(at / 2)[..] } else { &[] };
            match write {
                Write::DeleteTo(end) => batch.delete_range(id, (Some(key), Some(end)), db.companions())?,
                write => {
                    let Some((kind, value)) = write.record() else { continue };
                    batch.push(id, kind, &[key, seqno].concat(), value, db.companions())?;
                }
            }
            self.counts.range_deletes += u64::from(matches!(write, Write::DeleteTo(_)));
            self.counts.operands += u64::from(matches!(write, Write::Merge(_)));
        }
        self.grant(&db, &mut batch, &mut changes, durability)?;
        let outcome = match validation {
            None => db.commit(&mut batch, durability).map(drop),
            Some(validation) => db.commit_when(&mut batch, durability, validation).map(drop),
        };
        if !batch.is_empty() && (outcome.is_ok() || self.sim.is_crashed()) {
            self.model.commit(changes);
        }
        outcome?;
        // A crash during a store into a mapping is noticed only now: such a call never returned.
        if !self.sim.is_crashed() {
            self.model.acknowledged = self.model.log.len();
            if durability == Durability::Sync && !batch.is_empty() {
                self.model.sync();
            }
        }
        Ok(())
    }

    /// Ingests rows of one family: by a bulk load, or as a table file, which is copied or moved.
    fn ingest(&mut self, input: &mut Input<'_>) -> Result<()> {
        let (family, how) = (input.byte() as usize & 1, input.byte() % 3);
        let mut changes = Vec::new();
        for _ in 0..input.byte() % 16 {
            let (_, key, write) = input.change();
            let Some((Kind::Put | Kind::Delete, _)) = write.record() else { continue };
            changes.push((family, key, write));
        }
        if how > 0 {
            changes.sort_by(|(_, one, _), (_, other, _)| one.cmp(other));
            changes.dedup_by(|(_, one, _), (_, other, _)| one == other);
        }
        if changes.is_empty() {
            return Ok(());
        }
        let outcome = self.ingest_changes(family, &changes, how);
        if outcome.is_ok() || self.sim.is_crashed() {
            self.model.commit(changes);
        }
        outcome?;
        if !self.sim.is_crashed() {
            self.counts.ingestions += 1;
            self.model.sync();
        }
        Ok(())
    }

    fn ingest_changes(&self, family: usize, changes: &[Change], how: u8) -> Result<()> {
        let db = self.db()?;
        let Some(family) = db.family(FAMILIES[family]) else { return Err(Error::closed()) };
        let records = || changes.iter().filter_map(|(_, key, write)| Some((key, write.record()?)));
        if how == 0 {
            let loaded = db.bulk_load(&family, &mut |load| {
                records().try_for_each(|(key, (kind, value))| load.push(kind, key, value, &[]))
            });
            return loaded.map(drop);
        }
        let env = self.sim.env(self.opens);
        env.fs.create_dir_all(Path::new(FILES)).map_err(|error| Error::io("make a directory", error))?;
        for name in self.sim.files(FILES) {
            self.sim.delete(Path::new(FILES).join(name)).map_err(|error| Error::io("clear the files", error))?;
        }
        let path = Path::new(FILES).join("rows");
        let mut writer = db.table_writer(&family, &path)?;
        records().try_for_each(|(key, (kind, value))| writer.push(kind, key, value, &[]))?;
        writer.finish()?;
        let mode = if how == 1 { IngestMode::Copy } else { IngestMode::Move };
        db.ingest_tables(&[(&family, &[path])], mode).map(drop)
    }

    /// Runs a transaction that reads a key or a range, beside another commit. It must fail if that changed what was
    /// read, and must not fail if it wrote no key of the read.
    fn transact(&mut self, input: &mut Input<'_>) -> Result<()> {
        let db = self.db()?;
        let snapshot = db.transaction_snapshot()?;
        let (how, key, other) = (input.byte(), input.key(), input.key());
        let (low, high) =
            if how & 2 == 0 { (key, None) } else { (key.clone().min(other.clone()), Some(key.max(other))) };
        let read = ReadKeys { family: how as usize & 1, low, high };
        let Some(family) = db.family(FAMILIES[read.family]) else { return Err(Error::closed()) };
        let mut reads = ReadSet::default();
        match &read.high {
            None => reads.add_key(&family, &read.low),
            Some(high) => {
                reads.add_range(&family, (Bound::Included(read.low.clone()), Bound::Excluded(high.clone())));
            }
        }
        let before = read.rows(&self.model.now);
        let mut between: Vec<Change> = (0..input.byte() % 3).map(|_| input.change()).collect();
        if let Some((family, key, write)) = between.first_mut().filter(|_| how & 4 == 0)
            && *family == read.family
            && write.record().is_some()
        {
            key.clone_from(&read.low);
        }
        let is_touched = between.iter().any(|change| read.is_touched_by(change));
        if !between.is_empty() {
            self.commit(between, Durability::Os)?;
        }
        let is_changed = read.rows(&self.model.now) != before;
        let mut changes: Vec<Change> = (0..=input.byte() % 2).map(|_| input.change()).collect();
        changes.retain(|(family, ..)| *family != SYSTEM);
        if changes.is_empty() {
            return Ok(());
        }
        let durability = input.durability();
        let mut validation = db.validation(&reads, &snapshot)?;
        let outcome = self.commit_when(changes, durability, Some(&mut validation));
        self.counts.transactions += 1;
        match outcome {
            Err(error) if *error.kind() == ErrorKind::Conflict => {
                assert!(is_touched, "a conflict without a change: {error}");
                self.counts.conflicts += 1;
                Ok(())
            }
            Ok(()) => {
                assert!(!is_changed, "a transaction committed over a change of its reads");
                Ok(())
            }
            failed => failed,
        }
    }

    /// Grants a batch access to the system family, after checking that it is rejected without; completes the keys of
    /// that family.
    fn grant(&self, db: &Db, batch: &mut Batch, changes: &mut [Change], durability: Durability) -> Result<()> {
        if changes.iter().all(|(family, ..)| *family != SYSTEM) {
            return Ok(());
        }
        match db.commit(batch, durability) {
            Err(error) if *error.kind() == ErrorKind::Invalid => {}
            Err(error) if self.sim.is_crashed() => return Err(error),
            other => panic!("nobody may write a family of the store's own: {other:?}"),
        }
        batch.grant(SystemPass::for_layers_above());
        let first = db.snapshot()?.seqno() + 1;
        for (at, (_, key, _)) in (0u64..).zip(changes).filter(|(_, (family, ..))| *family == SYSTEM) {
            key.extend((first + at - at / 2).swap_bytes().to_le_bytes()); // the highest first
        }
        Ok(())
    }

    /// Overwrites a few keys repeatedly, so that short inputs reach flushes and compactions.
    fn overwrite(&mut self, input: &mut Input<'_>) -> Result<()> {
        let (first, count) = (input.byte(), input.byte() % 64);
        for n in 0..count {
            let change = ((n & 1) as usize, vec![b'k', first.wrapping_add(n % 24)], Write::Put(vec![n; 100]));
            self.commit(vec![change], Durability::Os)?;
        }
        Ok(())
    }

    fn get(&mut self, input: &mut Input<'_>) -> Result<()> {
        let (family, key) = (input.byte() as usize & 1, input.key());
        let db = self.db()?;
        for (at, content) in self.views() {
            let system = content[SYSTEM].keys().next_back().map(|last| (SYSTEM, last));
            for (family, key) in [(family, &key)].into_iter().chain(system) {
                let found = value_of(&db, family, key, at)?;
                assert_eq!(found.as_ref(), content[family].get(key), "get {key:?}");
            }
        }
        Ok(())
    }

    /// Moves one cursor, and compares it with the rows of the model.
    fn walk(&mut self, input: &mut Input<'_>) -> Result<()> {
        let family = input.byte() as usize % FAMILIES.len();
        let (low, high) = (input.key(), input.key());
        let bounds = match input.byte() % 4 {
            0 if low <= high => (Bound::Included(low), Bound::Excluded(high)),
            1 if low <= high => (Bound::Excluded(low), Bound::Included(high)),
            _ => (Bound::Unbounded, Bound::Unbounded),
        };
        let db = self.db()?;
        let Some(named) = db.family(FAMILIES[family]) else { return Ok(()) };
        let moves: Vec<(u8, Vec<u8>)> = (0..input.byte() % 16).map(|_| (input.byte() % 12, input.key())).collect();
        for (at, content) in self.views() {
            let held = |key: &Vec<u8>| {
                let above = match &bounds.0 {
                    Bound::Included(low) => key >= low,
                    Bound::Excluded(low) => key > low,
                    Bound::Unbounded => true,
                };
                above
                    && match &bounds.1 {
                        Bound::Included(high) => key <= high,
                        Bound::Excluded(high) => key < high,
                        Bound::Unbounded => true,
                    }
            };
            let rows: Vec<_> = content[family].iter().filter(|(key, _)| held(key)).collect();
            let mut cursor = db.cursor(&named, at, bounds.clone())?;
            let mut place: Option<usize> = None;
            for (how, key) in &moves {
                match (how, place) {
                    (0, _) => {
                        cursor.first()?;
                        place = (!rows.is_empty()).then_some(0);
                    }
                    (1, _) => {
                        cursor.last()?;
                        place = rows.len().checked_sub(1);
                    }
                    (2, _) | (3..8, None) => {
                        cursor.seek(key)?;
                        place = rows.iter().position(|(row, _)| *row >= key);
                    }
                    (3, _) | (8.., None) => {
                        cursor.seek_for_prev(key)?;
                        place = rows.iter().rposition(|(row, _)| *row <= key);
                    }
                    (4..8, Some(now)) => {
                        cursor.next()?;
                        place = (now + 1 < rows.len()).then_some(now + 1);
                    }
                    (_, Some(now)) => {
                        cursor.prev()?;
                        place = now.checked_sub(1);
                    }
                }
                let found = cursor.valid().then(|| (cursor.key(), cursor.value()));
                let expected = place.map(|place| (&rows[place].0[..], &rows[place].1[..]));
                assert_eq!(found, expected, "after move {how} with {key:?}");
            }
        }
        Ok(())
    }

    /// Returns every view that a read may use: the latest one and the snapshots.
    fn views(&self) -> impl Iterator<Item = (At<'_>, &Content)> {
        let old = self.snapshots.iter().map(|(snapshot, content)| (At::Snapshot(snapshot), content));
        std::iter::once((At::Latest, &self.model.now)).chain(old)
    }

    /// Makes a call after which all commits are durable.
    fn finish(&mut self, call: impl Fn(&Db) -> Result<()>) -> Result<()> {
        call(&self.db()?)?;
        if !self.sim.is_crashed() {
            self.model.sync();
        }
        Ok(())
    }

    fn compact(&mut self, input: &mut Input<'_>) -> Result<()> {
        let db = self.db()?;
        let (family, low, high) = (input.byte() as usize & 1, input.key(), input.key());
        let Some(family) = db.family(FAMILIES[family]) else { return Ok(()) };
        db.compact(&family, &(Bound::Included(low.clone().min(high.clone())), Bound::Included(low.max(high))))
    }

    fn snapshot(&mut self, input: &mut Input<'_>) -> Result<()> {
        let slot = input.byte() as usize & 3;
        if slot < self.snapshots.len() {
            self.snapshots.remove(slot);
        } else {
            self.snapshots.push((self.db()?.snapshot()?, self.model.now.clone()));
        }
        Ok(())
    }

    /// Compares a second store with the same content: a checkpoint, or a reader opened beside the writer.
    fn checkpoint_or_reader(&mut self, input: &mut Input<'_>) -> Result<()> {
        let db = self.db()?;
        let reader = input.byte().is_multiple_of(2);
        let copy = if reader {
            let parts = self.parts();
            Db::open_read_only(Path::new(DIR), self.settings(), parts)?
        } else {
            for name in self.sim.files(COPY) {
                // If a crash is scheduled, this fails like every other call.
                self.sim.delete(Path::new(COPY).join(name)).map_err(|error| Error::io("clear the copy", error))?;
            }
            db.checkpoint(Path::new(COPY))?;
            if !self.sim.is_crashed() {
                self.model.sync();
            }
            let parts = self.parts();
            Db::open(Path::new(COPY), self.settings(), parts)?
        };
        let content = content_of(&copy)?;
        assert!(content == self.model.now || self.sim.is_crashed(), "a second store differs (reader: {reader})");
        copy.close()
    }

    /// Closes the store, or crashes at once.
    fn end_boot(&mut self, input: &mut Input<'_>) -> Result<()> {
        if input.byte().is_multiple_of(2) {
            self.sim.crash_at(self.sim.steps());
            self.come_back(input);
            return Ok(());
        }
        self.snapshots.clear();
        self.finish(Db::close)?;
        self.db = None;
        let parts = self.parts();
        let db = Db::open(Path::new(DIR), self.settings(), parts)?;
        self.db = Some(db);
        self.check();
        Ok(())
    }

    /// After a crash, reboots until an open succeeds.
    fn come_back(&mut self, input: &mut Input<'_>) {
        self.snapshots.clear();
        let mut machine = false;
        loop {
            let crash = input.crash();
            machine |= crash != Crash::Process;
            self.db = None; // calls made by the drop fail
            self.sim.reboot(crash);
            self.crashes += 1;
            let again = input.byte();
            if again >= 192 {
                self.sim.crash_at(self.sim.steps() + (again as u64 - 192) * 2);
            }
            if self.open_after_crash(machine) {
                return;
            }
        }
    }

    /// Opens the store and compares it with the prefixes; returns false if another crash intervened.
    fn open_after_crash(&mut self, machine: bool) -> bool {
        let parts = self.parts();
        match Db::open(Path::new(DIR), self.settings(), parts) {
            Ok(db) if !self.sim.is_crashed() => self.db = Some(db),
            Ok(_) => return false,
            Err(_) if self.sim.is_crashed() => return false,
            Err(error) => panic!("an honest store is refused: {error}"),
        }
        self.sim.crash_at(u64::MAX);
        match self.db().and_then(|db| content_of(&db)) {
            Ok(found) => self.model.recovered(found, machine),
            Err(error) => panic!("reading after recovery: {error}"),
        }
        true
    }

    fn check(&self) {
        match self.db().and_then(|db| content_of(&db)) {
            Ok(found) => assert!(found == self.model.now || self.sim.is_crashed(), "the content differs"),
            Err(error) => assert!(self.sim.is_crashed(), "reading: {error}"),
        }
    }
}

fn value_of(db: &Db, family: usize, key: &[u8], at: At<'_>) -> Result<Option<Vec<u8>>> {
    let Some(family) = db.family(FAMILIES[family]) else { return Ok(None) };
    let mut value = None;
    let found = db.get(&family, key, at, &mut |record| value = Some(record.value.to_vec()))?;
    assert_eq!(found, value.is_some(), "what get says and what it shows");
    Ok(value)
}

fn content_of(db: &Db) -> Result<Content> {
    let mut content = Content::default();
    for (name, rows) in FAMILIES.iter().zip(&mut content) {
        let Some(family) = db.family(name) else { continue };
        let mut cursor = db.cursor(&family, At::Latest, (Bound::Unbounded, Bound::Unbounded))?;
        cursor.first()?;
        while cursor.valid() {
            let before = rows.insert(cursor.key().to_vec(), cursor.value().to_vec());
            assert!(before.is_none(), "a key twice in a scan");
            cursor.next()?;
        }
    }
    Ok(content)
}

/// The expected content: the content at the last certainly durable moment, and the commits since.
#[derive(Default)]
struct Model {
    durable: Content,
    log: Vec<Vec<Change>>,
    /// Number of commits of `log` that returned.
    acknowledged: usize,
    now: Content,
}

impl Model {
    fn commit(&mut self, changes: Vec<Change>) {
        apply(&mut self.now, &changes);
        self.log.push(changes);
    }

    fn sync(&mut self) {
        self.durable = self.now.clone();
        self.log.clear();
        self.acknowledged = 0;
    }

    /// Continues from the recovered content, which must be a prefix that holds all commits that could not be lost.
    fn recovered(&mut self, found: Content, machine: bool) {
        let least = if machine { 0 } else { self.acknowledged };
        let mut content = self.durable.clone();
        for taken in 0..=self.log.len() {
            if taken >= least && content == found {
                self.now = found;
                return self.sync();
            }
            if let Some(changes) = self.log.get(taken) {
                apply(&mut content, changes);
            }
        }
        panic!("recovered {found:?}\nwhich is no prefix of {:?}\nand {:?} from {least} on", self.durable, self.log);
    }
}

fn apply(content: &mut Content, changes: &[Change]) {
    for (family, key, write) in changes {
        let rows = &mut content[*family];
        match write {
            Write::Put(value) => drop(rows.insert(key.clone(), value.clone())),
            Write::Delete => drop(rows.remove(key)),
            Write::DeleteTo(end) => rows.retain(|row, _| row < key || row >= end),
            Write::Merge(operand) => rows.entry(key.clone()).or_default().extend_from_slice(operand),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waxseal_lsm::env::{Random, SeededRandom};

    #[test]
    fn any_bytes_are_operations_on_which_store_and_model_agree() {
        let runs = std::env::var("WAXSEAL_FUZZ_OPS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(1500);
        let (mut crashes, mut flushes, mut compactions, mut moves, mut rows) = (0, 0, 0, 0, 0);
        let mut written = [0; 5];
        for seed in 0..runs {
            let random = SeededRandom::new(seed);
            let length = random.next_u64() % 400;
            let bytes: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
            let outcome = std::panic::catch_unwind(|| drive(&bytes));
            let Ok(run) = outcome else { panic!("seed {seed}: {bytes:?}") };
            let metrics = run.db.as_ref().map(Db::metrics).unwrap_or_default();
            crashes += run.crashes;
            flushes += metrics.flushes;
            compactions += metrics.compactions;
            moves += metrics.moves;
            rows += run.model.now[SYSTEM].len() as u64;
            let Counts { range_deletes, operands, ingestions, transactions, conflicts } = run.counts;
            for (sum, count) in written.iter_mut().zip([range_deletes, operands, ingestions, transactions, conflicts]) {
                *sum += count;
            }
        }
        let counts = [&[crashes, flushes, compactions, moves, rows][..], &written].concat();
        println!(
            "{runs} runs: crashes, flushes, compactions, moves, system rows, range deletes, operands, ingestions, \
             transactions, conflicts {counts:?}; jobs before a run's last open are not counted"
        );
        assert!(counts.iter().all(|count| *count >= runs / 30), "{counts:?}");
    }

    /// The model itself detects a missing acknowledged commit.
    #[test]
    #[should_panic(expected = "no prefix")]
    fn a_lost_commit_is_found() {
        let mut model = Model::default();
        model.commit(vec![(0, b"key".to_vec(), Write::Put(b"value".to_vec()))]);
        model.acknowledged = 1;
        model.recovered(Content::default(), false);
    }
}
