"""Tables of typed rows: `waxseal.tables`."""

import dataclasses
import gc
import importlib.util
import os
import pickle
import threading
import uuid
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Dict, List, Optional

import pytest

import waxseal
from waxseal import _arrow, _c, _interrupt
from waxseal.tables import EMPTY, Empty, Index, Json, Tables, column

BOOKS = {"author": "text", "year": "i32", "title": "text", "genre": "text"}


@pytest.fixture
def tables():
    with waxseal.memory() as db:
        yield Tables(db)


@pytest.fixture
def books(tables):
    books = tables.create("library.books", BOOKS, partition_key="author", clustering="year")
    for year, title, genre in [(1811, "Sense", "novel"), (1813, "Pride", None), (1815, "Emma", "novel")]:
        books.insert({"author": "Austen", "year": year, "title": title, "genre": genre})
    books.insert({"author": "Shelley", "year": 1818, "title": "Frankenstein", "genre": "horror"})
    return books


def titles(rows) -> str:
    return " ".join(row["title"] for row in rows)


#: The type of a column, and values at its ends.
VALUES = [
    ("bytes", [b"", b"a\0b"]),
    ("text", ["", "Zoë"]),
    ("bool", [True, False]),
    ("i32", [-(2**31), 2**31 - 1]),
    ("i64", [-(2**63), 2**63 - 1]),
    ("u64", [0, 2**64 - 1]),
    ("f32", [0.5, float("-inf")]),
    ("f64", [0.1, float("inf")]),
    ("decimal(38, 0)", [Decimal(10**38 - 1), Decimal(1 - 10**38)]),
    ("decimal(38, 38)", [Decimal("-0." + "9" * 38)]),
    ("decimal(5, 2)", [Decimal("1.50"), Decimal("-999.99"), Decimal(0)]),
    ("date", [date.min, date(1969, 12, 31), date.max, 2**31 - 1]),
    (
        "timestamp",
        [
            datetime(1, 1, 1, tzinfo=timezone.utc),
            datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc),
            datetime.max.replace(tzinfo=timezone.utc),
            -(2**63),
        ],
    ),
    ("uuid", [uuid.UUID(int=0), uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")]),
    ("json", [Json('{"a": [1, null]}'), Json("0")]),
    ("list<text>", [[], ["a", ""]]),
    ("list<decimal(5, 2)>", [[Decimal("1.50")]]),
    ("list<date>", [[date.min, 2**31 - 1]]),
    ("list<uuid>", [[uuid.UUID(int=7)]]),
    ("empty", [EMPTY]),
]


@pytest.mark.parametrize("type_, values", VALUES, ids=[type_ for type_, _ in VALUES])
def test_values_return_as_they_were_written_also_through_arrow_and_parquet(tables, tmp_path, type_, values):
    table = tables.create("test.values", {"key": "i32", "value": type_}, partition_key="key")
    rows = [{"key": at, "value": value} for at, value in enumerate(values)] + [{"key": len(values)}]
    for row in rows:
        table.insert(row)
    assert list(table) == rows
    assert [type(row.get("value")) for row in table] == [type(row.get("value")) for row in rows]
    if type_ != "list<date>":
        assert table.get(0) == rows[0]
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    arrow = table.to_arrow()
    pyarrow.parquet.write_table(arrow, tmp_path / "table.parquet")
    for name, data in [("test.arrow", arrow), ("test.parquet", pyarrow.parquet.read_table(tmp_path / "table.parquet"))]:
        copy = tables.create(name, data.schema, partition_key="key")
        assert [one.type for one in copy.schema.columns] == ["i32", type_]
        assert copy.from_arrow(data) == len(rows)
        assert list(copy) == rows


class Nanoseconds(datetime):
    """A time with nanoseconds, such as a pandas.Timestamp: it equals no datetime, and a difference loses them."""

    __hash__ = None

    def __eq__(self, other):
        return False

    def __ne__(self, other):
        return True


@pytest.mark.parametrize(
    "type_, value, error",
    [
        ("bytes", "text", TypeError),
        ("text", b"bytes", TypeError),
        ("text", "\ud800", ValueError),
        ("bool", 1, TypeError),
        ("i32", 2**31, OverflowError),
        ("i64", 2**63, OverflowError),
        ("i64", True, TypeError),
        ("i64", 1.0, TypeError),
        ("u64", -1, OverflowError),
        ("u64", 2**64, OverflowError),
        ("f32", 1e300, OverflowError),
        ("f32", 2**24 + 1, OverflowError),
        ("f64", 2**53 + 1, OverflowError),
        ("f64", "1.0", TypeError),
        ("decimal(5, 2)", Decimal("1.005"), OverflowError),
        ("decimal(5, 2)", Decimal("1000"), waxseal.InvalidArgument),
        ("decimal(5, 2)", Decimal("1E+999999"), OverflowError),
        ("decimal(5, 2)", Decimal("nan"), OverflowError),
        ("decimal(5, 2)", 1.5, TypeError),
        ("date", datetime(2000, 1, 1, tzinfo=timezone.utc), TypeError),
        ("timestamp", datetime(2000, 1, 1), ValueError),
        ("timestamp", date(2000, 1, 1), TypeError),
        ("timestamp", Nanoseconds(2000, 1, 1, tzinfo=timezone.utc), ValueError),
        ("uuid", "0" * 32, TypeError),
        ("json", "{", waxseal.InvalidArgument),
        ("json", float("nan"), ValueError),
        ("list<i32>", [None], ValueError),
        ("list<i32>", [2**31], OverflowError),
        ("list<i32>", "ab", TypeError),
        ("empty", True, TypeError),
    ],
)
def test_values_that_do_not_fit_are_refused(tables, type_, value, error):
    table = tables.create("test.values", {"key": "i32", "value": type_}, partition_key="key")
    with pytest.raises(error):
        table.insert({"key": 0, "value": value})
    assert table.select().count() == 0


def test_objects_are_written_as_json_and_floats_are_rounded(tables):
    table = tables.create("test.values", {"key": "i32", "json": "json", "f32": "f32", "f64": "f64"}, partition_key="key")
    table.insert({"key": 0, "json": {"a": [1, "é"]}, "f32": 0.1, "f64": 3})
    row = table.get(0)
    assert row["json"].load() == {"a": [1, "é"]} and isinstance(row["json"], str)
    assert row["f32"] != 0.1 and abs(row["f32"] - 0.1) < 1e-8 and row["f64"] == 3.0


def test_rows_are_selected(books, tables):
    assert titles(books) == "Sense Pride Emma Frankenstein" and books.select().count() == 4
    assert titles(books.select(prefix="Austen", start=1813)) == "Pride Emma"
    between = books.select(prefix=("Austen",), start=1811, stop=1815, include_start=False, include_stop=True)
    assert titles(between) == "Pride Emma"
    assert titles(books.select(start="B")) == "Frankenstein"
    assert titles(books.select(reverse=True, limit=2)) == "Frankenstein Emma"
    assert titles(books.select(limit=2**64 + 1)) == titles(books)
    assert titles(books.select(limit=0)) == "" and books.select(limit=0).count() == 0
    genre, year = column("genre"), column("year")
    assert titles(books.select(where=genre.is_null())) == "Pride"
    assert titles(books.select(where=(genre == "novel") & (year > 1811))) == "Emma"
    assert titles(books.select(where=~(genre == "novel") | (year <= 1811))) == "Sense Frankenstein"
    assert titles(books.select(where=year.is_in([1813, 1818]))) == "Pride Frankenstein"
    assert titles(books.select(where=year.is_in([]))) == ""
    assert books.select(prefix="Austen", columns="year").count() == 3
    assert list(books.select(prefix=("Austen", 1815), columns=["title"])) == [{"title": "Emma"}]
    assert list(books.select(prefix=("Austen", 1815), columns=[])) == [{}]
    with pytest.raises(TypeError, match="is_null"):
        genre == None  # noqa: B015, E711
    with pytest.raises(TypeError, match="&"):
        books.select(where=genre.is_null() and genre.is_not_null())
    with pytest.raises(waxseal.NotFoundError):
        list(books.select(where=column("pages") > 1))
    with pytest.raises(OverflowError):
        list(books.select(where=year > 2**40))
    hashed = tables.create("test.hashed", {"a": "text", "b": "i32"}, partition_key="a", clustering="-b", hashed=True)
    for at in range(3):
        hashed.insert({"a": "x", "b": at})
    assert [row["b"] for row in hashed.select(prefix="x", start=1)] == [2, 1]
    with pytest.raises(waxseal.InvalidArgument):
        list(hashed.select(start="a"))
    assert hashed.select(start="a", full_scan=True).count() == 3


def test_one_thread_at_a_time_advances_an_iterator(books, monkeypatch):
    rows, titles_read, copied = iter(books), [], waxseal.tables.read_row
    other = threading.Thread(target=lambda: titles_read.append(next(rows)["title"]))

    def interrupted(lent):
        monkeypatch.setattr(waxseal.tables, "read_row", copied)
        with pytest.raises(waxseal.BusyError):
            next(rows)
        other.start()
        other.join(0.2)  # it waits for this row to be copied
        return copied(lent)

    monkeypatch.setattr(waxseal.tables, "read_row", interrupted)
    assert next(rows)["title"] == "Sense"
    other.join()
    assert titles_read == ["Pride"] and titles(rows) == "Emma Frankenstein"


def test_a_signal_at_the_end_of_a_read_leaks_no_handle(books, monkeypatch):
    guarded, raised, destroyed = _interrupt.guarded, [], []
    destroy = _c.function("waxseal_table_rows_destroy")
    release = _arrow._RELEASE
    reads = {
        "waxseal_table_get": lambda: books.get(("Austen", 1815)),
        "waxseal_table_select": lambda: list(books),
        "waxseal_table_page": lambda: books.select(limit=1).page(),
        "waxseal_table_scan_arrow": lambda: books.__arrow_c_stream__(),
    }

    def ended_by_signal(library, function, *arguments):
        if function.__name__ == name:
            raised.append(KeyboardInterrupt())
        return guarded(library, function, *arguments)

    def counted(end):
        return lambda handle: (destroyed.append(name), end(handle))

    monkeypatch.setattr(_interrupt, "guarded", ended_by_signal)
    monkeypatch.setattr(_interrupt, "taken", lambda: raised.pop() if raised else None)
    monkeypatch.setitem(_c._functions, "waxseal_table_rows_destroy", counted(destroy))
    monkeypatch.setattr(_arrow, "_RELEASE", lambda address: counted(release(address)))
    for name, read in reads.items():
        with pytest.raises(KeyboardInterrupt):
            read()
        gc.collect()
        assert destroyed.count(name) == 1, name


def test_pages_follow_each_other(books):
    first = books.select(limit=3).page()
    assert titles(first.rows) == "Sense Pride Emma" and isinstance(first.next, bytes)
    second = books.select(limit=3, after=first.next).page()
    assert titles(second.rows) == "Frankenstein" and second.next is None
    assert [titles(rows) for rows in books.select(reverse=True).pages(3)] == ["Frankenstein Emma Pride", "Sense"]
    assert [titles(rows) for rows in books.select().pages(2)] == ["Sense Pride", "Emma Frankenstein"]
    assert [titles(rows) for rows in books.select(limit=3).pages(2)] == ["Sense Pride", "Emma"]
    assert [titles(rows) for rows in books.select(limit=2).pages(5)] == ["Sense Pride"]
    assert list(books.select(limit=0).pages(2)) == []
    for wrong in (0, -1):
        with pytest.raises(ValueError):
            list(books.select().pages(wrong))
    for wrong in (None, 0):
        with pytest.raises(ValueError):
            books.select(limit=wrong).page()
    with pytest.raises(waxseal.InvalidArgument):
        books.select(limit=1, after=b"elsewhere").page()


def test_rows_are_changed(books):
    emma = ("Austen", 1815)
    assert books.update(emma, {"title": "Emma: A Novel", "genre": None}, durability="sync")
    assert books.get(emma) == {"author": "Austen", "year": 1815, "title": "Emma: A Novel"}
    assert not books.update(("Austen", 1900), {"title": "None"}) and ("Austen", 1900) not in books
    assert books.update(emma, {"genre": "novel"}, where=column("genre").is_null())
    assert not books.update(emma, {"genre": "other"}, where=column("genre").is_null())
    row = books.get(emma)
    assert not books.compare_and_set(emma, {**row, "genre": "other"}, None)
    assert books.compare_and_set(emma, row, {**row, "genre": "other"})
    for old, new in ((books.get(emma), {}), ({"genre": None}, row), ({}, None)):
        with pytest.raises(waxseal.InvalidArgument, match="key"):
            books.compare_and_set(emma, old, new)
    assert books.compare_and_set(emma, {**row, "genre": "other"}, None) and emma not in books
    assert books.compare_and_set(emma, None, row) and books.get(emma) == row
    with pytest.raises(waxseal.ExistsError) as raised:
        books.insert(row)
    assert raised.value.errno and "library.books" in str(raised.value)
    books.upsert({"author": "Austen", "year": 1815})
    assert books.get(emma) == {"author": "Austen", "year": 1815}
    books.delete(emma)
    assert books.get(emma) is None and books.get(emma, 7) == 7
    books.delete_range("Austen", start=1813)
    books.delete_partition("Shelley")
    assert titles(books) == "Sense"
    books.truncate()
    assert not list(books)
    for wrong in ({"author": "A"}, {"author": "A", "year": 1, "pages": 2}, {"author": "A", "year": None}):
        with pytest.raises(waxseal.Error):
            books.insert(wrong)
    with pytest.raises(TypeError):
        books.insert(["A", 1])


def test_rows_expire(books, tables):
    books.insert({"author": "A", "year": 1}, expires=timedelta(0))
    books.insert({"author": "A", "year": 2}, expires=datetime(2001, 1, 1, tzinfo=timezone.utc))
    books.insert({"author": "A", "year": 3}, expires=timedelta(days=1))
    books.insert({"author": "A", "year": 4}, expires=timedelta(microseconds=2**64 + 1))
    assert [row["year"] for row in books.select(prefix="A")] == [3, 4]
    types = {"key": "i32", "draft": "text"}
    notes = tables.create("test.notes", types, partition_key="key", groups={"drafts": ["draft"]})
    notes.insert({"key": 1, "draft": "a"}, group_expires={"drafts": timedelta(0)})
    assert notes.get(1) == {"key": 1}
    notes.upsert({"key": 1, "draft": "a"}, group_expires={"drafts": None})
    assert notes.get(1) == {"key": 1, "draft": "a"}
    with pytest.raises(waxseal.NotFoundError):
        notes.insert({"key": 2}, group_expires={"none": timedelta(1)})


@dataclasses.dataclass
class Volume:
    id: uuid.UUID
    price: Annotated[Decimal, "decimal(10, 2)"]
    title: Optional[str] = None
    tags: Optional[List[str]] = None
    public: Optional[Empty] = None
    pages: Dict[str, Dict[str, str]] = dataclasses.field(default_factory=dict)


def test_dataclasses_are_rows(tables):
    volumes = tables.create(
        "corpus.volumes", Volume, partition_key="id", repeated_groups={"pages": {"text": str, "number": "i32"}}
    )
    assert {one.name: one.type for one in volumes.schema.columns}["price"] == "decimal(10, 2)"
    volume = Volume(uuid.uuid4(), Decimal("9.50"), tags=["a"], public=EMPTY, pages={"1": {"text": "Preface"}, "2": {}})
    volumes.insert(volume)
    assert volumes.get(volume.id) == volume and list(volumes) == [volume]
    assert volumes.update(volume.id, {"pages": {"1": {"number": 7}, "2": None}})
    for wrong in ({"pages": None}, {"pages": {"3": {}}}):
        with pytest.raises(ValueError, match="pages"):
            volumes.update(volume.id, wrong)
    with pytest.raises(ValueError, match="pages"):
        volumes.insert({"id": uuid.uuid4(), "price": 1, "pages": {"3": None}})
    again = tables.table("corpus.volumes", Volume)
    found = again.get(volume.id)
    assert found is not None and found.pages == {"1": {"text": "Preface", "number": 7}}
    assert list(again.select(columns=["title"])) == [{}]
    empty = Volume(uuid.uuid4(), Decimal(1))
    again.insert(empty)
    assert again.get(empty.id) == empty and empty.pages == {}
    again.delete(empty.id)
    assert again.compare_and_set(volume.id, found, None) and not list(again)

    @dataclasses.dataclass
    class Other:
        id: uuid.UUID
        price_in_euro: int

    @dataclasses.dataclass
    class Computed:
        id: uuid.UUID
        pages: str = dataclasses.field(init=False)

    with pytest.raises(TypeError, match="pages"):
        tables.table("corpus.volumes", Computed)
    with pytest.raises(TypeError, match="price_in_euro"):
        tables.table("corpus.volumes", Other)
    with pytest.raises(TypeError):
        tables.table("corpus.volumes", int)
    with pytest.raises(waxseal.InvalidArgument):
        volumes.select().__arrow_c_stream__()


def test_a_snapshot_has_the_types_and_names_of_its_own_schema():
    with waxseal.memory() as db:
        table = Tables(db).create("test.values", {"key": "i32", "old": "f32"}, partition_key="key")
        table.insert({"key": 1, "old": 0.1})
        snapshot = db.snapshot()
        table.alter(rename={"old": "new"})
        select = table.select(snapshot=snapshot, where=column("old") == 0.1)
        assert [row["key"] for row in select] == [1] and select.count() == 1

        @dataclasses.dataclass
        class Named:
            key: int
            new: float

        assert [one.key for one in Tables(db).table("test.values", Named)] == [1]
        with pytest.raises(TypeError, match="new"):
            Tables(db).table("test.values", Named).get(1, snapshot=snapshot)


def test_a_dataclass_reads_no_column_by_its_old_name(tables):
    volumes = tables.create("corpus.volumes", Volume, partition_key="id", repeated_groups={"pages": {"text": str}})
    volume = Volume(uuid.uuid4(), Decimal("9.50"), "Emma")
    volumes.insert(volume)
    tables.table("corpus.volumes").alter(rename={"title": "name"})
    for call in (
        lambda: volumes.get(volume.id),
        lambda: list(volumes),
        lambda: volumes.select(limit=1).page(),
        lambda: volumes.upsert(volume),
        lambda: volumes.compare_and_set(volume.id, volume, None),
    ):
        with pytest.raises(TypeError, match="title"):
            call()
    assert list(volumes.select(columns=["name"])) == [{"name": "Emma"}]
    volumes.alter(rename={"name": "title"})
    assert volumes.get(volume.id) == volume


def test_dynamic_columns_have_the_types_of_their_values(tables):
    table = tables.create("test.dynamic", {"key": "i32"}, partition_key="key", dynamic_columns=True)
    row = {
        "key": 1,
        "a": b"1",
        "b": "2",
        "c": True,
        "d": 4,
        "e": 2**64 - 1,
        "f": 0.5,
        "g": Decimal("1.50"),
        "h": date(2000, 1, 1),
        "i": datetime(2000, 1, 1, tzinfo=timezone.utc),
        "j": uuid.UUID(int=1),
        "k": Json("[]"),
        "l": [1, 2],
        "m": EMPTY,
    }
    table.insert(row)
    found = table.get(1)
    assert found == row and all(type(found[name]) is type(value) for name, value in row.items())
    with pytest.raises(TypeError):
        table.insert({"key": 2, "a": object()})


def test_schemas_change(tables, books):
    same = tables.table("library.books")
    changes = {"rename": {"title": "name"}, "widen": {"genre": "bytes"}, "add": {"pages": "i32"}}
    books.alter(**changes, add_in={"text": {"contents": str}})
    same.alter(widen={"pages": "f64"})
    books.update(("Austen", 1815), {"pages": 0.1, "contents": "Emma Woodhouse"})
    assert same.get(("Austen", 1815))["pages"] == 0.1
    schema = same.schema
    assert [one.name for one in schema.columns] == ["author", "year", "name", "genre", "pages", "contents"]
    assert (schema.columns[5].group, schema.columns[1].role, schema.version) == ("text", "clustering", 3)
    books.drop_column("pages", timedelta(days=2))
    dropped = same.schema.dropped[0]
    assert (dropped.name, dropped.state) == ("pages", "tentative")
    assert timedelta(days=1) < dropped.deadline - datetime.now(timezone.utc) < timedelta(days=3)
    assert "pages" not in same.get(("Austen", 1815))
    books.alter(undelete=["pages"])
    assert same.get(("Austen", 1815))["pages"] == 0.1
    books.drop_column("pages", timedelta(microseconds=2**64))
    assert same.schema.dropped[0].deadline == datetime.max.replace(tzinfo=timezone.utc)
    books.drop_column("pages")
    assert books.purge_columns().columns == ["pages"] and books.schema.dropped == []
    assert books.schema_at(1).columns[2].name == "title"
    assert [books.schema_at(version) for version in (-1, 0, 100, 2**64 + 1)] == [None] * 4
    for change, error in [
        ({"add": {"genre": "text"}}, waxseal.ExistsError),
        ({"rename": {"none": "some"}}, waxseal.NotFoundError),
        ({"widen": {"year": "i64"}}, waxseal.InvalidArgument),
        ({"add": {"list": "list<list<text>>"}}, ValueError),
    ]:
        with pytest.raises(error):
            books.alter(**change)
    tables.rename("library.books", "library.volumes")
    assert books.name == "library.volumes" and tables.names() == ["library.volumes"] and "library.books" not in tables
    tables.drop("library.volumes")
    with pytest.raises(waxseal.NotFoundError):
        tables.table("library.volumes")


def test_indexes_are_built_read_and_checked(books):
    books.create_index(Index("by_genre", ["genre", "-year"]))
    assert books.schema.indexes == [Index("by_genre", ["genre", "-year"])]
    assert titles(books.select(index="by_genre", prefix="novel")) == "Emma Sense"
    assert titles(books.select(index="by_genre", start="horror", stop="i")) == "Frankenstein"
    report = books.verify_indexes()
    assert report.clean and (report.rows, report.entries) == (4, 3)
    with pytest.raises(waxseal.ExistsError):
        books.create_index(Index("by_genre_only", ["genre"], unique=True))
    books.create_index(Index("by_title", "title", unique=True, with_missing=True))
    with pytest.raises(waxseal.ExistsError, match="by_title"):
        books.insert({"author": "Other", "year": 1, "title": "Emma"})
    books.rebuild_index("by_title")
    assert books.repair_indexes() == 2
    books.drop_index("by_title")
    with pytest.raises(waxseal.NotFoundError):
        list(books.select(index="by_title"))


def test_transactions_commit_rows_together(tables):
    accounts = tables.create("bank.accounts", {"name": "text", "balance": "i64"}, partition_key="name")
    for name, balance in [("alice", 100), ("bob", 0)]:
        accounts.insert({"name": name, "balance": balance})
    runs = []

    def move(transaction):
        balances = {name: transaction.get(accounts, name)["balance"] for name in ("alice", "bob")}
        if not runs:
            accounts.update("bob", {"balance": 1})  # another commit, and a conflict
        runs.append(balances)
        transaction.update(accounts, "alice", {"balance": balances["alice"] - 40})
        transaction.update(accounts, "bob", {"balance": balances["bob"] + 40})
        return balances["bob"]

    assert tables.transact(move) == 1 and len(runs) == 2
    assert [row["balance"] for row in accounts] == [60, 41]
    with pytest.raises(ZeroDivisionError), tables.transaction() as transaction:
        transaction.delete(accounts, "alice")
        1 / 0
    with tables.transaction(durability="sync") as transaction:
        transaction.insert(accounts, {"name": "carol"})
        with pytest.raises(waxseal.ExistsError):
            transaction.insert(accounts, {"name": "alice"})
        transaction.upsert(accounts, {"name": "bob", "balance": 7}, expires=timedelta(days=1))
        assert accounts.get("carol") is None
    with pytest.raises(waxseal.InvalidArgument):
        transaction.commit()
    assert [row["name"] for row in accounts] == ["alice", "bob", "carol"]
    with pytest.raises(waxseal.ConflictError), tables.transaction() as transaction:
        transaction.get(accounts, "alice")
        accounts.delete("alice")
        transaction.delete(accounts, "bob")
    assert accounts.load([{"name": str(at)} for at in range(2500)]) == 2500
    assert accounts.select().count() == 2502


def test_rows_are_there_again(path):
    with waxseal.open(path) as db:
        books = Tables(db).create("library.books", BOOKS, partition_key="author", clustering="year")
        books.insert({"author": "Austen", "year": 1815, "title": "Emma"})
        snapshot, rows = db.snapshot(), iter(books)
        books.truncate()
        assert titles(books.select(snapshot=snapshot)) == "Emma"
        assert books.get(("Austen", 1815), snapshot=snapshot)["title"] == "Emma"
        with waxseal.memory() as other, pytest.raises(waxseal.InvalidArgument):
            books.get(("Austen", 1815), snapshot=other.snapshot())
        books.insert({"author": "Austen", "year": 1815, "title": "Emma"})
    for call in (lambda: list(books), lambda: next(rows), books.truncate, lambda: books.schema):
        with pytest.raises(waxseal.ClosedError):
            call()
    with waxseal.open(path, "r") as db:
        books = Tables(db).table("library.books")
        assert titles(books) == "Emma"
        for call in (books.truncate, lambda: Tables(db).drop("library.books"), lambda: books.alter(add={"a": "i32"})):
            with pytest.raises(waxseal.ReadOnlyError):
                call()
        for thing in (books, Tables(db)):
            with pytest.raises(TypeError):
                pickle.dumps(thing)


def test_damage_hits_its_rows_alone(path):
    from test_errors import damage

    with waxseal.open(path) as db:
        books = Tables(db).create("library.books", BOOKS, partition_key="author", clustering="year")
        books.load({"author": "Austen", "year": at, "title": os.urandom(50).hex()} for at in range(3000))
        db.flush()
    file = damage(path)
    with waxseal.open(path) as db:
        books = Tables(db).table("library.books")
        faults, years, rows = [], [], iter(books)
        while True:
            try:
                years.append(next(rows)["year"])
            except StopIteration:
                break
            except waxseal.CorruptionError as error:
                faults.append(error)
        assert [fault.file for fault in faults] == [file]
        assert 2000 < len(years) < 3000 and (years[0], years[-1]) == (0, 2999)
        with pytest.raises(waxseal.CorruptionError):
            books.select().count()
        assert list(books.select(limit=0)) == [] and books.select(limit=0).count() == 0
        if importlib.util.find_spec("pyarrow"):
            assert books.select(limit=0).to_arrow().num_rows == 0  # reads no row


def test_arrow_columns_that_can_lose_anything_are_refused(tables):
    pa = pytest.importorskip("pyarrow")
    types = {
        **{name: name for name in ("f32", "f64", "timestamp", "date", "i64", "text", "uuid", "empty")},
        "key": "i32",
        "decimal": "decimal(5, 2)",
        "list": "list<i32>",
        "decimals": "list<decimal(5, 2)>",
    }
    table = tables.create("test.arrow", types, partition_key="key")

    def load(name, values, type_):
        keys = pa.array(range(len(values)), pa.int32())
        return table.from_arrow(pa.table({"key": keys, name: pa.array(values, type_)}), replace=True)

    for name, values, type_ in [
        ("f32", [0.5], pa.float64()),
        ("f64", [1], pa.int64()),
        ("timestamp", [1], pa.timestamp("us")),
        ("timestamp", [1], pa.timestamp("us", "Europe/Paris")),
        ("date", [1], pa.date64()),
        ("i64", [1.0], pa.float64()),
        ("text", [b"a"], pa.binary()),
        ("decimal", [1.5], pa.float64()),
        ("uuid", [b"a"], pa.binary()),
        ("list", [[1.0]], pa.list_(pa.float64())),
        ("list", [1], pa.int64()),
    ]:
        with pytest.raises(TypeError, match=name):
            load(name, values, type_)
    for name, values, type_ in [
        ("timestamp", [1], pa.timestamp("ns", "UTC")),
        ("timestamp", [2**62], pa.timestamp("s", "UTC")),
        ("i64", [2**63], pa.uint64()),
        ("decimal", [Decimal("1.005")], pa.decimal128(10, 3)),
        ("decimal", [1000], pa.int32()),
        ("decimals", [[1000]], pa.list_(pa.int64())),
        ("empty", [False], pa.bool_()),
        ("list", [[1, None]], pa.list_(pa.int32())),
        ("list", [[2**40]], pa.list_(pa.int64())),
        ("none", [1], pa.int64()),
    ]:
        with pytest.raises(ValueError, match=name):
            load(name, values, type_)
    with pytest.raises(ValueError, match="key"):
        table.from_arrow(pa.table({"key": pa.array([*range(1500), None], pa.int32())}))
    assert table.select().count() == 0
    for name, values, type_, found in [
        ("f64", [1, None], pa.int16(), 1.0),
        ("i64", [7], pa.uint64(), 7),
        ("timestamp", [1], pa.timestamp("ms", "UTC"), datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=timezone.utc)),
        ("decimal", [Decimal("1.500")], pa.decimal128(10, 3), Decimal("1.50")),
        ("decimal", [-999, None], pa.int64(), Decimal(-999)),
        ("decimals", [[7], []], pa.list_(pa.int32()), [Decimal(7)]),
        ("text", ["a"], pa.dictionary(pa.int8(), pa.large_string()), "a"),
        ("list", [[1], None, [2, 3]], pa.large_list(pa.int8()), [1]),
        ("uuid", [b"\0" * 16], pa.uuid(), uuid.UUID(int=0)),
        ("text", [None], pa.null(), None),
    ]:
        assert load(name, values, type_) == len(values)
        assert table.get(0).get(name) == found
        table.truncate()
    lists = pa.array([[1, None], [2], [3, 4], None], pa.large_list(pa.int32()))
    keys = pa.array(range(4), pa.int32())
    assert table.from_arrow(pa.table({"key": keys, "list": lists})[1:]) == 3
    assert [row.get("list") for row in table] == [[2], [3, 4], None]
    table.truncate()
    for of in (pa.list_view(pa.int32()), pa.large_list_view(pa.int32())):
        views = pa.array([[9], [1, 2], None, [3]], of)
        assert table.from_arrow(pa.table({"key": keys, "list": views})[1:]) == 3
        assert [row.get("list") for row in table] == [[1, 2], None, [3]]
        table.truncate()
    table.truncate()
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([5, None], pa.int32()))
    with pytest.raises(ValueError, match="of the key"):
        table.from_arrow(pa.table({"key": twice}))
    masked = pa.LargeListArray.from_arrays([0, 2, 3], pa.array([1, None, 3], pa.int32()), mask=pa.array([True, False]))
    assert table.from_arrow(pa.table({"key": keys[:2], "list": masked})) == 2
    assert [row.get("list") for row in table] == [None, [3]]
    for kind in (pa.date64(), pa.duration("s"), pa.timestamp("us"), pa.struct([("a", pa.int8())])):
        with pytest.raises(TypeError, match="a"):
            tables.create("test.other", pa.schema([("a", kind)]), partition_key="a")
    made = tables.create("test.other", pa.schema([("a", pa.uint8()), ("b", pa.list_(pa.uuid()))]), partition_key="a")
    assert [one.type for one in made.schema.columns] == ["i32", "list<uuid>"]


