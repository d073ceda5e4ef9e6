//! Question: can sealed and plain nodes coexist: no metadata leaves the sealed node, imported records get metadata, and
//!           damage is found before a record is sent on? (The paper's section 5.3.)
//! Protocol: three nodes on one disk, each in its own directory, one sealed and two plain. A balancer assigns every key
//!           prefix to a node and repeatedly moves it to another one, by export and import. Before a prefix leaves the
//!           sealed node, 1 % of its records on disk get flipped bits, first in the checksum, like the paper's, then
//!           in every target. Rejected exports are repaired and sent again. Then the paper's own form: its
//!           tables are given to a plain node as files, which iterates, counts and compacts them, with an existing key
//!           `K 01`. With `--plain-node PROGRAM` (`cargo xtask plain-node DIR` builds it from history) the same tables
//!           are given to the engine version from before seals.
//! Passes:   metadata bytes on plain nodes 0; adopted = migrated in; no damaged record is sent on, and every damaged
//!           block was found; the paper's rows are hidden and none remains at the bottom level; the planted key
//!           survives the safe form, is rejected by the literal form, and is lost with the paper's own tables
//!           (printed).

use super::Run;
use super::node::{ALL, Node, Shape};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::workload::Random;
use waxseal_lab::faults::anatomy::{Anatomy, Entry};
use waxseal_lab::paper::{Paper, RowForm};
use waxseal_lsm::db::{At, CursorBounds, Event, Listener};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::Durability;
use waxseal_lsm::order::Order;
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_meta::Sealer;
use waxseal_meta::exchange::{ExportRequest, Policy, export, import};
use waxseal_testing::harness::{adopt_tables, files_in};

/// Migrations at scale 1.
const FULL: u64 = 2_000;

const NODES: usize = 3;
const PREFIXES: u64 = 6;
const KEYS: u64 = 60;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct Told {
    migrations: u64,
    records: u64,
    metadata_bytes: u64,
    in_records: u64,
    adopted: u64,
    wrong: u64,
    hits: u64,
    noticed: u64,
    refused: u64,
}

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let migrations = run.size(FULL, 24);
    let mut told = Told::default();
    let mut cluster = 0;
    while told.migrations < migrations && !run.is_over() {
        Cluster::new(run.seed ^ cluster << 20)?.live(&mut told, 24)?;
        cluster += 1;
    }
    println!(
        "{} migrations, {} records moved; {} flipped in the sealed node before they left: {} noticed ({} exports refused, the others healed)",
        told.migrations, told.records, told.hits, told.noticed, told.refused
    );
    let enough = migrations / 2;
    let mut gates = vec![
        run.none("strip", "metadata_bytes_on_plain_nodes", told.metadata_bytes, told.migrations, enough),
        run.none(
            "adopted",
            "unlike_those_that_migrated_in",
            told.adopted.abs_diff(told.in_records),
            told.in_records,
            1,
        ),
        run.none("sent_on", "damaged_or_lost_records_at_their_new_node", told.wrong, told.records, enough),
        run.counted_share("noticed", "hit_blocks_noticed_before_they_left", told.noticed, told.hits, 100.0),
    ];
    gates.extend(literal(run)?);
    gates.extend(planted(run)?);
    gates.extend(old_program(run)?);
    Ok(gates)
}

/// Counts repairs and rejections.
#[derive(Default)]
struct Ears(AtomicU64);

impl Listener for Ears {
    fn on_event(&self, event: &Event) {
        if let Event::Healed { .. } | Event::Corruption { .. } = event {
            self.0.fetch_add(1, Relaxed);
        }
    }
}

struct Cluster {
    sim: SimFs,
    nodes: Vec<Node>,
    sealer: Arc<Sealer>,
    ears: Arc<Ears>,
    owners: Vec<usize>,
    model: Model,
    random: Random,
    exports: u64,
}

/// The sealed node.
const SEALED: usize = 0;

fn dir(node: usize) -> PathBuf {
    PathBuf::from(format!("/node{node}"))
}

fn bounds(prefix: u64) -> CursorBounds {
    (Bound::Included(format!("{prefix}/").into_bytes()), Bound::Excluded(format!("{prefix}0").into_bytes()))
}

impl Cluster {
    fn new(seed: u64) -> Outcome<Cluster> {
        let sim = SimFs::new(seed);
        let (sealer, ears) = (Arc::new(Sealer::new()), Arc::new(Ears::default()));
        let mut nodes = Vec::new();
        for node in 0..NODES {
            let protector: Arc<dyn Companions> = if node == SEALED { sealer.clone() } else { Arc::new(Plain) };
            let mut shape = Shape::small(sim.env(1 + node as u64));
            // The cache is empty, so that reads meet the damage on disk.
            shape.settings.cache_bytes = 0;
            shape.listener = ears.clone();
            nodes.push(Node::open(&dir(node), &shape, protector)?);
        }
        let owners = (0..PREFIXES).map(|prefix| prefix as usize % NODES).collect();
        let (model, random) = (Model::new(), Random::new(seed));
        Ok(Cluster { sim, nodes, sealer, ears, owners, model, random, exports: 0 })
    }

