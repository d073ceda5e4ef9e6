//! Verification and digests: no false alarm, and an unreadable file is not a damaged one.

use std::io::ErrorKind;
use std::ops::Bound;
use std::path::Path;

use waxseal_lsm::db::At;
use waxseal_lsm::env::sim::Fault;
use waxseal_lsm::options::Compression;
use waxseal_lsm::record::Kind;
use waxseal_meta::integrity::{Outcome, RepairOptions, VerifyOptions, digest, repair, verify, verify_closed};

use super::withholding::*;
use super::world::*;

#[test]
fn verify_has_no_false_alarm() {
    for (compression, seal_column) in codecs().into_iter().flat_map(|codec| [(codec, false), (codec, true)]) {
        let mut world = World::new(options(compression, seal_column));
        world.fill(0, 300);
        world.compact();
        world.fill(200, 200);
        world.db.flush().unwrap();
        world.apply(Kind::Delete, &key(7), b"");
        let report = verify(&world.db, VerifyOptions::default()).unwrap();
        assert!(report.damage.is_empty(), "{report}");
        assert_eq!((report.records, report.validated, report.files), (501, 501, 2), "{report}");
        let sim = world.closed();
        let parts = parts(&sim, &world.options);
        let report = verify_closed(Path::new(DIR), settings(), parts, VerifyOptions::default()).unwrap();
        assert!(report.damage.is_empty() && report.validated == 501, "{report}");
    }
}

/// A device that does not answer says nothing of what is in a file: that is told apart from damage, and nothing is
/// repaired for it.
#[test]
fn a_table_that_cannot_be_opened_is_not_called_damaged() {
    let (sim, model, table, _) = one_table(options(Compression::None, false), 300);
    let world = reopened(&sim, &options(Compression::None, false), &model);
    for (kind, is_unread) in [(ErrorKind::PermissionDenied, true), (ErrorKind::NotFound, false)] {
        // Whatever step it is at which the table is opened: the first that a look at the store takes.
        sim.fail_at(sim.steps() + 1, Fault::Error(kind));
        let report = verify(&world.db, VerifyOptions::default()).unwrap();
        let [finding] = &report.damage[..] else { panic!("{report}") };
        assert_eq!((finding.outcome == Outcome::Unread, report.unread == 1), (is_unread, is_unread), "{report}");
        assert_eq!(report.tables.len(), usize::from(!is_unread));
        if is_unread {
            assert_eq!(Path::new(DIR).join(&finding.file), table);
            assert_eq!((report.lost, report.structural), (0, 0));
            assert!(report.json().contains("\"verdict\":\"io\"") && !report.is_clean());
        }
    }
    sim.fail_at(sim.steps() + 1, Fault::Error(ErrorKind::PermissionDenied));
    let report = repair(&world.db, RepairOptions::default()).unwrap();
    assert_eq!((report.unread, report.repaired, report.damage[0].outcome), (1, 0, Outcome::Unread), "{report}");
    assert!(world.db.quarantined_tables(&world.family).is_empty() && world.db.lost_ranges(&world.family).is_empty());
    world.assert_clean();
}

#[test]
fn a_digest_tells_content_and_not_layout() {
    let mut world = World::new(options(Compression::None, false));
    world.fill(0, 200);
    let in_memory = world.digest();
    assert_eq!(in_memory.count, 200);
    world.db.flush().unwrap();
    assert_eq!(world.digest(), in_memory);
    world.compact();
    let sim = world.closed();
    let again = reopened(&sim, &options(codecs().pop().unwrap(), true), &world.model);
    assert_eq!(again.digest(), in_memory);
    again.compact();
    assert_eq!(again.digest(), in_memory);
    let half =
        |from: Bound<Vec<u8>>, to: Bound<Vec<u8>>| digest(&again.db, &again.family, &(from, to), At::Latest).unwrap();
    let (low, high) =
        (half(Bound::Unbounded, Bound::Excluded(key(90))), half(Bound::Included(key(90)), Bound::Unbounded));
    assert_eq!(low.and(high), in_memory);
    // Another order of writes, other seqnos, one record that came and went: the same.
    let mut other = World::new(options(Compression::None, false));
    other.fill(100, 100);
    other.apply(Kind::Put, b"gone", b"x");
    other.fill(0, 100);
    other.apply(Kind::Delete, b"gone", b"");
    assert_eq!(other.digest(), in_memory);
    other.apply(Kind::Put, &key(5), b"other");
    assert_ne!(other.digest(), in_memory);
}

#[test]
fn verify_tells_a_block_that_cannot_be_read_from_one_that_is_damaged() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    let disk = Withholding::new(&sim);
    let world = disk.world(&options, &model);
    let place = place_of(&sim, &table, &model[&key(50)]);
    for reads in [0b111, ALWAYS] {
        disk.fail_reads(&table, place, reads);
        let report = verify(&world.db, VerifyOptions::default()).unwrap();
        assert_eq!((report.unread, report.structural), (1, 0), "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Unread), "{report}");
    }
    disk.release();
    world.assert_clean();
}
