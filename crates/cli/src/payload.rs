//! The payload of an event, as text and as JSON.

use serde_json::{Map, Value, json};
use waxseal::registry::{Field, FileRef, Image, Payload, RegisterOptions, Time, TokenRange};
use waxseal::{KeyText, RangeText, Session};

use crate::output::Output;
use crate::text::{escape, hex};
use crate::{options, times};

/// Longer values are truncated in a line; JSON has the whole value.
const LINE_BYTES: usize = 80;

/// Formats the fields on one line: `name=value name=value`. Start and end of a key range are one field. Of several
/// ranges, each start belongs to the end at the same place.
pub(crate) fn line(who: &Session, payload: &Payload, output: &Output) -> String {
    let starts = payload.fields().iter().filter(|field| matches!(field, Field::RangeStart(_))).count();
    let ends =
        payload.fields().iter().filter_map(|field| if let Field::RangeEnd(key) = field { Some(key) } else { None });
    let ends: Vec<_> = ends.collect();
    let (is_paired, mut next_end) = (starts == ends.len(), ends.iter());
    let fields = payload.fields().iter().filter(|field| !(is_paired && matches!(field, Field::RangeEnd(_))));
    let fields = fields.map(|field| {
        let (name, value) = match field {
            Field::RangeStart(start) if is_paired => {
                let range = next_end.next().map(|end| RangeText(start, end).to_string());
                ("range".to_owned(), FieldText::Text(range.unwrap_or_default()))
            }
            _ => shown(who, field),
        };
        match value {
            FieldText::Text(text) if text.contains(char::is_control) => format!("{name}={}", escape(text.as_bytes())),
            FieldText::Text(text) => format!("{name}={text}"),
            FieldText::Bytes(bytes) if bytes.len() > LINE_BYTES => {
                format!("{name}={} ({} bytes)", cut(&bytes, output), bytes.len())
            }
            FieldText::Bytes(bytes) => format!("{name}={}", output.readable(&bytes)),
            FieldText::Key(key) => format!("{name}={}", KeyText(&key)),
            FieldText::Number(number) => format!("{name}={number}"),
            FieldText::Object(object) => format!("{name}={object}"),
            FieldText::Nothing => format!("{name}: none"),
        }
    });
    fields.collect::<Vec<_>>().join(" ")
}

/// Formats bytes on one line, truncated if there are many.
pub(crate) fn cut(bytes: &[u8], output: &Output) -> String {
    match bytes.get(..LINE_BYTES) {
        Some(start) if bytes.len() > LINE_BYTES => format!("{}..", output.readable(start)),
        _ => output.readable(bytes),
    }
}

/// Returns the fields as an object. Repeated fields become arrays. Settings form a separate object, in which repeated
/// names become arrays as well.
pub(crate) fn json(who: &Session, payload: &Payload, output: &Output) -> Value {
    let mut object = Map::new();
    for field in payload.fields() {
        if let Field::Setting((name, value)) = field {
            if let Some(settings) = object.entry("settings").or_insert_with(|| json!({})).as_object_mut() {
                insert(settings, name.clone(), value.as_str().into());
            }
            continue;
        }
        let (name, value) = shown(who, field);
        let value = match value {
            FieldText::Text(text) => text.into(),
            FieldText::Bytes(bytes) | FieldText::Key(bytes) => output.to_json(&bytes),
            FieldText::Number(number) => number.into(),
            FieldText::Object(object) => object,
            FieldText::Nothing => Value::Null,
        };
        insert(&mut object, name, value);
    }
    Value::Object(object)
}

