//! Seals as a user meets them: on by default, handed in and out, through every place where a record lives; plain nodes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use waxseal::env::{Fs, MemoryFs, Open};
use waxseal::meta::{EXPIRY, LABELS};
use waxseal::{
    Builder, CfOptions, ColumnFamily, Compression, Db, Durability, ErrorKind, Order, RepairOptions, Result,
    ScrubOptions, Seal, Slice, Verify, VerifyOptions, WriteOptions,
};
use waxseal_testing::store::Backwards;

/// A store in memory that is opened more than once.
struct Shelf {
    fs: Arc<MemoryFs>,
}

impl Shelf {
    fn new() -> Shelf {
        Shelf { fs: Arc::new(MemoryFs::new()) }
    }

    fn builder(&self) -> Builder {
        Db::builder("store").fs(self.fs.clone())
    }
}

fn invalid<T: std::fmt::Debug>(outcome: Result<T>) {
    assert_eq!(outcome.unwrap_err().kind(), &ErrorKind::Invalid);
}

#[test]
fn a_seal_given_comes_back_from_wherever_its_record_lives() -> Result<()> {
    let shelf = Shelf::new();
    let db = shelf.builder().open()?;
    let cf = db.column_family("default")?;
    let seal = Seal::of("key", "value");
    cf.put_sealed("key", "value", seal)?;
    let snapshot = db.snapshot();
    let is_back = |cf: &ColumnFamily| {
        let sealed = cf.get_sealed("key").unwrap().unwrap();
        assert_eq!((&sealed.value[..], sealed.seal), (&b"value"[..], seal));
        assert_eq!(Seal::from_bytes(sealed.seal.to_bytes()), seal);
        sealed.seqno
    };
    assert_eq!(is_back(&cf), 1);
    db.flush()?;
    is_back(&cf);
    drop(snapshot);
    for n in 0..5 {
        cf.put(format!("other {n}"), "value")?;
        cf.compact()?;
        is_back(&cf);
    }
    let counts = db.seals().unwrap();
    assert_eq!((counts.given, counts.computed, counts.derived), (1, 5, 0), "no seal is made on the way");
    db.close()?;

    let db = shelf.builder().open()?;
    is_back(&db.column_family("default")?);
    assert_eq!(db.column_family("default")?.get_sealed("none")?, None);
    db.column_family("default")?.delete("key")?;
    assert_eq!(db.column_family("default")?.get_sealed("key")?, None);
    Ok(())
}

#[test]
fn a_seal_survives_in_the_log_alone() -> Result<()> {
    let shelf = Shelf::new();
    let db = shelf.builder().open()?;
    let cf = db.column_family("default")?;
    cf.put("made", "here")?;
    cf.put_sealed("given", "there", Seal::of("given", "there"))?;
    db.close()?;
    let db = shelf.builder().open()?;
    let cf = db.column_family("default")?;
    assert_eq!(cf.get_sealed("made")?.unwrap().seal, Seal::of("made", "here"));
    assert_eq!(cf.get_sealed("given")?.unwrap().seal, Seal::of("given", "there"));
    Ok(())
}

#[test]
fn a_snapshot_hands_seals_out_too() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    cf.put("key", "before")?;
    let snapshot = db.snapshot();
    cf.put("key", "after")?;
    assert_eq!(snapshot.get_sealed(&cf, "key")?.unwrap().seal, Seal::of("key", "before"));
    assert_eq!(cf.get_sealed("key")?.unwrap().seal, Seal::of("key", "after"));
    Ok(())
}

#[test]
fn a_wrong_seal_is_refused_and_changes_nothing() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    cf.put("key", "old")?;
    invalid(cf.put_sealed("key", "new", Seal::of("key", "mew")));
    invalid(cf.put_sealed("key", "new", Seal::of("kez", "new")));
    invalid(cf.put_sealed("key", "", Seal::from_bytes([0; 8])));
    let mut batch = db.batch();
    batch.put(&cf, "a", "1").put_sealed(&cf, "key", "new", Seal::of("key", "mew")).put(&cf, "b", "2");
    invalid(batch.commit(Durability::Os));
    assert_eq!(cf.get("key")?.unwrap(), "old");
    assert_eq!(cf.iter().count(), 1);
    batch.clear();
    batch.put_sealed(&cf, "key", "new", Seal::of("key", "new"));
    batch.commit(Durability::Os)?;
    assert_eq!(cf.get("key")?.unwrap(), "new");
    assert_eq!(db.seals().unwrap().given, 1, "only what was right counts");
    Ok(())
}

