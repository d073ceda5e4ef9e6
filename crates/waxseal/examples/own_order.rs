//! A family in an order of its own, without regard to case: `cargo run -p waxseal --example own_order`.
//!
//! Keys that compare equal may differ in their bytes here, so the comparator says so; the family then has no filters.

use std::cmp::Ordering;
use std::sync::Arc;

use waxseal::{CfOptions, Comparator, Db, Order};

struct IgnoreCase;

impl Comparator for IgnoreCase {
    fn name(&self) -> &str {
        "example.ignore-case"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let lower = |key: &'_ [u8]| key.iter().map(u8::to_ascii_lowercase).collect::<Vec<u8>>();
        lower(a).cmp(&lower(b))
    }

    fn equal_means_same_bytes(&self) -> bool {
        false
    }
}

fn main() -> waxseal::Result<()> {
    let db = Db::memory()?;
    let options = CfOptions { order: Order::custom(Arc::new(IgnoreCase)), ..CfOptions::default() };
    let names = db.create_column_family("names", options)?;
    names.put("Ada", "1815")?;
    names.put("bob", "1912")?;
    names.put("ADA", "1843")?; // the same key
    for row in names.iter() {
        let (key, value) = row?;
        println!("{} {}", key.escape_ascii(), value.escape_ascii());
    }
    assert_eq!(names.iter().count(), 2);
    assert_eq!(names.get("aDa")?.unwrap(), "1843");
    Ok(())
}
