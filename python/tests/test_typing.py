"""The package's types match its behavior: mypy and its stubtest confirm it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import waxseal

pytest.importorskip("mypy")

PROGRAM = """
from dataclasses import dataclass

import waxseal
from waxseal import plyvel
from waxseal.tables import Row, Tables, column

@dataclass
class Book:
    isbn: str
    year: int | None = None

with waxseal.open("store", "c", durability="sync") as db:
    db[b"a"] = bytearray(b"1")
    value: bytes = db[b"a"]
    maybe: bytes | None = db.get(b"b")
    users: waxseal.Family = db.family("users")
    with db.batch() as batch, db.snapshot() as snapshot:
        batch.put(b"a", memoryview(b"2"), family=users)
        number: int = snapshot.seqno
    with db.transaction(isolation="snapshot") as transaction:
        transaction[b"c"] = transaction.get(b"b", b"", family=users)
    length: int = db.transact(lambda transaction: len(transaction[b"c"]))
    record = db.get_with_meta(b"a")
    if record is not None:
        seal: bytes = record.seal
    report: waxseal.Report = db.verify(progress=lambda done, total, found: None)
    events: list[waxseal.Event] = db.session("alice").query_all("users", "*")
    rows: list[bytes | None] = db.multi_get([b"a"])
    with users.table_writer("table") as writer:
        writer.put(b"a", b"1")
    loaded: int = users.ingest(["table"], move=True) + users.bulk_load({b"b": b"2"}) + users.bulk_load([(b"c", b"3")])

    tables = Tables(db)
    books = tables.create("library.books", Book, partition_key="isbn", dynamic_columns=True)
    books.insert(Book("1", 1815))
    book: Book | None = books.get("1")
    years: list[int | None] = [book.year for book in books.select(where=(column("year") > 1800) & column("year").is_in([1]))]
    plain: list[Row] = list(tables.table("library.books").select(limit=2).page().rows)
    some: list[Row] = list(books.select(columns=["year"]))
    moved: bool = tables.transact(lambda transaction: transaction.update(books, "1", {"year": None}))

old = plyvel.DB("other", create_if_missing=True)
for key, content in old.iterator(prefix=b"a"):
    print(key, content)
"""


def mypy(*arguments, folder):
    command = [sys.executable, "-m", *arguments]
    environment = {**os.environ, "WAXSEAL_BACKEND": "native", "MYPY_CACHE_DIR": os.fspath(folder / "cache")}
    if "site-packages" not in waxseal.__file__:
        environment["MYPYPATH"] = os.fspath(Path(waxseal.__file__).parent.parent)
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_types_are_as_they_say(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    for what in ([os.fspath(program)], ["-p", "waxseal"]):
        checked = mypy("mypy", "--strict", *what, folder=tmp_path)
        assert checked.returncode == 0, checked.stdout + checked.stderr
    (tmp_path / "wrong.py").write_text('import waxseal\nwaxseal.memory()["key"] = b"value"\n')
    assert mypy("mypy", "--strict", "wrong.py", folder=tmp_path).returncode == 1


def test_stubs_are_what_is_there(tmp_path):
    # The ctypes structs of the library have their fields only at run time. fsspec has no types, and so no metaclasses.
    allowed = [
        r"waxseal\._abi\.waxseal_.*\..*",
        r"waxseal\._arrow\.ArrowArrayStream\..*",
        r"waxseal\.fs\.WaxsealFile(System)?",
    ]
    (tmp_path / "allowed").write_text("\n".join(allowed) + "\n")
    checked = mypy("mypy.stubtest", "waxseal", "--allowlist", "allowed", "--ignore-unused-allowlist", folder=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_types_are_shipped():
    folder = Path(waxseal.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_native.pyi").exists()
