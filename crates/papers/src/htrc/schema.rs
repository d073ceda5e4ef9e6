//! Question: does a corpus keep each value that the paper's schemas name?
//! Protocol: a corpus of the schema's layout takes one volume of one page. The figure is printed line by line, each
//!           name beside the table and the value that a plain read of the table returns for it.
//! Passes:   each name of the figure that stands for a value has one.

use waxseal::Db;
use waxseal_bench::Outcome;
use waxseal_bench::experiment::Run;
use waxseal_bench::gate::Gate;
use waxseal_corpus::{Corpus, Layout, Metadata, Rights, Volume};
use waxseal_table::{Row, Tables, Value};

use super::Line;

/// Names of a volume's values in the paper and here.
const METADATA: [(&str, &str); 5] = [
    ("copyright", "copyright"),
    ("pageCount", "page_count"),
    ("publishDate", "publish_date"),
    ("genre", "genre"),
    ("wholeVolume", "whole_volume"),
];
const PAGE: [(&str, &str); 2] = [("contents", "contents"), ("byteCount", "byte_count")];

/// The name of the first page, in the paper and here.
const FIRST: &str = "00000001";

/// A printed figure.
#[derive(Default)]
struct Figure {
    values: u64,
    missing: u64,
}

pub(super) fn run(run: &Run, line: &Line) -> Outcome<Vec<Gate>> {
    line.number.map_or(1..=3, |number| number..=number).map(|number| figure(run, number)).collect()
}

fn figure(run: &Run, number: u32) -> Outcome<Gate> {
    let layout = Layout::of_schema(number).ok_or("the paper has schemas 1 to 3")?;
    let db = Db::memory()?;
    let corpus = Corpus::create(&db, "htrc", layout)?;
    corpus.add(&volume())?;
    corpus.define_workset("collectionName", ["volumeID"])?;
    let tables = Tables::open(&db)?;
    let volumes: Vec<Row> = tables.table("htrc.volumes")?.select().rows()?.collect::<Result<_, _>>()?;
    let part = |name: &str| volumes.iter().find(|row| row.get("part").and_then(Value::as_str) == Some(name));

    println!("Figure {number}");
    let mut figure = Figure::default();
    figure.group(1, "VolumeContent", "table htrc.volumes");
    match layout {
        Layout::GroupPerPage => {
            let row = &volumes[0];
            figure.group(2, "volumeID", "row");
            figure.group(3, "metadata", "columns");
            figure.values(4, &METADATA, |name| row.get(name));
            figure.group(3, FIRST, "entry of the repeated group pages");
            figure.values(4, &PAGE, |name| row.entry("pages", FIRST)?.get(name));
        }
        Layout::RecordPerColumn => {
            let row = &volumes[0];
            figure.group(2, "volumeID", "row; columns of a page are dynamic columns");
            for (paper, here) in METADATA {
                figure.value(3, &format!("metadata.{paper}"), here, row.get(here));
            }
            for (paper, here) in PAGE {
                let here = format!("{FIRST}:{here}");
                figure.value(3, &format!("{FIRST}.{paper}"), &here, row.get(&here));
            }
        }
        Layout::RowPerPage => {
            figure.group(2, "volumeID.metadata", "row");
            figure.values(3, &METADATA, |name| part("metadata")?.get(name));
            figure.group(2, &format!("volumeID.{FIRST}"), "row");
            figure.values(3, &PAGE, |name| part(FIRST)?.get(name));
        }
    }
    if number == 1 {
        let key = |table: &str, column: &str| -> Outcome<Vec<Value>> {
            let rows: Vec<Row> = tables.table(table)?.select().rows()?.collect::<Result<_, _>>()?;
            Ok(rows.iter().filter_map(|row| row.get(column).cloned()).collect())
        };
        figure.group(1, "Collections", "table htrc.collections, also with the volumes of worksets");
        figure.value(
            2,
            "public",
            "collection",
            key("htrc.collections", "collection")?.iter().find(|name| name.as_str() == Some("public")),
        );
        figure.value(3, "volumeID", "volume", key("htrc.collections", "volume")?.first());
        figure.group(1, "CollectionNames", "table htrc.collection_names");
        figure.value(2, "collectionName", "collection", key("htrc.collection_names", "collection")?.first());
    }
    Ok(run.none(&number.to_string(), "names_without_a_value", figure.missing, figure.values, 1))
}

/// Returns a volume with all that the figures name.
fn volume() -> Volume {
    let metadata = Metadata {
        publish_date: Some("1905".to_owned()),
        genre: Some("novel".to_owned()),
        rights: Rights::PublicDomain,
        ..Metadata::new("volumeID")
    };
    Volume { metadata, pages: vec!["page text".to_owned()], archive: Some(b"zip".to_vec()) }
}

impl Figure {
    /// Prints a name that stands for several values.
    fn group(&self, depth: usize, paper: &str, here: &str) {
        println!("{:indent$}{paper:?}  -- {here}", "", indent = 4 * depth);
    }

    fn values<'a>(&mut self, depth: usize, names: &[(&str, &str)], value: impl Fn(&str) -> Option<&'a Value>) {
        for (paper, here) in names {
            self.value(depth, paper, here, value(here));
        }
    }

    /// Prints a name that stands for one value.
    fn value(&mut self, depth: usize, paper: &str, here: &str, value: Option<&Value>) {
        self.values += 1;
        self.missing += u64::from(value.is_none());
        let value = value.map_or("missing".to_owned(), |value| format!("{value:?}"));
        println!("{:indent$}{paper:?}; {here} = {value}", "", indent = 4 * depth);
    }
}
