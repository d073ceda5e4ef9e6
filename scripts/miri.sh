#!/usr/bin/env bash
# The memtable under Miri: every access of the arena's bytes and of the leaves' words, beside readers and without. Needs nightly and its component `miri`.
#
#   scripts/miri.sh [TEST..]      memtable by default; some minutes
set -euo pipefail
cd "$(dirname "$0")/.."

# Proptest reads its own directory, and asks the machine for a seed.
export MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}" PROPTEST_CASES="${PROPTEST_CASES:-3}"
# Miri rejects `crossbeam-epoch` 0.9, so the comparison with the skip list is left out there (memtable/tests.rs).
cargo +nightly miri test -p waxseal-lsm --lib -- "${@:-memtable::}"
