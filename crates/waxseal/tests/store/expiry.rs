//! When records expire, at the face: units, batches, views, the default of a family, and the space that comes back.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use waxseal::env::ManualClock;
use waxseal::exchange::ExportOptions;
use waxseal::meta::{EXPIRY, Expiry};
use waxseal::registry::{EventChange, Operation, Payload, RegisterOptions, Values};
use waxseal::{Builder, CfOptions, ColumnFamily, Db, Durability, ErrorKind, Result, Seal, Snapshot, WriteOptions};

const HOUR: Duration = Duration::from_secs(3600);
/// In the year 2026.
const NOW: Duration = Duration::from_secs(1_790_000_000);

fn at_now() -> Arc<ManualClock> {
    let clock = Arc::new(ManualClock::default());
    advance(&clock, NOW);
    clock
}

fn in_memory() -> (Db, Arc<ManualClock>) {
    let clock = at_now();
    (Builder::in_memory().clock(clock.clone()).open().unwrap(), clock)
}

fn advance(clock: &ManualClock, by: Duration) {
    clock.advance_nanos(by.as_nanos() as u64);
}

fn keys(cf: &ColumnFamily) -> Vec<String> {
    cf.iter().keys().map(|key| String::from_utf8_lossy(&key.unwrap()).into_owned()).collect()
}

fn keys_at(snapshot: &Snapshot, cf: &ColumnFamily) -> Vec<String> {
    snapshot.range(cf, ..).map(|row| String::from_utf8_lossy(&row.unwrap().0).into_owned()).collect()
}

#[test]
fn a_time_before_the_year_2000_is_refused_and_changes_nothing() -> Result<()> {
    let (db, _) = in_memory();
    let cf = db.column_family("default")?;
    cf.put("key", "kept")?;
    let is_refused = |outcome: Result<()>| outcome.is_err_and(|error| error.kind() == &ErrorKind::Invalid);
    for early in [UNIX_EPOCH, UNIX_EPOCH - HOUR, UNIX_EPOCH + HOUR, UNIX_EPOCH + Duration::from_secs(946_684_799)] {
        assert!(is_refused(cf.put_with("key", "new", WriteOptions::new().expires_at(early))));
        let mut batch = db.batch();
        batch.put(&cf, "other", "value");
        batch.put_with(&cf, "key", "new", WriteOptions::new().expires_at(early));
        assert!(is_refused(batch.commit(Durability::Os)));
    }
    // Given as bytes too.
    let entry = Expiry::at(3_600_000_000);
    assert!(is_refused(cf.put_with("key", "new", WriteOptions::new().entry(EXPIRY, entry))));
    let mut batch = db.batch();
    batch.put_given(&cf, "key", "new", &[(EXPIRY, &entry)]);
    assert!(is_refused(batch.commit(Durability::Os)));
    let mut batch = db.batch();
    batch.put_with(&cf, "key", "new", WriteOptions::new().durability(Durability::Sync));
    assert!(is_refused(batch.commit(Durability::Os)));
    assert_eq!(cf.get("key")?.as_deref(), Some(&b"kept"[..]));
    assert_eq!(cf.get("other")?, None);
    Ok(())
}

#[test]
fn a_record_lives_as_long_as_it_was_said() -> Result<()> {
    let (db, clock) = in_memory();
    let cf = db.column_family("default")?;
    cf.put_with("in", "1", WriteOptions::new().expires_in(HOUR))?;
    cf.put_with("at", "2", WriteOptions::new().expires_at(UNIX_EPOCH + NOW + HOUR))?;
    cf.put_with("past", "3", WriteOptions::new().expires_at(UNIX_EPOCH + NOW - HOUR))?;
    cf.put_with("far", "4", WriteOptions::new().expires_in(Duration::MAX))?;
    let mut batch = db.batch();
    batch.put_with(&cf, "batch", "5", WriteOptions::new().expires_in(2 * HOUR).label("kind", "session"));
    batch.commit(Durability::Os)?;
    let keys = || -> Result<Vec<String>> {
        cf.iter().keys().map(|key| Ok(String::from_utf8_lossy(&key?).into_owned())).collect()
    };
    assert_eq!(keys()?, ["at", "batch", "far", "in"]);
    advance(&clock, HOUR - Duration::from_micros(1));
    assert_eq!(keys()?, ["at", "batch", "far", "in"]);
    advance(&clock, Duration::from_micros(1));
    assert_eq!(keys()?, ["batch", "far"]);
    // What has expired stays so when the clock is set back, and what is written then lives as long as it was said.
    clock.step_back_micros(2 * 3_600_000_000);
    assert_eq!(keys()?, ["batch", "far"]);
    cf.put_with("late", "6", WriteOptions::new().expires_in(HOUR))?;
    assert_eq!(keys()?, ["batch", "far", "late"]);
    Ok(())
}

