//! put, get, del, delete-range, clear, compare-and-set, add, merge, scan.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::ops::Bound;
use std::path::Path;
use std::str::FromStr;

use serde_json::{Map, Value, json};
use waxseal::meta::{LABELS, Labels};
use waxseal::{
    CfOptions, ColumnFamily, Contents, Db, KeyRange, KeyText, MAX_VALUE_BYTES, MergeOperator, Prefix, Range, Slice,
    encode_set,
};

use crate::args::{Args, DeleteRange, Scan, Span};
use crate::damage::Damaged;
use crate::expiry::ExpiryArgs;
use crate::failure::{Exit, Failure};
use crate::input::{read_within, standard_input};
use crate::output::Output;
use crate::store::{bytes_of, dir, existing_family, find_family, open_to_change, open_to_fill, open_to_read, session};

pub(crate) fn put(
    args: &Args,
    key: &OsStr,
    (value, file): (Option<&OsStr>, Option<&Path>),
    if_absent: bool,
    expiry: &ExpiryArgs,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let key = bytes_of(args, key)?;
    let value = match (value, file) {
        (_, Some(file)) => {
            let input = File::open(file).map_err(|error| Failure::io(file.display(), error))?;
            read_within(input, MAX_VALUE_BYTES, file.display())?
        }
        (Some(value), None) if value == "-" => read_within(standard_input()?, MAX_VALUE_BYTES, "standard input")?,
        (Some(value), None) => bytes_of(args, value)?,
        (None, None) => return Err(Failure::usage("put needs a VALUE, - or --file F")),
    };
    let options = expiry.options()?;
    let db = open_to_fill(args)?;
    let cf = session(args, &db)?.column_family(args.cf())?;
    let is_put = match if_absent {
        true => cf.put_if_absent_with(&key, &value, options)?,
        false => cf.put_with(&key, &value, options).map(|()| true)?,
    };
    db.close()?;
    if !is_put {
        return Err(Failure::new(Exit::CheckFailed, format!("the key {} exists", KeyText(&key))));
    }
    output.changed(&json!({ "ok": true, "key": output.to_json(&key), "bytes": value.len() }))?;
    Ok(Exit::Ok)
}

pub(crate) fn get(args: &Args, key: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    let key = bytes_of(args, key)?;
    let db = open_to_read(args)?;
    let cf = existing_family(&db, args.cf())?;
    let labels = if output.json { labels(&cf, &key)? } else { None };
    let found = cf.get_with(&key, |value| match (output.json, output.hex) {
        (true, _) => output.labelled(&key, value, labels),
        (false, true) => output.write_readable(value),
        (false, false) => output.write(&[value]),
    })?;
    match found {
        Some(written) => written.map(|()| Exit::Ok),
        None => Err(Failure::not_found(format!("no key {}", KeyText(&key)))),
    }
}

/// Returns the labels of a key's record as an object, if it has any.
pub(crate) fn labels(cf: &ColumnFamily, key: &[u8]) -> Result<Option<Value>, Failure> {
    let entry = cf.get_meta(key, LABELS)?;
    Ok(entry.and_then(|entry| labels_object(&entry.bytes)))
}

/// Returns the labels in an entry as an object.
pub(crate) fn labels_object(entry: &[u8]) -> Option<Value> {
    let object = |labels: Vec<(&str, &str)>| -> Map<String, Value> {
        labels.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect()
    };
    Labels::read(entry).map(|labels| Value::Object(object(labels)))
}

pub(crate) fn del(args: &Args, key: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    let key = bytes_of(args, key)?;
    let db = open_to_change(args)?;
    existing_family(&db, args.cf())?;
    session(args, &db)?.column_family(args.cf())?.delete(&key)?;
    db.close()?;
    output.changed(&json!({ "ok": true, "key": output.to_json(&key) }))?;
    Ok(Exit::Ok)
}

