//! Entry points for fuzzers: input is either refused, or encodes back to the same bytes. Nothing panics.

use waxseal_lsm::version::ChangePosition;
use waxseal_registry::engine_log::EngineLine;
use waxseal_registry::event::Event;
use waxseal_registry::key::{LogKey, Query, ScanStep, bind, read_registry_key, registry_key};
use waxseal_registry::registration::Registration;
use waxseal_registry::sessions::{Identity, read_session_key};
use waxseal_registry::target::{NoTables, Schema, TableColumns, TableName, Target};

/// Decodes bytes as a key of the log and of the registry. The bytes after the first 00 FF 00 FF are the value of the
/// row.
pub fn log_key(data: &[u8]) {
    let cut = data.windows(4).position(|window| window == [0, 0xFF, 0, 0xFF]);
    let (key, value) = cut.map_or((data, &[][..]), |cut| (&data[..cut], &data[cut + 4..]));
    if let Ok(read) = LogKey::decode(key) {
        assert_eq!(read.encode().ok().as_deref(), Some(key));
        let mut bound = key.to_vec();
        bind(&mut bound, read.time, read.seqno).expect("a key that was read");
        assert_eq!(bound, key);
        let plan = Query::of(read.target.clone()).plan().expect("the target of a key");
        assert_eq!(plan.step(key).ok(), Some(ScanStep::Take));
        let latest = Query::of(read.target).latest();
        let _ = latest.expect("the target of a key").step(Some(key)).expect("a key that was read");
    }
    if let Ok((target, operation)) = read_registry_key(key) {
        assert_eq!(registry_key(&target, operation).ok().as_deref(), Some(key));
    }
    if let Ok(event) = Event::decode(key, value) {
        let (key, value) = event.encode().expect("an event that was read");
        assert_eq!(Event::decode(&key, &value).ok().as_ref(), Some(&event));
    }
    if let Ok(line) = EngineLine::decode(value) {
        let bytes = line.encode().expect("a line that was read");
        assert_eq!(EngineLine::decode(&bytes).ok(), Some(line));
    }
    let _ = (Identity::read(value), read_session_key(key));
    if let Ok(registration) = Registration::decode(key, value) {
        let (key, value) = registration.encode().expect("a registration that was read");
        assert_eq!(Registration::decode(&key, &value).ok().as_ref(), Some(&registration));
    }
}

/// Parses bytes as the text of a target, as a path, and as a position of the change feed.
pub fn target_text(data: &[u8]) {
    if let Ok(target) = Target::from_path(data) {
        assert_eq!(target.to_path().ok().as_deref(), Some(data));
        comes_back(&target);
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(position) = text.parse::<ChangePosition>() {
        assert_eq!(position.to_string().parse().ok(), Some(position));
    }
    if let Ok(target) = Target::parse_long(text) {
        comes_back(&target);
    }
    for schema in SCHEMAS {
        if let Ok(target) = Target::parse(text, *schema) {
            comes_back(&target);
        }
    }
}

const SCHEMAS: &[&dyn Schema] = &[&NoTables, &Lengths];

fn comes_back(target: &Target) {
    assert_eq!(Target::parse_long(&format!("{target:#}")).ok().as_ref(), Some(target));
    for schema in SCHEMAS {
        assert_eq!(Target::parse(&target.text(*schema), *schema).ok().as_ref(), Some(target));
    }
    let path = target.to_path().expect("a target that was read");
    assert_eq!(Target::from_path(&path).ok().as_ref(), Some(target));
}

/// A schema in which the length of a name determines its kind.
struct Lengths;

impl Schema for Lengths {
    fn is_keyspace(&self, name: &str) -> bool {
        name.len() < 3
    }
    fn shape(&self, table: &TableName) -> Option<TableColumns> {
        (table.table.len() < 4)
            .then_some(TableColumns { partition: table.table.len(), clustering: table.keyspace.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_what_they_are_called() {
        let keys: [&[u8]; 4] = [
            include_bytes!("../../../../fuzz/seeds/log_key/update-of-john"),
            include_bytes!("../../../../fuzz/seeds/log_key/update-of-a-key"),
            include_bytes!("../../../../fuzz/seeds/log_key/flush"),
            include_bytes!("../../../../fuzz/seeds/log_key/decommission"),
        ];
        for data in keys {
            let cut = data.windows(4).rposition(|window| window == [0, 0xFF, 0, 0xFF]).unwrap();
            Event::decode(&data[..cut], &data[cut + 4..]).unwrap();
            log_key(data);
        }
        let registrations: [&[u8]; 2] = [
            include_bytes!("../../../../fuzz/seeds/log_key/registration"),
            include_bytes!("../../../../fuzz/seeds/log_key/registration-of-all"),
        ];
        for data in registrations {
            let cut = data.windows(4).rposition(|window| window == [0, 0xFF, 0, 0xFF]).unwrap();
            Registration::decode(&data[..cut], &data[cut + 4..]).unwrap();
            log_key(data);
        }
        for data in [
            &include_bytes!("../../../../fuzz/seeds/target_text/long")[..],
            include_bytes!("../../../../fuzz/seeds/target_text/escaped"),
            include_bytes!("../../../../fuzz/seeds/target_text/file"),
        ] {
            Target::parse_long(std::str::from_utf8(data).unwrap()).unwrap();
            target_text(data);
        }
        let path = include_bytes!("../../../../fuzz/seeds/target_text/path-of-john");
        Target::from_path(path).unwrap();
        target_text(path);
    }
}