    fn live(mut self, told: &mut Told, migrations: u64) -> Outcome<()> {
        for _ in 0..PREFIXES * KEYS / 2 {
            self.write()?;
        }
        for _ in 0..migrations {
            for _ in 0..20 {
                self.write()?;
            }
            let prefix = self.random.below(PREFIXES);
            let from = self.owners[prefix as usize];
            let to = (from + 1 + self.random.below(NODES as u64 - 1) as usize) % NODES;
            self.migrate(prefix, from, to, told)?;
        }
        for node in (0..NODES).filter(|node| *node != SEALED) {
            told.metadata_bytes += self.metadata_bytes(node)?;
        }
        Ok(())
    }

    fn write(&mut self) -> Outcome<()> {
        let prefix = self.random.below(PREFIXES);
        let key = format!("{prefix}/{:04}", self.random.below(KEYS)).into_bytes();
        let value = format!("{:016x}", self.random.word()).into_bytes();
        let node = &mut self.nodes[self.owners[prefix as usize]];
        node.put(&key, &value)?;
        self.model.insert(key, value);
        while node.db.step()? {}
        Ok(())
    }

    fn migrate(&mut self, prefix: u64, from: usize, to: usize, told: &mut Told) -> Outcome<()> {
        let expected: Model =
            self.model.range((bounds(prefix).0, bounds(prefix).1)).map(|(k, v)| (k.clone(), v.clone())).collect();
        self.nodes[from].db.flush()?;
        let heard = self.ears.0.load(Relaxed);
        let flips = if from == SEALED { self.hit(prefix)? } else { Vec::new() };
        let request = ExportRequest { policy: Policy::Strip, bounds: vec![bounds(prefix)], ..ExportRequest::default() };
        let mut out = self.out();
        let env = self.sim.env(self.exports);
        let node = &self.nodes[from];
        let mut outcome = export(&node.db, &node.family, &env, &out, &request);
        let refused = matches!(&outcome, Err(error) if error.is_corruption());
        if !flips.is_empty() {
            told.hits += 1;
            told.refused += u64::from(refused);
            told.noticed += u64::from(refused || self.ears.0.load(Relaxed) > heard);
            // As if a replica had supplied the bytes.
            for (path, bit) in &flips {
                self.sim.flip(path, *bit)?;
            }
        }
        if refused {
            out = self.out();
            let node = &self.nodes[from];
            outcome = export(&node.db, &node.family, &env, &out, &request);
        }
        let exported = outcome?;
        let adopted = self.sealer.counts().adopted;
        let node = &self.nodes[to];
        let imported = import(&node.db, &node.family, &env, &out)?;
        if to == SEALED {
            told.in_records += imported.records;
            told.adopted += self.sealer.counts().adopted - adopted;
        }
        for key in expected.keys() {
            self.nodes[from].apply(Kind::Delete, key, b"", Durability::Os)?;
        }
        self.owners[prefix as usize] = to;
        let mut found = Model::new();
        let mut cursor = self.nodes[to].db.cursor(&self.nodes[to].family, At::Latest, bounds(prefix))?;
        cursor.first()?;
        while cursor.valid() {
            found.insert(cursor.key().to_vec(), cursor.value().to_vec());
            cursor.next()?;
        }
        told.wrong += expected.iter().filter(|(key, value)| found.get(*key) != Some(value)).count() as u64
            + found.keys().filter(|key| !expected.contains_key(*key)).count() as u64;
        told.migrations += 1;
        told.records += exported.records;
        Ok(())
    }

    fn out(&mut self) -> PathBuf {
        self.exports += 1;
        PathBuf::from(format!("/out{}", self.exports))
    }