pub(crate) fn delete_range(args: &Args, range: &DeleteRange, output: &mut Output) -> Result<Exit, Failure> {
    let (start, end) = match &range.prefix {
        Some(prefix) if prefix.is_empty() => return Err(Failure::usage("every key has the empty prefix: say --all")),
        Some(prefix) => Prefix(bytes_of(args, prefix)?).into_bounds(),
        None => bounds_of(args, range.from.as_deref(), range.to.as_deref())?,
    };
    let db = open_to_change(args)?;
    let is_bytewise = existing_family(&db, args.cf())?.options().order.is_bytewise();
    if range.prefix.is_some() && !is_bytewise {
        return Err(Failure::usage("keys with one prefix need not be adjacent in the family's order"));
    }
    session(args, &db)?.column_family(args.cf())?.delete_range((start, end))?;
    db.close()?;
    output.changed(&json!({ "ok": true }))?;
    Ok(Exit::Ok)
}

pub(crate) fn clear(args: &Args, families: &[String], output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_change(args)?;
    let mut batch = session(args, &db)?.batch();
    for name in families {
        batch.delete_range(&existing_family(&db, name)?, ..);
    }
    batch.commit(batch.durability())?;
    db.close()?;
    output.changed(&json!({ "ok": true, "families": families }))?;
    Ok(Exit::Ok)
}

pub(crate) fn compare_and_set(
    args: &Args,
    key: &OsStr,
    old: &OsStr,
    new: Option<&OsStr>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let (key, old) = (bytes_of(args, key)?, bytes_of(args, old)?);
    let new = new.map(|new| bytes_of(args, new)).transpose()?;
    let db = open_to_change(args)?;
    existing_family(&db, args.cf())?;
    let is_set = session(args, &db)?.column_family(args.cf())?.compare_and_set(&key, Some(old), new)?;
    db.close()?;
    if !is_set {
        return Err(Failure::new(Exit::CheckFailed, format!("the key {} has another value", KeyText(&key))));
    }
    output.changed(&json!({ "ok": true, "key": output.to_json(&key) }))?;
    Ok(Exit::Ok)
}

pub(crate) fn add(args: &Args, key: &OsStr, number: i64, output: &mut Output) -> Result<Exit, Failure> {
    let key = bytes_of(args, key)?;
    let db = open_to_fill(args)?;
    let before = session(args, &db)?.column_family(args.cf())?.fetch_add(&key, number)?;
    db.close()?;
    let after = before + number;
    output.line(after.to_string())?;
    output.changed(&json!({ "ok": true, "key": output.to_json(&key), "before": before, "after": after }))?;
    Ok(Exit::Ok)
}

pub(crate) fn merge(
    args: &Args,
    key: &OsStr,
    operands: &[OsString],
    create: Option<&MergeOperator>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let key = bytes_of(args, key)?;
    let encode = |operator: &str| -> Result<Vec<_>, Failure> {
        operands.iter().map(|operand| operand_of(args, operator, operand)).collect()
    };
    if let Some(operator) = create {
        encode(operator.name())?; // else a refused operand would leave a new store behind
    }
    let with = |operator: &MergeOperator| CfOptions { merge_operator: Some(operator.clone()), ..CfOptions::default() };
    let db = match create {
        None => open_to_change(args)?,
        // A new store has the family from its first moment on, so that a refused operator leaves nothing behind.
        Some(operator) if matches!(Db::contents(dir(args)?)?, Contents::Empty) => {
            Db::builder(dir(args)?).column_family(args.cf(), with(operator)).open()?
        }
        Some(_) => open_to_fill(args)?,
    };
    if let (Some(operator), None) = (create, find_family(&db, args.cf())) {
        db.create_column_family(args.cf(), with(operator))?;
    }
    let cf = existing_family(&db, args.cf())?;
    let operator = cf.options().merge_operator.as_ref().map_or("", MergeOperator::name).to_owned();
    if let Some(wanted) = create.filter(|wanted| wanted.name() != operator) {
        let what = format!("the column family {:?} has the operator {operator:?}, not {:?}", args.cf(), wanted.name());
        return Err(Failure::usage(what));
    }
    let mut batch = session(args, &db)?.batch();
    for operand in encode(&operator)? {
        batch.merge(&cf, &key, operand);
    }
    batch.commit(batch.durability())?;
    db.close()?;
    output.changed(&json!({ "ok": true, "key": output.to_json(&key), "operands": operands.len() }))?;
    Ok(Exit::Ok)
}

