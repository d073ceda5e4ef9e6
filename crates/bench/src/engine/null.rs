//! Stores nothing and finds nothing. The cost of a step here is the driver's own, and is subtracted from every ratio.

use super::{Engine, Op, Reader, Rows, Settings, Sink, Start, View};
use crate::Outcome;
use std::hint::black_box;
use std::time::Duration;

#[derive(Debug)]
struct Null;

/// Ignores the settings.
pub(super) fn open(_: &Settings) -> Box<dyn Engine> {
    Box::new(Null)
}

impl Engine for Null {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Outcome<()> {
        black_box((key, value, sync));
        Ok(())
    }

    fn delete(&self, key: &[u8], sync: bool) -> Outcome<()> {
        black_box((key, sync));
        Ok(())
    }

    fn batch(&self, ops: &[Op], sync: bool) -> Outcome<()> {
        black_box((ops, sync));
        Ok(())
    }

    fn count(&self, key: &[u8]) -> Outcome<()> {
        black_box(key);
        Ok(())
    }

    fn transact(&self, keys: [&[u8]; 2], value: &[u8]) -> Outcome<u64> {
        black_box((keys, value));
        Ok(0)
    }

    fn merge(&self, key: &[u8]) -> Outcome<()> {
        black_box(key);
        Ok(())
    }

    fn delete_range(&self, start: &[u8], end: &[u8]) -> Outcome<()> {
        black_box((start, end));
        Ok(())
    }

    fn bulk_load(&self, fill: &mut dyn FnMut(Sink<'_>) -> Outcome<()>) -> Outcome<()> {
        fill(&mut |key, value| {
            black_box((key, value));
            Ok(())
        })
    }

    fn changes(&self, rows: &mut Rows<'_>) -> Outcome<()> {
        black_box(rows.seen());
        Ok(())
    }

    fn backup(&self) -> Outcome<()> {
        Ok(())
    }

    fn compact(&self) -> Outcome<()> {
        Ok(())
    }

    fn tables_with(&self, key: &[u8]) -> Outcome<u64> {
        black_box(key);
        Ok(0)
    }

    fn reader(&self, _: View) -> Outcome<Box<dyn Reader + '_>> {
        Ok(Box::new(Null))
    }

    fn sync(&self) -> Outcome<()> {
        Ok(())
    }

    fn flush(&self) -> Outcome<()> {
        Ok(())
    }

    fn settle(&self) -> Outcome<Duration> {
        Ok(Duration::ZERO)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

impl Reader for Null {
    fn get(&mut self, key: &[u8]) -> Outcome<Option<u64>> {
        black_box(key);
        Ok(None)
    }

    fn fetch(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        black_box(key);
        Ok(None)
    }

    fn scan(&mut self, start: Start<'_>, rows: &mut Rows<'_>) -> Outcome<()> {
        black_box((start, rows.seen()));
        Ok(())
    }
}