    /// Flips a bit in 1 % of the exported records, at least one record. Every second migration hits the checksum, the
    /// others any part. Returns the bits.
    fn hit(&mut self, prefix: u64) -> Outcome<Vec<(PathBuf, u64)>> {
        let mut there: Vec<(PathBuf, Entry)> = Vec::new();
        let start = format!("{prefix}/").into_bytes();
        for path in files_in(&self.sim, dir(SEALED), ".tbl") {
            let anatomy = Anatomy::read(&self.sim.read_all(&path)?)?;
            let mine = anatomy.entries().filter(|entry| entry.key.starts_with(&start)).filter(|entry| {
                // Obsolete versions may be in blocks that are never read.
                self.model.get(&entry.key).is_some_and(|_| entry.what == Kind::Put)
            });
            there.extend(mine.map(|entry| (path.clone(), entry.clone())));
        }
        there.retain({
            let newest: BTreeMap<Vec<u8>, u64> = there.iter().fold(BTreeMap::new(), |mut newest, (_, entry)| {
                let seqno = newest.entry(entry.key.clone()).or_insert(0u64);
                *seqno = entry.number.max(*seqno);
                newest
            });
            move |(_, entry)| newest.get(&entry.key) == Some(&entry.number)
        });
        let mut flips = Vec::new();
        if there.is_empty() {
            return Ok(flips);
        }
        let as_in_the_paper = self.random.below(2) == 0;
        for _ in 0..there.len().div_ceil(100) {
            let (path, entry) = &there[self.random.below(there.len() as u64) as usize];
            let parts = [
                entry.seal().unwrap_or(entry.value.clone()),
                entry.suffix.clone(),
                entry.value.clone(),
                entry.kind..entry.kind + 1,
                entry.seqno.clone(),
                entry.lengths.clone(),
            ];
            let part = if as_in_the_paper { &parts[0] } else { &parts[self.random.below(6) as usize] };
            if part.is_empty() {
                continue;
            }
            let bit = part.start as u64 * 8 + self.random.below(part.len() as u64 * 8);
            if !flips.contains(&(path.clone(), bit)) {
                self.sim.flip(path, bit)?;
                flips.push((path.clone(), bit));
            }
        }
        Ok(flips)
    }

    /// Returns the bytes of companions and of the paper's rows in the tables of a node.
    fn metadata_bytes(&self, node: usize) -> Outcome<u64> {
        let mut bytes = 0;
        let mut raw = self.nodes[node].db.raw(&self.nodes[node].family, At::Latest, ALL)?;
        while let Some((record, _)) = raw.next()? {
            bytes += record.companion.len() as u64;
            bytes += if RowForm::Literal.read(&record).is_some() { record.value.len() as u64 } else { 0 };
        }
        Ok(bytes)
    }
}

/// A plain node that received whole table files, which it cannot import: they are added to its manifest as level 0.
fn handed(sim: &SimFs, at: &Path, before: &[(&[u8], &[u8])], files: &[PathBuf]) -> Outcome<Node> {
    let shape = Shape::small(sim.env(sim.steps() + 1));
    let mut node = Node::open(at, &shape, Arc::new(Plain))?;
    for (key, value) in before {
        node.put(key, value)?;
    }
    node.db.flush()?;
    node.db.close()?;
    drop(node);
    adopt_tables(sim, at, &Order::bytewise(), files);
    Node::open(at, &shape, Arc::new(Plain))
}

fn value_of(node: &Node, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut value = None;
    node.db.get(&node.family, key, At::Latest, &mut |record| value = Some(record.value.to_vec()))?;
    Ok(value)
}

/// Rows of a node: those that its iterator returns, and the tombstones in its tables.
fn looked_at(node: &Node) -> Outcome<(Model, u64)> {
    let mut shown = Model::new();
    let mut cursor = node.db.cursor(&node.family, At::Latest, ALL)?;
    cursor.first()?;
    while cursor.valid() {
        shown.insert(cursor.key().to_vec(), cursor.value().to_vec());
        cursor.next()?;
    }
    let mut rows = 0;
    let mut raw = node.db.raw(&node.family, At::Latest, ALL)?;
    while let Some((record, _)) = raw.next()? {
        rows += u64::from(record.kind == Kind::Delete);
    }
    Ok((shown, rows))
}

/// Gives the paper's tables to a plain node.
fn literal(run: &Run) -> Outcome<Vec<Gate>> {
    let sim = SimFs::new(run.seed);
    let mut node = Node::open(Path::new("/paper"), &Shape::small(sim.env(1)), Arc::new(Paper::default()))?;
    let mut model = Model::new();
    let mut random = Random::new(run.seed);
    for _ in 0..400 {
        let (key, value) = (random.below(150).to_string().into_bytes(), random.word().to_le_bytes().to_vec());
        node.put(&key, &value)?;
        model.insert(key, value);
    }
    node.db.settle()?;
    let plain = handed(&sim, Path::new("/plain"), &[], &files_in(&sim, "/paper", ".tbl"))?;
    let (shown, before) = looked_at(&plain)?;
    plain.compact()?;
    let (again, left) = looked_at(&plain)?;
    let unlike = u64::from(shown != model) + u64::from(again != model);
    println!(
        "the paper's tables on a plain node: {} records shown of {}, {before} rows in its tables, {left} after compacting to the bottom",
        shown.len(),
        model.len()
    );
    Ok(vec![
        run.none("literal.hidden", "iterations_unlike_the_model", unlike, model.len() as u64, 1),
        run.none("literal.left", "rows_left_at_the_bottom", left, before, 1),
    ])
}

