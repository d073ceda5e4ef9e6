//! Random operations beside a simple tree in memory: the same outcomes, the same errors, the same content.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::Config;
use waxseal::Db;
use waxseal_files::{ErrorKind, FileKind, FileStore, Files, OpenOptions, RenameMode, Result};

use crate::store::{assert_clean, bytes, small_chunks};

type Path = Vec<&'static str>;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Node {
    Directory,
    File(Vec<u8>),
    Link(Vec<u8>),
}

/// The tree without its root.
type Tree = BTreeMap<Path, Node>;
type Outcome = std::result::Result<(), ErrorKind>;

#[derive(Clone, Debug)]
enum Step {
    Mkdir(Path),
    Write(Path, usize),
    Stream(Path, usize),
    /// Several files in one step.
    Together(Vec<(Path, usize)>),
    Append(Path, usize),
    Change(Path, u64, usize),
    Truncate(Path, u64),
    /// Zeros from a place on, in a file that is long enough afterwards or keeps its length.
    Zero(Path, usize, usize, bool),
    Link(Path),
    Copy(Path, Path),
    Rename(Path, Path, RenameMode),
    Remove(Path),
    RemoveDir(Path),
    RemoveTree(Path),
    /// All handles of the file store go, and it is opened again.
    Reopen,
}

fn is_below(path: &Path, other: &Path) -> bool {
    path.len() > other.len() && path.starts_with(other)
}

/// Returns the node of a path.
fn find<'a>(tree: &'a Tree, path: &Path) -> std::result::Result<&'a Node, ErrorKind> {
    directory_above(tree, path)?;
    tree.get(path).ok_or(ErrorKind::NotFound)
}

/// Checks that the directory of a path exists.
fn directory_above(tree: &Tree, path: &Path) -> Outcome {
    (1..path.len()).try_for_each(|length| match tree.get(&path[..length]) {
        Some(Node::Directory) => Ok(()),
        Some(_) => Err(ErrorKind::NotDirectory),
        None => Err(ErrorKind::NotFound),
    })
}

fn file(node: &Node) -> std::result::Result<Vec<u8>, ErrorKind> {
    match node {
        Node::File(content) => Ok(content.clone()),
        Node::Directory => Err(ErrorKind::IsDirectory),
        Node::Link(_) => Err(ErrorKind::SymbolicLink),
    }
}

fn put_file(tree: &mut Tree, path: &Path, content: Vec<u8>) -> Outcome {
    directory_above(tree, path)?;
    tree.get(path).map_or(Ok(Vec::new()), file)?;
    tree.insert(path.clone(), Node::File(content));
    Ok(())
}

fn put_new(tree: &mut Tree, path: &Path, node: Node) -> Outcome {
    directory_above(tree, path)?;
    if tree.contains_key(path) {
        return Err(ErrorKind::Exists);
    }
    tree.insert(path.clone(), node);
    Ok(())
}

fn take(tree: &mut Tree, path: &Path) -> Vec<(Path, Node)> {
    let (taken, kept) = std::mem::take(tree).into_iter().partition(|(own, _)| own == path || is_below(own, path));
    *tree = kept;
    Tree::into_iter(taken).collect()
}

fn remove(tree: &mut Tree, path: &Path) -> Outcome {
    tree.remove(path).map(drop).ok_or(ErrorKind::NotFound)
}

fn put_moved(tree: &mut Tree, nodes: Vec<(Path, Node)>, from: &Path, to: &Path) {
    tree.extend(nodes.into_iter().map(|(path, node)| ([&to[..], &path[from.len()..]].concat(), node)));
}

fn rename(tree: &mut Tree, from: &Path, to: &Path, mode: RenameMode) -> Outcome {
    if is_below(to, from) || mode == RenameMode::Exchange && is_below(from, to) {
        find(tree, from)?;
        directory_above(tree, to)?;
        return Err(ErrorKind::Invalid);
    }
    let old = find(tree, from)?.clone();
    if from == to {
        return if mode == RenameMode::NoReplace { Err(ErrorKind::Exists) } else { Ok(()) };
    }
    directory_above(tree, to)?;
    let is_empty = !tree.keys().any(|path| is_below(path, to));
    match (tree.get(to), mode) {
        (Some(_), RenameMode::NoReplace) => return Err(ErrorKind::Exists),
        (None, RenameMode::Exchange) => return Err(ErrorKind::NotFound),
        (Some(other), RenameMode::Replace) => match (&old, other) {
            (Node::Directory, Node::Directory) if !is_empty => return Err(ErrorKind::NotEmpty),
            (Node::Directory, Node::Directory) => {}
            (Node::Directory, _) => return Err(ErrorKind::NotDirectory),
            (_, Node::Directory) if is_below(from, to) => return Err(ErrorKind::NotEmpty),
            (_, Node::Directory) => return Err(ErrorKind::IsDirectory),
            _ => {}
        },
        _ => {}
    }
    let (moved, replaced) = (take(tree, from), take(tree, to));
    put_moved(tree, moved, from, to);
    if mode == RenameMode::Exchange {
        put_moved(tree, replaced, to, from);
    }
    Ok(())
}

