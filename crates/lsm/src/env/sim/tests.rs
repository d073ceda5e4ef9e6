//! Directed tests of each fault and each loss; random operations compare the whole with `MemoryFs` and the operating
//! system's files.

use std::collections::BTreeSet;

use super::*;
use crate::env::Clock;

mod model;
mod same;

const DURABLE: Crash = Crash::Machine(Loss::DurableOnly);
const ALL: Crash = Crash::Machine(Loss::KeepAll);

fn path(name: &str) -> &Path {
    Path::new(name)
}

/// Creates a disk with a durable file `a` of these bytes.
fn with_file(seed: u64, bytes: &[u8]) -> SimFs {
    let sim = SimFs::new(seed);
    sim.write_all("a", bytes).unwrap();
    sim
}

fn create(sim: &SimFs, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = sim.open(path(name), Open::Create).unwrap();
    file.write_at(bytes, 0).unwrap();
    file
}

fn open(sim: &SimFs, name: &str) -> Arc<dyn File> {
    sim.open(path(name), Open::Write).unwrap()
}

fn sync_root(sim: &SimFs) {
    sim.sync_dir(path("")).unwrap();
}

/// Returns the contents of `a` after a crash of this kind on a copy.
fn left(sim: &SimFs, crash: Crash) -> Vec<u8> {
    let copy = sim.fork();
    copy.reboot(crash);
    copy.read_all("a").unwrap()
}

/// Returns the possible contents of `a` after a crash, over 300 seeds.
fn leavings(sim: &SimFs, policy: impl Fn(u64) -> Loss) -> BTreeSet<Vec<u8>> {
    (0..300).map(|seed| left(sim, Crash::Machine(policy(seed)))).collect()
}

#[test]
fn what_was_synced_survives_and_what_was_not_is_lost() {
    let sim = SimFs::new(1);
    let file = create(&sim, "a", b"first");
    file.sync_data().unwrap();
    sync_root(&sim);
    file.write_at(b"second", 5).unwrap();
    create(&sim, "b", b"nameless").sync_data().unwrap();
    assert_eq!(left(&sim, Crash::Process), b"firstsecond");
    assert_eq!(left(&sim, ALL), b"firstsecond");
    sim.reboot(DURABLE);
    assert_eq!(sim.files(""), ["a"]);
    assert_eq!(sim.read_all("a").unwrap(), b"first");
}

#[test]
fn all_losses_spare_what_was_synced() {
    for seed in 0..50 {
        for loss in Loss::all(seed) {
            let sim = SimFs::new(1);
            sim.create_dir_all(path("d")).unwrap();
            let file = create(&sim, "d/a", &[7; 10_000]);
            file.write_at(&[8; 1000], 4000).unwrap();
            sim.rename(path("d/a"), path("d/b")).unwrap();
            file.sync_data().unwrap();
            sim.sync_dir(path("d")).unwrap();
            sync_root(&sim);
            let before = sim.read_all("d/b").unwrap();
            sim.reboot(Crash::Machine(loss));
            assert_eq!(sim.files("d"), ["b"], "{loss:?}");
            assert_eq!(sim.read_all("d/b").unwrap(), before, "{loss:?}");
        }
    }
}

#[test]
fn changes_of_names_are_lost_until_the_directory_is_synced() {
    let sim = with_file(1, b"old");
    create(&sim, "t", b"new").sync_data().unwrap();
    sync_root(&sim);
    sim.rename(path("t"), path("a")).unwrap();
    assert_eq!(left(&sim, DURABLE), b"old", "an unsynced rename is lost");
    assert_eq!(left(&sim, Crash::Process), b"new", "but not with the process");
    sync_root(&sim);
    assert_eq!(left(&sim, DURABLE), b"new", "a synced one is not");

    sim.link(path("a"), path("l")).unwrap();
    sim.remove(path("a")).unwrap();
    let found: BTreeSet<Vec<String>> = (0..100)
        .map(|seed| {
            let copy = sim.fork();
            copy.reboot(Crash::Machine(Loss::Random { seed }));
            copy.files("")
        })
        .collect();
    let expected = [vec!["a"], vec!["a", "l"], vec![], vec!["l"]];
    assert_eq!(found, expected.iter().map(|names| names.iter().map(|name| name.to_string()).collect()).collect());
}

