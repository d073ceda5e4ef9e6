#!/usr/bin/env bash
# Counts the cost of one operation on a sealed and on a plain store, for docs/costs.md: instructions, data accesses and
# cache misses (cachegrind), allocations (dhat), system calls (strace). Each number is the difference of two runs of
# crates/bench/examples/cost.rs, with the operation and with the driver alone, divided by the count. The simulated last
# level is small (512 KiB under 3 MB of data), so that an LL miss is a line that a store larger than its caches waits for
# or prefetches. No number is a time: a busy machine gives the same numbers.
#
#   scripts/costs.sh [sealed|plain] [OPERATION..]      both stores and all operations by default
#
# Needs valgrind and strace. CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 makes the counts of two commits comparable: with more
# units, moved code alone changes what is inlined.
set -euo pipefail
cd "$(dirname "$0")/.."

kinds=(sealed plain)
if [[ ${1-} == sealed || ${1-} == plain ]]; then
    kinds=("$1")
    shift
fi
operations=("$@")
((${#operations[@]})) || operations=(put sync get miss missing seek next prev cursor memory)
cargo build --quiet --release -p waxseal-bench --example cost
cost=target/release/examples/cost
dir=$(mktemp -d "${TMPDIR:-/tmp}/costs.XXXXXX")
trap 'rm -rf "$dir"' EXIT

# under TOOL.. -- OPERATION COUNT: one run on a fresh store of this kind.
under() {
    local tool=()
    while [[ $1 != -- ]]; do tool+=("$1") && shift; done
    rm -rf "$dir/store"
    "${tool[@]}" "$cost" "$2" "$3" "$dir/store" "$kind"
}

# Instructions, reads and writes of data, misses of the first and of the last level: five numbers.
cachegrind() {
    under valgrind --tool=cachegrind --cache-sim=yes --LL=524288,16,64 --cachegrind-out-file="$dir/out" -- "$1" "$2" 2>"$dir/log"
    awk '/ I +refs:/ || / D +refs:/ || / D1 +misses:/ || / LLd misses:/ { gsub(",", ""); sub(".*: *", ""); print $1 }' "$dir/log" | paste -sd' '
}

# Blocks that were allocated.
allocations() {
    under valgrind --tool=dhat --dhat-out-file="$dir/out" -- "$1" "$2" 2>"$dir/log"
    awk '/Total:/ { gsub(",", ""); print $6 }' "$dir/log"
}

# System calls by name.
calls() {
    under strace -f -qq -c -o "$dir/calls" -- "$1" "$2"
    awk '$1 ~ /^[0-9.]+$/ && $NF != "total" { print $NF, $4 }' "$dir/calls"
}

# Per operation, from a total with it and one without.
per() {
    awk -v a="$1" -v b="$2" -v n="$count" 'BEGIN { printf "| %.4g ", (a - b) / n }'
}

count=10000
printf '| operation | store | instructions | data accesses | D1 misses | LL misses | allocations | system calls |\n'
printf '|---|---|---|---|---|---|---|---|\n'
for kind in "${kinds[@]}"; do
    baseline=
    for operation in "${operations[@]}"; do
        case $operation in
            next | prev | cursor) wanted=idle ;;
            memory) wanted=memory-nothing ;;
            miss) wanted=miss-nothing ;;
            *) wanted=nothing ;;
        esac
        if [[ $baseline != "$wanted" ]]; then
            baseline=$wanted
            read -r -a before <<<"$(cachegrind "$baseline" "$count")"
            blocks=$(allocations "$baseline" "$count")
            calls "$baseline" "$count" >"$dir/before"
        fi
        read -r -a after <<<"$(cachegrind "$operation" "$count")"
        printf '| %s | %s ' "$operation" "$kind"
        for at in "${!before[@]}"; do per "${after[at]}" "${before[at]}"; done
        per "$(allocations "$operation" "$count")" "$blocks"
        calls "$operation" "$count" >"$dir/after"
        awk -v n="$count" 'NR == FNR { before[$1] = $2; next }
            { d = ($2 - before[$1]) / n; if (d >= 0.001) { printf "%s%s %.3f", many++ ? ", " : "| ", $1, d } }
            END { if (!many) printf "| none" }' "$dir/before" "$dir/after"
        printf ' |\n'
    done
done
