//! Backups in object stores: in memory and in a local directory.

use std::io;
use std::path::Path;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use tempfile::TempDir;
use waxseal::env::{Clock, Env, Fs, ManualClock, Open};
use waxseal::{Backup, BackupOptions, Db, ErrorKind};
use waxseal_remote::{BackupFs, Download, RemoteDirectory, Upload};

const URL: &str = "mem://bucket/prefix";

struct Home {
    dir: TempDir,
    db: Db,
    objects: Arc<dyn ObjectStore>,
    place: BackupFs,
}

impl Home {
    fn new(objects: Arc<dyn ObjectStore>) -> Home {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("store")).unwrap();
        let place = BackupFs::new(RemoteDirectory::of(URL, Arc::clone(&objects)).unwrap(), Env::real());
        Home { dir, db, objects, place }
    }

    fn put(&self, key: &str, value: &str) {
        self.db.column_family("users").unwrap().put(key, value).unwrap();
        self.db.flush().unwrap();
    }

    fn backup(&self) -> waxseal::Result<waxseal::CreatedBackup> {
        self.db.backup_in(self.place.path(), &self.place.env(), BackupOptions::default())
    }

    fn backups(&self) -> Backup {
        Backup::open_in(self.place.path(), &self.place.env()).unwrap()
    }

    fn restore(&self, id: u64, name: &str) -> waxseal::Result<Db> {
        let to = self.dir.path().join(name);
        self.backups().restore_in(id, &to, &Env::real(), BackupOptions::default())?;
        Db::open(to)
    }

    fn directory(&self) -> RemoteDirectory {
        RemoteDirectory::of(URL, Arc::clone(&self.objects)).unwrap()
    }

    /// Returns the names of all objects, in order.
    fn names(&self) -> Vec<String> {
        self.directory().list_all("").unwrap().into_iter().map(|entry| entry.name).collect()
    }

    fn files(&self) -> Vec<String> {
        self.names().into_iter().filter(|name| name.ends_with(".tbl")).collect()
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        Download::open(&self.directory(), name)
            .unwrap()
            .each(|piece| -> io::Result<()> {
                bytes.extend_from_slice(piece);
                Ok(())
            })
            .unwrap();
        bytes
    }

    fn replace(&self, name: &str, bytes: Vec<u8>) {
        let mut upload = Upload::begin(&self.directory(), name).unwrap();
        upload.write(&bytes).unwrap();
        upload.finish().unwrap();
    }

    fn remove(&self, name: &str) {
        self.directory().remove(name).unwrap();
    }
}

fn value(db: &Db, key: &str) -> Option<Vec<u8>> {
    db.column_family("users").unwrap().get(key).unwrap().map(|value| value.to_vec())
}

