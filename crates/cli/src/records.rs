//! put, get, del, scan.

use std::ffi::OsStr;
use std::io::Read;
use std::ops::Bound;
use std::path::Path;

use serde_json::json;
use waxseal::{ColumnFamily, Range};

use crate::args::{Args, Scan};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::{bytes_of, existing_family, open_to_change, open_to_fill, open_to_read};

pub(crate) fn put(
    args: &Args,
    key: &OsStr,
    value: Option<&OsStr>,
    file: Option<&Path>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let key = bytes_of(args, key)?;
    let value = match (value, file) {
        (_, Some(file)) => std::fs::read(file).map_err(|error| Failure::io(file.display(), error))?,
        (Some(value), None) if value == "-" => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).map_err(|error| Failure::io("standard input", error))?;
            bytes
        }
        (Some(value), None) => bytes_of(args, value)?,
        (None, None) => return Err(Failure::usage("put needs a VALUE, - or --file F")),
    };
    let db = open_to_fill(args)?;
    db.column_family(&args.cf)?.put(&key, &value)?;
    db.close()?;
    output.object(&json!({ "ok": true, "key": output.to_json(&key), "bytes": value.len() }))?;
    Ok(Exit::Ok)
}

pub(crate) fn get(args: &Args, key: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    let key = bytes_of(args, key)?;
    let db = open_to_read(args)?;
    let found = existing_family(&db, &args.cf)?.get_with(&key, |value| match (output.json, output.hex) {
        (true, _) => output.row(&key, Some(value)),
        (false, true) => output.write(&[output.readable(value).as_bytes()]),
        (false, false) => output.write(&[value]),
    })?;
    match found {
        Some(written) => written.map(|()| Exit::Ok),
        None => Err(Failure::not_found(format!("no key {}", output.readable(&key)))),
    }
}

pub(crate) fn del(args: &Args, key: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    let key = bytes_of(args, key)?;
    let db = open_to_change(args)?;
    existing_family(&db, &args.cf)?.delete(&key)?;
    db.close()?;
    output.object(&json!({ "ok": true, "key": output.to_json(&key) }))?;
    Ok(Exit::Ok)
}

pub(crate) fn scan(args: &Args, scan: &Scan, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_read(args)?;
    let range = range(args, &existing_family(&db, &args.cf)?, scan)?;
    let limit = scan.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    if scan.keys_only {
        let keys = range.keys();
        let mut keys: Box<dyn Iterator<Item = _>> = if scan.reverse { Box::new(keys.rev()) } else { Box::new(keys) };
        keys.by_ref().take(limit).try_for_each(|key| output.row(&key?, None))?;
    } else {
        let mut rows: Box<dyn Iterator<Item = _>> = if scan.reverse { Box::new(range.rev()) } else { Box::new(range) };
        rows.by_ref().take(limit).try_for_each(|row| {
            let (key, value) = row?;
            output.row(&key, Some(&value))
        })?;
    }
    Ok(Exit::Ok)
}

fn range(args: &Args, cf: &ColumnFamily, scan: &Scan) -> Result<Range, Failure> {
    if let Some(prefix) = &scan.prefix {
        return Ok(cf.prefix(bytes_of(args, prefix)?));
    }
    let from = scan.from.as_deref().map(|key| bytes_of(args, key)).transpose()?;
    let to = scan.to.as_deref().map(|key| bytes_of(args, key)).transpose()?;
    Ok(cf.range((from.map_or(Bound::Unbounded, Bound::Included), to.map_or(Bound::Unbounded, Bound::Excluded))))
}
