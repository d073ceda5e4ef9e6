//! The three schemas of "Evaluation of Data Storage in HathiTrust Research Center Using Cassandra" (Ruan and Plale), as
//! tables. Its super columns are repeated groups, and its columns are dynamic columns.

use waxseal_table::{ColumnType, Index, Partitioning, Row, Schema, Value};

use crate::volume::{Metadata, Rights, Volume};

/// How a volume is stored.
///
/// | layout | the paper | whole volume | some pages |
/// |---|---|---|---|
/// | `GroupPerPage` | schema 1 | one read of neighboring records, one a page | reads past the others |
/// | `RecordPerColumn` | schema 2 | one read of neighboring records, two a page | reads past the others |
/// | `RowPerPage` | schema 3 | one search a page | one search a page |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Layout {
    /// A row for each volume, and a group of columns for each page.
    #[default]
    GroupPerPage,
    /// A row for each volume, and a record for each column of each page.
    RecordPerColumn,
    /// A row for the metadata and one for each page, in partitions ordered by a hash.
    RowPerPage,
}

/// Names of the tables behind the name of the corpus.
pub(crate) const VOLUMES: &str = "volumes";
pub(crate) const COLLECTIONS: &str = "collections";
pub(crate) const COLLECTION_NAMES: &str = "collection_names";
pub(crate) const WORDS: &str = "words";

/// Columns and groups of the volumes.
pub(crate) const VOLUME: &str = "volume";
pub(crate) const PART: &str = "part";
pub(crate) const COPYRIGHT: &str = "copyright";
pub(crate) const PAGES: &str = "pages";
pub(crate) const CONTENTS: &str = "contents";
pub(crate) const WHOLE_VOLUME: &str = "whole_volume";
const PAGE_COUNT: &str = "page_count";
const PUBLISH_DATE: &str = "publish_date";
const GENRE: &str = "genre";
const TITLE: &str = "title";
const AUTHOR: &str = "author";
const YEAR: &str = "year";
const BYTE_COUNT: &str = "byte_count";

/// Indexes of the volumes.
pub(crate) const BY_YEAR: &str = "by_year";
pub(crate) const BY_GENRE: &str = "by_genre";

/// The part of a volume that is no page.
const METADATA: &str = "metadata";

/// Most pages of a volume: their names have eight digits.
pub(crate) const MAX_PAGES: usize = 99_999_999;

/// The columns of the metadata.
pub(crate) const METADATA_COLUMNS: [&str; 7] = [VOLUME, COPYRIGHT, PAGE_COUNT, PUBLISH_DATE, GENRE, TITLE, AUTHOR];

impl Layout {
    /// Returns the layout of the paper's schema 1, 2 or 3.
    pub fn of_schema(number: u32) -> Option<Layout> {
        [Layout::GroupPerPage, Layout::RecordPerColumn, Layout::RowPerPage]
            .get(number.checked_sub(1)? as usize)
            .copied()
    }

    /// Returns the layout of a table.
    pub(crate) fn of_table(schema: &Schema) -> Layout {
        match (schema.partitioning(), schema.has_dynamic_columns()) {
            (Partitioning::Hashed, _) => Layout::RowPerPage,
            (_, true) => Layout::RecordPerColumn,
            (_, false) => Layout::GroupPerPage,
        }
    }

    /// Returns the schema of the table of volumes.
    pub fn schema(self) -> Schema {
        let text = || ColumnType::Text;
        let key = Schema::new().partition_key(VOLUME, text());
        let key = if self == Layout::RowPerPage { key.partition_key(PART, text()).hashed() } else { key };
        let metadata = key
            .column(COPYRIGHT, text())
            .column(PAGE_COUNT, ColumnType::I32)
            .column(PUBLISH_DATE, text())
            .column(YEAR, ColumnType::I32)
            .column(GENRE, text())
            .column(TITLE, text())
            .column(AUTHOR, text())
            .column_in(WHOLE_VOLUME, WHOLE_VOLUME, ColumnType::Bytes)
            .index(Index::on(BY_YEAR, [YEAR]))
            .index(Index::on(BY_GENRE, [GENRE]));
        match self {
            Layout::GroupPerPage => metadata.repeated_group(PAGES).column_in(PAGES, CONTENTS, text()).column_in(
                PAGES,
                BYTE_COUNT,
                ColumnType::I32,
            ),
            Layout::RecordPerColumn => metadata.dynamic_columns(),
            Layout::RowPerPage => metadata.column(CONTENTS, text()).column(BYTE_COUNT, ColumnType::I32),
        }
    }

