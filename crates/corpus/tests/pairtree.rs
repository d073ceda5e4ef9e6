//! A pairtree on disk as callers load it.
#![cfg(feature = "pairtree")]
#![expect(clippy::disallowed_methods, reason = "a test of a loader makes its source")]

use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::symlink;
use std::path::Path;

use waxseal::Db;
use waxseal_corpus::{Access, Corpus, Layout, Rights, Volume, pairtree};
use zip::write::{SimpleFileOptions, ZipWriter};

fn zip_of(pages: &[&str]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (number, page) in (1..).zip(pages) {
        writer.start_file(format!("v/{number:08}.txt"), SimpleFileOptions::default()).unwrap();
        writer.write_all(page.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// Makes the directory of a volume.
fn add(dir: &Path, xml: &str, zip: &[u8]) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("v.mets.xml"), xml).unwrap();
    fs::write(dir.join("v.zip"), zip).unwrap();
}

fn volumes(root: &Path) -> (Vec<Volume>, Vec<String>) {
    let (good, bad): (Vec<_>, Vec<_>) = pairtree::read(root).partition(Result::is_ok);
    let bad = bad.into_iter().map(|error| error.unwrap_err().to_string());
    (good.into_iter().map(Result::unwrap).collect(), bad.collect())
}

#[test]
fn a_pairtree_is_loaded_into_a_corpus() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("mdp");
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("pairtree_prefix"), "mdp.\n").unwrap();
    let first = root.join("pairtree_root/39/01/3901");
    add(&first, "<mets><title>Emma</title><rights>pd</rights></mets>", &zip_of(&["one", "two"]));
    add(&root.join("pairtree_root/ar/k+/ark+=13960=t0,1"), "<mets/>", &zip_of(&["page"]));
    add(&root.join("pairtree_root/zz"), "<mets OBJID='uc1.7'/>", &zip_of(&["page"]));
    fs::write(first.join("notes.txt"), "is passed over").unwrap();
    let corpus = Corpus::create(&Db::memory().unwrap(), "books", Layout::default()).unwrap();
    for volume in pairtree::read(dir.path()) {
        corpus.add(&volume.unwrap()).unwrap();
    }
    let all = corpus.reader(Access::All);
    assert_eq!(all.ids().unwrap(), ["mdp.3901", "mdp.ark:/13960/t0.1", "uc1.7"]);
    assert_eq!(corpus.reader(Access::PublicDomain).pages("mdp.3901", 1..=9).unwrap(), ["one", "two"]);
    assert_eq!(all.archive("mdp.3901").unwrap().unwrap(), fs::read(first.join("v.zip")).unwrap());
    assert_eq!(all.metadata("uc1.7").unwrap().rights, Rights::InCopyright);
}

#[test]
fn a_directory_that_cannot_be_used_is_named_and_the_rest_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    add(&root.join("a"), "<mets><title>broken</mets>", &zip_of(&["one"]));
    add(&root.join("b"), "<mets/>", b"no zip file");
    add(&root.join("c"), "<mets/>", &zip_of(&["one"]));
    fs::write(root.join("c/w.zip"), zip_of(&["two"])).unwrap();
    add(&root.join("d"), "<mets/>", &zip_of(&["one"]));
    fs::remove_file(root.join("d/v.mets.xml")).unwrap();
    add(&root.join("e"), "<mets/>", &zip_of(&["good"]));
    let (good, bad) = volumes(root);
    assert_eq!((good.len(), good[0].metadata.id.as_str()), (1, "e"));
    let of =
        |name: &str| bad.iter().filter(|error| error.starts_with(&format!("{}", root.join(name).display()))).count();
    assert_eq!((bad.len(), ["a/v.mets.xml", "b/v.zip", "c", "d"].map(of)), (4, [1; 4]), "{bad:?}");
    assert!(bad[2].ends_with("a volume has one .zip file and one .xml file, this one 2 and 1"), "{}", bad[2]);
    let missing = pairtree::read(root.join("absent")).next().unwrap();
    assert!(missing.unwrap_err().to_string().contains("absent"));
}

#[test]
fn links_are_refused_and_end_no_walk() {
    let outside = tempfile::tempdir().unwrap();
    add(outside.path(), "<mets/>", &zip_of(&["secret"]));
    let dir = tempfile::tempdir().unwrap();
    add(&dir.path().join("a"), "<mets/>", &zip_of(&["good"]));
    symlink(dir.path(), dir.path().join("a/circle")).unwrap();
    symlink(outside.path(), dir.path().join("b")).unwrap();
    fs::create_dir(dir.path().join("c")).unwrap();
    fs::write(dir.path().join("c/v.xml"), "<mets/>").unwrap();
    symlink(outside.path().join("v.zip"), dir.path().join("c/v.zip")).unwrap();
    let (good, bad) = volumes(dir.path());
    assert_eq!(good.iter().map(|volume| volume.pages.concat()).collect::<Vec<_>>(), ["good"]);
    assert!(bad.len() == 3 && bad.iter().all(|error| error.ends_with("is a link")), "{bad:?}");
}
