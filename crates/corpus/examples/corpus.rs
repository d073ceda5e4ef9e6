//! A tour of a corpus of books: `cargo run -p waxseal-corpus --example corpus [BOOKS.jsonl [STORE]]`.

use std::error::Error;
use std::io::{BufReader, Read};

use waxseal::Db;
use waxseal_corpus::{Access, Corpus, Layout, jsonl};

const BOOKS: &str = r#"
{"id": "iu.1", "title": "The Art of War", "publish_date": "1910", "copyright": "public", "pages": ["Preface", "Plans"]}
{"id": "iu.2", "title": "Emma", "author": "Jane Austen", "publish_date": "c1815.", "copyright": "pd", "pages": ["I"]}
{"id": "iu.3", "title": "A new book", "genre": "novel", "publish_date": "2009-05-01", "pages": ["Secret"]}
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (source, name): (Box<dyn Read>, &str) = match arguments.first() {
        #[expect(clippy::disallowed_methods, reason = "the source of a load is outside the store")]
        Some(path) => (Box::new(std::fs::File::open(path)?), path),
        None => (Box::new(BOOKS.as_bytes()), "the example's books"),
    };
    let db = match arguments.get(1) {
        Some(path) => Db::open(path)?,
        None => Db::memory()?,
    };
    tour(&db, jsonl::read(BufReader::new(source), name))
}

/// Loads volumes into a new corpus, and queries it.
fn tour(
    db: &Db,
    volumes: impl Iterator<Item = waxseal_corpus::Result<waxseal_corpus::Volume>>,
) -> Result<(), Box<dyn Error>> {
    let corpus = Corpus::create(db, "books", Layout::default())?;
    for volume in volumes {
        match volume {
            Ok(volume) => corpus.add(&volume)?,
            Err(error) => eprintln!("{error}"),
        }
    }

    // Readers see the public domain alone, or all volumes.
    let public = corpus.reader(Access::PublicDomain);
    println!("ids: {:?} of {:?}", public.ids()?, corpus.reader(Access::All).ids()?);
    println!("title has \"art\": {:?}", public.title_has("art")?);
    println!("published from 1900 to 1910: {:?}", public.published("1900", "1910")?);

    // Some pages without the others, and a workset in the order of a seed.
    for id in public.title_has("war")? {
        println!("{id} page 2: {:?}", public.pages(&id, 2..=2)?);
    }
    corpus.define_workset("training", public.ids()?)?;
    for volume in public.shuffled(public.workset("training")?, 7) {
        let volume = volume?;
        println!("{:?}: {} pages", volume.metadata.title, volume.pages.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tour_finds_the_books() {
        let db = Db::memory().unwrap();
        tour(&db, jsonl::read(BOOKS.as_bytes(), "books")).unwrap();
        let corpus = Corpus::open(&db, "books").unwrap();
        assert_eq!(corpus.reader(Access::All).author_has("austen").unwrap(), ["iu.2"]);
        assert_eq!(corpus.reader(Access::PublicDomain).workset("training").unwrap(), ["iu.1", "iu.2"]);
    }
}