#[test]
fn a_view_keeps_what_it_saw() -> Result<()> {
    let (db, clock) = in_memory();
    let cf = db.column_family("default")?;
    for n in 0..100u8 {
        cf.put_with([n], [n; 50], WriteOptions::new().expires_in(HOUR * u32::from(n % 2 + 1)))?;
    }
    let snapshot = db.snapshot();
    let (digest, rows) = (snapshot.digest(&cf, ..)?, snapshot.range(&cf, ..).count());
    let (mut cursor, range) = (cf.cursor(), cf.range(..));
    advance(&clock, HOUR + HOUR / 2);
    db.flush()?;
    cf.compact()?;
    assert_eq!((cf.iter().count(), rows), (50, 100));
    assert_eq!(snapshot.digest(&cf, ..)?, digest);
    assert_ne!(cf.digest(..)?, digest);
    assert_eq!(snapshot.range(&cf, ..).count(), 100);
    assert!(snapshot.get(&cf, [0])?.is_some() && cf.get([0])?.is_none());
    assert_eq!(range.count(), 100);
    let mut seen = 0;
    cursor.first()?;
    while cursor.valid() {
        seen += 1;
        cursor.next()?;
    }
    assert_eq!(seen, 100);
    drop((snapshot, cursor));
    cf.compact()?;
    assert_eq!(db.metrics().expired, 50);
    Ok(())
}

#[test]
fn a_family_may_have_a_default_time_to_live() -> Result<()> {
    let (db, clock) = in_memory();
    let options = CfOptions { default_ttl: Some(HOUR), ..CfOptions::default() };
    db.create_column_family("sessions", options)?;
    let cf = db.column_family("sessions")?;
    cf.put("put", "1")?;
    let mut batch = db.batch();
    batch.put(&cf, "batch", "2").put_logged_as_insert(&cf, "insert", "3").delete(&cf, "nothing");
    batch.put_sealed(&cf, "sealed", "4", Seal::of("sealed", "4"));
    batch.put_with(&cf, "longer", "5", WriteOptions::new().expires_in(2 * HOUR));
    batch.commit(Durability::Os)?;
    cf.put_with("label", "6", WriteOptions::new().label("a", "b"))?;
    cf.put_with("never", "7", WriteOptions::new().expires_never())?;
    cf.put_sealed("sealed too", "8", Seal::of("sealed too", "8"))?;
    assert_eq!(cf.iter().count(), 8);
    advance(&clock, HOUR);
    let keys = cf.iter().keys().map(|key| Ok(String::from_utf8_lossy(&key?).into_owned()));
    assert_eq!(keys.collect::<Result<Vec<String>>>()?, ["longer", "never", "sealed", "sealed too"]);
    Ok(())
}

#[test]
fn a_default_time_to_live_is_kept_in_the_store() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let options = CfOptions { default_ttl: Some(Duration::from_micros(1)), ..CfOptions::default() };
    let db = Db::open(dir.path().join("store"))?;
    db.create_column_family("gone", options)?;
    db.close()?;
    drop(db);
    let db = Db::open(dir.path().join("store"))?;
    let cf = db.column_family("gone")?;
    cf.put("key", "value")?;
    assert_eq!(cf.get("key")?, None);
    let zero = CfOptions { default_ttl: Some(Duration::ZERO), ..CfOptions::default() };
    assert!(db.create_column_family("zero", zero).is_err_and(|error| error.kind() == &ErrorKind::Invalid));
    db.close()
}

