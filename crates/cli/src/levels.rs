//! stats, levels, compact, checkpoint: the store as a whole.

use std::path::Path;

use serde_json::{Value, json};
use waxseal::care::Fence;
use waxseal::{ColumnFamily, Db, LevelMetrics};

use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::{existing_family, find_family, open_to_change, open_to_read};
use crate::text;

/// Fences that are printed; with --json all are.
const PRINTED_FENCES: usize = 20;

/// The store's own families are shown if somebody asks, or if something is wrong with them.
pub(crate) fn stats(args: &Args, all: bool, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_read(args)?;
    let (mut metrics, recovery) = (db.metrics(), db.recovery());
    let damage = damage_of(&db)?;
    if !all {
        let users: Vec<String> = db.column_families().iter().map(|cf| cf.name().to_owned()).collect();
        let is_hit = |name: &str| damage.iter().any(|damage| damage.family == name && damage.is_any());
        metrics.families.retain(|family| users.contains(&family.name) || is_hit(&family.name));
    }
    output.line(metrics.to_string().trim_end())?;
    print_damage(&damage, output)?;
    let families: Value = metrics
        .families
        .iter()
        .map(|family| {
            let damage = damage.iter().find(|damage| damage.family == family.name);
            json!({
                "name": family.name,
                "memtable_bytes": family.memtable_bytes,
                "frozen_memtables": family.frozen,
                "levels": levels_json(&family.levels),
                "fences": damage.map(|damage| fences_json(damage, output)).unwrap_or_else(|| json!([])),
                "barred_tables": damage.map(|damage| damage.barred.clone()).unwrap_or_default(),
            })
        })
        .collect();
    output.object(&json!({
        "families": families,
        "visible_seqno": metrics.visible_seqno,
        "cache": { "bytes": metrics.cache.used_bytes, "budget_bytes": metrics.cache.budget_bytes },
        "recovery": {
            "commits": recovery.commits,
            "cut_bytes": recovery.cut_bytes,
            "cut_at": recovery.cut_at,
            "set_aside": recovery.set_aside,
            "acknowledged_bytes_missing": recovery.acknowledged_bytes_missing,
        },
    }))?;
    Ok(Exit::Ok)
}

/// What is known to be damaged in a family.
struct Damage {
    family: String,
    fences: Vec<Fence>,
    barred: Vec<u64>,
}

impl Damage {
    fn is_any(&self) -> bool {
        !(self.fences.is_empty() && self.barred.is_empty())
    }
}

/// The damage that the store remembers, of all families.
fn damage_of(db: &Db) -> Result<Vec<Damage>, Failure> {
    let names: Vec<String> = db.metrics().families.into_iter().map(|family| family.name).collect();
    let families: Vec<ColumnFamily> = names.iter().filter_map(|name| find_family(db, name)).collect();
    let damage = families
        .iter()
        .map(|cf| Ok(Damage { family: cf.name().to_owned(), fences: cf.fences()?, barred: cf.barred_tables()? }));
    Ok(damage.collect::<waxseal::Result<Vec<_>>>()?)
}

/// A line on damage; the first fences are named.
fn print_damage(damage: &[Damage], output: &mut Output) -> Result<(), Failure> {
    let fences: usize = damage.iter().map(|damage| damage.fences.len()).sum();
    let barred: usize = damage.iter().map(|damage| damage.barred.len()).sum();
    output.line(format!(
        "integrity: {}, {} left alone until repaired",
        text::counted(fences as u64, "fence", "fences"),
        text::counted(barred as u64, "damaged table", "damaged tables")
    ))?;
    let all = damage.iter().flat_map(|damage| damage.fences.iter().map(move |fence| (damage, fence)));
    for (damage, fence) in all.take(PRINTED_FENCES) {
        let (from, to) = (output.readable(&fence.from.0), output.readable(&fence.to.0));
        output.line(format!(
            "  {}: lost between {from} and {to}, of {} at {}",
            damage.family, fence.file, fence.offset
        ))?;
    }
    Ok(())
}

fn fences_json(damage: &Damage, output: &Output) -> Value {
    let fence = |fence: &Fence| {
        json!({
            "from": output.to_json(&fence.from.0),
            "to": output.to_json(&fence.to.0),
            "file": fence.file,
            "offset": fence.offset,
        })
    };
    damage.fences.iter().map(fence).collect()
}

pub(crate) fn levels(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_read(args)?;
    existing_family(&db, &args.cf)?;
    let levels = levels_of(&db, &args.cf);
    for line in table(&levels) {
        output.line(line)?;
    }
    output.object(&json!({ "cf": args.cf, "levels": levels_json(&levels) }))?;
    Ok(Exit::Ok)
}

pub(crate) fn compact(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_change(args)?;
    existing_family(&db, &args.cf)?.compact()?;
    let levels = levels_of(&db, &args.cf);
    db.close()?;
    for line in table(&levels) {
        output.line(line)?;
    }
    output.object(&json!({ "ok": true, "cf": args.cf, "levels": levels_json(&levels) }))?;
    Ok(Exit::Ok)
}

pub(crate) fn checkpoint(args: &Args, dest: &Path, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_change(args)?;
    db.checkpoint(dest)?;
    db.close()?;
    output.object(&json!({ "ok": true }))?;
    Ok(Exit::Ok)
}

/// The levels of one family that hold tables, level 0 in any case.
pub(crate) fn levels_of(db: &Db, cf: &str) -> Vec<LevelMetrics> {
    let mut families = db.metrics().families.into_iter();
    let mut levels = families.find(|family| family.name == cf).map(|family| family.levels).unwrap_or_default();
    levels.retain(|level| level.level == 0 || level.tables > 0);
    levels
}

pub(crate) fn levels_json(levels: &[LevelMetrics]) -> Value {
    levels
        .iter()
        .map(|level| {
            json!({
                "level": level.level,
                "tables": level.tables,
                "bytes": level.bytes,
                "target_bytes": level.target_bytes,
            })
        })
        .collect()
}

/// The levels as lines of a table.
pub(crate) fn table(levels: &[LevelMetrics]) -> Vec<String> {
    let header = format!("{:>5}  {:>6}  {:>10}  {:>10}", "level", "tables", "size", "target");
    let line = |level: &LevelMetrics| {
        let target = if level.target_bytes == 0 { "-".to_owned() } else { text::size(level.target_bytes) };
        format!(
            "{:>5}  {:>6}  {:>10}  {:>10}",
            level.level,
            text::count(level.tables as u64),
            text::size(level.bytes),
            target
        )
    };
    std::iter::once(header).chain(levels.iter().map(line)).collect()
}
