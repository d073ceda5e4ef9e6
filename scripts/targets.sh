#!/usr/bin/env bash
# Runs the engine's own tests for other targets of Linux: `scripts/targets.sh [aarch64|s390x|musl]..`, without arguments
# for all three. In: rustup, and from Debian qemu-user-static, gcc-aarch64-linux-gnu, gcc-s390x-linux-gnu and musl-tools.
# Out: a line for each target with the number of tests, the failures and the time. docs/targets.md has the last results.
#
# aarch64 and s390x run under qemu-user, some twenty times slower than this machine; s390x is big-endian, so that a slip of
# byte order shows at once. musl is linked statically and runs as it is. Sweeps draw few cases (WAXSEAL_QUICK).
set -uo pipefail
cd "$(dirname "$0")/.."

export WAXSEAL_QUICK=1 CARGO_INCREMENTAL=0 CARGO_PROFILE_TEST_DEBUG=0
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
export CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER=s390x-linux-gnu-gcc
export CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUNNER="qemu-s390x-static -L /usr/s390x-linux-gnu"

declare -A targets=([aarch64]=aarch64-unknown-linux-gnu [s390x]=s390x-unknown-linux-gnu [musl]=x86_64-unknown-linux-musl)
packages=(-p waxseal-lsm -p waxseal-meta -p waxseal-registry -p waxseal)

failed=0
for name in "${@:-aarch64 s390x musl}"; do
    for one in $name; do
        target=${targets[$one]:?unknown target $one}
        rustup target list --installed | grep -q "$target" || rustup target add "$target"
        start=$SECONDS log=target/targets-$one.log
        mkdir -p target
        cargo test "${packages[@]}" --lib --tests --target "$target" --locked --no-fail-fast >"$log" 2>&1 || failed=1
        passed=$(grep -o '[0-9]* passed' "$log" | awk '{n += $1} END {print n + 0}')
        broken=$(grep -o '[0-9]* failed' "$log" | awk '{n += $1} END {print n + 0}')
        printf '%-8s %5d passed, %d failed, %d s\n' "$one" "$passed" "$broken" $((SECONDS - start))
    done
done
exit $failed
