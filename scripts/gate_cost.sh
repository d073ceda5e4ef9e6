#!/usr/bin/env bash
# What a put pays for the registry while nothing is registered: instructions and data accesses a put, by callgrind, of the registrar's
# commit beside the engine's own, on one kind of store (crates/bench/examples/cost.rs, `engine` and `registrar`). Nothing here is
# a time: a busy machine gives the same numbers. Other threads, opening and filling are not counted.
#
#   scripts/gate_cost.sh      needs valgrind; ends with a line PASS|FAIL id metric value unit threshold, exit code 0 or 6
set -euo pipefail
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || { echo "INCONCLUSIVE gate_cost instructions_more - instructions 4"; exit 7; }
cargo build --quiet --release -p waxseal-bench --example cost
cost=target/release/examples/cost
dir=$(mktemp -d "${TMPDIR:-/tmp}/gate_cost.XXXXXX")
trap 'rm -rf "$dir"' EXIT
count=10000 # all in the ring and in one memtable: nobody waits for anybody

# Instructions, reads and writes of data within the puts of one way.
puts() {
    rm -rf "$dir/store"
    valgrind --tool=callgrind --cache-sim=yes --toggle-collect="*through_the_$1*" --callgrind-out-file="$dir/out" \
        "$cost" "$1" "$count" "$dir/store" >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 4; }
    # "events: Ir Dr Dw .." and "totals: n n n .." of the file.
    awk '/^totals:|^summary:/ { print $2, $3, $4; exit }' "$dir/out"
}

# Filling goes through the engine too, and is counted with it: a run without puts says how much.
all=$count
count=0
read -r -a filling <<<"$(puts engine)"
count=$all
# The least of five: now and then a put meets the thread behind the log, and does some of its work.
least() {
    for _ in 1 2 3 4 5; do puts "$1"; done | sort -n | head -1
}
read -r -a engine <<<"$(least engine)"
read -r -a registrar <<<"$(least registrar)"
awk -v n="$count" -v f="${filling[*]}" -v e="${engine[*]}" -v r="${registrar[*]}" 'BEGIN {
    split(f, fill); split(e, own); split(r, with)
    for (i = 1; i <= 3; i++) { base[i] = (own[i] - fill[i]) / n; more[i] = with[i] / n - base[i] }
    printf "a put through the engine: %.1f instructions, %.1f reads, %.1f writes of data\n", base[1], base[2], base[3]
    printf "through the registrar, nothing registered: %+.2f instructions, %+.2f reads, %+.2f writes\n", more[1], more[2], more[3]
    bad = more[1] > 4.005
    printf "%s gate_cost instructions_more %.3f instructions 4\n", bad ? "FAIL" : "PASS", more[1]
    exit bad ? 6 : 0
}'
