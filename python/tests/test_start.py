"""The README's first example is a file that runs."""

import subprocess
import sys
from pathlib import Path

START = Path(__file__).parents[1] / "examples" / "start.py"


def test_the_start_runs(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(START)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "b'bob' b'1912'"
    assert "Row.Update" in done.stdout
    assert (tmp_path / "start.waxseal").is_dir()
