//! Entry points for fuzzers: any bytes as the description of an export, its table, and the paper's rows. All input is
//! decoded or rejected, nothing panics, and a pass over sorted records writes sorted records.

use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Protection, RecordSource, RowRewriter};

use waxseal_meta::exchange::Manifest;
use waxseal_meta::exchange::pairing::{Pairing, PairingOutput};
use waxseal_meta::exchange::row::RowForm;

/// Decodes bytes as `EXCHANGE`, and as records and rows for a pairing.
pub fn fuzz_exchange(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::decode(bytes) {
        assert_eq!(Manifest::decode(&manifest.encode()).ok().as_ref(), Some(&manifest), "read back as another");
    }
    fuzz_rows(bytes);
}

/// Splits bytes into records, sorts them as a table would, and runs every form of pairing over them.
pub fn fuzz_rows(bytes: &[u8]) {
    let mut records: Vec<(&[u8], u64, Kind, &[u8])> = Vec::new();
    let mut rest = bytes;
    while let [key_len, value_len, seqno, flags, tail @ ..] = rest {
        let key_len = usize::from(*key_len % 8).min(tail.len());
        let (key, tail) = tail.split_at(key_len);
        let value_len = usize::from(*value_len % 64).min(tail.len());
        let (value, tail) = tail.split_at(value_len);
        let kind = if flags & 1 == 0 { Kind::Put } else { Kind::Delete };
        records.push((key, u64::from(*seqno), kind, value));
        rest = tail;
    }
    records.sort_by(|a, b| a.0.cmp(b.0).then(b.1.cmp(&a.1)));
    records.dedup_by(|a, b| (a.0, a.1) == (b.0, b.1));
    for form in [RowForm::Faithful, RowForm::Literal, RowForm::Safe] {
        for written in [PairingOutput::Both, PairingOutput::SafeRows, PairingOutput::Nothing] {
            let mut pass = Pairing::new(form, written, Box::new(|_| Ok(())));
            let source = RecordSource { protection: Protection::None, file: "000001.tbl", offset: 64 };
            for (key, seqno, kind, value) in &records {
                let record = Record { key, seqno: *seqno, kind: *kind, value, companion: &[] };
                if !pass.takes(&record, source).unwrap_or(true) {
                    let _ = pass.sees(&record, true, source);
                }
            }
            let _ = pass.ends();
            let mut rows = std::iter::from_fn(|| pass.next_group()).flatten();
            let mut before = match rows.next() {
                Some(row) => row,
                None => continue,
            };
            for row in rows {
                let order = before.key.cmp(&row.key).then(row.seqno.cmp(&before.seqno));
                assert!(order.is_lt(), "{before:?} before {row:?}");
                before = row;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// Bytes from a small set, so that keys are equal, nest and end in 01.
        #[test]
        fn any_bytes_are_rows_or_records(bytes in vec(prop_oneof![0u8..4, Just(24), any::<u8>()], 0..200)) {
            super::fuzz_exchange(&bytes);
        }
    }
}
