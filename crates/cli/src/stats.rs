//! stats, families: an overview of the store as a table.
//!
//! The store is opened read-only, so that another process may write meanwhile. Counters of this open (flushes, stalls,
//! cache hits) are zero and meaningless; the table omits them, `--json` includes them.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use waxseal::care::Fence;
use waxseal::{ColumnFamily, Db, FamilyMetrics, Metrics, RangeText};

use crate::args::Args;
use crate::damage::Damaged;
use crate::failure::{Exit, Failure};
use crate::levels::{levels_json, table};
use crate::output::Output;
use crate::store::{existing_store, find_family, open_to_read};
use crate::text::{count, counted, size};

/// Number of lost ranges printed; `--json` includes all.
const PRINTED_RANGES: usize = 20;

/// What a count of rows does beside damage.
const COUNTED: &str = "the rows around were counted";

/// The store's own families are shown on request, or if they are damaged.
pub(crate) fn stats(args: &Args, all: bool, rows: bool, output: &mut Output) -> Result<Exit, Failure> {
    let (db, dir) = (open_to_read(args)?, existing_store(args)?);
    let metrics = db.metrics();
    let users = users_families(&db);
    let states =
        metrics.families.iter().map(|family| FamilyStats::of(&db, family)).collect::<Result<Vec<_>, Failure>>()?;
    let shown = |state: &&FamilyStats| all || state.is_damaged() || users.contains(&state.metrics.name);
    let mut states: Vec<FamilyStats> = states.iter().filter(shown).cloned().collect();
    let mut damaged = Damaged::default();
    if rows {
        states.iter_mut().try_for_each(|state| state.count_rows(&db, &mut damaged))?;
    }
    let files = Files::of(dir)?;
    for state in &states {
        print_family(state, output)?;
    }
    print_store(&metrics, &files, output)?;
    print_damage(&states, output)?;
    let families: Value = states.iter().map(|state| state.json(output)).collect();
    let mut object = Map::from_iter([("families".to_owned(), families), ("files".to_owned(), files.json())]);
    if let Value::Object(store) = store_json(&db, &metrics) {
        object.extend(store);
    }
    output.object(&Value::Object(object))?;
    damaged.outcome(COUNTED)
}

pub(crate) fn families(args: &Args, all: bool, rows: bool, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_read(args)?;
    let (users, mut damaged) = (users_families(&db), Damaged::default());
    for family in db.metrics().families.iter().filter(|family| all || users.contains(&family.name)) {
        let mut state = FamilyStats::of(&db, family)?;
        if rows {
            state.count_rows(&db, &mut damaged)?;
        }
        let name = output.readable(family.name.as_bytes());
        output.line(state.rows.map_or(name.clone(), |rows| format!("{name}\t{rows}")))?;
        let mut object = Map::from_iter([("name".to_owned(), family.name.as_str().into())]);
        object.extend(state.rows.map(|rows| ("rows".to_owned(), rows.into())));
        output.object(&Value::Object(object))?;
    }
    damaged.outcome(COUNTED)
}

fn users_families(db: &Db) -> HashSet<String> {
    db.column_families().iter().map(|cf| cf.name().to_owned()).collect()
}

/// A family: its metrics, and the damage recorded by the store.
#[derive(Clone)]
struct FamilyStats {
    metrics: FamilyMetrics,
    lost: Vec<Fence>,
    quarantined: Vec<u64>,
    /// Estimated number of rows.
    about: u64,
    /// Number of rows that a scan returns, if they were counted.
    rows: Option<u64>,
}

impl FamilyStats {
    fn of(db: &Db, metrics: &FamilyMetrics) -> Result<FamilyStats, Failure> {
        let cf = find_family(db, &metrics.name);
        let lost = cf.as_ref().map_or(Ok(Vec::new()), ColumnFamily::fences)?;
        let quarantined = cf.as_ref().map_or(Ok(Vec::new()), ColumnFamily::barred_tables)?;
        let about = cf.map_or(0, |cf| cf.approximate_len());
        Ok(FamilyStats { metrics: metrics.clone(), lost, quarantined, about, rows: None })
    }

