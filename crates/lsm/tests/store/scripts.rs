//! Golden scripts: the behavior of a store as text that a newcomer can read.
//!
//! The files under `crates/lsm/scripts/<what>/`, in the form of `waxseal_testing::golden`, consist of these lines:
//!
//! ```text
//! put a=1 b=2        one batch                        flush             memtables to tables
//! put a=1 sync       durable when it returns          compact [a..c]    everything within bounds, to the bottom
//! delete a b         one batch                        settle, step      all background work, or one step of it
//! in=NAME            a family other than default      create NAME, drop NAME
//! snapshot s         a view to read at                release s
//! get a [at=s]       scan [a..c] [back] [at=s]        levels: each table and how many records it holds
//! reopen             a clean close before it          crash: the process is killed, and the store reopened
//! sync, close, checkpoint
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, CursorBounds, Db, Event, Family, Parts, Snapshot};
use waxseal_lsm::env::sim::{Crash, SimFs};
use waxseal_lsm::env::{Env, TracedFs};
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings};
use waxseal_lsm::record::Kind;
use waxseal_testing::golden;
use waxseal_testing::listener::Heard;
use waxseal_testing::store::{ALL, get};

/// Describes the events of the store's own jobs.
fn line(event: &Event) -> Option<String> {
    Some(match event {
        Event::Recovered { commits, cut_bytes } => match cut_bytes {
            0 => format!("recovered {commits} commits"),
            _ => format!("recovered {commits} commits, {cut_bytes} bytes cut"),
        },
        Event::Flushed { family, table, bytes: _ } => match table {
            Some(table) => format!("flushed {family} to table {table}"),
            None => format!("flushed {family}: nothing was left"),
        },
        Event::Compacted { family, inputs, level, moved: true, .. } => {
            format!("moved {family} {inputs:?} to level {level}")
        }
        Event::Compacted { family, inputs, outputs, level, .. } => {
            format!("compacted {family} {inputs:?} to level {level} as {outputs:?}")
        }
        Event::Corruption { error } | Event::BackgroundError { error, .. } => format!("event: {error}"),
        Event::Stalled { stalled } => format!("stalled {stalled}"),
        _ => return None,
    })
}

/// A simulated disk with a store, and the names that a script defined.
struct Stage {
    sim: SimFs,
    traced: Option<TracedFs>,
    dir: PathBuf,
    told: Arc<Heard<String>>,
    db: Option<Db>,
    snapshots: BTreeMap<String, Snapshot>,
    opens: u64,
}

impl Stage {
    fn new(is_traced: bool) -> Stage {
        let sim = SimFs::new(1);
        let dir = PathBuf::from("/store");
        let traced = is_traced.then(|| TracedFs::new(Arc::new(sim.clone()), &dir));
        Stage { sim, traced, dir, told: Heard::new(line), db: None, snapshots: BTreeMap::new(), opens: 0 }
    }

    fn open(&mut self) -> Result<()> {
        self.opens += 1;
        let env = self.sim.env(self.opens);
        let env = match &self.traced {
            Some(traced) => Env { fs: Arc::new(traced.clone()), ..env },
            None => env,
        };
        let options = CfOptions {
            block_bytes: 64,
            table_bytes: 1024,
            level_base_bytes: 2048,
            fanout: 4,
            level0_tables: 3,
            compression: Compression::None,
            ..CfOptions::default()
        };
        let settings = Settings {
            subcompactions: 1, // tables end only when they are full
            memtable_bytes: 64 * 1024,
            segment_bytes: 64 * 1024,
            ring_bytes: 16 * 1024,
            drain_bytes: 4096,
            ..Settings::default()
        };
        let families = vec![("default".to_owned(), options)];
        let parts = Parts { env, families, listener: self.told.clone(), ..Parts::real() };
        self.db = Some(Db::open(&self.dir, settings, parts)?);
        Ok(())
    }

    fn step(&mut self, input: &str) -> String {
        let mut output = String::new();
        for line in input.lines() {
            let outcome = self.command(line);
            for told in self.told.take() {
                output += &format!("{told}\n");
            }
            if let Some(traced) = &self.traced {
                output += &traced.take();
            }
            match outcome {
                Ok(text) => output += &text,
                Err(error) => output += &format!("{error}\n"),
            }
        }
        output
    }

