"""Scans through the Arrow capsule protocol, read by Arrow consumers."""

import gc

import pytest

import waxseal
from waxseal import _c

pyarrow = pytest.importorskip("pyarrow")

live_handles = _c.function("waxseal_live_handles")

ROWS = [(b"%06d" % n, b"value %d" % n * (n % 7)) for n in range(10_000)]


@pytest.fixture
def db(path):
    with waxseal.open(path) as db:
        db.put_many(ROWS)
        yield db


def test_a_table(db):
    table = pyarrow.table(db.scan())
    assert table.column_names == ["key", "value", "seqno", "seal"]
    assert table.num_rows == len(ROWS)
    assert list(zip(table["key"].to_pylist(), table["value"].to_pylist())) == ROWS
    assert all(number > 0 for number in table["seqno"].to_pylist())
    seal = int.from_bytes(waxseal.seal_of(*ROWS[7]), "little")
    assert table["seal"].to_pylist()[7] == seal
    table.validate(full=True)
    db.flush()
    assert pyarrow.table(db)["key"].to_pylist() == [key for key, _ in ROWS]


def test_parts_of_a_table(db):
    table = pyarrow.table(db.scan(start=b"000010", stop=b"000020", include_stop=True, columns=["key"]))
    assert table.column_names == ["key"] and table["key"].to_pylist() == [b"%06d" % n for n in range(10, 21)]
    assert pyarrow.table(db.scan(prefix=b"0000", columns="value")).num_rows == 100
    assert pyarrow.table(db.scan(prefix=b"x")).num_rows == 0
    for wrong in (["nothing"], []):
        with pytest.raises(ValueError):
            db.scan(columns=wrong)
    with pytest.raises(TypeError):
        db.scan(prefix="text")


def test_batches_outlive_the_store(path):
    with waxseal.open(path) as db:
        db.put_many(ROWS)
        reader = pyarrow.RecordBatchReader.from_stream(db.scan(batch_rows=1000))
        first = reader.read_next_batch()
        assert first.num_rows == 1000
    gc.collect()
    assert first["key"].to_pylist() == [key for key, _ in ROWS[:1000]]
    with pytest.raises(pyarrow.ArrowException, match="closed"):
        reader.read_all()
    with pytest.raises(waxseal.ClosedError):
        pyarrow.table(db.scan())


def test_snapshots_and_families(db):
    with db.snapshot() as snapshot:
        db.clear()
        assert pyarrow.table(snapshot).num_rows == len(ROWS)
        assert pyarrow.table(db).num_rows == 0
        users = db.family("users")
        users[b"a"] = b"1"
        assert pyarrow.table(users).num_rows == 1 and pyarrow.table(snapshot.family("users")).num_rows == 0


def test_capsules_that_nobody_takes(db):
    before = live_handles()
    for _ in range(1000):
        db.scan().__arrow_c_stream__()
    assert live_handles() < before + 10
    capsule = db.scan().__arrow_c_stream__(None)
    assert "arrow_array_stream" in repr(capsule)
    db.close()
    del capsule
    gc.collect()


def test_damage_is_an_error(path):
    from test_errors import damage

    with waxseal.open(path) as db:
        db.put_many(ROWS)
        db.flush()
    damage(path)
    with waxseal.open(path) as db:
        with pytest.raises(OSError):
            pyarrow.table(db.scan())


def test_polars(db):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(db.scan(columns=["key", "value"]))
    assert frame.height == len(ROWS) and frame["key"][7] == b"000007"


def test_duckdb(db):
    duckdb = pytest.importorskip("duckdb")
    scan = db.scan()
    assert scan is not None
    found = duckdb.sql("select count(*), sum(octet_length(value)) from scan").fetchall()
    assert found == [(len(ROWS), sum(len(value) for _, value in ROWS))]


def test_columns_come_in_the_order_asked_for_and_once(db):
    table = pyarrow.table(db.scan(columns=["value", "seqno", "key"]))
    assert table.column_names == ["value", "seqno", "key"]
    assert [(row["key"], row["value"]) for row in table.to_pylist()] == list(db.items())
    with pytest.raises(ValueError, match="twice"):
        db.scan(columns=["key", "key"])
