#!/usr/bin/env bash
# What a put pays for the registry: instructions and data accesses a put, by callgrind, beside the engine's own commit on one kind of store
# (crates/bench/examples/cost.rs): while nothing is registered, for a batch that was built before (`registrar`) and for one operation (`hooks`);
# and with all of the family, deferred (`watched`). Nothing here is a time: a busy machine gives the same numbers. Other threads,
# opening and filling are not counted.
#
#   scripts/gate_cost.sh      needs valgrind; ends with lines PASS|FAIL id metric value unit threshold, exit code 0 or 6
set -euo pipefail
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || { echo "INCONCLUSIVE gate_cost instructions_more - instructions 4"; exit 7; }
cargo build --quiet --release -p waxseal-bench --example cost
cost=target/release/examples/cost
dir=$(mktemp -d "${TMPDIR:-/tmp}/gate_cost.XXXXXX")
trap 'rm -rf "$dir"' EXIT
count=10000 # all in the ring and in one memtable: nobody waits for anybody

# Instructions, reads and writes of data within the puts of one way: what `cost` is told to do, and through which function.
puts() {
    rm -rf "$dir/store"
    valgrind --tool=callgrind --cache-sim=yes --toggle-collect="*through_the_$2*" --callgrind-out-file="$dir/out" \
        "$cost" "$1" "$count" "$dir/store" >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 4; }
    # "events: Ir Dr Dw .." and "totals: n n n .." of the file.
    awk '/^totals:|^summary:/ { print $2, $3, $4; exit }' "$dir/out"
}

# Filling goes through the engine too, and is counted with it: a run without puts says how much.
all=$count
count=0
read -r -a filling <<<"$(puts engine engine)"
count=$all
# The least of five: now and then a put meets the thread behind the log, and does some of its work.
least() {
    for _ in 1 2 3 4 5; do puts "$1" "$2"; done | sort -n | head -1
}
read -r -a engine <<<"$(least engine engine)"
read -r -a registrar <<<"$(least registrar registrar)"
read -r -a hooks <<<"$(least hooks hooks)"
read -r -a watched <<<"$(least watched hooks)"
awk -v n="$count" -v f="${filling[*]}" -v e="${engine[*]}" -v r="${registrar[*]}" -v h="${hooks[*]}" -v w="${watched[*]}" '
function beside(with, more,   own, i) {
    split(with, own)
    for (i = 1; i <= 3; i++) more[i] = own[i] / n - base[i]
    return sprintf("%+.2f instructions, %+.2f reads, %+.2f writes", more[1], more[2], more[3])
}
function gate(id, more) {
    bad += more > 4.005
    printf "%s %s instructions_more %.3f instructions 4\n", (more > 4.005 ? "FAIL" : "PASS"), id, more
}
BEGIN {
    split(f, fill); split(e, own)
    for (i = 1; i <= 3; i++) base[i] = (own[i] - fill[i]) / n
    printf "a put through the engine: %.1f instructions, %.1f reads, %.1f writes of data\n", base[1], base[2], base[3]
    print "nothing registered, a batch: " beside(r, batch)
    print "nothing registered, one operation: " beside(h, one)
    print "all of the family registered, deferred: " beside(w, deferred)
    gate("gate_cost", batch[1])
    gate("gate_cost.one", one[1])
    exit bad ? 6 : 0
}'
