//! Applies the changes of a range to its copy, from the change feed of the owner.

use std::collections::BTreeSet;

use waxseal::{Batch, Change, ChangeOperation, ChangePosition, ColumnFamily, Durability};
use waxseal_table::Table;

use crate::error::{Error, Result};
use crate::key_span::KeySpan;

/// Changes that take more bytes are committed in several parts. The copy is not read before it is whole.
const MAX_BATCH_BYTES: usize = 16 << 20;

/// A range of a table, and its copy on another node.
pub(crate) struct CatchUp<'a> {
    pub(crate) span: &'a KeySpan,
    pub(crate) original: &'a Table,
    pub(crate) copy: &'a Table,
}

/// The keys and ranges that have changed.
#[derive(Default)]
pub(crate) struct Changed {
    pub(crate) keys: BTreeSet<Vec<u8>>,
    pub(crate) ranges: Vec<KeySpan>,
}

impl Changed {
    pub(crate) fn len(&self) -> usize {
        self.keys.len() + self.ranges.len()
    }
}

impl CatchUp<'_> {
    /// Applies the durable changes behind a position, up to and including `end` if there is one. Adds them to
    /// `changed`, and returns the position that the copy has reached. Applying changes again does no harm: the last one
    /// of a key counts.
    ///
    /// Errors: `OutOfReach` of the feed, as an error of the store; `Invalid` if the table was dropped.
    pub(crate) fn run(
        &self,
        from: ChangePosition,
        end: Option<ChangePosition>,
        changed: &mut Changed,
    ) -> waxseal::Result<ChangePosition> {
        let mut changes = self.original.db().changes_since(from)?;
        let mut batch = self.copy.db().batch();
        let position = loop {
            let Some(change) = changes.next().transpose()? else { break changes.position() };
            if let Some(end) = end.filter(|end| change.seqno > end.seqno) {
                break end; // the commits before it were of the store's own families
            }
            if *change.family == *self.original.rows_family().name() {
                self.add(&change, &mut batch, changed)?;
            }
            if change.ends_commit || batch.bytes() > MAX_BATCH_BYTES {
                commit(&mut batch, Durability::Os)?;
            }
        };
        commit(&mut batch, Durability::Os)?;
        Ok(position)
    }

    /// Adds a change to a batch, as far as it is in the range.
    fn add(&self, change: &Change, batch: &mut Batch, changed: &mut Changed) -> waxseal::Result<()> {
        match &change.operation {
            ChangeOperation::DropFamily => return Err(waxseal::Error::invalid("the table was dropped on its owner")),
            ChangeOperation::DeleteRange { start, end } => {
                if let Some(part) = self.span.clipped(start.as_deref(), end.as_deref()) {
                    batch.delete_range(self.copy.rows_family(), part.bounds());
                    changed.ranges.push(part);
                }
            }
            _ if self.span.contains(change.key()) => {
                batch.apply(self.copy.rows_family(), change);
                changed.keys.insert(change.key().to_vec());
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns true if the two stores have the same records wherever something has changed. Writes to the range must
    /// wait meanwhile. A record that expires between the two reads of a round does not count.
    pub(crate) fn is_same(&self, changed: &Changed) -> Result<bool> {
        const ROUNDS: usize = 3;
        for _ in 0..ROUNDS {
            if self.is_same_now(changed)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_same_now(&self, changed: &Changed) -> Result<bool> {
        let (original, copy) = (self.original.rows_family(), self.copy.rows_family());
        for key in &changed.keys {
            let seal = |rows: &ColumnFamily| Ok::<_, Error>(rows.get_sealed(key)?.map(|found| found.seal));
            if seal(original)? != seal(copy)? {
                return Ok(false);
            }
        }
        for range in &changed.ranges {
            if original.digest(range.bounds())? != copy.digest(range.bounds())? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Commits the writes of a batch, if it has any, as operations of no table: a move is no operation on rows.
pub(crate) fn commit(batch: &mut Batch, durability: Durability) -> waxseal::Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    batch.describe_nothing().commit(durability)
}

#[cfg(test)]
mod tests {
    use super::*;
    use waxseal::Db;
    use waxseal_table::{ColumnType, Row, Schema, Tables};

    #[test]
    fn a_copy_that_lost_a_change_is_not_the_same() {
        let schema = || Schema::new().partition_key("id", ColumnType::I32).column("title", ColumnType::Text);
        let table = || Tables::open(&Db::memory().unwrap()).unwrap().create("library.books", schema()).unwrap();
        let (original, copy) = (table(), table());
        let cursor = original.db().change_cursor("copy").unwrap();
        for id in 0..4 {
            original.insert(Row::new().with("id", id).with("title", "first")).unwrap();
        }
        let (start, end) = (original.encoded_key(1).unwrap(), original.encoded_key(3).unwrap());
        let span = KeySpan { table: "library.books".to_owned(), start, end: Some(end) };
        let mut batch = original.db().batch();
        batch.delete_range(original.rows_family(), ..span.start.clone());
        batch.commit(Durability::Sync).unwrap();

        let (feed, mut changed) = (CatchUp { span: &span, original: &original, copy: &copy }, Changed::default());
        feed.run(cursor.position().unwrap(), None, &mut changed).unwrap();
        assert_eq!((changed.keys.len(), changed.ranges.len()), (2, 0)); // the others are outside of the range
        assert_eq!(copy.select().count().unwrap(), 2);
        assert!(feed.is_same(&changed).unwrap());
        copy.upsert(Row::new().with("id", 2).with("title", "second")).unwrap();
        assert!(!feed.is_same(&changed).unwrap());
        changed = Changed { ranges: vec![span.clone()], ..Changed::default() };
        assert!(!feed.is_same(&changed).unwrap());
        copy.upsert(Row::new().with("id", 2).with("title", "first")).unwrap();
        assert!(feed.is_same(&changed).unwrap());
    }
}
