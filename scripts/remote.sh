#!/usr/bin/env bash
# remote.sh: backups and files in S3, against a server of Python's moto that this script starts and stops, and files over
# HTTP. About two minutes after the build of the tool. Needs Python 3 and a package index for moto. Not a part of CI.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=target/remote-venv
if [ ! -x $venv/bin/moto_server ]; then
    python3 -m venv $venv
    $venv/bin/pip install --quiet 'moto[server]' boto3
fi
cargo build --locked -p waxseal-cli --features remote,serve
$venv/bin/python scripts/remote/backups.py target/debug/waxseal $venv/bin/moto_server
$venv/bin/python scripts/remote/files.py target/debug/waxseal $venv/bin/moto_server
