//! The fields of an event in a flat form for C: a number, a name, a kind, and members that hold the value of any kind
//! of field.

use face::Session;
use face::registry::{Field, FileRef, Image, Payload, RegisterOptions, TokenRange};

use crate::registry::forever;

/// A number: `numbers[0]`.
pub const WAXSEAL_FIELD_NUMBER: i32 = 0;
/// UTF-8 text: `bytes`.
pub const WAXSEAL_FIELD_TEXT: i32 = 1;
/// Any bytes: `bytes`.
pub const WAXSEAL_FIELD_BYTES: i32 = 2;
/// A setting: name in `bytes`, value in `more`.
pub const WAXSEAL_FIELD_SETTING: i32 = 3;
/// The value is absent.
pub const WAXSEAL_FIELD_ABSENT: i32 = 4;
/// A complete value: `bytes`.
pub const WAXSEAL_FIELD_VALUE: i32 = 5;
/// The seal of a value: 8 bytes in `bytes`, and as a number in `numbers[0]`.
pub const WAXSEAL_FIELD_SEAL: i32 = 6;
/// A table file: uid in `bytes` (16 bytes), digest in `numbers[0]`, number of records in `numbers[1]`.
pub const WAXSEAL_FIELD_FILE: i32 = 7;
/// A range of numbers: first in `numbers[0]`, last in `numbers[1]`.
pub const WAXSEAL_FIELD_SPAN: i32 = 8;
/// A token range: keyspace in `bytes`, comma-separated replicas in `more`; first and last token, records, bytes and sum
/// in `numbers`.
pub const WAXSEAL_FIELD_TOKENS: i32 = 9;
/// The options of a registration: as the store keeps them in `bytes`, in words in `more` (`subtree deferred values=new`); in `numbers` a
/// `WAXSEAL_SCOPE_..`, a `WAXSEAL_MODE_..`, a `WAXSEAL_VALUES_..`, 1 for history, and after how many microseconds events may be dropped,
/// or `WAXSEAL_FOREVER`. Options that this version cannot read are `WAXSEAL_FIELD_BYTES`.
pub const WAXSEAL_FIELD_OPTIONS: i32 = 10;

/// The length of a field's array of numbers.
pub const WAXSEAL_FIELD_NUMBERS: usize = 5;

/// One field.
#[derive(Clone, Debug)]
pub(crate) struct Flat {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) kind: i32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) more: Vec<u8>,
    pub(crate) numbers: [u64; WAXSEAL_FIELD_NUMBERS],
}

/// Returns the fields of an event, in order, with the names of the session's store.
pub(crate) fn flat(session: &Session, payload: &Payload) -> Vec<Flat> {
    payload.fields().iter().map(|field| of(session, field)).collect()
}

fn of(session: &Session, field: &Field) -> Flat {
    let (name, value_of) = value_of(session, field);
    let FieldValue { kind, bytes, more, numbers } = value_of;
    Flat { number: field.number(), name, kind, bytes, more, numbers }
}

struct FieldValue {
    kind: i32,
    bytes: Vec<u8>,
    more: Vec<u8>,
    numbers: [u64; WAXSEAL_FIELD_NUMBERS],
}

impl FieldValue {
    fn new(kind: i32, bytes: &[u8], more: &[u8], given: &[u64]) -> FieldValue {
        let mut numbers = [0; WAXSEAL_FIELD_NUMBERS];
        numbers.iter_mut().zip(given).for_each(|(number, given)| *number = *given);
        FieldValue { kind, bytes: bytes.to_vec(), more: more.to_vec(), numbers }
    }
}

