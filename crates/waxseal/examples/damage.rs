//! A bit of a table is flipped behind the store's back, found, read around and repaired: `cargo run -p waxseal
//! --example damage`.

#![expect(clippy::disallowed_methods, reason = "it damages a file behind the store's back")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use waxseal::{Compression, Db, RepairOptions, VerifyOptions};

fn main() -> waxseal::Result<()> {
    let path = "damage-store";
    let db = Db::builder(path).compression(Compression::None).open()?;
    let cf = db.column_family("default")?;
    for n in 0..10_000 {
        cf.put(format!("{n:05}"), format!("value {n:05}"))?;
    }
    db.flush()?;
    db.close()?;
    flip_a_bit(path).expect("the table is there");

    let db = Db::open(path)?;
    let cf = db.column_family("default")?;
    println!("verify:\n{}\n", db.verify(VerifyOptions::default())?);

    let (mut right, mut wrong, mut gaps) = (0, 0, 0);
    for row in cf.iter() {
        match row {
            Ok((key, value)) if value.ends_with(&key) => right += 1,
            Ok(_) => wrong += 1,
            Err(gap) => {
                println!("a gap: {gap}");
                gaps += 1;
            }
        }
    }
    println!("{right} rows are right, {wrong} wrong, {gaps} gaps\n");

    println!("repair:\n{}", db.repair(RepairOptions::default())?);
    db.close()?;
    Db::destroy(path)
}

/// Flips one bit in the middle of the first table.
fn flip_a_bit(store: &str) -> std::io::Result<()> {
    let files = fs::read_dir(store)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>()?;
    let table = files.iter().find(|path| path.extension().is_some_and(|extension| extension == "tbl"));
    let file = fs::OpenOptions::new().read(true).write(true).open(table.expect("a flush made one"))?;
    let (middle, mut byte) = (file.metadata()?.len() / 2, [0]);
    file.read_exact_at(&mut byte, middle)?;
    file.write_all_at(&[byte[0] ^ 1], middle)
}
