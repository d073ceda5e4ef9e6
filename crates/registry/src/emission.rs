//! Conversion of an operation on a key to an event. docs/format.md, sections 7.2 and 9.6.
//!
//! In mode deferred the event is made from a record and its stamp, when the record is flushed or queried. In modes sync
//! and async it is made from the operation and the same stamp at commit. All modes use this code, so their events are
//! identical.

use std::sync::Arc;
use std::time::Duration;

use waxseal_lsm::codec::put_varint;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::planted;
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_meta::Seal;
use waxseal_meta::annotations::{Annotations, may_have_entries};
use waxseal_meta::builtin::Expiry;
use waxseal_meta::provider::EXPIRY;
use waxseal_meta::stamp::{self, Stamp, StampVerb, Via};

use crate::clock::{TICK_MICROS, Time};
use crate::event::{Event, LEVEL};
use crate::key::{LogKey, put_log_key};
use crate::operation::Operation;
use crate::payload::{AUTHENTICATED, Field, Image, Payload, VIA, ValueImage, put_field};
use crate::registration::{Mode, Options, Registration, Values, reads_before};
use crate::sessions::Session;
use crate::target::{MAX_PATH_BYTES, Target, TargetPath, family_path_bytes, put_family_path};

/// The old value is to be shown as a value.
pub(crate) const OLD_VALUE: u64 = 0;
/// The old value is to be shown as its seal.
pub(crate) const OLD_SEAL: u64 = 1;

const MICROS_IN_SECOND: u64 = 1_000_000;

/// Returns the row operation of a verb.
pub(crate) fn operation_of(verb: StampVerb) -> Operation {
    match verb {
        StampVerb::Insert => Operation::ROW_INSERT,
        StampVerb::Update => Operation::ROW_UPDATE,
        StampVerb::Delete => Operation::ROW_DELETE,
    }
}

/// The effect of a registration on a write, precomputed.
#[derive(Clone)]
pub(crate) struct EmissionPlan {
    pub(crate) mode: Mode,
    /// The family of the registration's target; `None` if it covers all families.
    pub(crate) family: Option<Arc<str>>,
    /// The old value is read before the write.
    pub(crate) reads: bool,
    /// The stamp without verb, time and session.
    pub(crate) stamp: Stamp,
}

/// Precomputes the effect of a registration on the writes that it covers.
pub(crate) fn plan_of(registration: &Registration) -> EmissionPlan {
    let Options { mode, values, retention, history, .. } = registration.options;
    let stamp = Stamp {
        values: match values {
            Values::None => stamp::StampValues::None,
            Values::New => stamp::StampValues::New,
            Values::OldNew => stamp::StampValues::OldNew,
            Values::Hash => stamp::StampValues::Hash,
        },
        via: match &registration.target {
            Target::Cluster => Via::Cluster,
            Target::Family(_) => Via::Family,
            _ => Via::Key,
        },
        elsewhere: mode != Mode::Deferred,
        history,
        retention: retention.map(micros),
        ..Stamp::new(StampVerb::Update, 0, 0)
    };
    let family = match &registration.target {
        Target::Family(name) | Target::Key { family: name, .. } => Some(name.as_str().into()),
        _ => None,
    };
    EmissionPlan { mode, family, reads: reads_before(&registration.options), stamp }
}

fn micros(retention: Duration) -> u64 {
    u64::try_from(retention.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the time to live of a value written at a time, in seconds, rounded up. The time of a commit may be a tick
/// earlier than that from which its caller counted.
fn seconds_left(end: u64, time: Time) -> u64 {
    let left = end.saturating_sub(time.micros());
    left.saturating_sub(TICK_MICROS).div_ceil(MICROS_IN_SECOND).max(u64::from(left > 0))
}

/// Returns when the row of a stamp's event may be dropped, in microseconds since 1970; `None` means never.
pub(crate) fn expires(time: Time, retention: Option<u64>) -> Option<u64> {
    retention.map(|retention| time.micros().saturating_add(retention))
}

/// An operation on a key of a family.
#[derive(Clone, Copy)]
pub(crate) struct Done<'a> {
    pub(crate) family: &'a str,
    pub(crate) key: &'a [u8],
    pub(crate) kind: Kind,
    pub(crate) value: &'a [u8],
    /// The record's metadata, whether bound to its sequence number or not.
    pub(crate) companion: &'a [u8],
    /// 0 if not known yet.
    pub(crate) seqno: Seqno,
}

impl<'a> Done<'a> {
    /// Returns the operation that a record represents.
    pub(crate) fn of(family: &'a str, record: &Record<'a>) -> Done<'a> {
        let Record { key, seqno, kind, value, companion } = *record;
        Done { family, key, kind, value, companion, seqno }
    }
}

