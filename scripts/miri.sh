#!/usr/bin/env bash
# The memtable under Miri: every access of the arena's bytes and of the leaves' words, beside readers and without. Needs nightly and its component `miri`.
#
#   scripts/miri.sh [TEST..]      memtable by default; some minutes
set -euo pipefail
cd "$(dirname "$0")/.."

# Proptest reads its own directory, and asks the machine for a seed.
export MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}" PROPTEST_CASES="${PROPTEST_CASES:-3}"
# `crossbeam-epoch` 0.9 does what Miri refuses: there the arena stands in its place (memtable/tests.rs), and the tests of the skip list are left out.
cargo +nightly miri test -p waxseal-lsm --lib -- "${@:-memtable::}" --skip skiplist