    fn is_damaged(&self) -> bool {
        !(self.lost.is_empty() && self.quarantined.is_empty())
    }

    /// Counts the rows that a scan returns. Damage is reported and skipped, as by `scan`.
    fn count_rows(&mut self, db: &Db, damaged: &mut Damaged) -> Result<(), Failure> {
        let Some(cf) = find_family(db, &self.metrics.name) else { return Ok(()) };
        let mut rows = 0;
        for key in cf.iter().keys() {
            match key {
                Ok(_) => rows += 1,
                Err(error) => damaged.note(error)?,
            }
        }
        self.rows = Some(rows);
        Ok(())
    }

    fn json(&self, output: &Output) -> Value {
        let values = &self.metrics.values;
        let mut object = json!({
            "name": self.metrics.name,
            "approximate_rows": self.about,
            "memtable_bytes": self.metrics.memtable_bytes,
            "frozen_memtables": self.metrics.frozen,
            "levels": levels_json(&self.metrics.levels),
            "values": {
                "files": values.files,
                "bytes": values.bytes,
                "values": values.values,
                "garbage_bytes": values.garbage,
            },
            "fences": self.lost.iter().map(|range| range_json(range, output)).collect::<Value>(),
            "barred_tables": self.quarantined,
        });
        if let Some(rows) = self.rows {
            object["rows"] = rows.into();
        }
        object
    }
}

fn range_json(range: &Fence, output: &Output) -> Value {
    json!({
        "from": output.to_json(&range.from.0),
        "to": output.to_json(&range.to.0),
        "file": range.file,
        "offset": range.offset,
    })
}

fn print_family(state: &FamilyStats, output: &mut Output) -> Result<(), Failure> {
    let FamilyMetrics { name, memtable_bytes, levels, values, .. } = &state.metrics;
    let rows = match state.rows {
        Some(rows) => format!("  {}", counted(rows, "row", "rows")),
        None if state.about > 0 => format!("  about {}", counted(state.about, "row", "rows")),
        None => String::new(),
    };
    output.line(format!("family {}{rows}", output.readable(name.as_bytes())))?;
    let held: Vec<_> = levels.iter().filter(|level| level.tables > 0).copied().collect();
    if !held.is_empty() {
        for line in table(&held) {
            output.line(format!("  {line}"))?;
        }
    }
    if values.files > 0 {
        output.line(format!(
            "  value files: {} of {}, {} in them, {} garbage",
            count(values.files as u64),
            size(values.bytes),
            counted(values.values, "value", "values"),
            size(values.garbage)
        ))?;
    }
    if held.is_empty() && *memtable_bytes == 0 {
        output.line("  empty")?;
    } else if *memtable_bytes > 0 {
        output.line(format!("  in the log, not flushed yet: {} in memory", size(*memtable_bytes)))?;
    }
    Ok(())
}

fn print_store(metrics: &Metrics, files: &Files, output: &mut Output) -> Result<(), Failure> {
    output.line("store")?;
    output.line(format!("  {:<12} {:>6}  {:>10}", "files", "number", "size"))?;
    for (kind, (number, bytes)) in &files.kinds {
        output.line(format!("  {kind:<12} {:>6}  {:>10}", count(*number), size(*bytes)))?;
    }
    let (number, bytes) = files.total();
    output.line(format!("  {:<12} {:>6}  {:>10}", "total", count(number), size(bytes)))?;
    output.line(format!("  last sequence number {}", count(metrics.visible_seqno)))
}

/// Prints a line on damage, and the first lost ranges.
fn print_damage(states: &[FamilyStats], output: &mut Output) -> Result<(), Failure> {
    let lost: usize = states.iter().map(|state| state.lost.len()).sum();
    let quarantined: usize = states.iter().map(|state| state.quarantined.len()).sum();
    if lost + quarantined == 0 {
        return output.line("integrity: no known damage");
    }
    output.line(format!(
        "integrity: {}, {} quarantined",
        counted(lost as u64, "lost range", "lost ranges"),
        counted(quarantined as u64, "table", "tables")
    ))?;
    let all = states.iter().flat_map(|state| state.lost.iter().map(move |range| (state, range)));
    for (state, range) in all.take(PRINTED_RANGES) {
        let (name, Fence { file, offset, from, to, .. }) = (&state.metrics.name, range);
        output.line(format!("  {name}: {}, from {file} at {offset}", RangeText(&from.0, &to.0)))?;
    }
    Ok(())
}

