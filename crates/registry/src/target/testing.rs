//! Targets for tests, including unusual ones.

use proptest::collection::vec;
use proptest::prelude::*;
use waxseal_lsm::checksum::Uid;

use super::{TableName, Target};

/// The teacher of the paper's examples.
pub(crate) fn john() -> Target {
    Target::row(TableName::new("School", "Teacher"), vec![b"John".to_vec()], Vec::new())
}

/// Names that need escapes, from a small set so that some coincide.
pub(crate) fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab]{1,2}",
        "[a.,:#()\\\\]{1,4}",
        Just("node".to_owned()),
        Just("x41".to_owned()),
        Just("a\0b".to_owned()),
        Just("\u{85}é\n".to_owned()),
    ]
}

/// Keys of any bytes, often with bytes that need escapes.
pub(crate) fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just(0u8), Just(1), Just(0xFF), Just(b'.'), Just(b'('), Just(b'\\'), Just(b'a'), any::<u8>()], 0..4)
}

/// Any target.
pub(crate) fn target() -> impl Strategy<Value = Target> {
    let table = || (name(), name()).prop_map(|(keyspace, table)| TableName { keyspace, table });
    let some = || vec(bytes(), 1..3);
    prop_oneof![
        1 => Just(Target::Cluster),
        1 => name().prop_map(Target::Keyspace),
        1 => table().prop_map(Target::Table),
        2 => (table(), some()).prop_map(|(table, partition)| Target::Partition { table, partition }),
        2 => (table(), some(), some()).prop_map(|(table, partition, clustering)| Target::Row { table, partition, clustering }),
        1 => (table(), name()).prop_map(|(table, column)| Target::Column {
            table, partition: Vec::new(), clustering: Vec::new(), column
        }),
        2 => (table(), some(), vec(bytes(), 0..3), name()).prop_map(|(table, partition, clustering, column)| Target::Column {
            table, partition, clustering, column
        }),
        1 => name().prop_map(Target::Family),
        2 => (name(), bytes()).prop_map(|(family, key)| Target::Key { family, key }),
        1 => name().prop_map(Target::Node),
        1 => any::<[u8; 16]>().prop_map(|uid| Target::TableFile(Uid(uid))),
        1 => name().prop_map(Target::Engine),
    ]
}