#[test]
fn a_rename_between_directories_is_atomic_and_one_sync_makes_it_durable() {
    let sim = SimFs::new(1);
    sim.create_dir_all(path("d")).unwrap();
    sim.create_dir_all(path("e")).unwrap();
    create(&sim, "d/a", b"x").sync_data().unwrap();
    sim.settle();
    create(&sim, "d/t", b"y").sync_data().unwrap();
    sim.rename(path("d/a"), path("e/a")).unwrap();
    sim.rename(path("d/t"), path("d/a")).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let copy = sim.fork();
        copy.reboot(Crash::Machine(Loss::Random { seed }));
        let contents = ["d/a", "e/a"].map(|name| copy.read_all(name).ok());
        let x = contents.iter().flatten().filter(|bytes| *bytes == b"x").count();
        assert_eq!(x, 1, "the file has one name, whatever was lost: {contents:?}");
        seen.insert(contents);
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
    sim.sync_dir(path("e")).unwrap();
    sim.reboot(DURABLE);
    assert_eq!(sim.read_all("e/a").unwrap(), b"x");
    assert!(
        sim.read_all("d/a").is_err_and(|error| error.kind() == ErrorKind::NotFound),
        "the later rename was not synced"
    );
}

#[test]
fn a_directory_that_its_parent_does_not_know_is_lost_with_all_in_it() {
    let sim = SimFs::new(1);
    sim.create_dir_all(path("d")).unwrap();
    create(&sim, "d/a", b"x").sync_data().unwrap();
    sim.sync_dir(path("d")).unwrap();
    sim.reboot(DURABLE);
    assert!(!sim.exists(path("d")).unwrap());
}

#[test]
fn lengths_are_lost_like_data() {
    let sim = with_file(1, &[1; 3000]);
    let file = open(&sim, "a");
    file.write_at(&[2; 3000], 3000).unwrap();
    file.set_len(100).unwrap();
    file.write_at(&[3; 100], 200).unwrap();
    assert_eq!(left(&sim, DURABLE), [1; 3000]);
    let mut last = vec![1; 100];
    last.extend([0; 100]);
    last.extend([3; 100]);
    assert_eq!(left(&sim, ALL), last);
    let lengths: BTreeSet<usize> = leavings(&sim, |seed| Loss::Random { seed }).iter().map(Vec::len).collect();
    assert_eq!(lengths, BTreeSet::from([100, 300, 3000, 6000]));
    file.sync_data().unwrap();
    assert_eq!(left(&sim, DURABLE), last);
}

#[test]
fn data_behind_a_lost_length_does_not_come_back_with_the_next_one() {
    let sim = with_file(1, &[1; 100]);
    open(&sim, "a").write_at(&[2; 200], 50).unwrap();
    let mut cut = 0;
    for seed in 0..100 {
        let sim = sim.fork();
        sim.reboot(Crash::Machine(Loss::Random { seed }));
        if sim.read_all("a").unwrap()[50..] == [2; 50] {
            open(&sim, "a").set_len(250).unwrap();
            assert_eq!(sim.read_all("a").unwrap()[100..], [0; 150]);
            cut += 1;
        }
    }
    assert!(cut > 0);
}