/// Returns the operand of the command line for the operator with a name.
fn operand_of(args: &Args, operator: &str, operand: &OsStr) -> Result<Vec<u8>, Failure> {
    fn number<N: FromStr>(operand: &OsStr) -> Result<N, Failure> {
        let number = operand.to_str().and_then(|text| text.parse().ok());
        number.ok_or_else(|| Failure::usage(format!("{} is not a number of 64 bits", operand.display())))
    }
    Ok(match operator {
        "wax.add_i64" => number::<i64>(operand)?.to_le_bytes().to_vec(),
        "wax.add_u64" => number::<u64>(operand)?.to_le_bytes().to_vec(),
        "wax.union" => encode_set([bytes_of(args, operand)?]),
        _ => bytes_of(args, operand)?,
    })
}

/// Prints the record before it removes it, so that a reader that is gone costs no record. Removes only the printed
/// record: if it expired while the reader made the tool wait, the next record is first by now, and stays.
pub(crate) fn pop(args: &Args, last: bool, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_change(args)?;
    existing_family(&db, args.cf())?;
    let cf = session(args, &db)?.column_family(args.cf())?;
    let record = if last { cf.last_key_value()? } else { cf.first_key_value()? };
    let Some((key, value)) = record else { return Err(Failure::not_found("the family has no record")) };
    output.row(&key, Some(&value))?;
    output.flush()?;
    cf.compare_and_set(&key, Some(&value), None::<&[u8]>)?;
    db.close()?;
    Ok(Exit::Ok)
}

/// Damage is reported on standard error, and the rows around it are printed nevertheless.
pub(crate) fn scan(args: &Args, scan: &Scan, output: &mut Output) -> Result<Exit, Failure> {
    let db = open_to_read(args)?;
    let range = range(args, &existing_family(&db, args.cf())?, scan)?;
    let rows: Box<dyn DoubleEndedIterator<Item = waxseal::Result<(Slice, Option<Slice>)>>> = match scan.keys_only {
        true => Box::new(range.keys().map(|key| Ok((key?, None)))),
        false => Box::new(range.map(|row| row.map(|(key, value)| (key, Some(value))))),
    };
    let mut rows: Box<dyn Iterator<Item = _>> = if scan.reverse { Box::new(rows.rev()) } else { rows };
    let (mut left, mut damaged) = (scan.limit.unwrap_or(u64::MAX), Damaged::default());
    while left > 0
        && let Some(row) = rows.next()
    {
        match row {
            Ok((key, value)) => {
                output.row(&key, value.as_deref())?;
                left -= 1;
            }
            Err(error) => damaged.note(error)?,
        }
    }
    damaged.outcome("the rows around were printed")
}

fn range(args: &Args, cf: &ColumnFamily, scan: &Scan) -> Result<Range, Failure> {
    if let Some(prefix) = &scan.prefix {
        return Ok(cf.prefix(bytes_of(args, prefix)?));
    }
    Ok(cf.range(bounds(args, &scan.span)?))
}

/// The key range of a verb: from, to.
type VerbRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Returns the key range of the command line.
pub(crate) fn bounds(args: &Args, span: &Span) -> Result<VerbRange, Failure> {
    bounds_of(args, span.from.as_deref(), span.to.as_deref())
}

fn bounds_of(args: &Args, from: Option<&OsStr>, to: Option<&OsStr>) -> Result<VerbRange, Failure> {
    let from = from.map(|key| bytes_of(args, key)).transpose()?;
    let to = to.map(|key| bytes_of(args, key)).transpose()?;
    Ok((from.map_or(Bound::Unbounded, Bound::Included), to.map_or(Bound::Unbounded, Bound::Excluded)))
}