fn model(tree: &mut Tree, step: &Step) -> Outcome {
    match step {
        Step::Mkdir(path) => put_new(tree, path, Node::Directory),
        Step::Link(path) => put_new(tree, path, Node::Link(b"target".to_vec())),
        Step::Write(path, length) | Step::Stream(path, length) => put_file(tree, path, bytes(*length, 1)),
        Step::Together(files) => {
            files.iter().try_for_each(|(path, _)| directory_above(tree, path))?;
            let mut new = tree.clone();
            let is_last = |number: usize, path: &Path| files[number + 1..].iter().all(|(later, _)| later != path);
            let mut last = files.iter().enumerate().filter(|(number, (path, _))| is_last(*number, path));
            last.try_for_each(|(_, (path, length))| put_file(&mut new, path, bytes(*length, 1)))?;
            *tree = new;
            Ok(())
        }
        Step::Append(path, length) => {
            directory_above(tree, path)?;
            let mut content = tree.get(path).map_or(Ok(Vec::new()), file)?;
            content.extend(bytes(*length, 2));
            put_file(tree, path, content)
        }
        Step::Change(path, place, length) => {
            let (mut content, place) = (file(find(tree, path)?)?, *place as usize);
            if *length > 0 {
                content.resize(content.len().max(place + length), 0);
                content[place..place + length].copy_from_slice(&bytes(*length, 3));
            }
            put_file(tree, path, content)
        }
        Step::Truncate(path, size) => {
            let mut content = file(find(tree, path)?)?;
            content.resize(*size as usize, 0);
            put_file(tree, path, content)
        }
        Step::Zero(path, place, length, is_extended) => {
            let mut content = file(find(tree, path)?)?;
            if *is_extended && *length > 0 {
                content.resize(content.len().max(place + length), 0);
            }
            let end = content.len().min(place + length);
            content[*place.min(&end)..end].fill(0);
            put_file(tree, path, content)
        }
        Step::Copy(from, to) => {
            let node = find(tree, from)?.clone();
            directory_above(tree, to)?;
            put_file(tree, to, file(&node)?)
        }
        Step::Rename(from, to, mode) => rename(tree, from, to, *mode),
        Step::Remove(path) => match find(tree, path)? {
            Node::Directory => Err(ErrorKind::IsDirectory),
            _ => remove(tree, path),
        },
        Step::RemoveDir(path) => match find(tree, path)? {
            Node::Directory if tree.keys().any(|other| is_below(other, path)) => Err(ErrorKind::NotEmpty),
            Node::Directory => remove(tree, path),
            _ => Err(ErrorKind::NotDirectory),
        },
        Step::RemoveTree(path) => {
            find(tree, path)?;
            take(tree, path);
            Ok(())
        }
        Step::Reopen => Ok(()),
    }
}