#[test]
fn a_random_loss_leaves_each_sector_at_some_version() {
    let sim = with_file(1, &[0; 8192]);
    let file = open(&sim, "a");
    (1..=3u8).for_each(|version| file.write_at(&[version; 8192], 0).unwrap());
    let leavings = leavings(&sim, |seed| Loss::Random { seed });
    for bytes in &leavings {
        assert!(bytes.chunks(SECTOR).all(|sector| sector[0] <= 3 && sector.iter().all(|byte| *byte == sector[0])));
    }
    let firsts: BTreeSet<u8> = leavings.iter().map(|bytes| bytes[0]).collect();
    assert_eq!(firsts, BTreeSet::from([0, 1, 2, 3]));
    assert!(leavings.iter().any(|bytes| bytes[0] != bytes[SECTOR]), "sectors of a page differ");
    assert!(leavings.contains(&vec![0; 8192]) && leavings.contains(&vec![3; 8192]));
}

#[test]
fn reordered_keeps_the_later_write_and_ordered_the_earlier() {
    let sim = with_file(1, &[0; 8192]);
    let file = open(&sim, "a");
    file.write_at(&[1; 512], 0).unwrap();
    file.write_at(&[2; 512], 4096).unwrap();
    let both = |bytes: &Vec<u8>| (bytes[0], bytes[4096]);
    let reordered: BTreeSet<_> = leavings(&sim, |seed| Loss::Reordered { seed }).iter().map(both).collect();
    assert_eq!(reordered, BTreeSet::from([(1, 2), (0, 2), (0, 0)]));
    let ordered: BTreeSet<_> = leavings(&sim, |seed| Loss::Ordered { seed }).iter().map(both).collect();
    assert_eq!(ordered, BTreeSet::from([(1, 2), (1, 0), (0, 0)]));
}

#[test]
fn names_and_data_are_lost_apart() {
    let sim = SimFs::new(1);
    let file = create(&sim, "a", b"x");
    assert_eq!(left(&sim, Crash::Machine(Loss::Data)), b"");
    file.sync_data().unwrap();
    assert_eq!(left(&sim, Crash::Machine(Loss::Data)), b"x");
    sim.reboot(Crash::Machine(Loss::Names));
    assert!(sim.files("").is_empty());
}

#[test]
fn the_last_sector_is_torn() {
    let sim = with_file(1, &[0; 2048]);
    open(&sim, "a").write_at(&[1; 1024], 512).unwrap();
    let mut expected = vec![0; 2048];
    expected[512..512 + 768].fill(1);
    assert_eq!(left(&sim, Crash::Machine(Loss::TornLastSector)), expected);
}

#[test]
fn the_tail_is_zeros_where_nothing_had_been() {
    let sim = with_file(1, &[9; 512]);
    let file = open(&sim, "a");
    file.write_at(&[1; 512 * 4], 0).unwrap();
    let leavings = leavings(&sim, |seed| Loss::ZeroTail { seed });
    let expected = (1..4).map(|kept| [vec![1; 512 * kept], vec![0; 512 * (4 - kept)]].concat());
    assert_eq!(leavings, expected.collect());
}

#[test]
fn a_store_is_torn_at_every_word_and_every_page() {
    let sim = with_file(1, &[0; 8192]);
    let store = |sim: &SimFs| {
        let mapped = open(sim, "a").map(8192).unwrap().unwrap();
        mapped.store(4064, &[1; 64]);
        mapped.store(0, &[2; 8]);
    };
    let step = sim.steps() + 2;
    for words in 0..=8 {
        let sim = sim.fork();
        sim.crash_within(step, words * 8 + 7);
        store(&sim);
        assert!(sim.is_crashed());
        let mut expected = vec![0; 8192];
        expected[4064..4064 + words as usize * 8].fill(1);
        assert_eq!(left(&sim, Crash::Process), expected, "later stores are dropped, {words} words kept");
    }
    let prefixes: BTreeSet<usize> = (0..200)
        .map(|seed| {
            let sim = with_file(seed, &[0; 8192]);
            sim.crash_at(step);
            store(&sim);
            left(&sim, Crash::Process).iter().filter(|byte| **byte == 1).count()
        })
        .collect();
    assert_eq!(prefixes, (0..=8).map(|words| words * 8).collect(), "chance finds each prefix");

    let whole = sim.fork();
    store(&whole);
    let pages = leavings(&whole, |seed| Loss::Random { seed });
    let pages: BTreeSet<_> = pages.iter().map(|bytes| (bytes[0], bytes[4095], bytes[4096])).collect();
    let expected = [0, 2].into_iter().flat_map(|a| [0, 1].into_iter().flat_map(move |b| [0, 1].map(|c| (a, b, c))));
    assert_eq!(pages, expected.collect());
}