#[test]
fn a_plain_store_keeps_nothing_beside_its_values() -> Result<()> {
    let db = Builder::in_memory().plain().open()?;
    let cf = db.column_family("default")?;
    cf.put("key", "value")?;
    assert_eq!(db.seals(), None);
    invalid(cf.put_sealed("key", "other", Seal::of("key", "other")));
    invalid(cf.get_sealed("key"));
    invalid(cf.put_with("key", "other", WriteOptions::new().entry(1, "beside")));
    let mut batch = db.batch();
    batch.put_given(&cf, "key", "other", &[(1, b"beside")]);
    invalid(batch.commit(Durability::Os));
    assert_eq!(cf.get("key")?.unwrap(), "value");
    assert_eq!(cf.with_verify(Verify::Always).get("key")?.unwrap(), "value", "there is nothing to check by");
    Ok(())
}

fn fill(cf: &ColumnFamily, value: &str, keys: std::ops::Range<u32>) -> Result<()> {
    keys.into_iter().try_for_each(|key| cf.put(format!("{key:04}"), format!("{value} {key}")))
}

/// Everything that is read says what was written; how many records have a seal.
fn sealed_among(cf: &ColumnFamily, value: &str, keys: std::ops::Range<u32>) -> Result<usize> {
    let mut sealed = 0;
    for key in keys {
        let (name, value) = (format!("{key:04}"), format!("{value} {key}"));
        assert_eq!(cf.get(&name)?.unwrap(), *value);
        match cf.get_sealed(&name) {
            Ok(found) => {
                assert_eq!(found.unwrap().seal, Seal::of(&name, &value));
                sealed += 1;
            }
            Err(error) => assert_eq!(error.kind(), &ErrorKind::Invalid, "{error}"),
        }
    }
    Ok(sealed)
}

#[test]
fn a_plain_node_carries_the_seals_of_a_sealed_store() -> Result<()> {
    let shelf = Shelf::new();
    let db = shelf.builder().open()?;
    fill(&db.column_family("default")?, "sealed", 0..300)?;
    db.settle()?;
    db.close()?;

    let db = shelf.builder().plain().open()?;
    let cf = db.column_family("default")?;
    fill(&cf, "plain", 300..400)?;
    cf.delete("0000")?;
    cf.compact()?;
    assert_eq!(cf.iter().count(), 399);
    assert_eq!(cf.get("0299")?.unwrap(), "sealed 299");
    db.close()?;

    let db = shelf.builder().open()?;
    let cf = db.column_family("default")?;
    assert_eq!(cf.iter().count(), 399);
    assert_eq!(cf.get("0000")?, None);
    assert_eq!(sealed_among(&cf, "sealed", 1..300)?, 299, "carried by length, untouched");
    assert_eq!(sealed_among(&cf, "plain", 300..400)?, 0, "and none was made");
    // What such a store writes anew has seals again, and what it cannot seal it counts.
    fill(&cf, "sealed", 300..310)?;
    cf.compact()?;
    assert_eq!(sealed_among(&cf, "sealed", 1..310)?, 309);
    let counts = db.seals().unwrap();
    assert_eq!(counts.adopted + counts.unsealed, 90, "{counts:?}");
    assert_eq!(sealed_among(&cf, "plain", 310..400)? as u64, counts.adopted);
    Ok(())
}

#[test]
fn a_plain_node_takes_no_sealed_store_for_damaged() -> Result<()> {
    let shelf = Shelf::new();
    let db = shelf.builder().open()?;
    fill(&db.column_family("default")?, "sealed", 0..100)?;
    db.flush()?;
    db.close()?;
    let db = shelf.builder().plain().open()?;
    for report in
        [db.verify(VerifyOptions::default())?, db.scrub(ScrubOptions::default())?, db.repair(RepairOptions::default())?]
    {
        assert!(report.damage.is_empty(), "{report}");
    }
    db.close()?;
    let cf = shelf.builder().open()?.column_family("default")?;
    assert_eq!(sealed_among(&cf, "sealed", 0..100)?, 100);
    Ok(())
}

