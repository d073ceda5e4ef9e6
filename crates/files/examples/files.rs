//! A tour of the file store: `cargo run -p waxseal-files --example files [STORE]`.

use std::io::Write;

use waxseal::{Db, Durability};
use waxseal_files::{ErrorKind, FileStore, OpenOptions, Result, SetAttributes};

fn main() -> Result<()> {
    let db = match std::env::args_os().nth(1) {
        Some(path) => Db::open(std::path::PathBuf::from(path))?,
        None => Db::memory()?,
    };
    let fs = FileStore::open(&db, "files")?;

    // Whole files. A reader sees the old content or the new one.
    fs.create_dir_all("photos/2026")?;
    fs.write("photos/2026/cat.jpg", b"a small picture")?;
    fs.with_durability(Durability::Sync).write("photos/2026/cat.jpg", b"a better picture")?;
    println!("cat.jpg: {} bytes", fs.read("photos/2026/cat.jpg")?.len());

    // A stream: nothing of it is seen before `finish`.
    let mut writer = fs.writer_with("photos/film", &SetAttributes::new().mode(0o600))?;
    for frame in 0..100u8 {
        writer.write_all(&[frame; 10_000]).expect("the store accepts the frame");
    }
    let film = writer.finish()?;
    println!("film: {} bytes, digest {}", film.size, film.digest);

    // An open handle changes a file in place. `flush` commits all its changes in one step.
    let file = fs.open_with("photos/film", &OpenOptions::new().read(true).write(true))?;
    file.write_at(b"cut", 500_000)?;
    file.set_len(1 << 40)?; // a hole takes no space
    file.close()?;
    println!("film: {} bytes, of which {} are stored", fs.stat("photos/film")?.size, fs.stat("photos/film")?.allocated);

    // Snapshots keep what they saw, and a tree is renamed in one step.
    let before = fs.snapshot();
    fs.rename("photos", "archive")?;
    println!(
        "before: {} entries, now: {:?}",
        before.walk("photos")?.count(),
        fs.walk("photos").err().map(|e| e.kind())
    );
    for entry in fs.find("archive", "*.jpg")? {
        println!("found {}", entry?.path.escape_ascii());
    }

    // Errors have the names of POSIX.
    let error = fs.remove_dir("archive").expect_err("it has entries");
    assert_eq!(error.kind(), ErrorKind::NotEmpty);
    println!("{error} ({})", error.kind().posix_name());

    // Every byte, and every record, can be checked.
    fs.truncate("archive/film", 1_000_000)?;
    println!("verified {} bytes, {} faults", fs.verify("")?.bytes, fs.fsck()?.faults);
    fs.remove_tree("archive")?;
    db.close()?;
    Ok(())
}
