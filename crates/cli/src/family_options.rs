//! options: the options of a family as the store records them, and their change.

use serde_json::{Map, Value};
use waxseal::OptionValue;

use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::{existing_family, open_to_change, open_to_read};

/// Sets options, if there are any, and prints those of the family: a line each, with its name and its value.
pub(crate) fn options(args: &Args, changes: &[String], output: &mut Output) -> Result<Exit, Failure> {
    let db = if changes.is_empty() { open_to_read(args)? } else { open_to_change(args)? };
    let family = existing_family(&db, args.cf())?;
    if !changes.is_empty() {
        let mut options = (*family.options()).clone();
        for change in changes {
            let (name, value) = change
                .split_once('=')
                .ok_or_else(|| Failure::usage(format!("--set {change:?}: give a name and a value, NAME=VALUE")))?;
            options.set(name, value)?;
        }
        family.set_options(options)?;
    }
    let mut object = Map::new();
    for (name, value) in family.options().list() {
        output.line(format!("{name}\t{value}"))?;
        object.insert(name.to_owned(), json(&value));
    }
    output.object(&Value::Object(object))?;
    if !changes.is_empty() {
        db.close()?;
    }
    Ok(Exit::Ok)
}

fn json(value: &OptionValue) -> Value {
    match value {
        OptionValue::Number(number) => (*number).into(),
        OptionValue::Flag(flag) => (*flag).into(),
        OptionValue::Text(text) => text.as_str().into(),
        OptionValue::Unset => Value::Null,
    }
}