/// Returns the expiry of a value, in microseconds since 1970; `None` if it never expires.
pub(crate) fn end_of(companion: &[u8]) -> Option<u64> {
    if !may_have_entries(companion) {
        return None;
    }
    let entry = Annotations::read(companion).and_then(|annotations| annotations.entry(EXPIRY)).ok().flatten();
    entry.filter(|entry| entry.sealed).and_then(|entry| Expiry::read(entry.bytes))
}

/// Returns the image of a version that was overwritten at `time`. A value that had expired by then is shown as absent,
/// since readers no longer saw the value.
pub(crate) fn old_image(record: &Record<'_>, how: u64, time: Time) -> Image {
    let is_over = end_of(record.companion).is_some_and(|end| end <= time.micros());
    match (record.kind, how) {
        (Kind::Put, _) if planted!(OldValueBeyondItsTime, false, is_over) => Image::Absent,
        (Kind::Put, OLD_SEAL) => Image::Seal(Seal::of(record.key, record.value)),
        (Kind::Put, _) => Image::of(record.key, record.value),
        _ => Image::Absent,
    }
}

/// Appends the row of a stamped operation, key and value: the bytes of `Event::encode`, without building an `Event`.
/// Returns the end of the key. `old` is the old value, if it was read before the write. Errors: `Invalid` for a key
/// that `check_key` refuses.
pub(crate) fn put_event(
    done: &Done<'_>,
    stamp: &Stamp,
    who: &Session,
    old: Option<&Image>,
    out: &mut Vec<u8>,
) -> Result<usize> {
    let Done { family, key, kind, value, companion, seqno } = *done;
    let put_path = |out: &mut Vec<u8>| Target::put_key_path(family, key, out);
    put_log_key(out, put_path, (operation_of(stamp.verb), Time(stamp.time)), who.name(), seqno)?;
    let key_end = out.len();
    out.push(LEVEL);
    // Fields of a payload are in the order of their numbers.
    if let Some(end) = end_of(companion) {
        Field::Ttl(seconds_left(end, Time(stamp.time))).put(out);
    }
    let new = match kind {
        Kind::Put if stamp.values == stamp::StampValues::Hash => ValueImage::Seal(Seal::of(key, value)),
        Kind::Put => ValueImage::of(key, value),
        _ => ValueImage::Absent,
    };
    match stamp.values {
        stamp::StampValues::None => {}
        stamp::StampValues::New | stamp::StampValues::Hash => new.put_new(out),
        stamp::StampValues::OldNew => {
            if let Some(old) = old {
                old.put_old(out);
            }
            new.put_new(out);
        }
    }
    if let Some(how) = who.authenticated() {
        put_field(out, AUTHENTICATED, how.as_bytes());
    }
    match stamp.via {
        Via::Key => {}
        Via::Family => {
            put_varint(out, VIA);
            put_varint(out, family_path_bytes(family) as u64);
            put_family_path(family, out);
        }
        Via::Cluster => put_field(out, VIA, &[]),
    }
    match (stamp.values, old) {
        (stamp::StampValues::OldNew, None) => Field::OldKept(OLD_VALUE).put(out),
        (stamp::StampValues::Hash, _) if stamp.history => Field::OldKept(OLD_SEAL).put(out),
        _ => {}
    }
    Ok(key_end)
}

/// Builds an event that does not belong to a write.
pub(crate) fn event_at(
    time: Time,
    watching: &Registration,
    (target, operation): (&Target, Operation),
    mut payload: Payload,
    who: Option<&Session>,
) -> Event {
    let who = who.unwrap_or(&Session::ANONYMOUS);
    if let Some(how) = who.authenticated() {
        payload.push(Field::Authenticated(how.to_owned()));
    }
    if watching.target != *target {
        payload.push(Field::Via(TargetPath::of(&watching.target)));
    }
    let key = LogKey { target: target.clone(), operation, time, client: who.name().to_owned(), seqno: 0 };
    Event { key, payload }
}