/// Returns the store's counters, most of them counted since this open.
fn store_json(db: &Db, metrics: &Metrics) -> Value {
    let (recovery, wal) = (db.recovery(), &metrics.wal);
    json!({
        "visible_seqno": metrics.visible_seqno,
        "cache": {
            "bytes": metrics.cache.used_bytes,
            "budget_bytes": metrics.cache.budget_bytes,
            "blocks": metrics.cache.blocks,
            "loads": metrics.cache.loads,
            "evictions": metrics.cache.evictions,
        },
        "recovery": {
            "commits": recovery.commits,
            "cut_bytes": recovery.cut_bytes,
            "cut_at": recovery.cut_at,
            "set_aside": recovery.set_aside,
            "acknowledged_bytes_missing": recovery.acknowledged_bytes_missing,
            "may_lack_unsynced": recovery.may_lack_unsynced,
            "lost_values": recovery.lost_values,
        },
        "snapshots": metrics.snapshots,
        "flushes": metrics.flushes,
        "flushed_bytes": metrics.flushed_bytes,
        "compactions": metrics.compactions,
        "compacted_read_bytes": metrics.compacted_read,
        "compacted_written_bytes": metrics.compacted_written,
        "moves": metrics.moves,
        "stalls": metrics.stalls,
        "stall_nanos": metrics.stall_nanos,
        "manifest_rotations": metrics.manifest_rotations,
        "open_tables": metrics.open_tables,
        "index_bytes": metrics.index_bytes,
        "wal": {
            "mapped": wal.mapped,
            "frames": wal.frames,
            "frame_bytes": wal.frame_bytes,
            "drains": wal.drains,
            "syncs": wal.syncs,
            "live_bytes": wal.live_bytes,
        },
        "memory": {
            "memtable_bytes": metrics.memory.memtable_bytes,
            "block_bytes": metrics.memory.block_bytes,
            "other_bytes": metrics.memory.other_bytes,
            "budget_bytes": metrics.memory.budget_bytes,
        },
    })
}

/// The files of the store's directory, by kind.
struct Files {
    /// Number and total bytes of each kind.
    kinds: BTreeMap<&'static str, (u64, u64)>,
}

impl Files {
    fn of(dir: &Path) -> Result<Files, Failure> {
        let failed = |error| Failure::io(dir.display(), error);
        let mut kinds: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // A concurrent writer may have removed it meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_file() {
                let kind = kinds.entry(kind_of(&entry.file_name().to_string_lossy())).or_default();
                *kind = (kind.0 + 1, kind.1 + metadata.len());
            }
        }
        Ok(Files { kinds })
    }

    fn total(&self) -> (u64, u64) {
        self.kinds.values().fold((0, 0), |sum, kind| (sum.0 + kind.0, sum.1 + kind.1))
    }

    fn json(&self) -> Value {
        let kind = |(name, (number, bytes)): (&&str, &(u64, u64))| {
            ((*name).to_owned(), json!({ "number": number, "bytes": bytes }))
        };
        Value::Object(self.kinds.iter().map(kind).collect())
    }
}

fn kind_of(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("tbl") => "tables",
        Some("val") => "value files",
        Some("log") => "log",
        Some("ring") => "log ring",
        Some("trash" | "damaged" | "cut") => "set aside",
        _ if name.starts_with("MANIFEST-") => "manifest",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::kind_of;

    #[test]
    fn files_are_told_by_their_names() {
        let kinds = ["000001.tbl", "000002.val", "000003.log", "4.ring", "000005.cut", "MANIFEST-000006", "CURRENT"];
        let expected = ["tables", "value files", "log", "log ring", "set aside", "manifest", "other"];
        assert_eq!(kinds.map(kind_of), expected);
    }
}