/// Inserts a value; repeated names become arrays.
fn insert(object: &mut Map<String, Value>, name: String, value: Value) {
    match object.get_mut(&name) {
        None => drop(object.insert(name, value)),
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

/// The value of a field.
enum FieldText {
    Text(String),
    Bytes(Vec<u8>),
    Key(Vec<u8>),
    Number(u64),
    Object(Value),
    Nothing,
}

fn shown(who: &Session, field: &Field) -> (String, FieldText) {
    let (name, value) = match field {
        Field::Text(bytes) => ("text", FieldText::Bytes(bytes.clone())),
        Field::OldName(name) => ("old_name", FieldText::Text(name.clone())),
        Field::NewName(name) => ("new_name", FieldText::Text(name.clone())),
        Field::Setting((name, value)) => return (name.clone(), FieldText::Text(value.clone())),
        Field::Column(name) => ("column", FieldText::Text(name.clone())),
        Field::ColumnType(name) => ("column_type", FieldText::Text(name.clone())),
        Field::ColumnId(number) => ("column_id", FieldText::Number(*number)),
        Field::ColumnState(number) => ("column_state", FieldText::Number(*number)),
        Field::Deadline(number) => ("deadline", FieldText::Text(times::text(Time(*number)))),
        Field::SeqnoBound(number) => ("seqno_bound", FieldText::Number(*number)),
        Field::Certificate(bytes) => ("certificate", FieldText::Text(hex(bytes))),
        Field::Records(number) => ("records", FieldText::Number(*number)),
        Field::Bytes(number) => ("bytes", FieldText::Number(*number)),
        Field::Sum(number) => ("sum", FieldText::Text(format!("{number:016x}"))),
        Field::Ttl(number) => ("ttl_s", FieldText::Number(*number)),
        Field::UserTime(number) => ("user_time", FieldText::Number(*number)),
        Field::OldValue(image) => ("old_value", of_image(image)),
        Field::NewValue(image) => ("new_value", of_image(image)),
        Field::RangeStart(bytes) => ("range_start", FieldText::Key(bytes.clone())),
        Field::RangeEnd(bytes) => ("range_end", FieldText::Key(bytes.clone())),
        Field::Tokens(range) => ("tokens", FieldText::Object(of_tokens(range))),
        Field::Input(file) => ("input", FieldText::Object(of_file(file))),
        Field::Output(file) => ("output", FieldText::Object(of_file(file))),
        Field::Nanos(number) => ("nanos", FieldText::Number(*number)),
        Field::LogRange((first, last)) => ("log", FieldText::Object(json!({ "first": first, "last": last }))),
        Field::Verdict(text) => ("verdict", FieldText::Text(text.clone())),
        Field::Method(text) => ("method", FieldText::Text(text.clone())),
        Field::BitsFixed(number) => ("bits_fixed", FieldText::Number(*number)),
        Field::Helper(text) => ("helper", FieldText::Text(text.clone())),
        Field::Retries(number) => ("retries", FieldText::Number(*number)),
        Field::Authenticated(text) => ("authenticated", FieldText::Text(text.clone())),
        Field::Via(path) => {
            let text = path.target().and_then(|target| who.target_text(&target));
            ("via", FieldText::Text(text.unwrap_or_else(|_| path.to_string())))
        }
        Field::Options(bytes) => {
            let known =
                RegisterOptions::decode(bytes).map(|known| FieldText::Object(Value::Object(options::json(&known))));
            ("options", known.unwrap_or_else(|_| FieldText::Text(hex(bytes))))
        }
        Field::Previous(bytes) => ("previous", FieldText::Text(hex(bytes))),
        Field::KeyColumn(name) => ("key_column", FieldText::Text(name.clone())),
        Field::EngineKey(bytes) => ("engine_key", FieldText::Key(bytes.clone())),
        Field::OldKept(number) => ("old_kept", FieldText::Number(*number)),
        Field::Other(number, bytes) => return (format!("field_{number}"), FieldText::Text(hex(bytes))),
    };
    (name.to_owned(), value)
}

fn of_image(image: &Image) -> FieldText {
    match image {
        Image::Absent => FieldText::Nothing,
        Image::Value(value) => FieldText::Bytes(value.clone()),
        Image::Seal(seal) => FieldText::Object(json!({ "seal": hex(&seal.to_bytes()) })),
    }
}

fn of_file(file: &FileRef) -> Value {
    json!({ "uid": format!("{:?}", file.uid), "digest": format!("{:016x}", file.digest), "records": file.records })
}

fn of_tokens(range: &TokenRange) -> Value {
    json!({
        "keyspace": range.keyspace,
        "start": range.start,
        "end": range.end,
        "replicas": range.replicas,
        "records": range.records,
        "bytes": range.bytes,
        "sum": format!("{:016x}", range.sum),
    })
}
