#!/usr/bin/env bash
# load_http.sh WAXSEAL [SECONDS]: loads `waxseal serve` by wrk: files at random, ranges, a page of a directory, and reads
# beside writers that replace files. Every response must have the status and the length that it should have, and no
# connection may fail. Then the store is checked. Prints one line for each load. Needs wrk, curl and a free port.
set -euo pipefail
tool=$(realpath "$1") seconds=${2:-5}
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir"

files=1000
mkdir tree
for number in $(seq 0 $((files - 1))); do
    head -c $((number * 40)) /dev/urandom >tree/f$number
done
"$tool" fs put tree waxseal://store/ >/dev/null
WAXSEAL_TOKEN=secret "$tool" serve store --listen 127.0.0.1:0 >said 2>errors &
server=$!
until url=$(grep -o 'http://[0-9.:]*' said); do sleep 0.1; done

# The length of a file is in its name, which the script draws.
cat >files.lua <<'END'
function request()
    number = math.random(0, 999)
    return wrk.format("GET", "/tree/f" .. number)
end
function response(status, headers, body)
    if status ~= 200 or #body ~= tonumber(headers["content-length"]) or #body % 40 ~= 0 then wrong = wrong + 1 end
end
wrong = 0
local threads = {}
function setup(thread) table.insert(threads, thread) end
function init() math.randomseed(os.time()) end
function done(summary, latency)
    local wrong, errors = 0, summary.errors
    for _, thread in ipairs(threads) do wrong = wrong + thread:get("wrong") end
    local failed = errors.connect + errors.read + errors.write + errors.timeout + errors.status
    io.write(string.format("%.0f requests/s, p50 %.2f ms, p99 %.2f ms, %d requests, %d wrong, %d failed\n",
        summary.requests / summary.duration * 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
        summary.requests, wrong, failed))
    if wrong + failed > 0 or summary.requests == 0 then os.exit(1) end
end
END
sed -e 's|return wrk.format(.*|return wrk.format("GET", "/tree/f999", {["range"] = "bytes=" .. number .. "-" .. number + 99})|' \
    -e 's/status ~= 200/status ~= 206/; s/#body % 40 ~= 0/#body ~= 100/' files.lua >ranges.lua
sed -e 's|return wrk.format(.*|return wrk.format("GET", "/tree/")|' -e 's/ or #body ~= .* then/ or #body < 1000 then/' \
    files.lua >page.lua

load() { # NAME SCRIPT CONNECTIONS
    printf '%s, %s connections: ' "$1" "$3"
    wrk --threads 2 --connections "$3" --duration "${seconds}s" --latency --script "$2" "$url" | grep 'requests/s,'
}
load 'files at random' files.lua 16
load 'ranges of a file' ranges.lua 16
load 'page of 1,000 names' page.lua 4
load 'files at random' files.lua 400
(
    while :; do
        for number in 10 20 30; do
            curl --silent --fail --header 'Authorization: Bearer secret' --upload-file tree/f$number "$url/tree/f$number"
        done
    done
) &
writer=$!
load 'files at random, beside a writer' files.lua 16
kill $writer
wait $writer 2>/dev/null || true
kill -TERM $server
wait $server
server=
[ ! -s errors ] || { cat errors; exit 1; }
"$tool" fs fsck waxseal://store | tail -n 1
"$tool" fs verify waxseal://store | tail -n 1
"$tool" fs get waxseal://store/tree copy >/dev/null
diff -r tree copy
echo 'all files are the same'