fn apply(fs: &Files, step: &Step) -> Result<()> {
    let text = |path: &Path| path.join("/");
    match step {
        Step::Mkdir(path) => fs.mkdir(text(path)),
        Step::Link(path) => fs.symlink("target", text(path)),
        Step::Write(path, length) => fs.write(text(path), bytes(*length, 1)),
        Step::Stream(path, length) => {
            let mut writer = fs.writer(text(path))?;
            std::io::Write::write_all(&mut writer, &bytes(*length, 1)).unwrap();
            writer.finish().map(drop)
        }
        Step::Together(files) => {
            let writers = files.iter().map(|(path, length)| {
                let mut writer = fs.writer(text(path))?;
                std::io::Write::write_all(&mut writer, &bytes(*length, 1)).unwrap();
                Ok(writer)
            });
            fs.finish_all(writers.collect::<Result<Vec<_>>>()?).map(drop)
        }
        Step::Append(path, length) => fs.append(text(path), bytes(*length, 2)),
        Step::Change(path, place, length) => {
            let file = fs.open_with(text(path), &OpenOptions::new().write(true))?;
            file.write_at(&bytes(*length, 3), *place)?;
            file.close()
        }
        Step::Truncate(path, size) => fs.truncate(text(path), *size),
        Step::Zero(path, place, length, is_extended) => {
            let file = fs.open_with(text(path), &OpenOptions::new().write(true))?;
            let range = *place as u64..(place + length) as u64;
            if *is_extended {
                file.zero_range(range)?
            } else {
                file.punch_hole(range)?
            }
            file.close()
        }
        Step::Copy(from, to) => fs.copy(text(from), text(to)),
        Step::Rename(from, to, mode) => fs.rename_with(text(from), text(to), *mode),
        Step::Remove(path) => fs.remove(text(path)),
        Step::RemoveDir(path) => fs.remove_dir(text(path)),
        Step::RemoveTree(path) => fs.remove_tree(text(path)),
        Step::Reopen => Ok(()),
    }
}

/// Checks a walk, each content, and each directory's list against the model.
fn check(fs: &Files, tree: &Tree) {
    let snapshot = fs.snapshot();
    let mut found = BTreeMap::new();
    for entry in snapshot.walk("").unwrap().skip(1) {
        let entry = entry.unwrap();
        let path = String::from_utf8(entry.path).unwrap();
        let node = match entry.metadata.kind {
            FileKind::Directory => Node::Directory,
            FileKind::File => Node::File(snapshot.read(&path).unwrap()),
            _ => Node::Link(snapshot.read_link(&path).unwrap()),
        };
        if node == Node::Directory {
            let listed = snapshot.list(&path).unwrap().count();
            let depth = path.split('/').count();
            let expected = tree.keys().filter(|own| own.len() == depth + 1 && own[..depth].join("/") == path).count();
            assert_eq!(listed, expected, "{path}");
        }
        found.insert(path, node);
    }
    let expected: BTreeMap<String, Node> = tree.iter().map(|(path, node)| (path.join("/"), node.clone())).collect();
    assert!(found == expected, "{:?} instead of {:?}", found.keys(), expected.keys());
}

fn path() -> impl Strategy<Value = Path> {
    prop::collection::vec(prop::sample::select(vec!["a", "a!", "b"]), 1..4)
}

fn length() -> impl Strategy<Value = usize> {
    prop::sample::select(vec![0, 1, 900, 1024, 1025, 4095, 4096, 4097, 9000, 30_000])
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop::sample::select(vec![RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]);
    prop_oneof![
        4 => path().prop_map(Step::Mkdir),
        4 => (path(), length()).prop_map(|(path, length)| Step::Write(path, length)),
        1 => (path(), length()).prop_map(|(path, length)| Step::Stream(path, length)),
        1 => prop::collection::vec((path(), length()), 0..4).prop_map(Step::Together),
        2 => (path(), length()).prop_map(|(path, length)| Step::Append(path, length)),
        2 => (path(), length(), length()).prop_map(|(path, place, length)| Step::Change(path, place as u64, length)),
        2 => (path(), length()).prop_map(|(path, size)| Step::Truncate(path, size as u64)),
        2 => (path(), length(), length(), any::<bool>())
            .prop_map(|(path, place, length, is_extended)| Step::Zero(path, place, length, is_extended)),
        1 => path().prop_map(Step::Link),
        1 => (path(), path()).prop_map(|(from, to)| Step::Copy(from, to)),
        4 => (path(), path(), mode).prop_map(|(from, to, mode)| Step::Rename(from, to, mode)),
        1 => path().prop_map(Step::Remove),
        1 => path().prop_map(Step::RemoveDir),
        1 => path().prop_map(Step::RemoveTree),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(Config { cases: 60, ..Config::default() })]

    #[test]
    fn a_file_store_is_a_tree(steps in prop::collection::vec(step(), 1..60)) {
        let db = Db::memory().unwrap();
        let mut fs = small_chunks(&db);
        let mut tree = Tree::new();
        for step in &steps {
            if let Step::Reopen = step {
                drop(fs);
                fs = FileStore::open(&db, "files").unwrap();
            }
            let expected = model(&mut tree, step);
            let outcome = apply(&fs, step).map_err(|error| error.kind());
            prop_assert_eq!(outcome, expected, "{:?}", step);
        }
        check(&fs, &tree);
        assert_clean(&fs);
    }
}
