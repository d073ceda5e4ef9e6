"""The package's build backend: builds the C library and the tool first, then maturin builds the wheel around them.

In: the repository, or an sdist, which is a part of the repository with this package's `pyproject.toml` in its root.
Out: a wheel that contains `waxseal/_lib/{libwaxseal.so.0, waxseal.h, waxseal}`, and an sdist with all their sources.
The extension module finds the library next to itself, so the wheel needs no file outside of it.

`WAXSEAL_LIB_DIR` names a directory with an existing `libwaxseal.so` and `waxseal`; then only the extension is built.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import maturin

PACKAGE = Path(__file__).resolve().parent.parent
ROOT = PACKAGE.parent
LIBRARY_FOLDER = "WAXSEAL_LIB_DIR"

# Sources of the library and the tool, besides the package itself. Tests and benches are included, since manifests name
# them.
SOURCES = ["Cargo.toml", "Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "docs", "crates"]
LEFT_OUT = {"__pycache__", "_lib"}
NOT_SHIPPED = ["crates/bench", "crates/leveldb", "crates/papers", "xtask"]


def get_requires_for_build_wheel(config_settings=None):
    return maturin.get_requires_for_build_wheel(config_settings)


def get_requires_for_build_editable(config_settings=None):
    return maturin.get_requires_for_build_editable(config_settings)


def get_requires_for_build_sdist(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(metadata_directory, config_settings=None):
    return maturin.prepare_metadata_for_build_editable(metadata_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _furnish()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _furnish()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    version = _version()
    top = f"waxseal-{version}"
    name = f"{top}.tar.gz"
    with tarfile.open(Path(sdist_directory) / name, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for source in SOURCES:
            _add(archive, top, ROOT / source)
        _add(archive, top, PACKAGE)
        _add_text(archive, f"{top}/pyproject.toml", _project_at_the_top())
        _add_text(archive, f"{top}/PKG-INFO", _package_info(version))
    return name


def _furnish():
    """Copies the library, its header and the tool into the package, and passes the library's location to the
    extension's build."""
    folder = os.environ.get(LIBRARY_FOLDER)
    if folder is None:
        # Stripped at link time: a wheel with debug information is fifteen times as large.
        command = ["cargo", "build", "--profile", "dist", "--config", 'profile.dist.strip="debuginfo"']
        subprocess.run([*command, "-p", "waxseal-ffi", "-p", "waxseal-cli", "--features", "waxseal-cli/serve"], cwd=ROOT, check=True)
        folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "dist"
    folder = Path(folder).resolve()
    os.environ[LIBRARY_FOLDER] = str(folder)
    lib = PACKAGE / "waxseal" / "_lib"
    shutil.rmtree(lib, ignore_errors=True)
    lib.mkdir()
    shutil.copy2(folder / "libwaxseal.so", lib / "libwaxseal.so.0")
    shutil.copy2(folder / "waxseal", lib / "waxseal")
    shutil.copy2(ROOT / "crates" / "ffi" / "include" / "waxseal.h", lib / "waxseal.h")
    # The ctypes declarations are generated from the header that the library is built with.
    subprocess.run([sys.executable, PACKAGE / "declare.py"], check=True)


def _version():
    """Returns the workspace's version, which all packages share."""
    section = (ROOT / "Cargo.toml").read_text().split("[workspace.package]")[1]
    line = next(line for line in section.splitlines() if line.startswith("version"))
    return line.split('"')[1]


def _project_at_the_top():
    """Returns `pyproject.toml` adapted to the parent directory."""
    text = (PACKAGE / "pyproject.toml").read_text()
    if not (PACKAGE / "Cargo.toml").exists() or "manifest-path" in text:
        return text
    moved = [
        ('backend-path = ["build_backend"]', 'backend-path = ["python/build_backend"]'),
        ('readme = "README.md"', 'readme = "python/README.md"'),
        ("[tool.maturin]\n", '[tool.maturin]\nmanifest-path = "python/Cargo.toml"\npython-source = "python"\n'),
        ('path = "waxseal/_lib/*"', 'path = "python/waxseal/_lib/*"'),
        ('path = "waxseal/_abi.py"', 'path = "python/waxseal/_abi.py"'),
    ]
    for here, there in moved:
        if text.count(here) != 1:
            raise ValueError(f"pyproject.toml: expected once: {here!r}")
        text = text.replace(here, there)
    return text


def _package_info(version):
    return f"Metadata-Version: 2.4\nName: waxseal\nVersion: {version}\nRequires-Python: >=3.10\n"


def _add(archive, top, path):
    relative = path.relative_to(ROOT)
    if path.is_dir():
        # Cargo's build directories contain a tag file; a module may also be called `target`.
        if path.name in LEFT_OUT or str(relative) in NOT_SHIPPED or (path / "CACHEDIR.TAG").exists():
            return
        for child in sorted(path.iterdir()):
            _add(archive, top, child)
    elif relative == Path("Cargo.toml"):
        _add_text(archive, f"{top}/Cargo.toml", _without_members(path.read_text()))
    elif path.suffix not in (".pyc", ".so") and path != PACKAGE / "waxseal" / "_abi.py":
        archive.add(path, f"{top}/{relative}", filter=_anonymous)


def _without_members(manifest):
    """Returns the workspace manifest without the packages that are not shipped."""
    lines = manifest.splitlines(keepends=True)
    kept = [line for line in lines if line.strip(' ",\n') not in NOT_SHIPPED]
    if len(kept) != len(lines) - len(NOT_SHIPPED):
        raise ValueError(f"Cargo.toml: {NOT_SHIPPED} are expected among the members, each on a line of its own")
    return "".join(kept)


def _add_text(archive, name, text):
    info = tarfile.TarInfo(name)
    data = text.encode()
    info.size = len(data)
    archive.addfile(_anonymous(info), io.BytesIO(data))


def _anonymous(info):
    """Removes user and time from an archive entry, so that the same sources produce the same archive."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode = 0o755 if info.mode & 0o100 else 0o644
    return info
