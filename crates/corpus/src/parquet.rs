//! Loads volumes from Parquet: one row a volume. The names of the columns are those of the objects of
//! [`jsonl`](crate::jsonl). `pages` is a list of texts, the others are texts. All but `id` may be absent. Other columns
//! are not read.

use std::fmt::Display;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::DataType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use crate::error::{Error, Result};
use crate::volume::{Metadata, Rights, Volume};

/// Columns of text.
const TEXTS: [&str; 6] = ["id", "title", "author", "publish_date", "genre", "copyright"];
const PAGES: &str = "pages";

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 16;

/// Reads volumes, one after the other; `name` is the source in errors. A row without an id is an error of its own, and
/// the iterator goes on. A batch that cannot be decoded ends it. Memory is that of 16 rows and of the column pages that
/// are decoded.
///
/// Errors: `Source` for a file that is not Parquet, has no column `id`, or has a column of another type.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let file = std::fs::File::open("books.parquet")?;
/// for volume in waxseal_corpus::parquet::read(file, "books.parquet")? {
///     println!("{:?}", volume?.metadata.title);
/// }
/// # Ok(())
/// # }
/// ```
pub fn read(file: File, name: &str) -> Result<impl Iterator<Item = Result<Volume>>> {
    let opened = caught(|| {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
        let mask = ProjectionMask::columns(builder.parquet_schema(), TEXTS.into_iter().chain([PAGES]));
        builder.with_projection(mask).with_batch_size(BATCH_ROWS).build()
    });
    let reader = opened.and_then(|reader| check(&reader).map(|()| reader));
    let reader = reader.map_err(|reason| Error::source(name, reason))?;
    Ok(Rows { reader, batch: None, row: 0, number: 0, is_over: false, name: name.to_owned() })
}

/// Runs a step of the decoder, which panics on some damaged files.
fn caught<T, E: Display>(step: impl FnOnce() -> std::result::Result<T, E>) -> std::result::Result<T, String> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("the decoder of Parquet panicked".to_owned()),
    }
}

/// Checks the types of the columns.
fn check(reader: &ParquetRecordBatchReader) -> std::result::Result<(), String> {
    let schema = reader.schema();
    if schema.column_with_name("id").is_none() {
        return Err("the file has no column \"id\"".to_owned());
    }
    for field in schema.fields() {
        let item = match field.data_type() {
            DataType::List(item) | DataType::LargeList(item) if field.name() == PAGES => item.data_type(),
            own if field.name() != PAGES => own,
            _ => return Err("column \"pages\" is no list".to_owned()),
        };
        if !matches!(item, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
            return Err(format!("column {:?} is of type {item} and no text", field.name()));
        }
    }
    Ok(())
}

/// The volumes of a file.
struct Rows {
    reader: ParquetRecordBatchReader,
    batch: Option<RecordBatch>,
    /// The next row of the batch, and the number of the last row of the file that was read.
    row: usize,
    number: u64,
    is_over: bool,
    name: String,
}

impl Iterator for Rows {
    type Item = Result<Volume>;

    fn next(&mut self) -> Option<Result<Volume>> {
        loop {
            if let Some(batch) = self.batch.as_ref().filter(|batch| self.row < batch.num_rows()) {
                let volume = volume(batch, self.row);
                (self.row, self.number) = (self.row + 1, self.number + 1);
                let place = || format!("{}, row {}", self.name, self.number);
                return Some(volume.ok_or_else(|| Error::source(place(), "the volume has no id")));
            }
            if self.is_over {
                return None;
            }
            match caught(|| self.reader.next().transpose()) {
                Ok(Some(batch)) => (self.batch, self.row) = (Some(batch), 0),
                Ok(None) => self.is_over = true,
                Err(reason) => {
                    (self.batch, self.is_over) = (None, true);
                    return Some(Err(Error::source(&self.name, reason)));
                }
            }
        }
    }
}

/// Returns the volume of a row, if it has an id.
fn volume(batch: &RecordBatch, row: usize) -> Option<Volume> {
    let text = |name| text_at(batch.column_by_name(name)?, row);
    let metadata = Metadata {
        title: text("title"),
        author: text("author"),
        publish_date: text("publish_date"),
        genre: text("genre"),
        rights: Rights::parse(&text("copyright").unwrap_or_default()),
        ..Metadata::new(text("id").filter(|id| !id.is_empty())?)
    };
    let pages = batch.column_by_name(PAGES).filter(|pages| pages.is_valid(row)).map(|pages| match pages.data_type() {
        DataType::List(_) => pages.as_list::<i32>().value(row),
        _ => pages.as_list::<i64>().value(row),
    });
    // A page without a text keeps its number.
    let texts = |pages: ArrayRef| (0..pages.len()).map(|page| text_at(&pages, page).unwrap_or_default()).collect();
    Some(Volume { metadata, pages: pages.map(texts).unwrap_or_default(), archive: None })
}

