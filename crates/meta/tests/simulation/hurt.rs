//! Damage in a world: bits of its tables are flipped, and every read must be correct or report a loss.

use std::collections::BTreeMap;
use std::ops::Bound;

use waxseal_lsm::db::{At, Db, Family, TableRef};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::options::Durability;
use waxseal_lsm::order::Order;
use waxseal_meta::integrity::{Outcome, RepairOptions, Report, VerifyOptions, repair, verify};

use crate::events::{self, EVENTS, events_shown};
use crate::history::History;
use crate::oracle::{Change, Content};
use crate::sweep::LOSSES;
use crate::world::{CONFIGS, Config, World, users};

/// Upper bound on the errors of one scan in these tests.
const MOST_ERRORS: usize = 10_000;

/// The errors found while reading the whole store.
#[derive(Default, Debug)]
pub struct Seen {
    pub errors: Vec<Error>,
    /// Number of keys whose point read failed.
    pub keys: usize,
}

/// Reads the whole store, by key and with cursors. Panics at a wrong result, or if a record is missing without an
/// error.
pub fn read_all(db: &Db, content: &Content, at: &str) -> Seen {
    let mut seen = Seen::default();
    let names: Vec<String> = users(db).iter().map(|family| family.name().to_owned()).collect();
    let logs = usize::from(content.contains_key(EVENTS));
    assert_eq!(names.len() + logs, content.len(), "{at}: families {names:?}");
    if let Some(told) = content.get(EVENTS) {
        read_log(db, told, &mut seen.errors, at);
    }
    for (name, rows) in content.iter().filter(|(name, _)| *name != EVENTS) {
        let family = db.family(name).unwrap_or_else(|| panic!("{at}: family {name} is gone"));
        let absent: [&[u8]; 4] = [b"user", b"user0305", &[7, 0, 9], &[0xff; 9]];
        for key in rows.keys().map(Vec::as_slice).chain(absent) {
            let mut found = None;
            match db.get(&family, key, At::Latest, &mut |record| found = Some(record.value.to_vec())) {
                Ok(_) => assert_eq!(found.as_ref(), rows.get(key), "{at}: get {name} {key:?}"),
                Err(error) => {
                    if let Some((from, to)) = range(&error) {
                        assert!(is_within(family.order(), key, from, to), "{at}: {key:?} in {name}: {error}");
                    }
                    seen.keys += 1;
                    seen.errors.push(error);
                }
            }
        }
        for backwards in [false, true] {
            scan(db, &family, rows, backwards, &mut seen.errors, at);
        }
    }
    seen
}

/// Checks that the event log counts each event correctly, or reports a loss.
fn read_log(db: &Db, told: &BTreeMap<Vec<u8>, Vec<u8>>, errors: &mut Vec<Error>, at: &str) {
    let log = db.family(events::LOG).expect("the log of events");
    let before = errors.len();
    match events_shown(db, &log, errors) {
        Ok(shown) if errors.len() == before => assert_eq!(&shown, told, "{at}: the log of events"),
        Ok(shown) => assert_no_more(&shown, told, at),
        Err(error) => errors.push(error),
    }
}

/// Checks that every event shown by a damaged log happened at least as often as shown.
fn assert_no_more(shown: &BTreeMap<Vec<u8>, Vec<u8>>, told: &BTreeMap<Vec<u8>, Vec<u8>>, at: &str) {
    let count = |events: &BTreeMap<Vec<u8>, Vec<u8>>, name: &[u8]| {
        events.get(name).map_or(0, |count| u64::from_le_bytes(count[..].try_into().expect("eight bytes")))
    };
    for name in shown.keys() {
        let (shown, told) = (count(shown, name), count(told, name));
        assert!(shown <= told, "{at}: {name:?} happened {told} times, and is told of {shown} times");
    }
}