#[test]
fn a_mapping_is_the_file() {
    let sim = with_file(1, &[5; 4096]);
    let file = open(&sim, "a");
    assert!(file.map(8192).is_err(), "past the end");
    assert!(file.map(100).is_err(), "not whole pages");
    let mapped = file.map(4096).unwrap().unwrap();
    mapped.store(8, &[6; 8]);
    let mut seen = [0; 24];
    file.read_at(&mut seen, 0).unwrap();
    assert_eq!(seen, [[5; 8], [6; 8], [5; 8]].concat()[..]);
    file.write_at(&[7; 8], 16).unwrap();
    mapped.load(8, &mut seen[..16]);
    assert_eq!(seen[..16], [[6; 8], [7; 8]].concat());
    assert_eq!(left(&sim, DURABLE), [5; 4096]);
    mapped.sync().unwrap();
    assert_eq!(left(&sim, DURABLE)[..24], [[5; 8], [6; 8], [7; 8]].concat());
    sim.set_mapped(false);
    assert!(file.map(4096).unwrap().is_none() && !sim.reserves_blocks(path("")).unwrap());
}

#[test]
fn a_page_of_many_versions_is_left_at_one_of_them() {
    let sim = with_file(1, &[[0; 520].as_slice(), &[9; 4096 - 520]].concat());
    let mapped = open(&sim, "a").map(4096).unwrap().unwrap();
    for count in 1..=1000u64 {
        mapped.store(512, &count.to_le_bytes());
    }
    let versions = leavings(&sim, |seed| Loss::Random { seed });
    assert!(versions.iter().all(|bytes| bytes[520..] == [9; 4096 - 520]), "what was not stored to is as it was");
    let versions: BTreeSet<u64> =
        versions.iter().map(|bytes| u64::from_le_bytes(bytes[512..520].try_into().unwrap())).collect();
    assert!(versions.contains(&0) && versions.contains(&1000) && versions.len() > 50);
    assert!(versions.iter().all(|count| *count <= 1000));
}

#[test]
fn a_crash_tears_the_step_and_ends_all_others() {
    let sim = with_file(1, b"..........");
    let file = open(&sim, "a");
    for done in 0..=4 {
        let sim = sim.fork();
        let file = open(&sim, "a");
        sim.crash_within(sim.steps(), done);
        assert_eq!(file.write_at(b"abcd", 2).unwrap_err().to_string(), "simulated crash");
        for result in [file.sync_data(), sim.remove(path("a")), sim.sync_dir(path("")), file.len().map(drop)] {
            assert_eq!(result.unwrap_err().to_string(), "simulated crash");
        }
        sim.reboot(Crash::Process);
        let mut expected = *b"..........";
        expected[2..2 + done as usize].copy_from_slice(&b"abcd"[..done as usize]);
        assert_eq!(sim.read_all("a").unwrap(), expected);
        assert!(file.len().is_err(), "a handle of another boot");
    }
    sim.crash_at(sim.steps() + 1);
    file.write_at(b"x", 0).unwrap();
    assert!(!sim.is_crashed());
    assert!(file.len().is_err());
    assert!(sim.is_crashed());
}

#[test]
fn names_change_whole_or_not_at_a_crash() {
    let outcomes: BTreeSet<Vec<String>> = (0..20)
        .map(|seed| {
            let sim = with_file(seed, b"");
            sim.crash_at(sim.steps());
            assert!(sim.rename(path("a"), path("b")).is_err());
            sim.reboot(Crash::Process);
            sim.files("")
        })
        .collect();
    assert_eq!(outcomes, BTreeSet::from([vec!["a".to_owned()], vec!["b".to_owned()]]));
}