/// Returns the retention of a registration's events, in microseconds.
pub(crate) fn retention_of(registration: &Registration) -> Option<u64> {
    registration.options.retention.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

/// Refuses a key that is too long to have events. For a shorter key every event can be encoded, because a value beyond
/// the limit is replaced by its seal.
pub(crate) fn check_key(family: &str, key: &[u8]) -> Result<()> {
    if Target::key(family, key).path_bytes() > MAX_PATH_BYTES {
        return Err(Error::invalid(format!("a key of {} bytes is too long to be watched", key.len())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::MAX_IMAGE_BYTES;
    use crate::sessions::{Identity, Sessions};
    use proptest::prelude::*;
    use waxseal_lsm::seam::{Companions, PendingWrite};
    use waxseal_meta::Sealer;
    use waxseal_meta::builtin::standard;

    /// Builds the event of an operation field by field.
    fn event_of(done: &Done<'_>, stamp: &Stamp, who: &Session, old: Option<Image>) -> Event {
        let Done { family, key, kind, value, companion, seqno } = *done;
        let mut payload = Payload::new();
        if let Some(end) = end_of(companion) {
            payload.push(Field::Ttl(seconds_left(end, Time(stamp.time))));
        }
        let new = |image: fn(&[u8], &[u8]) -> Image| match kind {
            Kind::Put => image(key, value),
            _ => Image::Absent,
        };
        match stamp.values {
            stamp::StampValues::None => {}
            stamp::StampValues::New => payload.push(Field::NewValue(new(Image::of))),
            stamp::StampValues::OldNew => {
                payload.push(Field::NewValue(new(Image::of)));
                payload.push(old.map_or(Field::OldKept(OLD_VALUE), Field::OldValue));
            }
            stamp::StampValues::Hash => {
                payload.push(Field::NewValue(new(|key, value| Image::Seal(Seal::of(key, value)))));
                if stamp.history {
                    payload.push(Field::OldKept(OLD_SEAL));
                }
            }
        }
        if let Some(how) = who.authenticated() {
            payload.push(Field::Authenticated(how.to_owned()));
        }
        match stamp.via {
            Via::Key => {}
            Via::Family => payload.push(Field::Via(TargetPath::of(&Target::family(family)))),
            Via::Cluster => payload.push(Field::Via(TargetPath::of(&Target::Cluster))),
        }
        let target = Target::key(family, key);
        let client = who.name().to_owned();
        let key = LogKey { target, operation: operation_of(stamp.verb), time: Time(stamp.time), client, seqno };
        Event { key, payload }
    }

    #[test]
    fn a_time_to_live_is_that_of_the_caller_though_the_tick_is_earlier() {
        let second = MICROS_IN_SECOND;
        for (tick, seconds) in [(0, 60), (3_000, 60), (TICK_MICROS, 60), (TICK_MICROS + 1, 61)] {
            assert_eq!(seconds_left(70 * second + tick, Time::from_micros(10 * second)), seconds, "{tick}");
        }
        let short = |left| seconds_left(10 * second + left, Time::from_micros(10 * second));
        assert_eq!([0, 1, 5_000, second].map(short), [0, 1, 1, 1]);
    }

    #[test]
    fn a_key_that_may_be_watched_has_an_event() {
        for (key, fits) in
            [(vec![1; MAX_PATH_BYTES - 7], true), (vec![1; MAX_PATH_BYTES - 6], false), (vec![0; 40_000], false)]
        {
            assert_eq!(check_key("f", &key).is_ok(), fits);
            assert_eq!(Target::key("f", key).check().is_ok(), fits);
        }
    }

    proptest! {
        #[test]
        fn the_row_of_an_operation_is_that_of_its_event(
            (family, key, value) in ("[a-z\0]{1,3}", any::<Vec<u8>>(), any::<Vec<u8>>()),
            (long, is_put) in (prop_oneof![8 => Just(0), 1 => Just(MAX_IMAGE_BYTES)], any::<bool>()),
            (values, history, via) in (0..4usize, any::<bool>(), 0..3usize),
            (old, how, ends) in (any::<Option<Vec<u8>>>(), any::<Option<bool>>(), any::<Option<u64>>()),
        ) {
            let all = [Values::None, Values::New, Values::OldNew, Values::Hash];
            let options = Options { values: all[values], history, ..Options::default() };
            let target = [Target::Cluster, Target::family(&family), Target::key(&family, key.clone())][via].clone();
            let stamp = Stamp { time: 7 << 20, ..plan_of(&Registration::new(target, None).with(options)).stamp };
            let value = [value, vec![3; long]].concat();
            let mut companion = Vec::new();
            if let Some(micros) = ends {
                let entries: [(u16, &[u8]); 1] = [(EXPIRY, &Expiry::at(micros))];
                let pending = PendingWrite { family: 1, kind: Kind::Put, key: &key, value: &value, key_hash: None, entries: &entries };
                Sealer::new().with(standard()).on_write(&pending, &mut companion).unwrap();
            }
            let kind = if is_put { Kind::Put } else { Kind::Delete };
            let done = Done { family: &family, key: &key, kind, value: &value, companion: &companion, seqno: 9 };
            let who = match how {
                None => Session::ANONYMOUS,
                Some(vouched) => {
                    let who = Identity::named("Ada");
                    Sessions::default().open(if vouched { who.authenticated("tls") } else { who }).unwrap()
                }
            };
            let old = old.map(|old| Image::of(&key, &old));
            let event = event_of(&done, &stamp, &who, old.clone());
            let (row_key, row) = event.encode().unwrap();
            let mut bytes = b"before".to_vec();
            let key_end = put_event(&done, &stamp, &who, old.as_ref(), &mut bytes).unwrap();
            prop_assert_eq!((&bytes[6..key_end], &bytes[key_end..]), (&row_key[..], &row[..]));
            prop_assert_eq!(Event::decode(&row_key, &row).unwrap(), event);
        }
    }
}