#[test]
fn a_plain_node_drops_no_expiry_and_no_label() -> Result<()> {
    for options in [WriteOptions::new().label("by", "me"), WriteOptions::new().expires_in(Duration::from_secs(3600))] {
        let shelf = Shelf::new();
        let db = shelf.builder().open()?;
        db.column_family("default")?.put_with("key", "value", options)?;
        db.close()?;
        let refused = shelf.builder().plain().open().unwrap_err();
        assert_eq!(refused.kind(), &ErrorKind::Invalid);
        assert!(refused.to_string().contains("without `plain` and flush"), "{refused}");
        let db = shelf.builder().open()?;
        let entry = |db: &Db| -> Result<bool> {
            let cf = db.column_family("default")?;
            Ok([EXPIRY, LABELS].into_iter().any(|id| cf.get_meta("key", id).is_ok_and(|meta| meta.is_some())))
        };
        assert!(entry(&db)?);
        db.flush()?;
        db.close()?;
        shelf.builder().plain().open()?.close()?;
        assert!(entry(&shelf.builder().open()?)?);
    }
    Ok(())
}

#[test]
fn a_sealed_node_takes_over_a_plain_store() -> Result<()> {
    let shelf = Shelf::new();
    let db = shelf.builder().plain().open()?;
    let cf = db.column_family("default")?;
    fill(&cf, "plain", 0..100)?;
    db.flush()?;
    fill(&cf, "plain", 100..200)?; // in the log alone
    db.close()?;

    let db = shelf.builder().open()?;
    let cf = db.column_family("default")?;
    fill(&cf, "sealed", 200..300)?;
    assert_eq!(cf.iter().count(), 300);
    sealed_among(&cf, "plain", 0..200)?;
    assert_eq!(sealed_among(&cf, "sealed", 200..300)?, 100);
    cf.compact()?;
    let counts = db.seals().unwrap();
    let sealed = sealed_among(&cf, "plain", 0..200)?;
    assert!(counts.adopted + counts.unsealed >= 200, "each is counted: {counts:?}");
    assert!(sealed as u64 <= counts.adopted, "and none is sealed in silence: {counts:?}");
    assert_eq!(sealed_among(&cf, "sealed", 200..300)?, 100);
    Ok(())
}

#[test]
fn a_sealed_node_takes_over_the_range_deletes_of_a_plain_store() -> Result<()> {
    let shelf = Shelf::new();
    let db = shelf.builder().plain().open()?;
    let cf = db.column_family("default")?;
    fill(&cf, "plain", 0..100)?;
    db.flush()?;
    cf.clear()?; // in the log alone, without a seal
    db.close()?;
    for records in [0, 10, 20_u32] {
        let db = shelf.builder().open()?;
        let cf = db.column_family("default")?;
        assert_eq!(cf.iter().count(), records as usize);
        fill(&cf, "sealed", records..records + 10)?;
        db.flush()?;
        assert!(db.verify(VerifyOptions::default())?.is_clean());
        db.close()?;
    }
    Ok(())
}

#[test]
fn what_reads_check_is_said_by_builder_family_and_handle() -> Result<()> {
    let db = Builder::in_memory().verify_reads(Verify::Never).verify_scans(Verify::Always).open()?;
    let cf = db.column_family("default")?;
    cf.put("key", "value")?;
    db.flush()?;
    for verify in [Verify::Never, Verify::OnFill, Verify::Sampled(3), Verify::Always] {
        let cf = cf.with_verify(verify);
        assert_eq!(cf.get("key")?.unwrap(), "value");
        assert_eq!(cf.get("none")?, None);
        assert_eq!(cf.multi_get(["key", "none"])?, [Some("value".as_bytes().into()), None]);
        assert_eq!(cf.iter().rev().count(), 1);
        assert_eq!(db.snapshot().get(&cf, "key")?.unwrap(), "value");
        assert_eq!(db.snapshot().iter(&cf).count(), 1);
        let mut cursor = cf.cursor();
        cursor.seek("a")?;
        assert_eq!(cursor.value(), b"value");
    }
    let counts = db.seals().unwrap();
    assert_eq!((counts.missing, counts.hit, counts.corrupted), (0, 0, 0));
    Ok(())
}

