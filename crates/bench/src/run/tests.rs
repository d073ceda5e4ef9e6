use super::*;
use crate::engine::Feature;
use clap::ValueEnum;

fn plan(engine: Name, steps: &[Step], dir: PathBuf) -> Plan {
    Plan {
        engine,
        steps: steps.to_vec(),
        num: 2_000,
        ops: Some(500),
        threads: 2,
        key_bytes: 16,
        value_bytes: 100,
        batch: 64,
        settings: Settings::new(8 << 20, 1 << 20),
        seed: 1,
        dir,
        warm: true,
        cold: false,
        kill: false,
        span: Span { all: Duration::from_millis(50), window: Duration::from_millis(10) },
        windows: None,
    }
}

fn reports(plan: &Plan) -> Vec<StepReport> {
    let mut reports = Vec::new();
    run(plan, &mut |report| {
        reports.push(report);
        Ok(())
    })
    .expect("runs");
    reports
}

#[test]
fn a_report_has_the_fields_of_the_contract_in_their_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let reports = reports(&plan(Name::Null, &[Step::FillRandom], dir.path().into()));
    let line = serde_json::to_string(&reports[0]).expect("printed");
    let names: Vec<&str> =
        line.split('"').skip(1).step_by(2).filter(|word| !["null", "fillrandom"].contains(word)).collect();
    assert_eq!(
        names,
        [
            "engine",
            "bench",
            "threads",
            "ops",
            "ops_per_s",
            "p50_us",
            "p99_us",
            "p999_us",
            "max_us",
            "cpu_us_per_op",
            "written_bytes",
            "disk_bytes",
            "peak_rss_bytes",
            "found"
        ]
    );
}

#[test]
fn every_step_does_its_operations_on_the_null_store() {
    let dir = tempfile::tempdir().expect("a directory");
    // Opening comes first; the other steps in any order.
    let mut steps = Step::value_variants().to_vec();
    steps.rotate_right(1);
    for report in reports(&plan(Name::Null, &steps, dir.path().into())) {
        let expected = match report.bench.as_str() {
            "fillseq" | "bulkload" | "fillrandom" | "fillbatch" | "overwrite" => 2_000,
            "settle" | "sync" | "backup" | "compact" | "open" => 1,
            "mixed" => report.ops.max(1),
            "readseq" | "readreverse" | "changes" => 0,
            _ => 500,
        };
        assert_eq!(report.ops, expected, "{}", report.bench);
        assert_eq!(report.found, 0, "{}", report.bench);
    }
}

#[test]
fn real_stores_find_what_was_written_and_nothing_else() {
    use Step::{
        FillRandom, ReadMissing, ReadRandom, ReadReverse, ReadSeq, ReadWhileWriting, SeekRandom, Settle, YcsbC, YcsbD,
    };
    for engine in Name::built().into_iter().filter(|name| *name != Name::Null) {
        let dir = tempfile::tempdir().expect("a directory");
        let steps = [
            FillRandom,
            Settle,
            ReadRandom,
            ReadMissing,
            ReadSeq,
            ReadReverse,
            SeekRandom,
            ReadWhileWriting,
            YcsbC,
            YcsbD,
        ];
        let reports = reports(&plan(engine, &steps, dir.path().into()));
        let found = |step: Step| reports.iter().find(|report| report.bench == step.text()).map(|report| report.found);
        assert_eq!(found(ReadRandom), Some(500), "{engine:?}");
        assert_eq!(found(ReadMissing), Some(0), "{engine:?}");
        assert_eq!(found(ReadWhileWriting), Some(500), "{engine:?}");
        assert_eq!(found(YcsbC), Some(500), "{engine:?}");
        assert!(found(YcsbD) >= Some(440), "{engine:?}");
        assert!(found(SeekRandom) > Some(4_500), "{engine:?}");
        let rows = found(ReadSeq);
        assert!(rows > Some(2 * 1_100) && rows == found(ReadReverse), "{engine:?} {rows:?}");
    }
}

#[test]
fn transactions_find_their_records_and_ranges_are_deleted() {
    use Step::{Counter, DeleteRange, FillRandom, ReadSeq, TransactHigh, TransactLow};
    for engine in Name::built().into_iter().filter(|name| *name != Name::Null) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut plan = plan(engine, &[FillRandom, TransactLow, TransactHigh, Counter], dir.path().into());
        plan.settings.transactional = true;
        let found: Vec<u64> = reports(&plan).iter().map(|report| report.found).collect();
        assert_eq!(found, [0, 1_000, 1_000, 0], "{engine:?}");
        plan.settings.transactional = false;
        plan.steps = vec![DeleteRange, ReadSeq];
        // 500 ranges of 100 keys cover nearly all of 2,000 keys; each of two threads scans what is left.
        assert!((2..200).contains(&reports(&plan)[1].found), "{engine:?}");
    }
}

