//! Reads a store beside its writer, and makes a checkpoint: `cargo run -p waxseal --example beside_a_writer`.
//!
//! The reader takes no lock and writes nothing; it may as well live in another process.

use waxseal::Db;

fn main() -> waxseal::Result<()> {
    let (path, copy) = ("beside-store", "beside-copy");
    let writer = Db::open(path)?;
    let events = writer.column_family("events")?;
    events.put("event 1", "first")?;

    let reader = Db::open_read_only(path)?;
    let seen = reader.column_family("events")?;
    println!("the reader sees {} event", seen.iter().count());

    events.put("event 2", "second")?;
    println!("still {}, until it looks again", seen.iter().count());
    reader.refresh()?;
    println!("now {}", seen.iter().count());

    writer.checkpoint(copy)?;
    events.put("event 3", "third")?;
    let then = Db::open_read_only(copy)?;
    println!(
        "the checkpoint has {}, the store {}",
        then.column_family("events")?.iter().count(),
        events.iter().count()
    );

    writer.close()?;
    drop(then);
    Db::destroy(copy)?;
    Db::destroy(path)
}
