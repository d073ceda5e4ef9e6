//! Queries and reads, for readers with given rights.

use std::ops::RangeInclusive;

use waxseal::Snapshot;
use waxseal_table::{Row, Value};

use crate::corpus::{Corpus, indexed_fields};
use crate::error::{Error, Result};
use crate::layout::{
    BY_GENRE, BY_YEAR, CONTENTS, COPYRIGHT, Layout, PAGES, VOLUME, WHOLE_VOLUME, page_column, page_name, rights_of,
};
use crate::shuffle::shuffle;
use crate::volume::{Metadata, Rights, Volume, year_of};
use crate::words::words;

/// Which volumes a reader may read. The reader enforces it; a program with access to the store's files is not bound.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// Volumes in the public domain only. Queries leave out all others.
    PublicDomain,
    /// All volumes.
    All,
}

/// Reads a corpus. Queries return ids, sorted, and only of volumes that the reader may read. Each call reads at one
/// moment. Usable from any thread.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    corpus: &'a Corpus,
    access: Access,
}

impl Corpus {
    /// Returns the volumes for a reader with these rights.
    pub fn reader(&self, access: Access) -> Reader<'_> {
        Reader { corpus: self, access }
    }
}

impl<'a> Reader<'a> {
    /// Returns the ids of all volumes.
    pub fn ids(&self) -> Result<Vec<String>> {
        let (snapshot, mut ids) = (self.snapshot(), Vec::new());
        for rights in [Rights::PublicDomain, Rights::InCopyright].into_iter().filter(|rights| self.may_read(*rights)) {
            ids.extend(self.collection(rights.name(), &snapshot)?);
        }
        ids.sort_unstable(); // each one is in the collection of its rights alone
        Ok(ids)
    }

    /// Returns the ids of the volumes that were published from the year of one date to the year of another, both
    /// inclusive. A date is relaxed to its year: `2009-05-01` stands for 2009. Errors: `Invalid` for a date without a
    /// year.
    pub fn published(&self, from: &str, to: &str) -> Result<Vec<String>> {
        let year =
            |date: &str| year_of(date).ok_or_else(|| Error::Invalid(format!("{date:?} has no year of four digits")));
        let (from, to) = (year(from)?, year(to)?);
        if from > to {
            return Ok(Vec::new());
        }
        let select = self.corpus.volumes.select().index(BY_YEAR).range(from..=to).columns([VOLUME, COPYRIGHT]);
        self.permitted(select.rows()?)
    }

    /// Returns the ids of the volumes of a genre. A volume without a genre is never among them.
    pub fn genre(&self, genre: &str) -> Result<Vec<String>> {
        let select = self.corpus.volumes.select().index(BY_GENRE).prefix(genre).columns([VOLUME, COPYRIGHT]);
        self.permitted(select.rows()?)
    }

    /// Returns the ids of the volumes whose title has a word, or all of several words.
    pub fn title_has(&self, words: &str) -> Result<Vec<String>> {
        self.with_words("title", words)
    }

    /// Returns the ids of the volumes whose author has a word in the name, or all of several words.
    pub fn author_has(&self, words: &str) -> Result<Vec<String>> {
        self.with_words("author", words)
    }

    fn with_words(&self, field: &str, text: &str) -> Result<Vec<String>> {
        let wanted = words(text);
        let Some(longest) = wanted.iter().max_by_key(|word| word.len()) else { return Ok(Vec::new()) };
        let (snapshot, mut ids) = (self.snapshot(), Vec::new());
        let entries = self.corpus.words.select().at(&snapshot).prefix((field, longest.as_str())).columns([VOLUME]);
        for entry in entries.rows()? {
            let Some(metadata) = self.corpus.stored(&id_of(&entry?), &snapshot)? else { continue };
            let own = indexed_fields(&metadata).into_iter().find(|(name, _)| *name == field);
            let own = own.map(|(_, text)| words(text)).unwrap_or_default();
            if self.may_read(metadata.rights) && wanted.iter().all(|word| own.contains(word)) {
                ids.push(metadata.id);
            }
        }
        Ok(ids)
    }

    /// Returns the metadata of a volume. Errors: `NotFound`, `Denied`.
    pub fn metadata(&self, id: &str) -> Result<Metadata> {
        self.metadata_at(id, &self.snapshot())
    }

    /// Returns a volume with all its pages, and without its archive. Errors: `NotFound`, `Denied`.
    pub fn volume(&self, id: &str) -> Result<Volume> {
        let snapshot = self.snapshot();
        let metadata = self.metadata_at(id, &snapshot)?;
        let pages = self.pages_at(id, 1..=metadata.page_count, &snapshot)?;
        Ok(Volume { metadata, pages, archive: None })
    }

    /// Returns pages of a volume, from 1 on: the preface, the table of contents. Pages behind the last one are left
    /// out. [`Layout::RowPerPage`] reads only these pages; the other layouts read past the volume's remaining pages.
    /// Errors: `NotFound`; `Denied`; `Invalid` for page 0.
    pub fn pages(&self, id: &str, numbers: RangeInclusive<u32>) -> Result<Vec<String>> {
        let (first, last) = numbers.into_inner();
        if first == 0 {
            return Err(Error::Invalid("pages are counted from 1".to_owned()));
        }
        let snapshot = self.snapshot();
        let metadata = self.metadata_at(id, &snapshot)?;
        self.pages_at(id, first..=last.min(metadata.page_count), &snapshot)
    }