fn makes_lists_restores_and_purges(objects: Arc<dyn ObjectStore>) {
    let home = Home::new(objects);
    home.put("john", "33");
    let first = home.backup().unwrap();
    home.put("jane", "40");
    let before = home.files();
    let second = home.backup().unwrap();
    assert!(first.copied_files >= 1 && second.copied_files < second.files, "{first:?} {second:?}");
    assert!(before.iter().all(|name| home.files().contains(name)), "earlier files stay");
    let backups = home.backups();
    let ids: Vec<u64> = backups.list().unwrap().iter().map(|info| info.id).collect();
    assert_eq!(ids, [1, 2]);
    for id in ids {
        assert!(backups.verify(id).unwrap().damage.is_empty());
    }
    let old = home.restore(1, "old").unwrap();
    assert_eq!((value(&old, "john"), value(&old, "jane")), (Some(b"33".to_vec()), None));
    assert_eq!(value(&home.restore(2, "new").unwrap(), "jane"), Some(b"40".to_vec()));
    home.db.column_family("users").unwrap().compact().unwrap();
    home.backup().unwrap();
    let purged = backups.purge(1).unwrap();
    assert!(purged.backups == 2 && purged.files >= 1, "{purged:?}");
    assert_eq!(value(&home.restore(3, "last").unwrap(), "jane"), Some(b"40".to_vec()));
    assert!(!home.names().iter().any(|name| name == "LOCK" || name.contains(".tmp")), "{:?}", home.names());
    assert_eq!(*home.restore(1, "gone").unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn backups_in_memory() {
    makes_lists_restores_and_purges(Arc::new(InMemory::new()));
}

#[test]
fn backups_in_a_local_directory_of_objects() {
    let dir = tempfile::tempdir().unwrap();
    makes_lists_restores_and_purges(Arc::new(LocalFileSystem::new_with_prefix(dir.path()).unwrap()));
}

#[test]
fn a_url_of_a_local_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (store, missing) = (dir.path().join("store"), dir.path().join("made/later"));
    let db = Db::open(&store).unwrap();
    let place = BackupFs::open(&format!("file://{}", missing.display())).unwrap();
    let error = Backup::open_in(place.path(), &place.env()).unwrap_err();
    assert!(*error.kind() == ErrorKind::Invalid && !missing.exists(), "{error}");
    db.backup_in(place.path(), &place.env(), BackupOptions::default()).unwrap();
    // The files have the names that a local directory of backups has.
    assert!(Backup::open(&missing).unwrap().verify(1).unwrap().damage.is_empty());
}

#[test]
fn a_damaged_truncated_or_missing_object_is_refused_by_name() {
    let home = Home::new(Arc::new(InMemory::new()));
    home.put("john", "33");
    home.backup().unwrap();
    let name = home.files().remove(0);
    let whole = home.bytes(&name);
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let longer = [&whole[..], b"x"].concat();
    let damages = [Some(flipped), Some(whole[..whole.len() - 1].to_vec()), Some(longer), Some(Vec::new()), None];
    for (number, damage) in damages.into_iter().enumerate() {
        match damage {
            Some(bytes) => home.replace(&name, bytes),
            None => home.remove(&name),
        }
        let error = home.restore(1, &format!("restored {number}")).unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains(&name), "{number}: {error}");
        let verified = home.backups().verify(1).unwrap();
        assert!(verified.damage.len() == 1 && verified.damage[0].to_string().contains(&name), "{number}");
    }
    home.replace(&name, whole);
    assert_eq!(value(&home.restore(1, "restored").unwrap(), "john"), Some(b"33".to_vec()));
    let description = home.bytes("BACKUP-000001");
    home.replace("BACKUP-000001", description[..description.len() - 3].to_vec());
    assert!(home.restore(1, "cut").unwrap_err().is_corruption());
}

#[test]
fn a_file_left_by_an_interrupted_backup_is_checked_and_used_or_replaced() {
    let home = Home::new(Arc::new(InMemory::new()));
    home.put("john", "33");
    home.backup().unwrap();
    home.remove("BACKUP-000001");
    let again = home.backup().unwrap();
    assert_eq!(again.copied_files, 0, "a whole file is used");
    home.remove("BACKUP-000001");
    let name = home.files().remove(0);
    let mut flipped = home.bytes(&name);
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    home.replace(&name, flipped);
    assert_eq!(home.backup().unwrap().copied_files, 1, "a damaged one is sent again");
    assert!(home.backups().verify(1).unwrap().damage.is_empty());
}

#[test]
fn large_files_are_sent_in_parts() {
    let home = Home::new(Arc::new(InMemory::new()));
    let family = home.db.column_family("users").unwrap();
    let mut state = 1u64;
    for number in 0..20_000u32 {
        let value: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(1000)
        .collect();
        family.put(format!("{number:08}"), value).unwrap();
    }
    home.db.flush().unwrap();
    let made = home.backup().unwrap();
    assert!(made.bytes > 16 << 20, "{made:?}");
    assert!(home.backups().verify(1).unwrap().damage.is_empty());
}

