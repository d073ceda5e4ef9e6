//! export, import, ingest: table files, exchanged with other stores or written outside of any.

use std::path::{Path, PathBuf};

use serde_json::json;
use waxseal::IngestOptions;
use waxseal::exchange::{ExportOptions, LeftBehind, Policy, Versions};
use waxseal::meta::{ETL, EXPIRY, LABELS, PROVENANCE};

use crate::args::{Args, ExportArgs, Leaves};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::records::bounds;
use crate::store::{existing_family, open_to_change, open_to_fill, open_to_read, session};
use crate::text::counted;

pub(crate) fn export(args: &Args, export: &ExportArgs, output: &mut Output) -> Result<Exit, Failure> {
    // With `--as` the export is an event of the log, which needs a store that is open for writing.
    let db = if args.name.is_some() { open_to_change(args)? } else { open_to_read(args)? };
    existing_family(&db, args.cf())?;
    let cf = session(args, &db)?.column_family(args.cf())?;
    let has_seals = matches!(export.policy, Leaves::Labels | Leaves::Seals);
    if !has_seals && !export.provider.is_empty() {
        return Err(Failure::usage("--provider exports entries beside seals: use it with --policy labels or seals"));
    }
    let policy = match export.policy {
        Leaves::Labels => Policy::Companion { allow: [&[LABELS], &export.provider[..]].concat() },
        Leaves::Seals => Policy::Companion { allow: export.provider.clone() },
        Leaves::Strip => Policy::Strip,
        Leaves::PaperSafe => Policy::PaperSafe,
        Leaves::PaperLiteral => Policy::PaperLiteral,
    };
    let versions = if export.all_versions { Versions::All } else { Versions::Newest };
    let options = ExportOptions::new().range(bounds(args, &export.span)?).policy(policy).versions(versions);
    let exported = cf.export(&export.dest, options)?;
    if let Some(warning) = exported.warning {
        eprintln!("waxseal: {warning}");
    }
    output.line(format!(
        "exported {} in {}, sum {:016x}",
        counted(exported.records, "record", "records"),
        counted(exported.manifest.files.len() as u64, "table", "tables"),
        exported.sum
    ))?;
    let left = &exported.left_behind;
    output.line(format!("left behind: {}", account(left)))?;
    output.object(&json!({
        "ok": true,
        "cf": args.cf(),
        "records": exported.records,
        "rows": exported.rows,
        "unsealed": exported.unsealed,
        "tables": exported.manifest.files.len(),
        "companion_bytes": exported.companion_bytes,
        "sum": format!("{:016x}", exported.sum),
        "left_behind": {
            "seals": left.seals,
            "stamps": left.stamps,
            "entries": left.entries,
            "bytes": left.bytes,
            "expired": left.expired,
        },
    }))?;
    Ok(Exit::Ok)
}

/// Describes the metadata and records that stay in the store, as a line of text.
fn account(left: &LeftBehind) -> String {
    let mut parts = Vec::new();
    let mut add = |number: u64, one: &str, many: &str| {
        if number > 0 {
            parts.push(counted(number, one, many));
        }
    };
    add(left.seals, "seal", "seals");
    add(left.stamps, "stamp", "stamps");
    for (provider, entries) in &left.entries {
        match *provider {
            EXPIRY => add(*entries, "expiry time", "expiry times"),
            PROVENANCE => add(*entries, "provenance entry", "provenance entries"),
            ETL => add(*entries, "statistics entry", "statistics entries"),
            LABELS => add(*entries, "label entry", "label entries"),
            id => add(*entries, &format!("entry of provider {id}"), &format!("entries of provider {id}")),
        }
    }
    add(left.expired, "expired record", "expired records");
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

pub(crate) fn import(args: &Args, src: &Path, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_fill(args)?;
    let imported = db.column_family(args.cf())?.import(src)?;
    db.close()?;
    output.line(format!(
        "imported {}: {} with a seal, {} without",
        counted(imported.records, "record", "records"),
        imported.sealed,
        imported.unsealed
    ))?;
    output.changed(&json!({
        "ok": true,
        "cf": args.cf(),
        "records": imported.records,
        "superseded": imported.superseded,
        "sealed": imported.sealed,
        "unsealed": imported.unsealed,
        "bound": imported.bound,
        "orphans": imported.orphans,
        "without_row": imported.without_row,
        "own_deletes": imported.own_deletes,
    }))?;
    Ok(Exit::Ok)
}

pub(crate) fn ingest(args: &Args, files: &[PathBuf], moves: bool, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_fill(args)?;
    let options = IngestOptions::default().move_files(moves);
    let ingested = db.ingest(&db.column_family(args.cf())?, files, options)?;
    db.close()?;
    let (records, tables) = (ingested.records, ingested.tables as u64);
    output.line(format!(
        "ingested {} in {}",
        counted(records, "record", "records"),
        counted(tables, "table", "tables")
    ))?;
    output.changed(&json!({ "ok": true, "cf": args.cf(), "records": records, "tables": tables }))?;
    Ok(Exit::Ok)
}