fn text_at(texts: &ArrayRef, row: usize) -> Option<String> {
    let text = match texts.data_type() {
        _ if texts.is_null(row) => return None,
        DataType::Utf8 => texts.as_string::<i32>().value(row),
        DataType::LargeUtf8 => texts.as_string::<i64>().value(row),
        _ => texts.as_string_view().value(row),
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom, Write};
    use std::sync::Arc;

    use arrow_array::builder::{ListBuilder, StringBuilder};
    use arrow_array::{Int64Array, StringArray};
    use parquet::arrow::ArrowWriter;

    use super::*;

    /// Writes columns into a file of Parquet.
    fn file_of(columns: Vec<(&str, ArrayRef)>) -> File {
        let mut file = tempfile::tempfile().unwrap();
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut writer = ArrowWriter::try_new(file.try_clone().unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        file.flush().unwrap();
        file
    }

    fn texts(of: Vec<Option<&str>>) -> ArrayRef {
        Arc::new(StringArray::from(of))
    }

    #[test]
    fn rows_are_volumes() {
        let mut pages = ListBuilder::new(StringBuilder::new());
        pages.append_value([Some("one"), None]);
        pages.append_null();
        pages.append_value([Some("lost")]);
        let file = file_of(vec![
            ("id", texts(vec![Some("a"), Some("b"), None])),
            ("title", texts(vec![Some("Emma"), None, None])),
            ("copyright", texts(vec![Some("pd"), Some("ic"), None])),
            ("pages", Arc::new(pages.finish())),
            ("number", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ]);
        let read: Vec<_> = read(file, "x.parquet").unwrap().collect();
        let first = read[0].as_ref().unwrap();
        assert_eq!((first.metadata.title.as_deref(), first.metadata.rights), (Some("Emma"), Rights::PublicDomain));
        assert_eq!(first.pages, ["one", ""]);
        assert_eq!(read[1].as_ref().unwrap(), &Volume { metadata: Metadata::new("b"), pages: vec![], archive: None });
        assert_eq!(read[2].as_ref().unwrap_err().to_string(), "x.parquet, row 3: the volume has no id");
        assert_eq!(read.len(), 3);
    }

    #[test]
    fn many_rows_are_read_in_batches() {
        let ids: Vec<String> = (0..100).map(|number| format!("iu.{number}")).collect();
        let file = file_of(vec![("id", texts(ids.iter().map(|id| Some(id.as_str())).collect()))]);
        let read: Vec<String> = read(file, "x").unwrap().map(|volume| volume.unwrap().metadata.id).collect();
        assert_eq!(read, ids);
    }

    /// Each byte of a small file is changed.
    #[test]
    fn damaged_files_end_with_an_error() {
        let mut file =
            file_of(vec![("id", texts(vec![Some("a"), Some("b")])), ("title", texts(vec![Some("x"), None]))]);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        for place in 0..bytes.len() {
            let mut damaged = tempfile::tempfile().unwrap();
            let mut copy = bytes.clone();
            copy[place] ^= 0x55;
            damaged.write_all(&copy).unwrap();
            let rows = read(damaged, "x").map(|rows| rows.take(10).filter(|row| row.is_ok()).count());
            assert!(rows.unwrap_or_default() <= 2, "byte {place}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        let refused = |file| read(file, "x").map(|_| ()).unwrap_err().to_string();
        let number = || -> ArrayRef { Arc::new(Int64Array::from(vec![1])) };
        assert_eq!(refused(file_of(vec![("title", texts(vec![None]))])), "x: the file has no column \"id\"");
        assert!(refused(file_of(vec![("id", number())])).contains("is of type Int64 and no text"));
        let id = || ("id", texts(vec![Some("a")]));
        assert_eq!(refused(file_of(vec![id(), ("pages", number())])), "x: column \"pages\" is no list");
        let mut other = tempfile::tempfile().unwrap();
        other.write_all(b"no parquet at all").unwrap();
        assert!(refused(other).starts_with("x: "));
    }
}
