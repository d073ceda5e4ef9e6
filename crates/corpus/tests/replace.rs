//! One volume that several threads replace while others read it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use waxseal::Db;
use waxseal_corpus::{Access, Corpus, Layout, Metadata, Rights, Volume};
use waxseal_table::Tables;

const WRITERS: usize = 4;
const ROUNDS: usize = 25;

/// Returns the volume of a writer. The volumes differ in each indexed column, in words, rights and number of pages.
fn edition(writer: usize) -> Volume {
    let metadata = Metadata {
        title: Some(format!("edition{writer}")),
        publish_date: Some(format!("190{writer}")),
        genre: Some(format!("genre{writer}")),
        rights: if writer.is_multiple_of(2) { Rights::PublicDomain } else { Rights::InCopyright },
        ..Metadata::new("iu.1")
    };
    Volume { metadata, pages: vec![format!("page of edition{writer}"); 1 + 3 * writer], archive: None }
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

/// Each read sees one edition, and the rows at the end are those of one edition.
fn replace_while_reading(layout: Layout) {
    let db = Db::memory().unwrap();
    let corpus = Corpus::create(&db, "htrc", layout).unwrap();
    corpus.add(&edition(0)).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let all = corpus.reader(Access::All);
                while !is_over.load(Ordering::Relaxed) {
                    let volume = all.volume("iu.1").unwrap();
                    let title = volume.metadata.title.as_deref().unwrap();
                    let writer = (0..WRITERS).find(|writer| title == format!("edition{writer}")).unwrap();
                    assert_eq!(volume.pages, edition(writer).pages);
                    let pages = all.pages("iu.1", 1..=99).unwrap();
                    assert!((0..WRITERS).any(|writer| pages == edition(writer).pages), "{pages:?}");
                    assert!(all.title_has(title).unwrap().len() <= 1);
                    assert_eq!(all.ids().unwrap(), ["iu.1"]);
                }
            });
        }
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn({
                    let corpus = &corpus;
                    move || (0..ROUNDS).try_for_each(|_| corpus.add(&edition(writer)))
                })
            })
            .collect();
        let written: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(written.iter().all(|written| matches!(written, Ok(Ok(())))), "{written:?}");
    });
    let last = corpus.reader(Access::All).metadata("iu.1").unwrap().title.unwrap();
    let writer = (0..WRITERS).find(|writer| last == format!("edition{writer}")).unwrap();
    let fresh = Db::memory().unwrap();
    Corpus::create(&fresh, "htrc", layout).unwrap().add(&edition(writer)).unwrap();
    assert_eq!(all_rows(&db), all_rows(&fresh));
}

#[test]
fn readers_see_one_edition_with_a_group_per_page() {
    replace_while_reading(Layout::GroupPerPage);
}

#[test]
fn readers_see_one_edition_with_a_record_per_column() {
    replace_while_reading(Layout::RecordPerColumn);
}

#[test]
fn readers_see_one_edition_with_a_row_per_page() {
    replace_while_reading(Layout::RowPerPage);
}

#[test]
fn ids_are_those_of_one_moment() {
    const VOLUMES: usize = 300;
    let corpus = Corpus::create(&Db::memory().unwrap(), "htrc", Layout::default()).unwrap();
    let volume = |number: usize, rights| {
        let metadata = Metadata { rights, ..Metadata::new(format!("iu.{number}")) };
        Volume { metadata, pages: Vec::new(), archive: None }
    };
    for number in 0..VOLUMES {
        corpus.add(&volume(number, Rights::PublicDomain)).unwrap();
    }
    // The read of the long collection takes longer than a change of rights. A volume that moves between the two reads
    // would be found twice or not at all.
    let is_over = AtomicBool::new(false);
    let read: Vec<_> = thread::scope(|scope| {
        scope.spawn(|| {
            for rights in [Rights::InCopyright, Rights::PublicDomain].into_iter().cycle() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                corpus.add(&volume(0, rights)).unwrap();
            }
        });
        let read = (0..200).map(|_| corpus.reader(Access::All).ids()).collect();
        is_over.store(true, Ordering::Relaxed);
        read
    });
    for ids in read {
        assert_eq!(ids.unwrap().len(), VOLUMES);
    }
}
