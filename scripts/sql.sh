#!/usr/bin/env bash
# Checks SQL over tables (crates/sql), the features `arrow` of the tables and the tool, and `parquet` of the corpus. CI
# does not build them, since DataFusion alone takes some ten minutes to compile.
#
#   scripts/sql.sh                            clippy, and all tests that need one of these features
#   scripts/sql.sh tpch [SCALE] [QUERY..]     TPC-H beside DuckDB; by default scale 0.01, all queries
#   scripts/sql.sh random [SEED] [COUNT]      random queries beside DuckDB; by default seed 1, 500 queries
#   scripts/sql.sh build                      only compiles what the tests need
#
# These need Python 3.10 or newer with venv: DuckDB and its TPC-H extension are installed by pip. The store is made
# once for each scale, in target/tpch.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_INCREMENTAL=0

# Every command chooses the same packages and features, so that DataFusion is compiled once.
choice=(--locked --profile sql -p waxseal-sql -p waxseal-table -p waxseal-corpus -p waxseal-cli)
choice+=(--features waxseal-sql/datafusion,waxseal-cli/sql,waxseal-cli/arrow,waxseal-corpus/parquet)

# with_duckdb SCRIPT ARGS..: runs a script with the tool and DuckDB. The tool is built with its test: `cargo build` has
# other features of some crates, so that it would compile DataFusion again.
with_duckdb() {
    cargo test --quiet "${choice[@]}" --test tool --no-run
    if [[ ! -x target/tpch/venv/bin/python ]]; then
        python3 -m venv target/tpch/venv
        target/tpch/venv/bin/pip install --quiet duckdb==1.5.5 duckdb-extension-tpch==1.5.5
    fi
    target/tpch/venv/bin/python "scripts/$1" target/sql/waxseal "${@:2}"
}

case ${1:-test} in
build) cargo test "${choice[@]}" --lib --bins --tests --no-run ;;
test)
    cargo clippy "${choice[@]}" --all-targets -- -D warnings
    cargo test "${choice[@]}" --lib --bins --tests
    cargo test "${choice[@]}" --doc
    ;;
tpch) with_duckdb tpch.py target/tpch "${2:-0.01}" "${@:3}" ;;
random) with_duckdb sql_random.py "${2:-1}" "${3:-500}" ;;
*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2 && exit 1 ;;
esac
