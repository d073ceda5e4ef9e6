//! levels, compact, checkpoint: the levels of a family, and a copy of the store.

use std::path::Path;

use serde_json::{Value, json};
use waxseal::{Db, LevelMetrics};

use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::{existing_family, open_to_change, open_to_read};
use crate::text;

pub(crate) fn levels(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_read(args)?;
    existing_family(&db, args.cf())?;
    let levels = levels_of(&db, args.cf());
    for line in table(&levels) {
        output.line(line)?;
    }
    output.object(&json!({ "cf": args.cf(), "levels": levels_json(&levels) }))?;
    Ok(Exit::Ok)
}

pub(crate) fn compact(
    args: &Args,
    files: &[u64],
    with: &[(String, String)],
    output: &mut Output,
) -> Result<Exit, Failure> {
    let db = open_to_change(args)?;
    let family = existing_family(&db, args.cf())?;
    match files.is_empty() && with.is_empty() {
        true => family.compact()?,
        false => family.compact_files(files.iter().copied())?,
    }
    for (property, item) in with {
        family.compact_with(property, item)?;
    }
    let levels = levels_of(&db, args.cf());
    db.close()?;
    for line in table(&levels) {
        output.line(line)?;
    }
    output.object(&json!({ "ok": true, "cf": args.cf(), "levels": levels_json(&levels) }))?;
    Ok(Exit::Ok)
}

pub(crate) fn checkpoint(args: &Args, dest: &Path, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_change(args)?;
    db.checkpoint(dest)?;
    db.close()?;
    output.changed(&json!({ "ok": true }))?;
    Ok(Exit::Ok)
}

pub(crate) fn upgrade(args: &Args, level: Option<u32>, output: &mut Output) -> Result<Exit, Failure> {
    let level = match level {
        None => open_to_read(args)?.format_level(),
        Some(level) => {
            let db = open_to_change(args)?;
            db.upgrade(level)?;
            let level = db.format_level();
            db.close()?;
            level
        }
    };
    output.line(format!("format level {level}"))?;
    output.object(&json!({ "ok": true, "format_level": level }))?;
    Ok(Exit::Ok)
}

/// Returns the levels of one family that hold tables, and always level 0.
pub(crate) fn levels_of(db: &Db, cf: &str) -> Vec<LevelMetrics> {
    let mut levels = db.family_metrics(cf).map(|family| family.levels).unwrap_or_default();
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
                "entries": level.records,
                "tombstones": level.tombstones,
            })
        })
        .collect()
}

/// Formats the levels as lines of a table. Entries include all versions and tombstones.
pub(crate) fn table(levels: &[LevelMetrics]) -> Vec<String> {
    let header = format!(
        "{:>5}  {:>6}  {:>10}  {:>10}  {:>13}  {:>10}",
        "level", "tables", "size", "target", "entries", "tombstones"
    );
    let line = |level: &LevelMetrics| {
        let target = if level.target_bytes == 0 { "-".to_owned() } else { text::size(level.target_bytes) };
        format!(
            "{:>5}  {:>6}  {:>10}  {:>10}  {:>13}  {:>10}",
            level.level,
            text::count(level.tables as u64),
            text::size(level.bytes),
            target,
            text::count(level.records),
            text::count(level.tombstones)
        )
    };
    std::iter::once(header).chain(levels.iter().map(line)).collect()
}