    /// Returns the zip file of the whole volume, if its source had one. Errors: `NotFound`, `Denied`.
    pub fn archive(&self, id: &str) -> Result<Option<Vec<u8>>> {
        let snapshot = self.snapshot();
        self.metadata_at(id, &snapshot)?;
        let key = self.corpus.layout.metadata_key(id);
        let select = self.corpus.volumes.select().at(&snapshot).prefix(key).columns([WHOLE_VOLUME]);
        let row = select.rows()?.next().transpose()?;
        Ok(row.and_then(|row| row.get(WHOLE_VOLUME).and_then(Value::as_bytes).map(<[u8]>::to_vec)))
    }

    /// Returns the names of all worksets, sorted.
    pub fn worksets(&self) -> Result<Vec<String>> {
        let rows = self.corpus.collection_names.select().rows()?;
        let names = rows.map(|row| Ok(text_of(&row?, "collection")));
        names.collect::<waxseal_table::Result<_>>().map_err(Error::from)
    }

    /// Returns the ids of a workset. Ids of missing volumes are left out. Errors: `NotFound`.
    pub fn workset(&self, name: &str) -> Result<Vec<String>> {
        let snapshot = self.snapshot();
        if self.corpus.collection_names.get_at(name, &snapshot)?.is_none() {
            return Err(Error::NotFound(format!("workset {name:?}")));
        }
        let mut ids = Vec::new();
        for id in self.collection(name, &snapshot)? {
            if self.corpus.stored(&id, &snapshot)?.is_some_and(|metadata| self.may_read(metadata.rights)) {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    /// Reads volumes one after the other, in an order that depends on the seed and the set of ids alone. A volume that
    /// cannot be read is an error of its own, and the iterator goes on.
    pub fn shuffled(&self, mut ids: Vec<String>, seed: u64) -> impl Iterator<Item = Result<Volume>> + use<'a> {
        ids.sort_unstable();
        shuffle(&mut ids, seed);
        let reader = *self;
        ids.into_iter().map(move |id| reader.volume(&id))
    }

    fn may_read(&self, rights: Rights) -> bool {
        self.access == Access::All || rights == Rights::PublicDomain
    }

    fn snapshot(&self) -> Snapshot {
        self.corpus.volumes.db().snapshot()
    }

    /// Returns the metadata of a volume. Calls read it first, so that no page of a denied volume is read.
    fn metadata_at(&self, id: &str, snapshot: &Snapshot) -> Result<Metadata> {
        let metadata = self.corpus.stored(id, snapshot)?.ok_or_else(|| Error::NotFound(format!("volume {id:?}")))?;
        if self.may_read(metadata.rights) { Ok(metadata) } else { Err(Error::Denied(metadata.id)) }
    }

    /// Returns the sorted ids of the rows that the reader may read.
    fn permitted(&self, rows: waxseal_table::Rows) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        for row in rows {
            let row = row?;
            if self.may_read(rights_of(&row)) {
                ids.push(id_of(&row));
            }
        }
        ids.sort_unstable();
        Ok(ids)
    }

    fn collection(&self, name: &str, snapshot: &Snapshot) -> Result<Vec<String>> {
        let rows = self.corpus.collections.select().at(snapshot).prefix(name).columns([VOLUME]).rows()?;
        rows.map(|row| Ok(id_of(&row?))).collect::<waxseal_table::Result<_>>().map_err(Error::from)
    }

    /// Returns pages that the metadata counts.
    fn pages_at(&self, id: &str, numbers: RangeInclusive<u32>, snapshot: &Snapshot) -> Result<Vec<String>> {
        let (volumes, layout) = (&self.corpus.volumes, self.corpus.layout);
        let columns = match layout {
            Layout::GroupPerPage => vec![PAGES.to_owned()],
            Layout::RecordPerColumn => numbers.clone().map(|number| page_column(number, CONTENTS)).collect(),
            Layout::RowPerPage => {
                let page = |number| {
                    let row = volumes.get_at((id, page_name(number)), snapshot)?;
                    row.and_then(|row| layout.page(&row, number)).ok_or_else(|| missing_page(id, number))
                };
                return numbers.map(page).collect();
            }
        };
        let row = volumes.select().at(snapshot).prefix(id).columns(columns).rows()?.next().transpose()?;
        let page = |number| layout.page(row.as_ref()?, number);
        numbers.map(|number| page(number).ok_or_else(|| missing_page(id, number))).collect()
    }
}

/// A page that the metadata counts was removed through the table.
fn missing_page(id: &str, number: u32) -> Error {
    Error::NotFound(format!("page {number} of volume {id:?}"))
}

fn id_of(row: &Row) -> String {
    text_of(row, VOLUME)
}

fn text_of(row: &Row, column: &str) -> String {
    row.get(column).and_then(Value::as_str).unwrap_or_default().to_owned()
}