    fn command(&mut self, line: &str) -> Result<String> {
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let words: Vec<&str> = words.collect();
        let family_name = words.iter().find_map(|word| word.strip_prefix("in=")).unwrap_or("default");
        let at_name = words.iter().find_map(|word| word.strip_prefix("at="));
        let is_option = |word: &&str| word.starts_with("in=") || word.starts_with("at=");
        let plain: Vec<&str> = words.iter().copied().filter(|word| !is_option(word)).collect();
        if self.db.is_none() && verb != "crash" {
            self.open()?;
            if verb == "open" {
                return Ok(String::new());
            }
        }
        let db = self.db.clone().unwrap();
        let family = db.family(family_name);
        let family = |what: &str| family.clone().unwrap_or_else(|| panic!("{what}: no family {family_name}"));
        let at = match at_name {
            Some(name) => At::Snapshot(&self.snapshots[name]),
            None => At::Latest,
        };
        match verb {
            "open" => {}
            "put" | "delete" => {
                let mut batch = Batch::new();
                for word in plain.iter().filter(|word| **word != "sync") {
                    let (key, value) = word.split_once('=').unwrap_or((word, ""));
                    let kind = if verb == "put" { Kind::Put } else { Kind::Delete };
                    // `x*100` is a long value.
                    let value = match value.split_once('*') {
                        Some((text, times)) => text.repeat(times.parse().unwrap()),
                        None => value.to_owned(),
                    };
                    batch.push(family(line).id(), kind, key.as_bytes(), value.as_bytes(), db.companions())?;
                }
                let durability = if plain.contains(&"sync") { Durability::Sync } else { Durability::Os };
                db.commit(&mut batch, durability)?;
            }
            "get" => {
                let mut text = String::new();
                for key in plain {
                    let value = get(&db, &family(line), key.as_bytes(), at)?;
                    text += &match value {
                        Some(value) => format!("{key}={}\n", shown(&value)),
                        None => format!("{key}: none\n"),
                    };
                }
                return Ok(text);
            }
            "scan" => {
                let bounds = plain.iter().find(|word| word.contains("..")).map_or(ALL, |word| bounds(word));
                return scan(&db, &family(line), at, bounds, plain.contains(&"back"));
            }
            "snapshot" => {
                self.snapshots.insert(plain[0].to_owned(), db.snapshot()?);
            }
            "release" => drop(self.snapshots.remove(plain[0])),
            "create" => drop(db.create_family(plain[0], (*family(line).options()).clone())?),
            "drop" => db.drop_family(plain[0])?,
            "flush" => db.flush()?,
            "settle" => db.settle()?,
            "sync" => db.sync()?,
            "step" => return Ok(if db.step()? { String::new() } else { "nothing to do\n".to_owned() }),
            "compact" => db.compact(&family(line), &plain.first().map_or(ALL, |word| bounds(word)))?,
            "levels" => return Ok(levels(&db)),
            "checkpoint" => db.checkpoint(&self.dir.join("checkpoint"))?,
            "close" => {
                self.snapshots.clear();
                let db = self.db.take().unwrap();
                db.close()?;
            }
            "reopen" => {
                self.snapshots.clear();
                self.db.take().unwrap().close()?;
                drop(db);
                self.open()?;
            }
            "crash" => {
                self.snapshots.clear();
                self.sim.crash_at(self.sim.steps());
                self.db = None;
                drop(db);
                self.sim.reboot(Crash::Process);
                if let Some(traced) = &self.traced {
                    traced.take();
                }
                self.open()?;
            }
            _ => panic!("no such command: {line}"),
        }
        Ok(String::new())
    }
}

/// Returns a value, shortened if it is long.
fn shown(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    if text.len() > 20 { format!("{}... ({} bytes)", &text[..3], text.len()) } else { text.into_owned() }
}

/// `a..c`, `..c`, `a..`, `a..=c`.
fn bounds(word: &str) -> CursorBounds {
    let (from, to) = word.split_once("..").unwrap();
    let bound = |key: &str| if key.is_empty() { Bound::Unbounded } else { Bound::Included(key.as_bytes().to_vec()) };
    let to = match to.strip_prefix('=') {
        Some(to) => bound(to),
        None if to.is_empty() => Bound::Unbounded,
        None => Bound::Excluded(to.as_bytes().to_vec()),
    };
    (bound(from), to)
}

fn scan(db: &Db, family: &Family, at: At<'_>, bounds: CursorBounds, back: bool) -> Result<String> {
    let mut cursor = db.cursor(family, at, bounds)?;
    let mut words = Vec::new();
    if back {
        cursor.last()?
    } else {
        cursor.first()?
    }
    while cursor.valid() {
        words.push(format!("{}={}", String::from_utf8_lossy(cursor.key()), shown(cursor.value())));
        if back { cursor.prev()? } else { cursor.next()? }
    }
    Ok(if words.is_empty() { "nothing\n".to_owned() } else { words.join(" ") + "\n" })
}

fn levels(db: &Db) -> String {
    let mut text = String::new();
    for family in db.metrics().families {
        for level in family.levels.iter().filter(|level| level.tables > 0) {
            text += &format!(
                "{} level {}: {} tables, {} records, {} tombstones\n",
                family.name, level.level, level.tables, level.records, level.tombstones
            );
        }
    }
    if text.is_empty() { "no tables\n".to_owned() } else { text }
}

#[test]
fn flushes_as_written_down() {
    golden::run("scripts/flush", || Stage::new(false), Stage::step);
}

#[test]
fn compactions_as_written_down() {
    golden::run("scripts/compact", || Stage::new(false), Stage::step);
}

#[test]
fn reads_as_written_down() {
    golden::run("scripts/read", || Stage::new(false), Stage::step);
}

/// The order of file system calls (I04, I12, I15, I16).
#[test]
fn the_order_of_durability_as_written_down() {
    golden::run("scripts/durability", || Stage::new(true), Stage::step);
}
