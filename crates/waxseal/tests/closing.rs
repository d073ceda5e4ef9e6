//! Close releases the descriptors, mappings and threads of a store, whoever still has an object of it.

use std::path::Path;

use waxseal::{Db, Durability, ErrorKind, Result};

/// Descriptors and mappings of this process that lead to a store.
#[expect(clippy::disallowed_methods, reason = "these are no files of a store")]
fn held(dir: &Path) -> Vec<String> {
    let dir = dir.to_str().unwrap();
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = links.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    let files = links.map(|target| target.to_string_lossy().into_owned()).filter(|target| target.starts_with(dir));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    files.chain(maps.lines().filter(|line| line.contains(dir)).map(str::to_owned)).collect()
}

fn fill(db: &Db) -> Result<()> {
    let cf = db.column_family("default")?;
    for n in 0..2_000 {
        cf.put(format!("{n:06}"), "value ".repeat(1 + n % 50))?;
    }
    cf.put("large", vec![7; 100_000])?;
    db.flush()?;
    cf.put("last", "in the memtable")
}

#[test]
fn nothing_of_a_closed_store_stays_open() -> Result<()> {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().canonicalize().unwrap().join("store");
    for read_only in [false, true] {
        let db = if read_only { Db::open_read_only(&dir)? } else { Db::open(&dir)? };
        if !read_only {
            fill(&db)?;
        }
        let (clone, snapshot, cf) = (db.clone(), db.snapshot(), db.column_family("default")?);
        let (mut cursor, mut range) = (cf.cursor(), cf.iter());
        cursor.first()?;
        range.next().unwrap()?;
        let slice = cf.get("large")?.unwrap();
        let mut batch = db.batch();
        if !read_only {
            batch.put(&cf, "never", "committed");
        }
        assert!(!held(&dir).is_empty());

        db.close()?;
        assert_eq!(held(&dir), [] as [String; 0]);
        assert_eq!(slice, vec![7; 100_000]);
        assert_eq!(cursor.key(), b"000000");
        let errors = [
            cursor.next().unwrap_err(),
            range.next().unwrap().unwrap_err(),
            snapshot.get(&cf, "000001").unwrap_err(),
            cf.get("last").unwrap_err(),
            clone.column_family("default").unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), &ErrorKind::Closed);
        }
        if !read_only {
            assert_eq!(batch.commit(Durability::Os).unwrap_err().kind(), &ErrorKind::Closed);
        }
        clone.close()?;
        let again = Db::open(&dir)?;
        assert_eq!(again.column_family("default")?.get("last")?.unwrap(), "in the memtable");
        assert!(again.column_family("default")?.get("never")?.is_none());
    }
    Ok(())
}