/// Scans and continues after each error; each missing record must lie in a range that an error named.
fn scan(
    db: &Db,
    family: &Family,
    rows: &BTreeMap<Vec<u8>, Vec<u8>>,
    backwards: bool,
    errors: &mut Vec<Error>,
    at: &str,
) {
    let name = family.name();
    let mut missing = rows.clone();
    let before = errors.len();
    let mut cursor = match db.cursor(family, At::Latest, (Bound::Unbounded, Bound::Unbounded)) {
        Ok(cursor) => cursor,
        Err(error) => return errors.push(error),
    };
    let mut outcome = if backwards { cursor.last() } else { cursor.first() };
    let mut last: Option<Vec<u8>> = None;
    loop {
        match outcome {
            Err(error) => {
                errors.push(error);
                assert!(errors.len() - before < MOST_ERRORS, "{at}: a scan of {name} never ends");
            }
            Ok(()) if !cursor.valid() => break,
            Ok(()) => {
                let key = cursor.key();
                let expected = missing.remove(key);
                assert_eq!(Some(cursor.value()), expected.as_deref(), "{at}: a scan of {name} shows {key:?}");
                let turned = last.as_ref().is_some_and(|last| {
                    let order = family.order().compare(last, key);
                    if backwards { order.is_le() } else { order.is_ge() }
                });
                assert!(!turned, "{at}: a scan of {name} shows {key:?} after {last:?}");
                last = Some(key.to_vec());
            }
        }
        outcome = if backwards { cursor.prev() } else { cursor.next() };
    }
    for key in missing.keys() {
        let is_told = |error: &Error| range(error).is_none_or(|(from, to)| is_within(family.order(), key, from, to));
        assert!(errors[before..].iter().any(is_told), "{at}: a scan of {name}, backwards {backwards}, hides {key:?}");
    }
}

fn range(error: &Error) -> Option<(&[u8], &[u8])> {
    let range = error.damage().and_then(|damage| damage.key_range.as_ref());
    range.map(|(from, to)| (&from[..], &to[..]))
}

fn is_within(order: &Order, key: &[u8], from: &[u8], to: &[u8]) -> bool {
    order.compare(from, key).is_le() && order.compare(key, to).is_le()
}

/// Flips one or several nearby bits of a table. Returns a description, or `None` if no table exists.
pub fn strike(world: &World) -> Option<String> {
    let mut tables = Vec::new();
    let log = world.db().family(events::LOG).filter(|_| world.config.events);
    for family in users(world.db()).into_iter().chain(log) {
        for table in world.db().tables(&family).expect("tables") {
            tables.push((table.name(), table.meta().size, data_end(&table)));
        }
    }
    if tables.is_empty() {
        return None;
    }
    let (name, size, data) = tables.swap_remove(world.below(tables.len() as u64) as usize);
    let path = world.dir.join(&name);
    // Mostly records; sometimes index, filter, properties, header or footer.
    let byte = if world.one_in(4) || data <= 64 { world.below(size - 8) } else { 64 + world.below(data - 64) };
    let bits: &[u64] = match world.below(3) {
        0 => &[0],
        1 => &[0, 9],
        _ => &[1, 7, 19, 34, 50],
    };
    for bit in bits {
        world.sim.flip(&path, byte * 8 + bit).expect("a byte of the table");
    }
    Some(format!("{} bits from byte {byte} of {name}", bits.len()))
}

/// Returns the end of a table's data blocks, or the file size if the table cannot be opened.
pub fn data_end(table: &TableRef) -> u64 {
    let mut beyond = table.meta().largest.clone();
    match table.family().order().is_bytewise() {
        true => beyond.push(0xff),
        false => beyond.clear(), // reversed order
    }
    table.table().map_or(table.meta().size, |open| open.approximate_offset(&beyond))
}

/// Damages a table, and checks that reads are correct or report it: before and after a repair, after a reopen, and
/// after the lost records are given up. The oracle continues with the remaining records.
pub fn hurt_and_mend(world: &mut World) -> Result<()> {
    world.db().flush()?;
    world.oracle.sync();
    let Some(at) = strike(world) else { return Ok(()) };
    let reopen = |world: &mut World| {
        world.kill(waxseal_lsm::env::sim::Crash::Process);
        world.open()
    };
    if world.one_in(3) {
        reopen(world)?;
    }
    if world.one_in(2) {
        read_all(world.db(), world.oracle.now(), &format!("{at}, struck"));
    }
    mend(world, &at, true).map(drop)
}

/// Repairs the store, checks it, and gives up lost records. With `reopens`, the store is sometimes killed and reopened
/// in between.
pub fn mend(world: &mut World, at: &str, reopens: bool) -> Result<Report> {
    let report = repair(world.db(), RepairOptions::default())?;
    let seen = read_all(world.db(), world.oracle.now(), &format!("{at}, repaired: {report}"));
    assert!(!report.is_clean() || seen.errors.is_empty(), "{at}: a clean repair, and {:?}\n{report}", seen.errors);
    if reopens && world.one_in(3) {
        world.kill(waxseal_lsm::env::sim::Crash::Process);
        world.open()?;
        let again = read_all(world.db(), world.oracle.now(), &format!("{at}, reopened"));
        assert_eq!(again.keys, seen.keys, "{at}: repaired {:?}, reopened {:?}\n{report}", seen.errors, again.errors);
    }
    world.tally.add(if report.is_clean() { "mended" } else { "given up" }, 1);
    let given_up = if report.is_clean() { None } else { Some(give_up(world, at)?) };
    let look = verify(world.db(), VerifyOptions::default())?;
    assert!(look.damage.is_empty(), "{at}: {report}\ngiven up: {given_up:?}\nand {look}");
    Ok(report)
}