#[test]
fn a_crash_in_a_sync_leaves_some_pages_durable() {
    let outcomes: BTreeSet<Vec<u8>> = (0..100)
        .map(|seed| {
            let sim = with_file(seed, &[0; 3 * 4096]);
            let file = open(&sim, "a");
            file.write_at(&[1; 3 * 4096], 0).unwrap();
            sim.crash_at(sim.steps());
            assert!(file.sync_data().is_err());
            left(&sim, DURABLE)
        })
        .collect();
    assert_eq!(outcomes.len(), 8, "each subset of three pages");
}

#[test]
fn a_failed_sync_loses_pages_and_a_later_success_does_not_bring_them_back() {
    let mut lost = 0;
    for seed in 0..30 {
        for fault in [Fault::SyncFailed, Fault::Error(ErrorKind::StorageFull)] {
            let sim = with_file(seed, &[0; 8192]);
            let file = open(&sim, "a");
            file.write_at(&[1; 8192], 0).unwrap();
            sim.fail_at(0, fault);
            assert!(file.sync_data().is_err());
            file.sync_data().unwrap();
            file.write_at(&[2; 8], 16).unwrap();
            let cached = left(&sim, Crash::Process);
            for crash in [DURABLE, ALL] {
                let disk = left(&sim, crash);
                assert!(disk[4096] == 0 || disk[4096] == 1);
                assert!(cached[4096] == disk[4096] || disk[4096] == 0, "the cache may know more than the disk");
                lost += usize::from(disk[4096] == 0);
            }
            let kept = left(&sim, ALL);
            assert!(kept[..4096] == cached[..4096], "a page written again has its cached version to lose");
            file.sync_data().unwrap();
            assert_eq!(left(&sim, DURABLE)[..4096], cached[..4096], "a page written again goes out as it is cached");
        }
    }
    assert!(lost > 30);
}

#[test]
fn a_failed_sync_of_a_directory_loses_names() {
    let found: BTreeSet<usize> = (0..20)
        .map(|seed| {
            let sim = SimFs::new(seed);
            create(&sim, "a", b"");
            sim.fail_at(0, Fault::SyncFailed);
            assert!(sim.sync_dir(path("")).is_err());
            sync_root(&sim);
            assert_eq!(sim.files(""), ["a"]);
            sim.reboot(ALL);
            sim.files("").len()
        })
        .collect();
    assert_eq!(found, BTreeSet::from([0, 1]));
}

#[test]
fn errors_strike_once_or_from_then_on() {
    let sim = with_file(1, b"abc");
    let file = open(&sim, "a");
    sim.fail_at(sim.steps() + 1, Fault::Error(ErrorKind::PermissionDenied));
    assert_eq!(file.len().unwrap(), 3);
    assert_eq!(file.write_at(b"x", 0).unwrap_err().kind(), ErrorKind::PermissionDenied);
    file.write_at(b"y", 1).unwrap();
    assert_eq!(sim.read_all("a").unwrap(), b"ayc");
    assert!(sim.clear_faults());
    sim.fail_from(sim.steps(), Fault::Error(ErrorKind::Other));
    assert!(
        file.len().is_err() && sim.rename(path("a"), path("b")).is_err() && sim.open(path("a"), Open::Read).is_err()
    );
    sim.clear_faults();
    assert_eq!(file.len().unwrap(), 3);
    sim.fail_at(0, Fault::SyncFailed);
    assert_eq!(file.len().unwrap(), 3, "waits for a step that it fits");
    assert!(!sim.clear_faults(), "and is missed");
}