impl Shelf {
    /// A store of uncompressed tables with `records` in one of them, closed; the table's path.
    fn with_table(records: u32) -> Result<(Shelf, PathBuf)> {
        let shelf = Shelf::new();
        let db = shelf.builder().compression(Compression::None).open()?;
        fill(&db.column_family("default")?, "sealed", 0..records)?;
        db.flush()?;
        db.close()?;
        let names = shelf.fs.list(Path::new("store")).unwrap();
        let mut tables = names.into_iter().filter(|name| name.ends_with(".tbl"));
        let table = Path::new("store").join(tables.next().unwrap());
        assert_eq!(tables.next(), None);
        Ok((shelf, table))
    }

    /// Changes bytes of a file; gives back what they were.
    fn change(&self, path: &Path, offset: u64, change: impl FnOnce(&mut [u8]), length: usize) -> Vec<u8> {
        let file = self.fs.open(path, Open::Write).unwrap();
        let mut before = vec![0; length];
        file.read_at(&mut before, offset).unwrap();
        let mut bytes = before.clone();
        change(&mut bytes);
        file.write_at(&bytes, offset).unwrap();
        before
    }

    fn length(&self, path: &Path) -> u64 {
        self.fs.open(path, Open::Read).unwrap().len().unwrap()
    }
}

/// A row as `fill` made it.
fn is_right(key: &[u8], value: &[u8]) -> bool {
    let number: u32 = std::str::from_utf8(key).unwrap().parse().unwrap();
    value == format!("sealed {number}").as_bytes()
}

#[test]
fn a_flipped_bit_never_changes_an_answer() -> Result<()> {
    const RECORDS: u32 = 400;
    let (shelf, table) = Shelf::with_table(RECORDS)?;
    let (mut healed, mut told) = (0, 0);
    for at in (0..shelf.length(&table)).step_by(61) {
        let before = shelf.change(&table, at, |byte| byte[0] ^= 1 << (at % 8), 1);
        let db = shelf.builder().open()?;
        let cf = db.column_family("default")?;
        for key in (0..RECORDS).step_by(7) {
            match cf.get(format!("{key:04}")) {
                Ok(value) => assert!(is_right(format!("{key:04}").as_bytes(), &value.unwrap()), "{key}, byte {at}"),
                Err(error) => assert!(error.is_corruption(), "{error}"),
            }
            let absent = cf.get(format!("{key:04}+"));
            assert!(absent.as_ref().is_ok_and(Option::is_none) || absent.unwrap_err().is_corruption(), "byte {at}");
        }
        for verify in [Verify::OnFill, Verify::Sampled(64), Verify::Always] {
            let (rows, gaps): (Vec<_>, Vec<_>) = cf.with_verify(verify).iter().partition(Result::is_ok);
            for (key, value) in rows.iter().flatten() {
                assert!(is_right(key, value), "byte {at}");
            }
            assert!(rows.len() == RECORDS as usize || !gaps.is_empty(), "a row is missing in silence, byte {at}");
            let tidy = rows.iter().flatten().is_sorted_by(|a, b| a.0 < b.0);
            assert!(tidy && gaps.iter().all(|gap| gap.as_ref().unwrap_err().is_corruption()), "byte {at}");
            if gaps.is_empty() { healed += 1 } else { told += 1 }
        }
        db.close()?;
        shelf.change(&table, at, |bytes| bytes.copy_from_slice(&before), 1);
    }
    assert!(healed > told, "healed {healed}, told {told}");
    Ok(())
}

/// A table that cannot even be opened once made this loop an endless one, which took all memory: the cursor could not
/// be made, and every step said so again.
#[test]
fn a_loop_over_a_store_whose_table_is_gone_ends() -> Result<()> {
    let (shelf, table) = Shelf::with_table(100)?;
    let length = shelf.length(&table) as usize;
    shelf.change(&table, 0, |bytes| bytes.fill(0xA5), length);
    let db = shelf.builder().open()?;
    let cf = db.column_family("default")?;
    for forward in [true, false] {
        let mut cursor = cf.cursor();
        let mut step = if forward { cursor.first() } else { cursor.last() };
        let mut errors = 0;
        while step.is_err() || cursor.valid() {
            assert!(errors < 100, "{step:?}");
            errors += usize::from(step.is_err());
            step = if forward { cursor.next() } else { cursor.prev() };
        }
        assert!(errors > 0);
    }
    let told: Vec<_> = cf.iter().take(100).collect();
    assert!((1..100).contains(&told.len()) && told.iter().all(Result::is_err));
    Ok(())
}

