#!/usr/bin/env bash
# A long search for what the tests of one run do not find: every fuzz target, and the model test, the crash sweep and the
# operations of the fuzzer with more of everything. Nightly, never in CI: it takes as long as it is given.
#
#   scripts/campaign.sh [SECONDS]      seconds for each fuzz target, an hour by default; the rest grows with it
#
# Needs nightly and cargo-fuzz (`cargo install cargo-fuzz`). Ends with 1 if anything was found; findings lie in fuzz/artifacts,
# seeds of failing runs stand in the output.
set -uo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-3600}
found=()

# part NAME COMMAND..: goes on after a failure, so that one finding does not hide the next.
part() {
    local name=$1
    shift
    printf '== %s\n' "$name"
    "$@" || found+=("$name")
}

cargo +nightly fuzz build || exit 1
mapfile -t targets < <(cargo +nightly fuzz list)
for target in "${targets[@]}"; do
    mkdir -p "fuzz/corpus/$target"
    seeds=("fuzz/seeds/$target")
    [[ -d ${seeds[0]} ]] || seeds=()
    part "fuzz $target" cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "${seeds[@]}" -- \
        -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1
done

# About as long again in all. Seeds count up from the same start, so more operations are other operations.
part model env WAXSEAL_MODEL_OPS=$((seconds * 20000)) \
    cargo test -p waxseal-meta --test simulation agrees -- --nocapture
part sweep env WAXSEAL_SWEEP=$((seconds * 2)) \
    cargo test -p waxseal-meta --test simulation no_crash -- --nocapture
part flips env WAXSEAL_FLIPS=all \
    cargo test -p waxseal-meta --test simulation no_flipped_bit -- --nocapture
part operations env WAXSEAL_FUZZ_OPS=$((seconds * 200)) \
    cargo test -p waxseal-lab --lib fuzz::ops -- --nocapture

if ((${#found[@]})); then
    printf 'found something: %s\n' "${found[@]}" >&2
    exit 1
fi
echo 'found nothing'