    /// Returns the key of a volume's metadata.
    pub(crate) fn metadata_key(self, id: &str) -> Vec<Value> {
        match self {
            Layout::RowPerPage => vec![id.into(), METADATA.into()],
            _ => vec![id.into()],
        }
    }

    /// Returns the rows of a volume.
    pub(crate) fn rows(self, volume: &Volume) -> Vec<Row> {
        let mut rows = vec![self.metadata_row(volume)];
        for (number, text) in (1..).zip(&volume.pages) {
            let bytes = text.len() as i64;
            match self {
                Layout::GroupPerPage => {
                    rows[0].set_entry(PAGES, &page_name(number), CONTENTS, text.as_str());
                    rows[0].set_entry(PAGES, &page_name(number), BYTE_COUNT, bytes);
                }
                Layout::RecordPerColumn => {
                    rows[0].set(&page_column(number, CONTENTS), text.as_str());
                    rows[0].set(&page_column(number, BYTE_COUNT), bytes);
                }
                Layout::RowPerPage => {
                    let key = Row::new().with(VOLUME, volume.metadata.id.as_str()).with(PART, page_name(number));
                    rows.push(key.with(CONTENTS, text.as_str()).with(BYTE_COUNT, bytes));
                }
            }
        }
        rows
    }

    fn metadata_row(self, volume: &Volume) -> Row {
        let of = &volume.metadata;
        let mut row = Row::new()
            .with(VOLUME, of.id.as_str())
            .with(COPYRIGHT, of.rights.name())
            .with(PAGE_COUNT, volume.pages.len() as i64)
            .with(PUBLISH_DATE, of.publish_date.as_deref())
            .with(YEAR, of.year())
            .with(GENRE, of.genre.as_deref())
            .with(TITLE, of.title.as_deref())
            .with(AUTHOR, of.author.as_deref())
            .with(WHOLE_VOLUME, volume.archive.as_deref());
        if self == Layout::RowPerPage {
            row.set(PART, METADATA);
        }
        row
    }

    /// Returns the page of a row that was read, from 1 on.
    pub(crate) fn page(self, row: &Row, number: u32) -> Option<String> {
        let text = match self {
            Layout::GroupPerPage => row.entry(PAGES, &page_name(number)).and_then(|entry| entry.get(CONTENTS)),
            Layout::RecordPerColumn => row.get(&page_column(number, CONTENTS)),
            Layout::RowPerPage => row.get(CONTENTS),
        };
        text.and_then(Value::as_str).map(str::to_owned)
    }
}

/// Returns the metadata of a row.
pub(crate) fn metadata_of(row: &Row) -> Metadata {
    let text = |name| row.get(name).and_then(Value::as_str).map(str::to_owned);
    Metadata {
        id: text(VOLUME).unwrap_or_default(),
        title: text(TITLE),
        author: text(AUTHOR),
        publish_date: text(PUBLISH_DATE),
        genre: text(GENRE),
        rights: rights_of(row),
        page_count: row.get(PAGE_COUNT).and_then(Value::as_i64).and_then(|count| count.try_into().ok()).unwrap_or(0),
    }
}

/// Returns the rights of a row.
pub(crate) fn rights_of(row: &Row) -> Rights {
    Rights::parse(row.get(COPYRIGHT).and_then(Value::as_str).unwrap_or_default())
}

/// Returns the name of a page, from 1 on: `00000001`.
pub(crate) fn page_name(number: u32) -> String {
    format!("{number:08}")
}

/// Returns the column of a page in a row of [`Layout::RecordPerColumn`]: `00000001:contents`.
pub(crate) fn page_column(number: u32, column: &str) -> String {
    format!("{number:08}:{column}")
}

/// Returns the schema of the collections: the volumes of each right and of each workset.
pub(crate) fn collections() -> Schema {
    Schema::new().partition_key("collection", ColumnType::Text).clustering_key(VOLUME, ColumnType::Text)
}

/// Returns the schema of the names of worksets.
pub(crate) fn collection_names() -> Schema {
    Schema::new().partition_key("collection", ColumnType::Text)
}

/// Returns the schema of the index of words: the volumes of each word of a title or an author.
pub(crate) fn words() -> Schema {
    Schema::new()
        .partition_key("field", ColumnType::Text)
        .clustering_key("word", ColumnType::Text)
        .clustering_key(VOLUME, ColumnType::Text)
}