def test_arrow_consumers_read_selects(books):
    pa = pytest.importorskip("pyarrow")
    arrow = pa.table(books.select(columns=["title", "author"], reverse=True))
    assert arrow.column_names == ["title", "author"]
    assert arrow.column("title").to_pylist() == ["Frankenstein", "Emma", "Pride", "Sense"]
    assert pa.table(books).num_rows == 4
    batches = list(books.select().arrow_reader(batch_rows=3))
    assert [batch.num_rows for batch in batches] == [3, 1]
    with pytest.raises(ValueError):
        books.select().arrow_reader(batch_rows=0)
    empty = books.select(limit=0).to_arrow()
    assert empty.num_rows == 0 and empty.column_names == ["author", "year", "title", "genre"]
    assert books.select(limit=2).to_arrow().num_rows == 2
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    rows = books.select(where=column("genre") == "novel")
    assert duckdb.sql("select max(year), count(*) from rows").fetchall() == [(1815, 2)]
    assert polars.DataFrame(books)["title"].to_list() == ["Sense", "Pride", "Emma", "Frankenstein"]


def test_tables_of_a_session_are_changed_in_its_name():
    with waxseal.memory() as db:
        db.register("cluster:", "*", scope="subtree")
        alice, bob = Tables(db.session("alice")), Tables(db.session("bob"))
        books = alice.create("library.books", BOOKS, partition_key="author", clustering="year")
        books.insert({"author": "Austen", "year": 1815})
        assert bob.table("library.books").update(("Austen", 1815), {"title": "Emma"})
        Tables(db).table("library.books").delete(("Austen", 1815))
        assert [(event.operation, event.client) for event in db.query_all("library.books.Austen.1815")] == [
            ("Row.Insert", "alice"),
            ("Row.Update", "bob"),
            ("Row.Delete", "-"),
        ]

        with bob.transaction() as transaction:
            transaction.upsert(Tables(db).table("library.books"), {"author": "Eliot", "year": 1871})
        changed = bob.table("library.books")
        bob.transact(lambda transaction: transaction.update(changed, ("Eliot", 1871), {"title": "Middlemarch"}))
        assert {event.client for event in db.query_all("library.books.Eliot.1871")} == {"bob"}
        with pytest.raises(waxseal.InvalidArgument), bob.transaction() as transaction:
            transaction.delete(books, ("Eliot", 1871))  # a table of another session
        changed.load([{"author": "Shelley", "year": 1818}])
        assert db.query_latest("library.books.Shelley.1818").client == "bob"

        bob.rename("library.books", "library.novels")
        assert db.query_latest("library.books", "Table.AlterRename").client == "bob"
        alice.drop("library.novels")
        assert db.query_latest("ks:library.novels", "Table.Drop").client == "alice"
        assert alice.names() == []


