"""The sdist is a complete workspace with all sources of the package."""

import importlib.util
import json
import shutil
import subprocess
import sys
import tarfile
import types
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    backend = PACKAGE / "build_backend" / "wheelwright.py"
    if not (backend.exists() and (PACKAGE.parent / "crates" / "bench").exists()):
        pytest.skip("the repository is not here")
    sys.modules.setdefault("maturin", types.ModuleType("maturin"))  # builds wheels only; unused for an sdist
    spec = importlib.util.spec_from_file_location("wheelwright", backend)
    wheelwright = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wheelwright)
    folder = tmp_path_factory.mktemp("sdist")
    name = wheelwright.build_sdist(folder)
    again = tmp_path_factory.mktemp("again")
    wheelwright.build_sdist(again)
    assert (folder / name).read_bytes()[10:] == (again / name).read_bytes()[10:], "the time in gzip's head aside"
    with tarfile.open(folder / name) as archive:
        archive.extractall(folder, filter="data")
    return folder / name.removesuffix(".tar.gz")


def test_it_has_what_it_says(sdist):
    project = (sdist / "pyproject.toml").read_text()
    for key in ("manifest-path", "python-source", "backend-path", "readme"):
        line = next(line for line in project.splitlines() if line.startswith(key))
        assert (sdist / line.split('"')[1]).exists(), line
    assert (sdist / "crates" / "ffi" / "include" / "waxseal.h").exists()
    assert (sdist / "python" / "declare.py").exists()
    there = {str(path.relative_to(sdist)) for path in sdist.rglob("*")}
    made = {name for name in there if "/_lib/" in name or name.endswith((".so", "/_abi.py", ".pyc"))}
    assert not made


def test_nothing_that_is_kept_is_left_out(sdist):
    listed = subprocess.run(["git", "ls-files", "-z", "crates", "docs"], cwd=PACKAGE.parent, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("the repository's history is not here")
    left_out = ("crates/bench/", "crates/leveldb/", "crates/papers/")
    kept = [name for name in listed.stdout.split("\0") if name and not name.startswith(left_out)]
    assert len(kept) > 300
    assert [name for name in kept if not (sdist / name).exists()] == []


def test_it_is_a_workspace(sdist):
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("there is no cargo here")
    command = [cargo, "metadata", "--format-version", "1", "--no-deps", "--offline"]
    done = subprocess.run(command, cwd=sdist, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    packages = {package["name"]: package for package in json.loads(done.stdout)["packages"]}
    assert {"waxseal-ffi", "waxseal-cli", "waxseal-python"} <= packages.keys()
    for package in packages.values():
        for target in package["targets"]:
            assert Path(target["src_path"]).exists(), target["src_path"]
        for dependency in package["dependencies"]:
            assert dependency.get("path") is None or Path(dependency["path"]).exists(), dependency["path"]