/// The smallest and the greatest key of a span.
type KeySpan = (Vec<u8>, Vec<u8>);

/// Accepts the loss: records outside the lost ranges must be unchanged, and the oracle continues with the records left
/// inside.
fn give_up(world: &mut World, at: &str) -> Result<Report> {
    let mut lost: BTreeMap<String, Vec<KeySpan>> = BTreeMap::new();
    for family in world.db().families() {
        for (_, lost_range) in world.db().lost_ranges(&family) {
            lost.entry(family.name().to_owned()).or_default().push((lost_range.from.0, lost_range.to.0));
        }
    }
    world.history = History::default();
    let report = repair(world.db(), RepairOptions { accept_loss: true, ..RepairOptions::default() })?;
    for finding in &report.damage {
        if let (Outcome::Accepted, Some(family), Some(range)) = (finding.outcome, &finding.family, &finding.key_range) {
            lost.entry(family.clone()).or_default().push(range.clone());
        }
    }
    let found = world.content().unwrap_or_else(|error| panic!("{at}: given up, and {error}\n{report}"));
    for (name, rows) in world.oracle.now() {
        if name == EVENTS {
            match lost.contains_key(events::LOG) {
                true => assert_no_more(&found[name], rows, at),
                false => assert_eq!(&found[name], rows, "{at}: the log of events after giving up\n{report}"),
            }
            continue;
        }
        let family = world.db().family(name).expect("family");
        for key in rows.keys().chain(found[name].keys()) {
            let is_lost = |(from, to): &(Vec<u8>, Vec<u8>)| is_within(family.order(), key, from, to);
            if !lost.get(name).is_some_and(|spans| spans.iter().any(is_lost)) {
                assert_eq!(found[name].get(key), rows.get(key), "{at}: {key:?} of {name} after giving up\n{report}");
            }
        }
    }
    world.oracle.adopt(found);
    Ok(report)
}

/// A repair interrupted at any step leaves each table unchanged or replaced, and can be repeated.
pub fn stopped_repairs(config: Config, most: usize) -> u64 {
    let mut points = 0;
    for seed in 0..4 {
        let begin = || {
            let mut world = World::new(900 + seed, config);
            world.open().expect("a new store");
            for n in 0..60u8 {
                let change = Change::Put("default".into(), world.key(), vec![n; 40]);
                world.commit(vec![change], Durability::Os).expect("put");
            }
            world.db().flush().expect("flush");
            world.oracle.sync();
            let at = strike(&world).expect("a table");
            (world, at)
        };
        let (mut whole, at) = begin();
        let start = whole.sim.steps();
        mend(&mut whole, &at, false).expect("a repair");
        let end = whole.sim.steps();
        let stride = ((end - start) as usize).div_ceil(most).max(1);
        for (n, step) in (start..end).step_by(stride).enumerate() {
            for loss in LOSSES {
                let (mut world, at) = begin();
                world.sim.crash_at(step);
                let _ = repair(world.db(), RepairOptions::default());
                world.kill(loss(seed ^ n as u64));
                world.open().unwrap_or_else(|error| panic!("{at}, stopped at {step}: {error}"));
                let at = format!("{at}, {}, repair stopped at step {step}", config.name);
                read_all(world.db(), world.oracle.now(), &at);
                let family = world.db().family("default").expect("family");
                let fenced = !world.db().lost_ranges(&family).is_empty();
                let look = verify(world.db(), VerifyOptions::default()).expect("verify");
                let torn = fenced && look.structural + look.corrupted > 0;
                assert!(!torn, "{at}: a fence, and the table that it stands for: {look}");
                // The edit that replaces the table also adds the lost range. After it the repair is complete, and only
                // accepting the loss remains.
                match fenced {
                    true => give_up(&mut world, &at).map(drop).expect("what is lost given up"),
                    false => mend(&mut world, &at, false).map(drop).expect("the repair again"),
                }
                points += 1;
            }
        }
    }
    points
}

#[test]
fn stopped_repairs_leave_a_table_or_what_replaces_it() {
    let points: u64 = [1, 4, 5].iter().map(|config| stopped_repairs(CONFIGS[*config], 12)).sum();
    println!("{points} crash points in repairs");
    assert!(points >= 100);
}
