//! Corpora of all three layouts as callers use them.

use waxseal::Db;
use waxseal_corpus::{Access, Corpus, Error, Layout, Metadata, Rights, Volume};
use waxseal_table::{ErrorKind, Tables, Value};

fn volume(id: &str, title: &str, date: &str, genre: Option<&str>, rights: Rights, pages: usize) -> Volume {
    let metadata = Metadata {
        title: Some(title.to_owned()),
        author: Some("Edward Gibbon".to_owned()),
        publish_date: Some(date.to_owned()),
        genre: genre.map(str::to_owned),
        rights,
        ..Metadata::new(id)
    };
    let pages = (1..=pages).map(|number| format!("{id} page {number}")).collect();
    Volume { metadata, pages, archive: Some(id.into()) }
}

/// Returns all rows of a corpus's tables.
fn all_rows(db: &Db) -> Vec<String> {
    let tables = Tables::open(db).unwrap();
    let rows = |name: String| {
        let rows = tables.table(&name).unwrap().select().rows().unwrap();
        rows.map(|row| format!("{name} {:?}", row.unwrap())).collect::<Vec<_>>()
    };
    tables.names().unwrap().into_iter().flat_map(rows).collect()
}

/// Runs a test with a corpus of each layout.
fn each_layout(test: impl Fn(&Corpus)) {
    for schema in 1..=3 {
        let db = Db::memory().unwrap();
        let layout = Layout::of_schema(schema).unwrap();
        Corpus::create(&db, "htrc", layout).unwrap();
        let corpus = Corpus::open(&db, "htrc").unwrap();
        assert_eq!(corpus.layout(), layout);
        for (id, title, date, genre, rights) in [
            ("iu.1", "The Art of Science", "1970", Some("novel"), Rights::PublicDomain),
            ("iu.2", "Art", "c1979-05-01", None, Rights::PublicDomain),
            ("iu.3", "Science", "1980", Some("novel"), Rights::InCopyright),
        ] {
            corpus.add(&volume(id, title, date, genre, rights, 12)).unwrap();
        }
        test(&corpus);
    }
}

#[test]
fn queries_find_what_the_reader_may_read() {
    each_layout(|corpus| {
        let (open, all) = (corpus.reader(Access::PublicDomain), corpus.reader(Access::All));
        assert_eq!(open.ids().unwrap(), ["iu.1", "iu.2"]);
        assert_eq!(all.ids().unwrap(), ["iu.1", "iu.2", "iu.3"]);
        assert_eq!(all.published("1970-12-31", "1979-01-01").unwrap(), ["iu.1", "iu.2"]);
        assert_eq!(open.published("1979", "1980").unwrap(), ["iu.2"]);
        assert_eq!(all.genre("novel").unwrap(), ["iu.1", "iu.3"]);
        assert_eq!(open.genre("novel").unwrap(), ["iu.1"]);
        assert_eq!(all.title_has("SCIENCE").unwrap(), ["iu.1", "iu.3"]);
        assert_eq!(open.title_has("science art").unwrap(), ["iu.1"]);
        assert_eq!(all.title_has("science art").unwrap(), ["iu.1"]);
        assert_eq!(open.author_has("edward").unwrap(), ["iu.1", "iu.2"]);
        assert!(matches!(all.published("undated", "1980"), Err(Error::Invalid(_))));
        for denied in [open.volume("iu.3").err(), open.metadata("iu.3").err(), open.archive("iu.3").err()] {
            assert!(matches!(denied, Some(Error::Denied(_))));
        }
        assert!(matches!(open.pages("iu.3", 1..=1), Err(Error::Denied(_))));
        assert!(matches!(all.volume("iu.4"), Err(Error::NotFound(_))));
    });
}

#[test]
fn volumes_and_pages_are_read_back() {
    each_layout(|corpus| {
        let all = corpus.reader(Access::All);
        let read = all.volume("iu.2").unwrap();
        assert_eq!((read.pages.len(), read.metadata.page_count), (12, 12));
        assert_eq!(read.pages[9], "iu.2 page 10");
        assert_eq!(all.pages("iu.2", 11..=99).unwrap(), ["iu.2 page 11", "iu.2 page 12"]);
        assert!(matches!(all.pages("iu.2", 0..=1), Err(Error::Invalid(_))));
        assert_eq!(all.archive("iu.2").unwrap().unwrap(), b"iu.2");
        let order = |seed| {
            let volumes = all.shuffled(all.ids().unwrap(), seed);
            volumes.map(|volume| volume.unwrap().metadata.id).collect::<Vec<_>>()
        };
        let mut reversed = all.ids().unwrap();
        reversed.reverse();
        let of_reversed: Vec<_> = all.shuffled(reversed, 2).map(|volume| volume.unwrap().metadata.id).collect();
        assert_eq!(order(2), of_reversed);
        assert!((0..9).any(|seed| order(seed) != order(2)));
    });
}

