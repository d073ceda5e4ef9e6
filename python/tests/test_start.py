"""The start of the README is a program that runs."""

import subprocess
import sys
from pathlib import Path

import waxseal

START = Path(__file__).resolve().parent.parent / "examples" / "start.py"


def test_the_start_runs(tmp_path):
    done = subprocess.run([sys.executable, START], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "b'bob' b'1912'\n"
    with waxseal.open(tmp_path / "start.waxseal", "w") as db:
        assert dict(db.family("users")) == {b"bob": b"1912"}


def test_it_is_a_start():
    assert len(START.read_text().splitlines()) <= 20