/// Several values in turn: one end tells of some of them, the other of the rest.
#[test]
fn gaps_in_turn_are_told_once_by_both_ends_together() -> Result<()> {
    const LENGTH: usize = 5000;
    let shelf = Shelf::new();
    let db = shelf.builder().compression(Compression::None).open()?;
    for n in 0..20u8 {
        db.column_family("default")?.put([n], [n; LENGTH])?;
    }
    db.flush()?;
    db.close()?;
    let names = shelf.fs.list(Path::new("store")).unwrap();
    let values = Path::new("store").join(names.iter().find(|name| name.ends_with(".val")).unwrap());
    for at in 8..12 {
        shelf.change(&values, at * (LENGTH as u64 + 50) + 2500, |bytes| bytes.fill(0xA5), 40);
    }
    let db = shelf.builder().open()?;
    let cf = db.column_family("default")?;
    let all = cf.iter().filter(Result::is_ok).count();
    let gaps = cf.iter().filter(Result::is_err).count();
    assert_eq!((all, gaps), (16, 4));
    for from_front in 0..=gaps {
        let (mut range, mut told, mut rows) = (cf.iter(), 0, 0);
        let mut seen = |row: &Result<_>| if row.is_ok() { rows += 1 } else { told += 1 };
        let mut left = from_front;
        while left > 0 {
            let row = range.next().expect("a gap behind it");
            left -= usize::from(row.is_err());
            seen(&row);
        }
        range.by_ref().rev().for_each(|row| seen(&row));
        assert_eq!((rows, told), (all, gaps), "{from_front} of them from the front");
    }
    Ok(())
}

/// What is newer than all that was lost stands within the gap: whoever has given it has not left the gap behind.
#[test]
fn a_gap_around_a_newer_record_is_told_once_by_both_ends_together() -> Result<()> {
    let (shelf, table) = Shelf::with_table(100)?;
    let length = shelf.length(&table) as usize;
    shelf.change(&table, 0, |bytes| bytes.fill(0xA5), length);
    let db = shelf.builder().open()?;
    let cf = db.column_family("default")?;
    for key in ["00", "0050", "b"] {
        cf.put(key, "newer")?; // before what the table held, within and behind it
    }
    for turns in 0..1u32 << 6 {
        let (mut range, mut rows, mut gaps, mut turn) = (cf.iter(), 0, 0, 0);
        while let Some(row) = if turns >> turn & 1 == 1 { range.next() } else { range.next_back() } {
            if row.is_ok() {
                rows += 1
            } else {
                gaps += 1
            }
            turn = (turn + 1) % 6;
        }
        assert_eq!((rows, gaps), (3, 1), "from the front where a bit is set: {turns:06b}");
    }
    Ok(())
}

/// In an order of its own a family is walked as a whole for a prefix. What is damaged beyond it is nobody's business.
#[test]
fn a_prefix_in_an_order_of_its_own_meets_no_value_beyond_it() -> Result<()> {
    const LENGTH: usize = 5000;
    let shelf = Shelf::new();
    let open = || {
        let (order, compression) = (Order::custom(Arc::new(Backwards)), Compression::None);
        let options = CfOptions { order, compression, ..CfOptions::default() };
        shelf.builder().comparator(Arc::new(Backwards)).column_family("backwards", options).open()
    };
    let db = open()?;
    for n in 0..20u8 {
        db.column_family("backwards")?.put([n % 2, n], [n; LENGTH])?;
    }
    db.flush()?;
    db.close()?;
    let names = shelf.fs.list(Path::new("store")).unwrap();
    let values = Path::new("store").join(names.iter().find(|name| name.ends_with(".val")).unwrap());
    for at in (1..20).step_by(2) {
        shelf.change(&values, 64 + at * (LENGTH as u64 + 39) + 2500, |bytes| bytes.fill(0xA5), 40);
    }
    let db = open()?;
    let cf = db.column_family("backwards")?;
    let expected: Vec<_> = (0..20u8).rev().step_by(2).map(|n| (vec![0, n - 1], vec![n - 1; LENGTH])).collect();
    let owned = |(key, value): (Slice, Slice)| (key.to_vec(), value.to_vec());
    let rows: Vec<_> = cf.prefix([0u8]).map(|row| row.map(owned)).collect::<Result<_>>()?;
    assert_eq!(rows, expected);
    let mut rows: Vec<_> = cf.prefix([0u8]).rev().map(|row| row.map(owned)).collect::<Result<_>>()?;
    rows.reverse();
    assert_eq!(rows, expected);
    // Within it each is told of, once, whichever end comes to it, and its key is there.
    let (mut range, mut gaps) = (cf.prefix([1u8]), 0);
    while let Some(row) = if gaps % 3 == 0 { range.next_back() } else { range.next() } {
        assert!(row.unwrap_err().is_corruption());
        gaps += 1;
    }
    assert_eq!(gaps, 10);
    assert_eq!(cf.prefix([1u8]).keys().collect::<Result<Vec<_>>>()?.len(), 10);
    Ok(())
}

