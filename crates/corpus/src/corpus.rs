//! Volumes and worksets: create, add, remove.

use waxseal::{Db, Snapshot};
use waxseal_table::{Row, Table, Tables, Transaction};

use crate::error::{Error, Result};
use crate::layout::{
    self, COLLECTION_NAMES, COLLECTIONS, Layout, MAX_PAGES, METADATA_COLUMNS, VOLUME, VOLUMES, WORDS, metadata_of,
    page_name,
};
use crate::volume::{Metadata, Rights, Volume};
use crate::words::words;

/// A corpus of volumes in a store: four tables in a keyspace of its name. Usable from any thread.
///
/// ```
/// use waxseal_corpus::{Access, Corpus, Layout, Metadata, Rights, Volume};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let corpus = Corpus::create(&waxseal::Db::memory()?, "books", Layout::default())?;
/// let mut metadata = Metadata::new("iu.1");
/// metadata.title = Some("The Art of War".into());
/// metadata.publish_date = Some("c1910".into());
/// metadata.rights = Rights::PublicDomain;
/// corpus.add(&Volume { metadata, pages: vec!["Preface".into(), "Laying plans".into()], archive: None })?;
///
/// let reader = corpus.reader(Access::PublicDomain);
/// assert_eq!(reader.title_has("art")?, ["iu.1"]);
/// assert_eq!(reader.published("1910-05-06", "1910")?, ["iu.1"]);
/// assert_eq!(reader.pages("iu.1", 2..=2)?, ["Laying plans"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Corpus {
    pub(crate) layout: Layout,
    pub(crate) tables: Tables,
    pub(crate) volumes: Table,
    pub(crate) collections: Table,
    pub(crate) collection_names: Table,
    pub(crate) words: Table,
}

