"""The script of tests/callers, executed in Python: its results equal those of Rust, line by line."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "callers"


def test_python_answers_as_rust_does(tmp_path):
    if not FOLDER.exists():
        pytest.skip("the script is not here: this is an installed package")
    command = [sys.executable, FOLDER / "script.py", tmp_path / "store"]
    with (FOLDER / "script").open() as script:
        done = subprocess.run(command, stdin=script, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == (FOLDER / "answers").read_text("utf-8").splitlines()