#[test]
fn iterators_and_cursors_tell_a_gap_once_and_go_on() -> Result<()> {
    const RECORDS: usize = 1000;
    let (shelf, table) = Shelf::with_table(RECORDS as u32)?;
    let middle = shelf.length(&table) / 2;
    shelf.change(&table, middle, |bytes| bytes.fill(0xA5), 40);
    let db = shelf.builder().open()?;
    let cf = db.column_family("default")?;

    let (rows, gaps): (Vec<_>, Vec<_>) = cf.iter().partition(Result::is_ok);
    let rows: Vec<_> = rows.into_iter().flatten().collect();
    let gap = gaps[0].as_ref().unwrap_err().damage().unwrap().clone();
    assert_eq!(gaps.len(), 1);
    assert!(rows.len() < RECORDS && rows.len() > RECORDS - 20, "{} rows", rows.len());
    assert!(rows.iter().all(|(key, value)| is_right(key, value)));
    assert_eq!(gap.file, table.file_name().unwrap().to_str().unwrap());
    assert!(gap.offset <= middle && middle < gap.offset + 5000);
    let (from, to) = gap.key_range.unwrap();
    let missing = (0..RECORDS).map(|n| format!("{n:04}").into_bytes());
    let missing: Vec<_> = missing.filter(|key| rows.iter().all(|(row, _)| row != key)).collect();
    assert!(missing.iter().all(|key| (&from..=&to).contains(&key)), "{missing:?}");

    // Backwards, by keys, through a snapshot, and from both ends in any turns: the same rows, and one gap.
    let is_same = |found: Vec<Result<(Slice, Slice)>>| {
        let (mut whole, gaps): (Vec<_>, Vec<_>) = found.into_iter().partition(Result::is_ok);
        whole.sort_by(|a, b| a.as_ref().unwrap().0.cmp(&b.as_ref().unwrap().0));
        assert_eq!(whole.into_iter().flatten().collect::<Vec<_>>(), rows);
        assert_eq!(gaps.len(), 1);
    };
    is_same(cf.iter().rev().collect());
    is_same(db.snapshot().iter(&cf).collect());
    is_same(cf.with_verify(Verify::Always).range(..).collect());
    assert_eq!(cf.iter().keys().filter(Result::is_ok).count(), rows.len());
    for turns in [1, 2, 3, 7, 500, 900] {
        let (mut range, mut found, mut turn) = (cf.iter(), Vec::new(), 0);
        while let Some(row) = if turn % (turns + 1) == 0 { range.next_back() } else { range.next() } {
            found.push(row);
            turn += 1;
        }
        is_same(found);
    }

    // A cursor: the same, both ways.
    for forward in [true, false] {
        let (mut cursor, mut whole, mut gaps) = (cf.cursor(), 0, 0);
        let mut step = if forward { cursor.first() } else { cursor.last() };
        loop {
            match step {
                Ok(()) if !cursor.valid() => break,
                Ok(()) => whole += usize::from(is_right(cursor.key(), cursor.value())),
                Err(_) => {
                    assert!(!cursor.valid());
                    gaps += 1;
                }
            }
            step = if forward { cursor.next() } else { cursor.prev() };
        }
        assert_eq!((whole, gaps), (rows.len(), 1));
    }

    // By key: what is whole is answered, what is not is never absent.
    for (key, _) in &rows {
        if let Ok(found) = cf.get(key) {
            assert!(is_right(key, &found.unwrap()));
        }
    }
    for key in &missing {
        assert!(cf.get(key).unwrap_err().is_corruption());
    }
    Ok(())
}