/// Nothing overlaps what has expired, and nothing is written any more: the space comes back all the same.
#[test]
fn the_space_of_expired_records_comes_back() -> Result<()> {
    for how in 0..2 {
        let (db, clock) = in_memory();
        let cf = db.column_family("default")?;
        for n in 0..20_000u32 {
            cf.put_with(format!("{n:08}"), [7; 100], WriteOptions::new().expires_in(HOUR))?;
        }
        db.settle()?;
        assert_eq!(cf.iter().count(), 20_000);
        advance(&clock, HOUR);
        assert_eq!(cf.iter().count(), 0);
        if how == 0 { db.settle() } else { cf.compact() }?;
        let metrics = db.metrics();
        let records: u64 = metrics.families.iter().flat_map(|of| &of.levels).map(|level| level.records).sum();
        assert_eq!((records, metrics.expired), (0, 20_000));
    }
    Ok(())
}

/// A reader beside the writer judges by its own clock, and never by an earlier time than the writer's compactions did.
#[test]
fn a_read_only_store_sees_records_expire() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let (clock, late) = (at_now(), at_now());
    let writer = Db::builder(dir.path().join("store")).clock(clock.clone()).open()?;
    let [near, far] = ["near", "far"].map(|name| writer.column_family(name).unwrap());
    for cf in [&near, &far] {
        cf.put_with("hour", "1", WriteOptions::new().expires_in(HOUR))?;
        cf.put_with("day", "2", WriteOptions::new().expires_in(24 * HOUR))?;
    }
    writer.flush()?;
    far.put_with("logged", "3", WriteOptions::new().expires_in(HOUR))?;
    let readers = [&clock, &late]
        .map(|clock| Db::builder(dir.path().join("store")).clock(clock.clone()).open_read_only().unwrap());
    let read = |reader: &Db, name: &str| keys(&reader.column_family(name).unwrap());
    let snapshots = [0, 1].map(|n| readers[n].snapshot());
    advance(&clock, HOUR);
    assert_eq!((read(&readers[0], "near"), read(&readers[0], "far")), (vec!["day".to_owned()], vec!["day".to_owned()]));
    assert_eq!(readers[0].column_family("far")?.get("logged")?, None);
    assert_eq!(read(&readers[1], "far"), ["day", "hour", "logged"]);
    near.compact()?;
    assert!(writer.metrics().expired >= 1); // two if the background has looked at `far` by now
    assert_eq!(read(&readers[1], "near"), ["day", "hour"], "nothing changes before a refresh");
    for (n, reader) in readers.iter().enumerate() {
        reader.refresh()?;
        assert_eq!(
            (read(reader, "near"), read(reader, "far")),
            (vec!["day".to_owned()], vec!["day".to_owned()]),
            "{n}"
        );
        let cf = reader.column_family("far")?;
        assert_eq!((cf.get("hour")?, cf.get("day")?.as_deref()), (None, Some(&b"2"[..])));
        assert_eq!(reader.digest(&cf, ..)?, writer.digest(&far, ..)?);
        assert_eq!(keys_at(&snapshots[n], &cf), ["day", "hour", "logged"], "a snapshot keeps what it saw");
    }
    advance(&clock, 23 * HOUR);
    assert!(read(&readers[0], "far").is_empty());
    assert_eq!(read(&readers[1], "far"), ["day"]);
    writer.close()
}

/// Whatever the default of the family that they come into.
#[test]
fn ingested_records_keep_their_own_expiry() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let clock = at_now();
    let open = |name: &str| Db::builder(dir.path().join(name)).clock(clock.clone()).open();
    let (giver, taker) = (open("giver")?, open("taker")?);
    let from = giver.column_family("default")?;
    for n in 0..1000u32 {
        from.put_with(format!("a{n:04}"), [1; 50], WriteOptions::new().expires_in(2 * HOUR))?;
    }
    from.put("stays", "1")?;
    from.put_with("past", "2", WriteOptions::new().expires_in(Duration::ZERO))?;
    let sealed = giver.snapshot();
    let exported = from.export(dir.path().join("out"), ExportOptions::new())?;
    assert_eq!(exported.records, 1001, "what has expired does not leave");
    let options = CfOptions { default_ttl: Some(HOUR), ..CfOptions::default() };
    let to = taker.create_column_family("to", options.clone())?;
    let beside = taker.create_column_family("beside", options)?;
    assert_eq!(to.import(dir.path().join("out"))?.records, 1001);
    assert_eq!(taker.digest(&to, ..)?, sealed.digest(&from, ..)?);
    beside.put("default", "3")?;
    assert_eq!(beside.iter().count(), 1);
    advance(&clock, HOUR);
    assert_eq!((to.iter().count(), beside.get("default")?), (1001, None));
    let expiry = |key: &str| Ok::<_, waxseal::Error>(to.get_meta(key, EXPIRY)?.map(|meta| meta.bytes));
    assert_eq!(expiry("a0000")?, Some(Expiry::at((NOW + 2 * HOUR).as_micros() as u64).to_vec()));
    assert_eq!(expiry("stays")?, None);
    advance(&clock, HOUR);
    assert_eq!(keys(&to), ["stays"]);
    // The table that came in says when its records expire: it is looked at again without a write.
    taker.settle()?;
    let metrics = taker.metrics().families.into_iter().find(|family| family.name == "to").unwrap();
    assert_eq!(metrics.levels.iter().map(|level| level.records).sum::<u64>(), 1);
    assert_eq!(keys(&to), ["stays"]);
    Ok(())
}