#[test]
fn a_replaced_volume_leaves_nothing_behind() {
    each_layout(|corpus| {
        let all = corpus.reader(Access::All);
        corpus.add(&volume("iu.1", "War", "1990", None, Rights::InCopyright, 3)).unwrap();
        assert_eq!(all.title_has("art").unwrap(), ["iu.2"]);
        assert_eq!(all.title_has("war").unwrap(), ["iu.1"]);
        assert_eq!(all.genre("novel").unwrap(), ["iu.3"]);
        assert_eq!(all.volume("iu.1").unwrap().pages.len(), 3);
        assert_eq!(corpus.reader(Access::PublicDomain).ids().unwrap(), ["iu.2"]);
        assert!(corpus.remove("iu.1").unwrap() && !corpus.remove("iu.1").unwrap());
        assert_eq!(all.ids().unwrap(), ["iu.2", "iu.3"]);
        assert!(matches!(all.volume("iu.1"), Err(Error::NotFound(_))));
    });
}

#[test]
fn worksets_are_named_sets_of_ids() {
    each_layout(|corpus| {
        let open = corpus.reader(Access::PublicDomain);
        corpus.define_workset("art", ["iu.3", "iu.2", "iu.9"]).unwrap();
        assert_eq!(open.workset("art").unwrap(), ["iu.2"]);
        assert_eq!(corpus.reader(Access::All).workset("art").unwrap(), ["iu.2", "iu.3"]);
        corpus.define_workset("art", ["iu.1"]).unwrap();
        assert_eq!(open.workset("art").unwrap(), ["iu.1"]);
        assert_eq!(open.worksets().unwrap(), ["art"]);
        assert!(matches!(corpus.define_workset("public", ["iu.3"]), Err(Error::Invalid(_))));
        assert!(corpus.remove_workset("art").unwrap());
        assert!(matches!(open.workset("art"), Err(Error::NotFound(_))));
    });
}

#[test]
fn the_rows_of_a_replaced_volume_are_those_of_its_successor_alone() {
    for schema in 1..=3 {
        let layout = Layout::of_schema(schema).unwrap();
        let (db, fresh) = (Db::memory().unwrap(), Db::memory().unwrap());
        let mut successor = volume("iu.1", "War and Art", "1990", None, Rights::InCopyright, 3);
        successor.archive = None;
        let corpus = Corpus::create(&db, "htrc", layout).unwrap();
        corpus.add(&volume("iu.1", "The Art of War", "1970", Some("novel"), Rights::PublicDomain, 12)).unwrap();
        corpus.add(&successor).unwrap();
        Corpus::create(&fresh, "htrc", layout).unwrap().add(&successor).unwrap();
        assert_eq!(all_rows(&db), all_rows(&fresh));
        corpus.define_workset("art", ["iu.1"]).unwrap();
        assert!(corpus.remove_workset("art").unwrap() && !corpus.remove_workset("art").unwrap());
        corpus.remove("iu.1").unwrap();
        assert_eq!(all_rows(&db), [""; 0]);
    }
}

#[test]
fn the_bytes_of_a_page_are_counted() {
    for schema in 1..=3 {
        let db = Db::memory().unwrap();
        let corpus = Corpus::create(&db, "htrc", Layout::of_schema(schema).unwrap()).unwrap();
        corpus.add(&Volume { metadata: Metadata::new("iu.1"), pages: vec!["é".to_owned()], archive: None }).unwrap();
        let volumes = Tables::open(&db).unwrap().table("htrc.volumes").unwrap();
        let row = volumes.select().rows().unwrap().next().unwrap().unwrap();
        let counted = match schema {
            1 => row.entry("pages", "00000001").unwrap().get("byte_count").and_then(Value::as_i64),
            2 => row.get("00000001:byte_count").and_then(Value::as_i64),
            _ => volumes.get(("iu.1", "00000001")).unwrap().unwrap().get("byte_count").and_then(Value::as_i64),
        };
        assert_eq!(counted, Some(2));
    }
}

#[test]
fn invalid_arguments_are_refused() {
    each_layout(|corpus| {
        assert!(matches!(
            corpus.add(&volume("", "Art", "1990", None, Rights::PublicDomain, 1)),
            Err(Error::Invalid(_))
        ));
        assert!(matches!(corpus.define_workset("", ["iu.1"]), Err(Error::Invalid(_))));
        assert!(matches!(corpus.remove_workset("in-copyright"), Err(Error::Invalid(_))));
    });
}

#[test]
fn a_corpus_is_created_once() {
    let db = Db::memory().unwrap();
    assert!(matches!(Corpus::open(&db, "htrc"), Err(Error::Table(error)) if error.kind() == ErrorKind::NotFound));
    Corpus::create(&db, "htrc", Layout::RowPerPage).unwrap();
    let again = Corpus::create(&db, "htrc", Layout::GroupPerPage);
    assert!(matches!(again, Err(Error::Table(error)) if error.kind() == ErrorKind::Exists));
    Tables::open(&db).unwrap().drop("htrc.volumes").unwrap(); // as after a crash in `create`
    assert_eq!(Corpus::create(&db, "htrc", Layout::GroupPerPage).unwrap().layout(), Layout::GroupPerPage);
}
