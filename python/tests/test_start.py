"""The README's first example is a file that runs; the source tree says why it does not."""

import shutil
import subprocess
import sys
from pathlib import Path

START = Path(__file__).parents[1] / "examples" / "start.py"
SOURCE = Path(__file__).parents[1] / "waxseal"


def test_the_start_runs(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(START)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "b'bob' b'1912'"
    assert "Row.Update" in done.stdout
    assert (tmp_path / "start.waxseal").is_dir()


def test_the_source_tree_names_what_it_lacks(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "waxseal", ignore=shutil.ignore_patterns("_abi.py", "_lib", "__pycache__"))
    done = subprocess.run([sys.executable, "-c", "import waxseal"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "waxseal/_abi.py" in done.stderr and "pip install ./python" in done.stderr.splitlines()[-1]