#[test]
fn merges_count_in_stores_that_have_them() {
    for name in Name::built().into_iter().filter(|name| *name != Name::Null) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut plan = plan(name, &[Step::Merge], dir.path().into());
        plan.settings.merging = true;
        assert_eq!(run(&plan, &mut |_| Ok(())).is_ok(), name.has(Feature::Merge), "{name:?}");
        if name.has(Feature::Merge) {
            let store = engine::open(name, dir.path(), &plan.settings).expect("a store");
            let value = store.reader(View::Latest).expect("a reader").fetch(b"counter").expect("a read");
            assert_eq!(value, Some(500u64.to_le_bytes().to_vec()), "{name:?}");
        }
    }
}

/// The changes are the records of the fill, in order; the second backup is added to the first one; the tables with a
/// key's first bytes are found.
#[test]
fn changes_backups_and_properties_are_those_of_the_store() {
    let steps = [Step::FillSeq, Step::Changes, Step::Settle, Step::Backup, Step::YcsbA, Step::Backup, Step::TablesWith];
    for name in Name::built().into_iter().filter(|name| *name != Name::Null) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut plan = plan(name, &steps, dir.path().join("store"));
        (plan.threads, plan.settings.feeding, plan.settings.collecting) = (1, true, true);
        for (feature, steps) in
            [(Feature::Changes, &steps[..2]), (Feature::Backup, &steps[2..6]), (Feature::Properties, &steps[6..])]
        {
            plan.steps = steps.to_vec();
            let mut reports = Vec::new();
            let outcome = run(&plan, &mut |report| {
                reports.push(report);
                Ok(())
            });
            assert_eq!(outcome.is_ok(), name.has(feature), "{name:?} {feature:?}");
            match feature {
                Feature::Changes if outcome.is_ok() => assert_eq!(reports[1].found, plan.num, "{name:?}"),
                Feature::Backup if outcome.is_ok() => assert!(engine::backups_of(&plan.dir).exists(), "{name:?}"),
                Feature::Properties if outcome.is_ok() => assert!(reports[0].found >= reports[0].ops, "{name:?}"),
                _ => {}
            }
        }
    }
}

/// The filter drops every second key, and a prefix has ten rows or none, in every store.
#[test]
fn filters_drop_keys_and_prefixes_have_their_rows() {
    for name in Name::built().into_iter().filter(|name| *name != Name::Null) {
        let dir = tempfile::tempdir().expect("a directory");
        let steps = [Step::FillSeq, Step::Settle, Step::ReadPrefix, Step::ReadSeq];
        let mut plan = plan(name, &steps, dir.path().into());
        (plan.threads, plan.settings.prefix_bytes) = (1, Some(plan.key_bytes - 1));
        let found: Vec<u64> = reports(&plan).iter().map(|report| report.found).collect();
        assert_eq!(found, [0, 0, 250 * 10, plan.num], "{name:?}");
        plan.steps = vec![Step::Compact, Step::ReadSeq];
        plan.settings.filtering = true;
        let mut rows = 0;
        let outcome = run(&plan, &mut |report| {
            rows = report.found;
            Ok(())
        });
        assert_eq!((outcome.is_ok(), rows), if name.has(Feature::Filter) { (true, plan.num / 2) } else { (false, 0) });
    }
}

#[test]
fn an_opening_that_does_not_come_first_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let plan = plan(Name::Null, &[Step::FillRandom, Step::Open], dir.path().into());
    assert!(run(&plan, &mut |_| Ok(())).is_err());
}

#[test]
fn a_queue_gives_every_row_it_was_given_and_ends_as_long_as_it_was() {
    for engine in Name::built().into_iter().filter(|name| *name != Name::Null) {
        for threads in [1, 2] {
            let dir = tempfile::tempdir().expect("a directory");
            let steps = [Step::Queue, Step::ReadSeq];
            let plan =
                Plan { ops: Some(4_000), num: 10_000, threads, warm: false, ..plan(engine, &steps, dir.path().into()) };
            let reports = reports(&plan);
            let depth = 1_000 * threads;
            assert_eq!(reports[0].found, 4_000 - depth, "{engine:?} {threads}");
            assert_eq!(reports[1].found, depth * threads, "{engine:?} {threads}");
        }
    }
}

#[test]
fn the_mixed_load_has_a_point_a_window() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("windows.json");
    let plan = Plan {
        windows: Some(file.clone()),
        ..plan(Name::Waxseal, &[Step::FillRandom, Step::Mixed], dir.path().join("store"))
    };
    let reports = reports(&plan);
    let windows: Vec<Window> =
        serde_json::from_slice(&std::fs::read(file).expect("written")).expect("an array of windows");
    assert!((5..=1024).contains(&windows.len()), "{}", windows.len());
    assert_eq!(windows.iter().map(|window| window.ops).sum::<u64>(), reports[1].ops);
}

#[test]
fn a_store_that_was_driven_out_of_the_page_cache_opens_as_before() {
    let dir = tempfile::tempdir().expect("a directory");
    reports(&plan(Name::Waxseal, &[Step::FillRandom, Step::Settle], dir.path().into()));
    let plan = Plan { cold: true, ..plan(Name::Waxseal, &[Step::Open, Step::ReadRandom], dir.path().into()) };
    let reports = reports(&plan);
    assert_eq!((reports[0].ops, reports[0].found, reports[1].found), (1, 1, 500));
}
