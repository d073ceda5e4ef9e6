//! export, import: key ranges as table files for other stores, and theirs for us.

use std::path::Path;

use serde_json::json;
use waxseal::exchange::{ExportOptions, Policy, Versions};

use crate::args::{Args, Export, Leaves};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::records::bounds;
use crate::store::{existing_family, open_to_fill, open_to_read};
use crate::text::counted;

pub(crate) fn export(args: &Args, export: &Export, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_read(args)?;
    let cf = existing_family(&db, &args.cf)?;
    let policy = match export.policy {
        Leaves::Nothing => Policy::Strip,
        Leaves::Seals => Policy::Companion { allow: export.provider.clone() },
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
    output.object(&json!({
        "ok": true,
        "cf": args.cf,
        "records": exported.records,
        "rows": exported.rows,
        "unsealed": exported.unsealed,
        "tables": exported.manifest.files.len(),
        "companion_bytes": exported.companion_bytes,
        "sum": format!("{:016x}", exported.sum),
    }))?;
    Ok(Exit::Ok)
}

pub(crate) fn import(args: &Args, src: &Path, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_fill(args)?;
    let imported = db.column_family(&args.cf)?.import(src)?;
    db.close()?;
    output.line(format!(
        "imported {}: {} with a seal, {} without",
        counted(imported.records, "record", "records"),
        imported.sealed,
        imported.unsealed
    ))?;
    output.object(&json!({
        "ok": true,
        "cf": args.cf,
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
