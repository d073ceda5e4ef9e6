"""`python -m waxseal` is the tool, and its stores are the package's."""

import subprocess
import sys

import waxseal


def tool(*arguments):
    return subprocess.run([sys.executable, "-m", "waxseal", *arguments], capture_output=True)


def test_the_tool_and_the_package_share_stores(path):
    with waxseal.open(path) as db:
        db[b"from python"] = b"1"
    assert tool("-d", path, "get", "from python").stdout == b"1"
    assert tool("-d", path, "put", "from the tool", "2").returncode == 0
    with waxseal.open(path) as db:
        assert db[b"from the tool"] == b"2"
        assert tool("-d", path, "put", "too late", "3").returncode == 5
    assert tool("-d", path, "get", "nothing").returncode == 2
    assert tool("--version").stdout.decode().split() == ["waxseal", waxseal.__version__]
    assert tool("nonsense").returncode == 1