/// Record by record, as a follower writes what its leader gave: under the leader's seals, which cover the expiry.
#[test]
fn replicated_records_keep_their_own_expiry() -> Result<()> {
    let ((leader, _), (follower, clock)) = (in_memory(), in_memory());
    let from = leader.column_family("default")?;
    from.put_with("long", "1", WriteOptions::new().expires_in(2 * HOUR))?;
    from.put_with("short", "2", WriteOptions::new().expires_in(HOUR / 2))?;
    from.put("stays", "3")?;
    let to = follower.create_column_family("to", CfOptions { default_ttl: Some(HOUR), ..CfOptions::default() })?;
    let mut batch = follower.batch();
    for key in ["long", "short", "stays"] {
        let (sealed, expiry) = (from.get_sealed(key)?.unwrap(), from.get_meta(key, EXPIRY)?);
        let mut options = WriteOptions::new();
        if let Some(expiry) = expiry {
            let bare = to.put_sealed(key, &sealed.value, sealed.seal);
            assert!(bare.is_err_and(|error| error.kind() == &ErrorKind::Invalid), "the seal covers the expiry");
            options = options.entry(EXPIRY, expiry.bytes);
        }
        to.put_sealed_with(key, &sealed.value, sealed.seal, options)?;
        batch.put_sealed(&to, "in a batch", "4", Seal::of("in a batch", "4"));
    }
    batch.commit(Durability::Os)?;
    to.delete("in a batch")?;
    assert_eq!(follower.digest(&to, ..)?, leader.digest(&from, ..)?);
    for flushed in [false, true] {
        if flushed {
            follower.flush()?;
        }
        assert_eq!(keys(&to), ["long", "short", "stays"]);
    }
    advance(&clock, HOUR / 2);
    assert_eq!(keys(&to), ["long", "stays"]);
    advance(&clock, HOUR);
    assert_eq!(keys(&to), ["long", "stays"], "the default of the family passed");
    advance(&clock, HOUR / 2);
    assert_eq!(keys(&to), ["stays"]);
    Ok(())
}

#[test]
fn a_changed_event_keeps_its_retention() -> Result<()> {
    let (db, clock) = in_memory();
    let (users, registry) = (db.column_family("users")?, db.registry());
    let options = RegisterOptions { values: Values::New, retention: Some(HOUR), ..RegisterOptions::default() };
    registry.register_with("users", "*", options)?;
    users.put("john", "33")?;
    let counts = registry.rewrite_events("users.john", &|_| Ok(EventChange::Replace(Payload::text("erased"))))?;
    assert_eq!((counts.changed, counts.removed), (1, 0));
    let events = registry.query_all("users.john", "Row.Update")?;
    assert_eq!((events.len(), &events[0].payload), (1, &Payload::text("erased")));
    advance(&clock, HOUR + Duration::from_secs(1));
    assert_eq!(registry.query_all("users.john", "Row.Update")?, []);
    // The expired event is in memory or in the files, until it is removed and its part of the log is compacted.
    let versions = || -> Result<Vec<Operation>> {
        let mut versions = Vec::new();
        registry.event_versions("users", &mut |version| {
            versions.push(version.event.key.operation);
            Ok(true)
        })?;
        Ok(versions)
    };
    assert!(versions()?.contains(&Operation::ROW_UPDATE));
    registry.rewrite_events("users.john", &|_| Ok(EventChange::Remove))?;
    registry.compact_events("users")?;
    let left = versions()?;
    assert!(!left.contains(&Operation::ROW_UPDATE) && left.contains(&Operation::REGISTRY_REWRITE), "{left:?}");
    Ok(())
}