/// Returns the name of a field and its value.
fn value_of(session: &Session, field: &Field) -> (String, FieldValue) {
    let number = |number: &u64| FieldValue::new(WAXSEAL_FIELD_NUMBER, &[], &[], &[*number]);
    let text = |text: &str| FieldValue::new(WAXSEAL_FIELD_TEXT, text.as_bytes(), &[], &[]);
    let bytes = |bytes: &[u8]| FieldValue::new(WAXSEAL_FIELD_BYTES, bytes, &[], &[]);
    let (name, value_of) = match field {
        Field::Text(it) => ("text", bytes(it)),
        Field::OldName(it) => ("old_name", text(it)),
        Field::NewName(it) => ("new_name", text(it)),
        Field::Setting((name, value)) => {
            ("setting", FieldValue::new(WAXSEAL_FIELD_SETTING, name.as_bytes(), value.as_bytes(), &[]))
        }
        Field::Column(it) => ("column", text(it)),
        Field::ColumnType(it) => ("column_type", text(it)),
        Field::ColumnId(it) => ("column_id", number(it)),
        Field::ColumnState(it) => ("column_state", number(it)),
        Field::Deadline(it) => ("deadline", number(it)),
        Field::SeqnoBound(it) => ("seqno_bound", number(it)),
        Field::Certificate(it) => ("certificate", bytes(it)),
        Field::Records(it) => ("records", number(it)),
        Field::Bytes(it) => ("bytes", number(it)),
        Field::Sum(it) => ("sum", number(it)),
        Field::Ttl(it) => ("ttl_s", number(it)),
        Field::UserTime(it) => ("user_time", number(it)),
        Field::OldValue(it) => ("old_value", of_image(it)),
        Field::NewValue(it) => ("new_value", of_image(it)),
        Field::RangeStart(it) => ("range_start", bytes(it)),
        Field::RangeEnd(it) => ("range_end", bytes(it)),
        Field::Tokens(it) => ("tokens", of_tokens(it)),
        Field::Input(it) => ("input", of_file(it)),
        Field::Output(it) => ("output", of_file(it)),
        Field::Nanos(it) => ("nanos", number(it)),
        Field::LogRange((first, last)) => ("log", FieldValue::new(WAXSEAL_FIELD_SPAN, &[], &[], &[*first, *last])),
        Field::Verdict(it) => ("verdict", text(it)),
        Field::Method(it) => ("method", text(it)),
        Field::BitsFixed(it) => ("bits_fixed", number(it)),
        Field::Helper(it) => ("helper", text(it)),
        Field::Retries(it) => ("retries", number(it)),
        Field::Authenticated(it) => ("authenticated", text(it)),
        Field::Via(it) => {
            let target = it.target().and_then(|target| session.target_text(&target));
            ("via", text(&target.unwrap_or_else(|_| it.to_string())))
        }
        Field::Options(it) => ("options", of_options(it)),
        Field::Previous(it) => ("previous", bytes(it)),
        Field::KeyColumn(it) => ("key_column", text(it)),
        Field::EngineKey(it) => ("engine_key", bytes(it)),
        Field::OldKept(it) => ("old_kept", number(it)),
        Field::Other(of, it) => return (format!("field_{of}"), bytes(it)),
    };
    (name.to_owned(), value_of)
}

fn of_image(image: &Image) -> FieldValue {
    match image {
        Image::Absent => FieldValue::new(WAXSEAL_FIELD_ABSENT, &[], &[], &[]),
        Image::Value(value) => FieldValue::new(WAXSEAL_FIELD_VALUE, value, &[], &[]),
        Image::Seal(seal) => FieldValue::new(WAXSEAL_FIELD_SEAL, &seal.to_bytes(), &[], &[seal.number()]),
    }
}

fn of_options(kept: &[u8]) -> FieldValue {
    let Ok(options) = RegisterOptions::decode(kept) else {
        return FieldValue::new(WAXSEAL_FIELD_BYTES, kept, &[], &[]);
    };
    let RegisterOptions { scope, mode, values, retention, history } = options;
    let numbers = [scope as u64, mode as u64, values as u64, history.into(), forever(retention)];
    FieldValue::new(WAXSEAL_FIELD_OPTIONS, kept, options.to_string().as_bytes(), &numbers)
}

fn of_file(file: &FileRef) -> FieldValue {
    FieldValue::new(WAXSEAL_FIELD_FILE, &file.uid.0, &[], &[file.digest, file.records])
}

fn of_tokens(range: &TokenRange) -> FieldValue {
    let TokenRange { keyspace, start, end, replicas, records, bytes, sum } = range;
    let numbers = [*start, *end, *records, *bytes, *sum];
    FieldValue::new(WAXSEAL_FIELD_TOKENS, keyspace.as_bytes(), replicas.join(",").as_bytes(), &numbers)
}
