"""Compares the answers of `waxseal sql` to random queries with those of DuckDB, on the same small tables.

    sql_random.py TOOL SEED COUNT

The queries nest selections, joins, aggregates, windows, set operations and subqueries over columns with nulls. Rows are
compared without their order. Queries that DuckDB or the tool refuses are counted apart. The exit code is 1 if an answer
differs.
"""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

# Columns and indexes of the tables. Names of columns tell keys: a, b and c of `t`, k of `u`.
TABLES = {
    "t": {"a": "text", "b": "i32", "c": "i64", "d": "text", "e": "i32"},
    "u": {"k": "i32", "v": "i64", "w": "text"},
}
WORDS = {
    "t": ["--partition-key=a:text", "--clustering-key=b:i32", "--clustering-key=c:i64", "--column=d:text"]
    + ["--column=e:i32", "--index=by_d=d,e", "--index=by_e=e"],
    "u": ["--partition-key=k:i32", "--column=v:i64", "--column=w:text", "--index=by_v=v"],
}
SQL_TYPES = {"text": "TEXT", "i32": "INT", "i64": "BIGINT"}
COMPARISONS = ["=", "<", ">", "<=", ">=", "<>"]


def rows_of(table):
    """Returns the rows of a table, the same in each run."""
    choose = random.Random(table).choice
    numbers = [None, *range(-3, 10)]
    if table == "t":
        genres = ["novel", "letters", "essay", "", None]
        return [("AEGS"[n % 4], 1800 + n // 8, n, choose(genres), choose(numbers)) for n in range(60)]
    return [(n, choose(numbers), choose(["novel", "A", "essay", None])) for n in range(12)]


class Store:
    """A store with the tables."""

    def __init__(self, tool, directory):
        self.command = [tool, "-d", f"{directory}/store"]
        for table, columns in TABLES.items():
            self.run("table", "create", f"f.{table}", *WORDS[table], check=True)
            file = Path(directory) / f"{table}.jsonl"
            cells = [{n: v for n, v in zip(columns, row) if v is not None} for row in rows_of(table)]
            file.write_text("".join(json.dumps(row) + "\n" for row in cells), encoding="utf-8")
            self.run("table", "import", f"f.{table}", str(file), check=True)

    def run(self, *words, check=False):
        """Runs the tool."""
        return subprocess.run([*self.command, *words], capture_output=True, text=True, check=check)


def duckdb_of_tables():
    """Returns a database with the tables."""
    data = duckdb.connect()
    data.execute("CREATE SCHEMA f")
    for table, columns in TABLES.items():
        definition = ", ".join(f"{name} {SQL_TYPES[kind]}" for name, kind in columns.items())
        data.execute(f"CREATE TABLE f.{table}({definition})")
        data.executemany(f"INSERT INTO f.{table} VALUES ({', '.join('?' * len(columns))})", rows_of(table))
    return data


class Queries:
    """Generates queries. Columns are two lists: those of numbers and those of texts."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.one_of = self.random.choice

    def part(self, *weights):
        """Chooses a place in the list of weights."""
        return self.random.choices(range(len(weights)), weights)[0]

    def number(self, columns, depth=2):
        """Returns an expression of an integer."""
        kind = self.part(5, 2, *([3, 1, 1] if depth else []))
        if kind == 0:
            return self.one_of(columns[0])
        if kind == 1:
            return str(self.random.randint(-3, 12))
        first, second = self.number(columns, depth - 1), self.number(columns, depth - 1)
        if kind == 2:
            return f"({first} {self.one_of('+-*')} {second})"
        if kind == 3:
            return f"CASE WHEN {self.condition(columns, 0)} THEN {first} ELSE {second} END"
        return f"coalesce({first}, {second})"

    def text(self, columns):
        """Returns an expression of a text."""
        return self.one_of([*columns[1], "'A'", "'novel'", "'essay'", "''"])

    def condition(self, columns, depth=2):
        """Returns a condition; with a subquery only where the depth permits."""
        number, text = self.one_of(columns[0]), self.one_of(columns[1])
        kind = self.part(3, 4, 2, 1, 1, *([5, 1, 1, 1, 1] if depth else []))
        if kind == 0:
            return f"{text} {self.one_of(COMPARISONS)} {self.text(columns)}"
        if kind == 1:
            return f"{number} {self.one_of(COMPARISONS)} {self.number(columns, min(depth, 1))}"
        if kind == 2:
            return f"{self.one_of([number, text])} IS {self.one_of(['', 'NOT '])}NULL"
        if kind == 3:
            return f"{number} {self.one_of(['', 'NOT '])}IN ({self.random.randint(-3, 12)}, 1, 4)"
        if kind == 4:
            return f"{number} BETWEEN {self.random.randint(-3, 5)} AND {self.random.randint(0, 1810)}"
        values = f"SELECT v FROM f.u{self.one_of(['', ' WHERE v IS NOT NULL', ' WHERE v > 100', ' WHERE k < 5'])}"
        if kind == 5:
            parts = self.condition(columns, depth - 1), self.condition(columns, depth - 1)
            return f"({parts[0]} {self.one_of(['AND', 'OR'])} {parts[1]})"
        if kind == 6:
            return f"NOT ({self.condition(columns, depth - 1)})"
        if kind == 7:
            return f"{number} {self.one_of(['', 'NOT '])}IN ({values})"
        if kind == 8:
            scalar = f"SELECT {self.one_of(['max', 'count'])}(z.v) FROM f.u z WHERE z.k = {number}"
            return f"{number} {self.one_of('=<>')} ({scalar})"
        return f"{self.one_of(['', 'NOT '])}EXISTS (SELECT 1 FROM f.u z WHERE z.v = {number})"

    def source(self, depth):
        """Returns what a query reads, and its columns."""
        kind = self.part(3, 1, 2, *([4] if depth else []))
        if kind == 0:
            return "f.t", (["b", "c", "e"], ["a", "d"])
        if kind == 1:
            return "f.u", (["k", "v"], ["w"])
        if kind == 2:
            on = self.one_of(["t.e = u.v", "t.e = u.v AND t.b > 1803", "t.d = u.w", "t.e = u.k AND u.v > 0"])
            join = self.one_of(["JOIN", "LEFT JOIN", "RIGHT JOIN"])
            return f"f.t t {join} f.u u ON {on}", (["t.b", "t.c", "t.e", "u.k", "u.v"], ["t.a", "t.d", "u.w"])
        query, columns = self.query(depth - 1)
        return f"({query}){self.one_of(['', ' AS q'])}", columns

    def query(self, depth):
        """Returns a query and its columns: x and y are numbers, z is a text."""
        source, columns = self.source(depth)
        where = f" WHERE {self.condition(columns)}" if self.part(2, 3) else ""
        number, text = self.one_of(columns[0]), self.one_of(columns[1])
        kind = self.part(10, 3, 2, 2, 2)
        if kind == 0:
            step = f"{self.number(columns)} AS x, {self.number(columns)} AS y, {self.text(columns)} AS z"
            return f"SELECT {step} FROM {source}{where}", (["x", "y"], ["z"])
        aggregate = self.one_of([f"{name}({number})" for name in ["count", "min", "max"]] + ["count(*)"])
        if kind == 1:
            key = self.one_of([text, text, "'A'"])
            having = self.one_of(["", "", " HAVING count(*) > 3"])
            grouped = f"SELECT {aggregate} AS x, {key} AS z FROM {source}{where} GROUP BY {key}{having}"
            return grouped, (["x"], ["z"])
        if kind == 2:
            over = f"{aggregate} OVER (PARTITION BY {text} ORDER BY {number} NULLS LAST)"
            return f"SELECT {over} AS x, {text} AS z FROM {source}{where}", (["x"], ["z"])
        distinct = f"SELECT DISTINCT {number} AS x, {text} AS z FROM {source}{where}"
        if kind == 3:
            return distinct, (["x"], ["z"])
        union = self.one_of(["UNION", "UNION ALL", "EXCEPT", "INTERSECT"])
        return f"SELECT x, z FROM ({distinct} {union} SELECT e AS x, d AS z FROM f.t) AS s", (["x"], ["z"])


def main(tool, seed, count):
    """Compares the answers to as many queries as DuckDB has answers."""
    data, queries = duckdb_of_tables(), Queries(int(seed))
    equal = differ = refused = 0
    with tempfile.TemporaryDirectory() as directory:
        store = Store(tool, directory)
        while equal + differ + refused < int(count):
            query, _ = queries.query(queries.one_of([0, 1, 2, 3]))
            try:
                theirs = data.execute(query).fetchall()
            except duckdb.Error:
                continue
            names = [column[0] for column in data.description]
            done = store.run("--json", "sql", query)
            if done.returncode:
                refused += 1
                continue
            ours = [tuple(json.loads(line).get(name) for name in names) for line in done.stdout.splitlines()]
            if sorted(map(repr, ours)) == sorted(map(repr, theirs)):
                equal += 1
            else:
                differ += 1
                print(f"DIFFERS: {query}\n  {len(ours)} rows, and DuckDB has {len(theirs)}", flush=True)
    print(f"seed {seed}: {equal} answers agree with DuckDB {duckdb.__version__}, {differ} differ, {refused} refused")
    return differ > 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