/// An existing key that ends in 01.
fn planted(run: &Run) -> Outcome<Vec<Gate>> {
    let sim = SimFs::new(run.seed);
    let key: &[u8] = b"k\x01";
    let filled = |at: &str, protector: Arc<dyn Companions>| -> Outcome<Node> {
        let mut node = Node::open(Path::new(at), &Shape::small(sim.env(2)), protector)?;
        for _ in 0..9 {
            node.put(b"other", b"later seqnos")?;
        }
        node.put(b"k", b"value")?;
        node.db.flush()?;
        Ok(node)
    };
    let giver = filled("/giver", Arc::new(Sealer::new()))?;
    let export_as = |node: &Node, policy: Policy, to: &str| {
        let request = ExportRequest { policy, ..ExportRequest::default() };
        export(&node.db, &node.family, &sim.env(3), Path::new(to), &request)
    };
    export_as(&giver, Policy::PaperSafe, "/safe")?;
    let safe = handed(&sim, Path::new("/old"), &[(key, b"planted")], &files_in(&sim, "/safe", ".tbl"))?;
    safe.compact()?;
    let survives = value_of(&safe, key)?.is_some();
    let mut owner = filled("/owner", Arc::new(Sealer::new()))?;
    owner.put(key, b"planted")?;
    let refused =
        export_as(&owner, Policy::PaperLiteral, "/literal").is_err_and(|error| error.to_string().contains('k'));
    let paper = filled("/papers", Arc::new(Paper::default()))?;
    drop(paper);
    let victim = handed(&sim, Path::new("/victim"), &[(key, b"planted")], &files_in(&sim, "/papers", ".tbl"))?;
    let lost = value_of(&victim, key)?.is_none();
    println!(
        "a planted key `k 01`: survives the safe form: {survives}; refused by the literal form: {refused}; lost by the paper's own tables: {lost}"
    );
    Ok(vec![
        run.none("planted.safe", "planted_keys_lost", u64::from(!survives), 1, 1),
        run.none("planted.literal", "exports_not_refused", u64::from(!refused), 1, 1),
        run.none("planted.paper", "planted_keys_kept_against_prediction", u64::from(!lost), 1, 1),
    ])
}

/// Gives the same tables, and sealed ones, to the engine version from before seals.
fn old_program(run: &Run) -> Outcome<Vec<Gate>> {
    let Some(program) = &run.plain_node else {
        println!("the engine of old: skipped, no --plain-node PROGRAM (cargo xtask plain-node DIR builds one)");
        return Ok(Vec::new());
    };
    let mut gates = Vec::new();
    let protectors: [(&str, Arc<dyn Companions>); 2] =
        [("sealed", Arc::new(Sealer::new())), ("paper", Arc::new(Paper::default()))];
    for (name, protector) in protectors {
        let sim = SimFs::new(run.seed);
        let mut node = Node::open(Path::new("/node"), &Shape::small(sim.env(1)), protector)?;
        let mut lines = Vec::new();
        for n in 0..300u64 {
            let (key, value) = (format!("{n:05}"), format!("value {n}"));
            node.put(key.as_bytes(), value.as_bytes())?;
            lines.push(format!("{}\t{}", hex(key.as_bytes()), hex(value.as_bytes())));
        }
        node.db.settle()?;
        let files = run.fresh(&format!("tables-{name}"))?;
        let mut paths = Vec::new();
        for path in files_in(&sim, "/node", ".tbl") {
            let to = files.join(path.file_name().unwrap_or_default());
            std::fs::write(&to, sim.read_all(&path)?)?;
            paths.push(to);
        }
        let store = run.fresh(&format!("old-{name}"))?;
        asked(program, "add", &store, &paths)?;
        let shown = asked(program, "list", &store, &[])?;
        let before = asked(program, "count", &store, &[])?;
        asked(program, "compact", &store, &[])?;
        let after = asked(program, "list", &store, &[])?;
        let counted: serde_json::Value = serde_json::from_str(&asked(program, "count", &store, &[])?)?;
        println!("the engine of old with {name} tables: {} then {counted}", before.trim());
        let unlike = [&shown, &after].iter().filter(|text| text.lines().ne(lines.iter().map(String::as_str))).count();
        let id = format!("old.{name}");
        gates.push(run.none(&format!("{id}.shown"), "lists_unlike_the_model", unlike as u64, 2, 2));
        let left = counted["tombstones"].as_u64().unwrap_or(u64::MAX);
        gates.push(run.none(&format!("{id}.left"), "rows_left_at_the_bottom", left, 1, 1));
    }
    Ok(gates)
}

fn asked(program: &Path, verb: &str, store: &Path, files: &[PathBuf]) -> Outcome<String> {
    let output = Command::new(program).arg(verb).arg(store).args(files).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(format!("plain node, {verb}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
