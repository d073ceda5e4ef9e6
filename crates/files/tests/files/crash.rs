//! A crash at every step of every operation. Afterwards each operation is done or not done, the records agree, and what
//! was acknowledged is there.

use waxseal::Db;
use waxseal_files::{
    FileKind, FileStore, FileStoreOptions, Files, OpenOptions, RenameMode, Result, SetAttributes, XattrMode,
};
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};

use crate::store::bytes;

type Operation = (&'static str, fn(&Files) -> Result<()>);

/// Every operation that writes. Each is one commit of the tree, or a stream and one commit.
const OPERATIONS: &[Operation] = &[
    ("write a new file", |fs| fs.write("new", "small")),
    ("replace a file in one batch", |fs| fs.write("large", bytes(30_000, 2))),
    ("stream a file", |fs| {
        let mut writer = fs.writer("large")?;
        std::io::Write::write_all(&mut writer, &bytes(40_000, 3))
            .map_err(|error| error.downcast::<waxseal_files::Error>().unwrap())?;
        writer.finish().map(drop)
    }),
    ("write several files", |fs| {
        let writers = [("new", 10), ("large", 20_000), ("dir/third", 3_000), ("dir/fourth", 5_000)];
        let writers = writers.into_iter().map(|(path, length)| {
            let mut writer = fs.writer(path)?;
            std::io::Write::write_all(&mut writer, &bytes(length, 5))
                .map_err(|error| error.downcast::<waxseal_files::Error>().unwrap())?;
            Ok(writer)
        });
        fs.finish_all(writers.collect::<Result<Vec<_>>>()?).map(drop)
    }),
    ("append", |fs| fs.append("new", bytes(9_000, 4))),
    ("change in place", |fs| {
        let file = fs.open_with("large", &OpenOptions::new().write(true))?;
        file.write_at(b"changed", 8190)?;
        file.write_at(b"far", 90_000)?;
        file.close()
    }),
    ("punch a hole", |fs| {
        let file = fs.open_with("large", &OpenOptions::new().write(true))?;
        file.punch_hole(4_000..9_000)?;
        file.punch_hole(12_288..80_000)?;
        file.write_at(b"again", 13_000)?;
        file.close()
    }),
    ("shorten", |fs| fs.truncate("large", 5_000)),
    ("extend", |fs| fs.truncate("large", 50_000)),
    ("make a directory", |fs| fs.mkdir("dir/more")),
    ("link", |fs| fs.symlink("large", "dir/link")),
    ("change a link", |fs| fs.replace_symlink("new", "dir/link", &SetAttributes::new())),
    ("rename over a file", |fs| fs.rename("large", "dir/large")),
    ("rename a tree", |fs| fs.rename("dir", "tree")),
    ("exchange", |fs| fs.rename_with("tree", "new", RenameMode::Exchange)),
    ("copy", |fs| fs.copy("new/large", "copy")),
    ("set attributes", |fs| fs.set_attributes("copy", &SetAttributes::new().mode(0o600))),
    ("set an extended attribute", |fs| fs.set_xattr("copy", "user.a", "b", XattrMode::Set)),
    ("empty", |fs| fs.truncate("copy", 0)),
    ("remove a file", |fs| fs.remove("new/other")),
    ("remove a directory", |fs| fs.remove_dir("new/more")),
    ("remove a tree", |fs| fs.remove_tree("new")),
    ("reclaim", |fs| fs.reclaim().map(drop)),
];

/// Everything that a caller can see of a tree, apart from times.
type State = Vec<(Vec<u8>, FileKind, u32, Vec<u8>, Vec<Vec<u8>>)>;

fn state(fs: &Files) -> State {
    let snapshot = fs.snapshot();
    let see = |entry: Result<waxseal_files::WalkEntry>| {
        let entry = entry.unwrap();
        let (path, metadata) = (entry.path, entry.metadata);
        let content = match metadata.kind {
            FileKind::File => snapshot.read(&path).unwrap(),
            FileKind::Link => snapshot.read_link(&path).unwrap(),
            _ => Vec::new(),
        };
        let xattrs = snapshot.xattrs(&path).unwrap();
        (path, metadata.kind, metadata.mode, content, xattrs)
    };
    snapshot.walk("").unwrap().map(see).collect()
}

fn open(disk: &SimFs) -> Result<FileStore> {
    let db = Db::builder("/store").env(disk.env(disk.steps() + 1)).tune(|settings| {
        settings.memtable_bytes = 64 * 1024;
        settings.segment_bytes = 64 * 1024;
        settings.ring_bytes = 32 * 1024;
        settings.drain_bytes = 8 * 1024;
    });
    FileStoreOptions::new().chunk_bytes(4096).open(&db.open()?, "files")
}

/// Returns a disk with a small tree, closed.
fn disk() -> SimFs {
    let disk = SimFs::new(7);
    let fs = open(&disk).unwrap();
    fs.mkdir("dir").unwrap();
    fs.write("dir/large", bytes(9_000, 8)).unwrap();
    fs.write("dir/other", bytes(6_000, 9)).unwrap();
    fs.write("large", bytes(20_000, 1)).unwrap();
    fs.db().close().unwrap();
    disk.settle();
    disk.reboot(Crash::Process);
    disk
}

/// Runs the operations until the crash. Returns how many were done before it.
fn run(fs: &Files, disk: &SimFs) -> usize {
    let is_done = |(name, operation): &&Operation| match operation(fs) {
        // A store to mapped memory does not fail: the dead process would never have seen this answer.
        Ok(()) if disk.is_crashed() => false,
        Ok(()) => {
            while fs.db().step().unwrap_or(false) {}
            true
        }
        Err(error) => {
            assert!(error.store_error().is_some(), "{name}: {error:?}");
            false
        }
    };
    OPERATIONS.iter().take_while(is_done).count()
}

#[test]
fn each_operation_is_done_or_not_done_after_a_crash() {
    let base = disk();
    let disk = base.fork();
    let first = disk.steps();
    let fs = open(&disk).unwrap();
    let mut states = vec![state(&fs)];
    for (name, operation) in OPERATIONS {
        operation(&fs).unwrap_or_else(|error| panic!("{name}: {error}"));
        states.push(state(&fs));
    }
    drop(fs);
    let disk = base.fork();
    let fs = open(&disk).unwrap();
    assert_eq!(run(&fs, &disk), OPERATIONS.len());
    let steps: Vec<u64> = disk.changing_steps().into_iter().filter(|step| *step >= first).collect();
    assert!(steps.len() > 100, "{} steps", steps.len());
    drop(fs);
    for (number, step) in steps.into_iter().enumerate() {
        let losses = [Crash::Process, Crash::Machine(Loss::DurableOnly), Crash::Machine(Loss::Random { seed: step })];
        let crash = losses[number % losses.len()];
        let disk = base.fork();
        disk.crash_at(step);
        let done = match open(&disk) {
            Ok(fs) => run(&fs, &disk),
            Err(_) => 0,
        };
        disk.reboot(crash);
        let fs = open(&disk).unwrap();
        let found = state(&fs);
        let possible = &states[..states.len().min(done + 2)];
        let place = possible.iter().rposition(|state| *state == found);
        let place = place.unwrap_or_else(|| panic!("step {step}, {crash:?}: no state up to {done}: {found:?}"));
        let is_kept = crash != Crash::Process || states[done..].contains(&found);
        assert!(is_kept, "step {step}: state {place} after {done} operations");
        let report = fs.fsck().unwrap();
        assert!(report.is_clean(), "step {step}, {crash:?}: {:?}", report.problems);
        fs.write("afterwards", bytes(5_000, 5)).unwrap();
        crate::store::assert_clean(&fs);
    }
}
