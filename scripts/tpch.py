"""Compares the answers of `waxseal sql` to the queries of TPC-H with those of DuckDB, on the same data.

    tpch.py TOOL DIR SCALE [QUERY..]

DuckDB's extension generates the data and has the queries. The data goes through Parquet files and `waxseal table
import` into a store, DIR/sf-SCALE, which later calls use again. Decimals, integers, texts and dates must be equal.
Where one side has a float, the numbers may differ by 1e-9 of their size, and by a unit of the last digit of a decimal.
Rows must come in the same order. The exit code is 1 if an answer differs.
"""

import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import duckdb
import duckdb_extension_tpch

# Partition key, clustering key and indexes of the tables. Other columns follow from DuckDB's schema.
TABLES = {
    "region": ("r_regionkey", [], []),
    "nation": ("n_nationkey", [], ["n_name"]),
    "supplier": ("s_suppkey", [], ["s_nationkey"]),
    "customer": ("c_custkey", [], ["c_mktsegment"]),
    "part": ("p_partkey", [], ["p_size"]),
    "partsupp": ("ps_partkey", ["ps_suppkey"], []),
    "orders": ("o_orderkey", [], ["o_orderdate"]),
    "lineitem": ("l_orderkey", ["l_linenumber"], ["l_shipdate"]),
}


class Store:
    """A store with the tables of TPC-H."""

    def __init__(self, tool, directory):
        self.command = [tool, "-d", str(directory)]

    def run(self, *words):
        """Runs the tool and returns its output, or raises RuntimeError with its message."""
        done = subprocess.run([*self.command, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or f"exit code {done.returncode}")
        return done.stdout

    def fill(self, data, directory):
        """Creates the tables and imports what DuckDB has generated."""
        for table, (partition, clustering, indexes) in TABLES.items():
            words = []
            for name, type_name, *_ in data.execute(f"DESCRIBE {table}").fetchall():
                if name not in clustering:
                    kind = "--partition-key" if name == partition else "--column"
                    words += [kind, f"{name}:{column_type(type_name)}"]
            for name in clustering:
                words += ["--clustering-key", f"{name}:i64"]
            self.run("table", "create", f"tpch.{table}", *words)
            file = directory / f"{table}.parquet"
            data.execute(f"COPY {table} TO '{file}' (FORMAT parquet)")
            print(f"{table}: {self.run('table', 'import', f'tpch.{table}', str(file)).strip()}", flush=True)
            file.unlink()
            for name in indexes:
                self.run("table", "alter", f"tpch.{table}", "create-index", f"by_{name}", name)

    def query(self, text):
        """Returns the rows of a query, without their nulls."""
        lines = self.run("--json", "sql", "--keyspace", "tpch", text).splitlines()
        return [list(json.loads(line).values()) for line in lines]

    def ranges(self, text):
        """Returns the ranges that a query reads, for example `nation by index by_n_name`."""
        plan = self.run("sql", "--keyspace", "tpch", "EXPLAIN FORMAT INDENT " + text).replace("\\n", "\n")
        found = re.findall(r"TableScan: tpch\.(\w+), by=(key|index \w+)(, range)?", plan)
        return sorted({f"{table} by {index}" for table, index, narrowed in found if narrowed})


def column_type(type_name):
    """Returns the type of a table's column for a type of DuckDB."""
    return {"BIGINT": "i64", "INTEGER": "i32", "VARCHAR": "text", "DATE": "date"}.get(type_name, type_name.lower())


def unequal(ours, theirs):
    """Returns what differs between two answers; None if they are equal."""
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, and DuckDB has {len(theirs)}"
    for number, (our, their) in enumerate(zip(ours, theirs), 1):
        their = [value for value in their if value is not None]
        if len(our) != len(their) or not all(map(is_equal, our, their)):
            return f"row {number} is {our}, and DuckDB has {their}"
    return None


def is_equal(our, their):
    """Compares a value of JSON, where decimals and dates are strings, with one of DuckDB."""
    if isinstance(their, float):
        last_digit = 10.0 ** Decimal(our).as_tuple().exponent if isinstance(our, str) else 0.0
        return abs(float(our) - their) <= max(1e-9 * abs(their), last_digit)
    if isinstance(our, float):
        return abs(our - float(their)) <= 1e-9 * abs(our)
    if isinstance(their, (int, Decimal)):
        return Decimal(our) == their
    return our == str(their)


def main(tool, directory, scale, *numbers):
    """Compares the queries of these numbers, or all."""
    data = duckdb.connect()
    [extension] = Path(duckdb_extension_tpch.__file__).parent.glob("extensions/*/tpch.duckdb_extension")
    data.load_extension(str(extension))
    data.execute(f"CALL dbgen(sf={float(scale)})")
    home = Path(directory) / f"sf-{scale}"
    store = Store(tool, home / "store")
    if not (home / "filled").exists():
        home.mkdir(parents=True)
        store.fill(data, home)
        (home / "filled").touch()
    queries = data.execute("SELECT query_nr, query FROM tpch_queries() ORDER BY query_nr").fetchall()
    chosen = [(number, text) for number, text in queries if not numbers or str(number) in numbers]
    failed = 0
    for number, text in chosen:
        theirs = data.execute(text).fetchall()
        try:
            differs, ranges = unequal(store.query(text), theirs), store.ranges(text)
        except RuntimeError as error:
            differs, ranges = str(error), []
        failed += differs is not None
        outcome = f"FAILED: {differs}" if differs else f"{len(theirs)} rows agree"
        print(f"{number:2}  {outcome}{''.join(f'; {name}' for name in ranges)}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} answers agree with DuckDB {duckdb.__version__}, scale {scale}")
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