/// The fields whose words are indexed, with their text.
pub(crate) fn indexed_fields(metadata: &Metadata) -> [(&'static str, &str); 2] {
    [
        ("title", metadata.title.as_deref().unwrap_or_default()),
        ("author", metadata.author.as_deref().unwrap_or_default()),
    ]
}

impl Corpus {
    /// Creates a corpus. It is durable when the call returns. A crash in between leaves tables that another call
    /// completes. Errors: `Exists` of the tables if the corpus exists; `Invalid` for a name that no keyspace can have.
    pub fn create(db: &Db, name: &str, layout: Layout) -> Result<Corpus> {
        let tables = Tables::open(db)?;
        let table = |part: &str| format!("{name}.{part}");
        if !tables.names()?.contains(&table(VOLUMES)) {
            let schemas = [
                (COLLECTIONS, layout::collections()),
                (COLLECTION_NAMES, layout::collection_names()),
                (WORDS, layout::words()),
            ];
            for (part, schema) in schemas {
                match tables.create(&table(part), schema) {
                    Err(error) if error.kind() != waxseal_table::ErrorKind::Exists => return Err(error.into()),
                    _ => {}
                }
            }
        }
        tables.create(&table(VOLUMES), layout.schema())?; // the last one: with it the corpus exists
        Corpus::open(db, name)
    }

    /// Opens a corpus. Errors: `NotFound` of the tables.
    pub fn open(db: &Db, name: &str) -> Result<Corpus> {
        let tables = Tables::open(db)?;
        let table = |part: &str| tables.table(&format!("{name}.{part}"));
        let volumes = table(VOLUMES)?;
        Ok(Corpus {
            layout: Layout::of_table(&volumes.schema()?),
            volumes,
            collections: table(COLLECTIONS)?,
            collection_names: table(COLLECTION_NAMES)?,
            words: table(WORDS)?,
            tables,
        })
    }

    /// Returns how volumes are stored.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Adds a volume, or replaces the one of its id, in one commit. The commit is as durable as the store's others. The
    /// whole volume is in memory until it ends. Errors: `Invalid` for an empty id and for too many pages.
    pub fn add(&self, volume: &Volume) -> Result<()> {
        let new = &volume.metadata;
        if new.id.is_empty() || volume.pages.len() > MAX_PAGES {
            return Err(Error::Invalid(format!("volume {:?} needs an id, and at most {MAX_PAGES} pages", new.id)));
        }
        self.tables.transact(|transaction| {
            if let Some(old) = self.replaced(&new.id)? {
                self.unlist(transaction, &old, Some(new))?;
                self.remove_pages(transaction, &old, volume.pages.len())?;
            }
            for row in self.layout.rows(volume) {
                transaction.upsert(&self.volumes, row)?;
            }
            let listed = Row::new().with("collection", new.rights.name()).with(VOLUME, new.id.as_str());
            transaction.upsert(&self.collections, listed)?;
            for (field, text) in indexed_fields(new) {
                for word in words(text) {
                    let entry = Row::new().with("field", field).with("word", word).with(VOLUME, new.id.as_str());
                    transaction.upsert(&self.words, entry)?;
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Removes a volume. Worksets keep its id. Returns false if the corpus does not have it.
    pub fn remove(&self, id: &str) -> Result<bool> {
        let is_removed = self.tables.transact(|transaction| {
            let Some(old) = self.replaced(id)? else { return Ok(false) };
            self.unlist(transaction, &old, None)?;
            self.remove_pages(transaction, &old, 0)?;
            transaction.delete(&self.volumes, self.layout.metadata_key(id))?;
            Ok(true)
        })?;
        Ok(is_removed)
    }

    /// Makes a workset: a named set of ids. One of the name is replaced. The ids need not be of the corpus, and the
    /// order is lost. Errors: `Invalid` for an empty name and for the names of rights.
    pub fn define_workset<I: AsRef<str>>(&self, name: &str, ids: impl IntoIterator<Item = I>) -> Result<()> {
        check_workset(name)?;
        let ids: Vec<String> = ids.into_iter().map(|id| id.as_ref().to_owned()).collect();
        self.tables.transact(|transaction| {
            for row in self.collections.select().prefix(name).rows()? {
                transaction.delete(&self.collections, (name, row?.get(VOLUME).cloned()))?;
            }
            // Two definitions of one name write this row, so that only one of them commits at a time.
            transaction.get(&self.collection_names, name)?;
            transaction.upsert(&self.collection_names, Row::new().with("collection", name))?;
            for id in &ids {
                let row = Row::new().with("collection", name).with(VOLUME, id.as_str());
                transaction.upsert(&self.collections, row)?;
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Removes a workset, but none of its volumes. Returns false if it does not exist.
    pub fn remove_workset(&self, name: &str) -> Result<bool> {
        check_workset(name)?;
        let is_removed = self.tables.transact(|transaction| {
            let is_there = transaction.get(&self.collection_names, name)?.is_some();
            for row in self.collections.select().prefix(name).rows()? {
                transaction.delete(&self.collections, (name, row?.get(VOLUME).cloned()))?;
            }
            transaction.delete(&self.collection_names, name)?;
            Ok(is_there)
        })?;
        Ok(is_removed)
    }

    /// Returns the metadata of a volume at a snapshot.
    pub(crate) fn stored(&self, id: &str, at: &Snapshot) -> waxseal_table::Result<Option<Metadata>> {
        let select = self.volumes.select().at(at).prefix(self.layout.metadata_key(id)).columns(METADATA_COLUMNS);
        Ok(select.rows()?.next().transpose()?.map(|row| metadata_of(&row)))
    }

    /// Returns the metadata of the volume that a transaction replaces. If it is newer than the transaction's snapshot,
    /// the commit fails: the transaction's write of the row reads the row's indexed columns at that snapshot.
    fn replaced(&self, id: &str) -> waxseal_table::Result<Option<Metadata>> {
        self.stored(id, &self.volumes.db().snapshot())
    }

    /// Removes a volume from the collection of its rights and from the index of words, where its successor has no entry.
    fn unlist(&self, transaction: &Transaction, old: &Metadata, new: Option<&Metadata>) -> waxseal_table::Result<()> {
        if new.is_none_or(|new| new.rights != old.rights) {
            transaction.delete(&self.collections, (old.rights.name(), old.id.as_str()))?;
        }
        for (at, (field, text)) in indexed_fields(old).into_iter().enumerate() {
            let kept = new.map(|new| words(indexed_fields(new)[at].1)).unwrap_or_default();
            for word in words(text).into_iter().filter(|word| !kept.contains(word)) {
                transaction.delete(&self.words, (field, word, old.id.as_str()))?;
            }
        }
        Ok(())
    }

    /// Removes the rows of pages behind the first `kept` ones. Other layouts have them in the volume's row.
    fn remove_pages(&self, transaction: &Transaction, old: &Metadata, kept: usize) -> waxseal_table::Result<()> {
        if self.layout == Layout::RowPerPage {
            for number in (1..=old.page_count).skip(kept) {
                transaction.delete(&self.volumes, (old.id.as_str(), page_name(number)))?;
            }
        }
        Ok(())
    }
}

/// Refuses names that no workset can have.
fn check_workset(name: &str) -> Result<()> {
    let is_reserved = [Rights::PublicDomain, Rights::InCopyright].iter().any(|rights| rights.name() == name);
    match name.is_empty() || is_reserved {
        true => Err(Error::Invalid(format!("{name:?} is no name of a workset"))),
        false => Ok(()),
    }
}