def test_keyspaces_are_changed_with_their_tables(tables, books):
    tables.create_keyspace("empty", {"east": 3, "we\"st": "2"})
    assert tables.keyspaces() == {"empty": {"east": "3", "we\"st": "2"}, "library": {}}
    tables.alter_keyspace("library", {"east": 1})
    tables.rename_keyspace("library", "archive")
    assert tables.names() == ["archive.books"] and books.name == "archive.books"
    assert tables.keyspaces()["archive"] == {"east": "1"}
    with pytest.raises(waxseal.ExistsError):
        tables.create_keyspace("archive")
    with pytest.raises(waxseal.ExistsError):
        tables.rename_keyspace("empty", "archive")
    for call in (lambda: tables.alter_keyspace("library", {}), lambda: tables.drop_keyspace("library")):
        with pytest.raises(waxseal.NotFoundError):
            call()
    for wrong in ({"": 1}, {"a": "b\x01"}):
        with pytest.raises(waxseal.InvalidArgument):
            tables.create_keyspace("new", wrong)
    for wrong in ({"a=b": 1}, {"a": "b\nc"}):
        with pytest.raises(ValueError):
            tables.create_keyspace("new", wrong)
    tables.drop_keyspace("archive")
    assert tables.names() == [] and list(tables.keyspaces()) == ["empty"]


