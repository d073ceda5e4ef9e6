//! Tests of cursors that rely on cached statements about leaves in which every key is deleted.

use super::*;
use crate::cursor::testing::CaseFolded;
use crate::merge::MergeSource;

/// Rows are inserted in ascending or random order, and deleted in ascending or random order, some rows later; a few
/// stay, a few are written twice.
fn comings_and_goings() -> impl Strategy<Value = Vec<Owned>> {
    (vec((any::<u32>(), any::<u32>(), 0u8..30), 1..300), any::<[bool; 2]>(), 1usize..80).prop_map(
        |(rows, [come_in_order, go_in_order], behind)| {
            let mut steps = Vec::new();
            for (n, (come, go, fate)) in rows.iter().enumerate() {
                let come = if come_in_order { n } else { *come as usize % rows.len() };
                let gone = if go_in_order { n } else { n - *go as usize % behind.min(n + 1) };
                steps.push((2 * come, n, Kind::Put));
                match fate {
                    0 | 1 => {}
                    2 => steps.push((2 * (come + behind), n, Kind::Put)),
                    _ => steps.push((2 * (gone + behind) + 1, n, Kind::Delete)),
                }
            }
            steps.sort_by_key(|(moment, n, _)| (*moment, *n));
            let record = |(seqno, (_, n, kind)): (usize, (usize, usize, Kind))| Owned {
                key: format!("k{n:04}").into_bytes(),
                seqno: seqno as Seqno + 1,
                kind,
                value: if kind == Kind::Put { seqno.to_string().into_bytes() } else { vec![] },
                companion: vec![],
            };
            steps.into_iter().enumerate().map(record).collect()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// In one memtable, or with some of the records in an older source; with keys distinguished by their bytes, or
    /// equal regardless of case.
    #[test]
    fn what_others_found_hides_nothing_that_is_there(
        records in comings_and_goings(), is_folded: bool, cut in prop_oneof![Just(0), 0usize..100],
        looks in vec((prop_oneof![2 => Just(100), 1 => 0usize..100], 0usize..320, 0usize..640, any::<bool>()), 1..12),
    ) {
        let mut records = records;
        let mut order = Order::bytewise();
        if is_folded {
            order = Order::custom(Arc::new(CaseFolded));
            records.iter_mut().filter(|record| record.seqno % 3 == 0).for_each(|record| record.key[0] = b'K');
        }
        let (older, newer) = records.split_at(records.len() * cut / 100);
        let memtable = Arc::new(Memtable::new(order.clone()));
        newer.iter().for_each(|record| memtable.insert(&record.borrow(), 0).unwrap());
        for (part, from, to, turns) in looks {
            let seqno = (records.len() * part / 100) as Seqno;
            let bounds = (
                Bound::Included(format!("k{from:04}").into_bytes()),
                if to < 320 { Bound::Excluded(format!("k{to:04}").into_bytes()) } else { Bound::Unbounded },
            );
            let view = view(&order, &records, seqno, &bounds);
            let mut sources = vec![MergeSource::Memtable(Box::new(memtable.cursor()))];
            if !older.is_empty() {
                sources.push(MergeSource::Other(Box::new(VecCursor::new(&order, older))));
            }
            let merge = MergeCursor::of(order.clone(), sources);
            let mut cursor = UserCursor::over(order.clone(), merge, seqno, bounds);
            let mut met = Vec::new();
            cursor.first().unwrap();
            while cursor.valid() {
                met.push(Owned::from(cursor.record()));
                cursor.next().unwrap();
                if turns && cursor.valid() {
                    // Back and forward again, over the skipped records.
                    cursor.prev().unwrap();
                    prop_assert_eq!(Some(&Owned::from(cursor.record())), met.last());
                    cursor.next().unwrap();
                }
            }
            prop_assert_eq!(met, view, "at {}", seqno);
        }
    }
}