#[test]
fn a_lock_keeps_others_out_until_it_is_old() {
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let clock = Arc::new(ManualClock::default());
    let now = waxseal::env::SystemClock::new().wall_micros();
    clock.advance_nanos(now * 1000);
    let env = Env { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..Env::real() };
    let process = || BackupFs::new(RemoteDirectory::of(URL, Arc::clone(&objects)).unwrap(), env.clone());
    let (one, other) = (process(), process());
    let path = Path::new(URL).join("LOCK");
    let held = one.lock(&path, "process 1").unwrap().unwrap();
    let busy = other.lock(&path, "process 2").unwrap().unwrap_err();
    assert!(busy.starts_with("process 1 on ") && busy.contains("mem://bucket/prefix/LOCK"), "{busy}");
    let description = Path::new(URL).join("BACKUP-000001");
    let write = |fs: &BackupFs| {
        let file = fs.open(&Path::new(URL).join("BACKUP-000001.tmp"), Open::Create).unwrap();
        file.write_at(b"description", 0).unwrap();
    };
    let create = |fs: &BackupFs| fs.rename(&Path::new(URL).join("BACKUP-000001.tmp"), &description);
    let directory = RemoteDirectory::of(URL, Arc::clone(&objects)).unwrap();
    let tag = || directory.head("LOCK").unwrap().etag;
    let made = tag();
    write(&one);
    assert_eq!(tag(), made);
    clock.advance_nanos(30_000_000_000);
    write(&one);
    assert_ne!(tag(), made, "a sign of life");
    clock.advance_nanos(200_000_000_000);
    let taken = other.lock(&path, "process 2").unwrap().unwrap();
    // The first one has slept: it may not make a backup now.
    let lost = create(&one).unwrap_err().to_string();
    assert!(lost.contains("mem://bucket/prefix/LOCK") && !one.exists(&description).unwrap(), "{lost}");
    drop(held);
    assert!(one.exists(&path).unwrap(), "the lock of another process stays");
    for attempt in ["made", "its answer was lost"] {
        write(&other);
        create(&other).expect(attempt);
    }
    drop(taken);
    assert!(!one.exists(&path).unwrap());
}

#[test]
fn two_backups_at_once_are_one() {
    let home = Home::new(Arc::new(InMemory::new()));
    home.put("john", "33");
    let path = Path::new(URL).join("LOCK");
    let other = BackupFs::new(home.directory(), Env::real());
    let held = other.lock(&path, "process 7").unwrap().unwrap();
    let error = home.backup().unwrap_err();
    assert!(*error.kind() == ErrorKind::Locked && error.to_string().contains("process 7"), "{error}");
    drop(held);
    assert_eq!(home.backup().unwrap().id, 1);
}

#[test]
fn a_description_is_never_replaced() {
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let fs = BackupFs::new(RemoteDirectory::of(URL, Arc::clone(&objects)).unwrap(), Env::real());
    let create = |text: &[u8]| {
        let unfinished = Path::new(URL).join("BACKUP-000001.tmp");
        fs.open(&unfinished, Open::Create)?.write_at(text, 0)?;
        fs.rename(&unfinished, &Path::new(URL).join("BACKUP-000001"))
    };
    create(b"one").unwrap();
    assert_eq!(create(b"other").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn an_object_replaced_while_it_is_read_is_an_error() {
    let home = Home::new(Arc::new(InMemory::new()));
    home.replace("file", vec![1; 100]);
    let mut download = Download::open(&home.directory(), "file").unwrap();
    home.replace("file", vec![2; 100]);
    let error = download.read_at(&mut [0; 10], 0).unwrap_err().to_string();
    assert!(error.contains("mem://bucket/prefix/file was replaced"), "{error}");
}

#[test]
fn a_directory_with_other_objects_is_refused() {
    let home = Home::new(Arc::new(InMemory::new()));
    home.replace("notes.txt", vec![1]);
    let error = home.backup().unwrap_err();
    assert!(*error.kind() == ErrorKind::Invalid && error.to_string().contains("notes.txt"), "{error}");
    assert_eq!(home.names(), ["notes.txt"]);
}