#[test]
fn writes_and_reads_are_short_misdirected_flipped_and_late() {
    let sim = with_file(3, &[0; 8192]);
    let file = open(&sim, "a");
    sim.fail_at(0, Fault::Short);
    assert!(file.write_at(&[1; 100], 0).is_err());
    let short = sim.read_all("a").unwrap().iter().filter(|byte| **byte == 1).count();
    assert!(short < 100);

    sim.write_all("a", &[0; 8192]).unwrap();
    sim.fail_at(0, Fault::MisdirectedWrite);
    file.write_at(&[1; 100], 512).unwrap();
    let bytes = sim.read_all("a").unwrap();
    let at = bytes.iter().position(|byte| *byte == 1).unwrap();
    assert!(at != 512 && at.is_multiple_of(512) && bytes[512..612].iter().all(|byte| *byte == 0) || at == 0);
    assert_eq!(bytes.iter().filter(|byte| **byte == 1).count(), 100);

    let numbers: Vec<u8> = (0..16u8).flat_map(|sector| [sector; 512]).collect();
    sim.write_all("a", &numbers).unwrap();
    let mut seen = [0; 8];
    sim.fail_at(0, Fault::MisdirectedRead);
    assert_eq!(file.read_at(&mut seen, 512 * 3).unwrap(), 8);
    assert_ne!(seen, [3; 8]);
    sim.fail_at(0, Fault::FlippedRead);
    assert_eq!(file.read_at(&mut seen, 0).unwrap(), 8);
    assert_eq!(seen.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    sim.fail_at(0, Fault::Short);
    assert!(file.read_at(&mut seen, 0).unwrap() < 8);

    sim.fail_at(0, Fault::Delay(5_000));
    assert_eq!(file.read_at(&mut seen, 512 * 3).unwrap(), 8);
    assert_eq!(seen, [3; 8]);
    assert_eq!(sim.clock().monotonic_nanos(), 5_000);
}

#[test]
fn a_full_disk_refuses_what_needs_new_blocks_only() {
    let full = |result: io::Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull);
    let sim = SimFs::new(1);
    let file = create(&sim, "a", b"x");
    file.allocate(8192).unwrap();
    sim.set_free_space(Some(4096));
    file.write_at(&[1; 8192], 0).unwrap();
    let mapped = file.map(8192).unwrap().unwrap();
    mapped.store(4096, &[2; 8]);
    full(file.allocate(3 * 4096 + 4096));
    full(file.write_at(&[3; 8192], 8192));
    assert_eq!(file.len().unwrap(), 3 * 4096, "what fitted was written");
    assert_eq!(sim.free_space(), Some(0));
    full(sim.open(path("b"), Open::Create).map(drop));
    full(file.set_len(1 << 20));
    assert!(sim.lock(path("a"), "somebody").unwrap().is_ok(), "the lock file is there already");

    drop((file, mapped));
    sim.remove(path("a")).unwrap();
    assert_eq!(sim.free_space(), Some(4 * 4096));
    let file = create(&sim, "b", &[0; 4096]);
    assert_eq!(sim.free_space(), Some(2 * 4096));
    sim.remove(path("b")).unwrap();
    assert_eq!(sim.free_space(), Some(2 * 4096), "open files keep their blocks");
    drop(file);
    assert_eq!(sim.free_space(), Some(4 * 4096));
    create(&sim, "c", &[0; 4096]);
    sim.reboot(DURABLE);
    assert_eq!(sim.free_space(), Some(4 * 4096), "lost files give theirs back");
}

#[test]
fn locks_go_with_their_holder_or_its_process() {
    let sim = SimFs::new(1);
    let first = sim.lock(path("LOCK"), "first").unwrap().unwrap();
    assert_eq!(sim.lock(path("LOCK"), "second").unwrap().unwrap_err(), "first");
    assert_eq!(sim.held_locks(), [path("LOCK")]);
    sim.reboot(Crash::Process);
    assert!(sim.held_locks().is_empty());
    let _second = sim.lock(path("LOCK"), "second").unwrap().unwrap();
    drop(first);
    assert_eq!(sim.held_locks(), [path("LOCK")], "a dead process lets go of nothing");
    assert!(sim.fork().lock(path("LOCK"), "in a copy").unwrap().is_ok());
}

