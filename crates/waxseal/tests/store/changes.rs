//! The change feed beside the rest of the API: seals, expiry and sessions arrive, and a follower has an equal digest.

use std::time::{Duration, SystemTime};

use waxseal::{
    CfOptions, Change, ChangeOperation, ChangePosition, Db, Durability, ErrorKind, MergeOperator, Result, Seal,
    WriteOptions,
};

/// Applies changes to a follower, each commit whole. Families are created with the options of the source.
fn apply(source: &Db, follower: &Db, changes: impl Iterator<Item = Result<Change>>) -> Result<()> {
    let mut batch = follower.batch();
    for change in changes {
        let change = change?;
        if change.operation == ChangeOperation::DropFamily {
            batch.commit(Durability::Os)?;
            batch.clear();
            follower.drop_column_family(&change.family)?;
            continue;
        }
        let known = follower.column_families().iter().any(|family| family.name() == &*change.family);
        let cf = match known {
            true => follower.column_family(&change.family)?,
            false => {
                let options = source.column_family(&change.family)?.options();
                follower.create_column_family(&change.family, CfOptions::clone(&options))?
            }
        };
        batch.apply(&cf, &change);
        if change.ends_commit {
            batch.commit(Durability::Os)?;
            batch.clear();
        }
    }
    Ok(())
}

#[test]
fn a_follower_has_the_digest_of_its_source() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let (db, follower) = (Db::open(dir.path().join("store"))?, Db::memory()?);
    let cf = db.column_family("default")?;
    let counters = CfOptions { merge_operator: Some(MergeOperator::add_i64()), ..CfOptions::default() };
    let counters = db.create_column_family("counters", counters)?;
    let cursor = db.change_cursor("follower")?;
    let far = SystemTime::UNIX_EPOCH + Duration::from_secs(9_000_000_000);
    cf.put_with("a", "1", WriteOptions::new().expires_at(far).label("source", "test"))?;
    cf.put("large", vec![7; 10_000])?;
    let mut batch = db.batch();
    batch.merge(&counters, "n", 3_i64.to_le_bytes()).merge(&counters, "n", 4_i64.to_le_bytes()).put(&cf, "b", "2");
    batch.commit(Durability::Os)?;
    (0..100).try_for_each(|n| cf.put(format!("k{n:03}"), "v"))?;
    cf.delete_range("k020".."k050")?;
    db.bulk_load(&cf, (60..80).map(|n| (format!("k{n:03}"), "loaded")))?;
    let alice = db.session("alice")?;
    alice.register("default.k001", "Row.Update")?;
    alice.column_family("default")?.put("k001", "watched")?;
    cf.delete("b")?;
    db.settle()?;
    db.sync()?;

    let mut sessions = 0;
    let mut changes = cursor.changes()?;
    let seen = changes.by_ref().inspect(|change| {
        let change = change.as_ref().unwrap();
        sessions += usize::from(change.session.is_some());
        match &change.operation {
            ChangeOperation::Put { key, value } if key == b"b" => assert_eq!(change.seal, Some(Seal::of(key, value))),
            ChangeOperation::Put { key, .. } if key == b"a" => assert_eq!(change.expires_at().unwrap(), Some(far)),
            _ => {}
        }
    });
    apply(&db, &follower, seen)?;
    assert_eq!(sessions, 1);
    for name in ["default", "counters"] {
        let (own, its) = (db.column_family(name)?, follower.column_family(name)?);
        assert_eq!(db.digest(&own, ..)?, follower.digest(&its, ..)?, "{name}");
    }
    assert_eq!(follower.column_family("counters")?.get("n")?.unwrap(), 7_i64.to_le_bytes());
    cursor.advance(changes.position())?;
    let dropped = db.column_family("counters")?.id();
    db.drop_column_family("counters")?;
    db.sync()?;
    apply(&db, &follower, &mut changes)?;
    assert!(!follower.column_families().iter().any(|family| family.name() == "counters"));

    let last = changes.position();
    drop((changes, cursor));
    db.close()?;
    let db = Db::open(dir.path().join("store"))?;
    assert_eq!(db.change_cursors().len(), 1);
    let cursor = db.change_cursor("follower")?;
    let again: Vec<Change> = cursor.changes()?.collect::<Result<_>>()?;
    assert_eq!(again.iter().map(|change| &change.operation).collect::<Vec<_>>(), [&ChangeOperation::DropFamily]);
    assert_eq!(again[0].family_id, dropped);
    assert_ne!(db.column_family("counters")?.id(), dropped);
    assert_eq!(db.changes_since(last)?.count(), 0);
    cursor.remove()?;
    Ok(())
}

#[test]
fn a_tail_returns_what_is_committed_while_it_waits_and_ends_with_the_store() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    let at = db.change_cursor("tail")?.position()?;
    let mut tail = db.changes_since(at)?.tail();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..50).for_each(|n| cf.put(format!("{n:02}"), "v").unwrap()));
        let keys: Vec<Vec<u8>> = tail.by_ref().take(50).map(|change| change.unwrap().key().to_vec()).collect();
        assert_eq!(keys, (0..50).map(|n| format!("{n:02}").into_bytes()).collect::<Vec<_>>());
    });
    db.close()?;
    assert_eq!(tail.next().unwrap().unwrap_err().kind(), &ErrorKind::Closed);
    assert!(tail.next().is_none());
    Ok(())
}

#[test]
fn refused_positions_say_where_to_begin() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    cf.put("a", "1")?;
    let at = db.change_cursor("copy")?.position()?;
    assert_eq!(at.to_string().parse::<ChangePosition>()?, at);
    let error = db.changes_since(ChangePosition { seqno: 0, ..at }).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::OutOfReach);
    assert!(error.to_string().contains(&at.to_string()), "{error}");
    let mut batch = db.batch();
    let dropped = db.create_column_family("gone", CfOptions::default()).and_then(|_| db.drop_column_family("gone"));
    dropped?;
    db.sync()?;
    let change = db.changes_since(at)?.next().unwrap()?;
    assert_eq!(batch.apply(&cf, &change).commit(Durability::Os).unwrap_err().kind(), &ErrorKind::Invalid);
    let (cursor, removed) = (db.change_cursor("copy")?, db.change_cursor("copy")?);
    cursor.remove()?;
    assert_eq!(removed.advance(at).unwrap_err().kind(), &ErrorKind::Invalid);
    assert!(db.change_cursors().is_empty());
    Ok(())
}
