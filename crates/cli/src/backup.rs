//! backup, backups, restore: incremental copies of a store in one directory, local or in an object store.

use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Value, json};
use waxseal::env::Env;
use waxseal::registry::Time;
use waxseal::{Backup, BackupInfo, BackupOptions, BackupProgress, ErrorKind};

use crate::args::Args;
use crate::backup_place::BackupPlace;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::progress;
use crate::store::{dir, open_to_change};
use crate::text::counted;
use crate::times;

/// Returns a callback that shows the progress of a backup.
fn watch(label: &str) -> impl FnMut(BackupProgress) -> ControlFlow<()> + use<> {
    let mut shown = progress::watch(label);
    move |BackupProgress { done, total }| shown(waxseal::care::Progress { done, total, found: 0 })
}

pub(crate) fn backup(
    args: &Args,
    dest: &Path,
    bytes_per_second: Option<u64>,
    keep: Option<usize>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let place = BackupPlace::of(dest)?;
    let db = open_to_change(args)?;
    let mut watch = watch("backup");
    let options = BackupOptions { bytes_per_second, progress: Some(&mut watch) };
    let created = db.backup_in(&place.dir, &place.env, options)?;
    db.close().or_else(|error| if created.unlogged.is_some() { Ok(()) } else { Err(error) })?;
    let purged = keep.map(|keep| Backup::open_in(&place.dir, &place.env)?.purge(keep)).transpose()?;
    output.line(format!(
        "backup {}: {}, {} bytes; copied {}, {} bytes",
        created.id,
        counted(created.files as u64, "file", "files"),
        created.bytes,
        counted(created.copied_files as u64, "file", "files"),
        created.copied_bytes
    ))?;
    if let Some(error) = &created.unlogged {
        output.line(format!("the backup is whole, but the store could not log it: {error}"))?;
    }
    output.changed(&json!({
        "ok": true,
        "id": created.id,
        "seqno": created.seqno,
        "files": created.files,
        "bytes": created.bytes,
        "copied_files": created.copied_files,
        "copied_bytes": created.copied_bytes,
        "logged": created.unlogged.is_none(),
        "purged": purged.map_or(0, |purged| purged.backups),
    }))?;
    Ok(Exit::Ok)
}

/// Opens a directory of backups.
fn existing_backups(dir: &Path) -> Result<Backup, Failure> {
    let place = BackupPlace::of(dir)?;
    Backup::open_in(&place.dir, &place.env).map_err(|error| match error.kind() {
        ErrorKind::Invalid => Failure::not_found(error.to_string()),
        _ => error.into(),
    })
}

/// Lists backups; with `verify`, reads every byte of them.
pub(crate) fn backups(dir: &Path, verify: bool, keep: Option<usize>, output: &mut Output) -> Result<Exit, Failure> {
    let backup = existing_backups(dir)?;
    if let Some(keep) = keep {
        backup.purge(keep)?;
    }
    let (mut rows, mut exit) = (Vec::new(), Exit::Ok);
    for info in backup.list()? {
        let mut damage: Vec<String> = info.error.iter().map(ToString::to_string).collect();
        if verify && damage.is_empty() {
            let mut watch = watch(&format!("backup {}", info.id));
            let verified =
                backup.verify_with(info.id, BackupOptions { progress: Some(&mut watch), ..Default::default() })?;
            damage.extend(verified.damage.iter().map(ToString::to_string));
        }
        if !damage.is_empty() {
            exit = Exit::Corruption;
        }
        output.line(line(&info, damage.is_empty(), verify))?;
        for what in &damage {
            output.line(format!("  {what}"))?;
        }
        rows.push(row(&info, &damage));
    }
    output.object(&json!({ "ok": exit == Exit::Ok, "backups": rows }))?;
    Ok(exit)
}

fn line(info: &BackupInfo, is_whole: bool, verified: bool) -> String {
    let state = match (is_whole, verified) {
        (false, _) => ", damaged",
        (true, true) => ", whole",
        (true, false) => "",
    };
    format!(
        "{:>6}  {}  seqno {}, {}, {} bytes, {} copied{state}",
        info.id,
        times::text(Time::from_micros(info.created_micros)),
        info.seqno,
        counted(info.files as u64, "file", "files"),
        info.bytes,
        info.copied_bytes
    )
}

fn row(info: &BackupInfo, damage: &[String]) -> Value {
    json!({
        "id": info.id,
        "created_micros": info.created_micros,
        "store": format!("{:?}", info.store),
        "seqno": info.seqno,
        "files": info.files,
        "bytes": info.bytes,
        "copied_bytes": info.copied_bytes,
        "damage": damage,
    })
}

/// Restores a backup, by default the newest, into the directory of `-d`.
pub(crate) fn restore(
    args: &Args,
    from: &Path,
    id: Option<u64>,
    bytes_per_second: Option<u64>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let to = dir(args)?;
    let backup = existing_backups(from)?;
    let ids: Vec<u64> = backup.list()?.iter().map(|info| info.id).collect();
    let Some(id) = ids.into_iter().rev().find(|known| id.is_none_or(|id| id == *known)) else {
        return Err(Failure::not_found(format!("no such backup in {}", from.display())));
    };
    let mut watch = watch("restore");
    let options = BackupOptions { bytes_per_second, progress: Some(&mut watch) };
    backup.restore_in(id, to, &Env::real(), options)?;
    output.line(format!("restored backup {id}"))?;
    output.changed(&json!({ "ok": true, "id": id }))?;
    Ok(Exit::Ok)
}