#[test]
fn open_files_are_counted() {
    let sim = with_file(1, &[0; 4096]);
    let file = open(&sim, "a");
    let mapped = file.map(4096).unwrap().unwrap();
    assert_eq!(sim.open_files(), [path("a"), path("a")]);
    drop(file);
    assert_eq!(sim.open_files(), [path("a")]);
    sim.reboot(Crash::Process);
    assert!(sim.open_files().is_empty());
    let file = open(&sim, "a");
    drop(mapped);
    assert_eq!(sim.open_files().len(), 1);
    drop(file);
    assert!(sim.open_files().is_empty());
}

#[test]
fn the_kernel_changes_with_the_machine_only() {
    let sim = SimFs::new(1);
    let before = sim.machine(path("")).unwrap();
    sim.reboot(Crash::Process);
    assert!(sim.machine(path("")).unwrap().is_same_kernel(&before));
    let copy = sim.copy(Machine { device: 9, ..before });
    assert!(!copy.machine(path("")).unwrap().is_same_kernel(&before));
    sim.reboot(ALL);
    let after = sim.machine(path("")).unwrap();
    assert_ne!(after.boot_id, before.boot_id);
    sim.reboot(ALL);
    assert_ne!(sim.machine(path("")).unwrap().boot_id, after.boot_id);
    sim.set_machine(Machine { boot_id: None, device: 1 });
    sim.reboot(ALL);
    assert_eq!(sim.machine(path("")).unwrap().boot_id, None);
}

#[test]
fn a_fork_shares_nothing_and_a_copy_is_durable() {
    let sim = with_file(1, b"abc");
    let file = open(&sim, "a");
    file.write_at(b"x", 0).unwrap();
    let fork = sim.fork();
    file.write_at(b"y", 1).unwrap();
    assert_eq!(fork.read_all("a").unwrap(), b"xbc");
    assert_eq!(left(&fork, DURABLE), b"abc", "unsynced there as here");
    let copy = sim.copy(Machine::default());
    copy.reboot(DURABLE);
    assert_eq!(copy.read_all("a").unwrap(), b"xyc");
    assert!(file.sync_data().is_ok());
}

#[test]
fn damage_is_on_disk_and_in_the_cache() {
    let sim = with_file(1, &[0; 16]);
    sim.flip("a", 8 * 3 + 2).unwrap();
    let mut expected = [0; 16];
    expected[3] = 4;
    assert_eq!(sim.read_all("a").unwrap(), expected);
    assert_eq!(left(&sim, DURABLE), expected);
    assert!(sim.flip("a", 8 * 16).is_err());
    open(&sim, "a").write_at(&[1], 0).unwrap();
    sim.flip("a", 8 * 4).unwrap();
    expected[4] = 1;
    assert_eq!(left(&sim, DURABLE)[1..], expected[1..]);
    assert_eq!(left(&sim, ALL)[1..], expected[1..]);
    sim.delete("a").unwrap();
    sim.reboot(DURABLE);
    assert!(sim.files("").is_empty());
}

#[test]
fn the_same_seed_leaves_the_same_disk() {
    let run = |seed: u64, loss: u64| {
        let sim = SimFs::new(seed);
        for number in 0..20u64 {
            let file = create(&sim, &number.to_string(), &[number as u8; 5000]);
            if number % 3 == 0 {
                file.sync_data().unwrap();
            }
            file.write_at(&[1; 700], number * 300).unwrap();
        }
        sim.crash_at(sim.steps());
        assert!(sim.sync_dir(path("")).is_err());
        sim.reboot(Crash::Machine(Loss::Random { seed: loss }));
        sim.files("").into_iter().map(|name| (sim.read_all(&name).unwrap(), name)).collect::<Vec<_>>()
    };
    assert_eq!(run(1, 1), run(1, 1));
    assert_ne!(run(1, 1), run(1, 2));
    assert_ne!(run(1, 1), run(2, 1));
}