def test_keyspaces_of_a_session_are_changed_in_its_name():
    with waxseal.memory() as db:
        db.register("cluster:", "Schema.Alter")
        Tables(db.session("alice")).create_keyspace("library", {"east": 3})
        event = db.query_latest("ks:library")
        assert (event.operation, event.client) == ("Schema.Alter", "alice")


def test_a_certificate_covers_the_events_that_were_purged(tables, books):
    db = tables._db
    db.register("waxseal_tables-1-rows", "*", values="new")
    books.insert({"author": "Eliot", "year": 1871, "title": "Middlemarch", "genre": "novel-7Qk"})
    for name in ("genre", "genre"):
        books.drop_column(name)
    with pytest.raises(waxseal.InvalidArgument):
        books.certificate("genre")
    assert books.purge_columns().columns == ["genre"]
    plain = books.certificate("genre")
    assert plain.events is None and "that show values" in plain.not_covered[0]
    with db.snapshot():
        report = books.purge_events("genre")
        with pytest.raises(waxseal.BusyError, match="snapshot"):
            books.certificate("genre")
    assert (report.changed, report.removed) == (1, 0)
    found = books.certificate("genre")
    assert (found.table, found.column, found.events) == ("library.books", "genre", report)
    assert found.purged_at <= report.ended_at <= found.issued_at
    assert "programs have added" in found.not_covered[0]
    assert db.query_latest("waxseal_tables-1-rows", "Registry.Rewrite").client == "-"
    events = repr(list(db.query("waxseal_tables-1-rows", below=True)))
    assert "novel-7Qk" not in events and "Middlemarch" in events
    with pytest.raises(waxseal.NotFoundError):
        books.purge_events("none")
