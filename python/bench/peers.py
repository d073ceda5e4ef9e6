"""Compares Waxseal with plyvel, rocksdict and lmdb in one process: get, put, batch put, rows, and a scan into Arrow.

    pip install waxseal plyvel rocksdict lmdb pyarrow
    python bench/peers.py [--quick] [--cpu] [--json FILE] [--engine PATH]

Rounds alternate between the stores, so that a slow phase of the machine affects all of them. Each gate is a ratio of
paired rounds with its interval. `--engine` names the program `waxseal-bench`, which measures the engine's own point
read of the same content. Every gate prints a line `PASS|FAIL|INCONCLUSIVE id metric value unit threshold`; the exit
code is 0, 6 or 7.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

KEY_BYTES, VALUE_BYTES = 16, 100
AT_ONCE = 1000
SEED = 5

Row = Tuple[bytes, bytes]


class Waxseal:
    """Waxseal."""

    name = "waxseal"

    def __init__(self, path: str) -> None:
        import waxseal

        self.db = waxseal.open(path)
        self.get, self.put = self.db.get, self.db.put

    def load(self, rows: List[Row]) -> None:
        self.db.put_many(rows)
        self.db.settle()

    def put_batches(self, rows: List[Row]) -> None:
        for at in range(0, len(rows), AT_ONCE):
            with self.db.batch() as batch:
                put = batch.put
                for key, value in rows[at : at + AT_ONCE]:
                    put(key, value)

    def rows(self) -> Any:
        return self.db.iterator()

    def arrow(self) -> Any:
        import pyarrow

        return pyarrow.table(self.db.scan())

    def close(self) -> None:
        self.db.close()


class Plyvel:
    """LevelDB."""

    name = "plyvel"

    def __init__(self, path: str) -> None:
        import plyvel

        settings = {"write_buffer_size": 64 << 20, "lru_cache_size": 256 << 20, "bloom_filter_bits": 10}
        self.db = plyvel.DB(path, create_if_missing=True, **settings)
        self.get, self.put = self.db.get, self.db.put

    def load(self, rows: List[Row]) -> None:
        self.put_batches(rows)
        self.db.compact_range()

    def put_batches(self, rows: List[Row]) -> None:
        for at in range(0, len(rows), AT_ONCE):
            with self.db.write_batch() as batch:
                put = batch.put
                for key, value in rows[at : at + AT_ONCE]:
                    put(key, value)

    def rows(self) -> Any:
        return self.db.iterator()

    def arrow(self) -> Any:
        return arrow_of(self.rows())

    def close(self) -> None:
        self.db.close()


class Rocksdict:
    """RocksDB."""

    name = "rocksdict"

    def __init__(self, path: str) -> None:
        import rocksdict

        self.of = rocksdict
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(64 << 20)
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(rocksdict.Cache(256 << 20))
        table.set_bloom_filter(10, False)
        options.set_block_based_table_factory(table)
        self.db = rocksdict.Rdict(path, options)
        self.get, self.put = self.db.get, self.db.put

    def load(self, rows: List[Row]) -> None:
        self.put_batches(rows)
        self.db.flush()
        self.db.compact_range(None, None)

    def put_batches(self, rows: List[Row]) -> None:
        for at in range(0, len(rows), AT_ONCE):
            batch = self.of.WriteBatch(raw_mode=True)
            put = batch.put
            for key, value in rows[at : at + AT_ONCE]:
                put(key, value)
            self.db.write(batch)

    def rows(self) -> Any:
        return self.db.items()

    def arrow(self) -> Any:
        return arrow_of(self.rows())

    def close(self) -> None:
        self.db.close()


class Lmdb:
    """LMDB, configured not to wait for the disk: like the others, its writes survive a crash of the process but not of
    the machine."""

    name = "lmdb"

    def __init__(self, path: str) -> None:
        import lmdb

        self.db = lmdb.open(path, map_size=8 << 30, sync=False, metasync=False)
        self.reading: Any = None

    def load(self, rows: List[Row]) -> None:
        self.put_batches(rows)

    def _read(self) -> Any:
        if self.reading is None:
            self.reading = self.db.begin()
        return self.reading

    @property
    def get(self) -> Any:
        return self._read().get

    def put(self, key: bytes, value: bytes) -> None:
        with self.db.begin(write=True) as transaction:
            transaction.put(key, value)

    def put_batches(self, rows: List[Row]) -> None:
        self.renew()
        for at in range(0, len(rows), AT_ONCE):
            with self.db.begin(write=True) as transaction:
                put = transaction.put
                for key, value in rows[at : at + AT_ONCE]:
                    put(key, value)

    def renew(self) -> None:
        if self.reading is not None:
            self.reading.abort()
            self.reading = None

    def rows(self) -> Any:
        self.renew()
        return iter(self._read().cursor())

    def arrow(self) -> Any:
        return arrow_of(self.rows())

    def close(self) -> None:
        self.renew()
        self.db.close()


def arrow_of(rows: Any) -> Any:
    """Builds an Arrow table from rows, for stores without Arrow support."""
    import pyarrow

    keys, values = [], []
    for key, value in rows:
        keys.append(key)
        values.append(value)
    kind = pyarrow.binary()
    return pyarrow.table({"key": pyarrow.array(keys, kind), "value": pyarrow.array(values, kind)})


def make_rows(count: int, seed: int) -> List[Row]:
    """Returns rows in random order, whose values compress to half their size."""
    random_ = random.Random(seed)
    keys = [b"%0*d" % (KEY_BYTES, number) for number in range(count)]
    random_.shuffle(keys)
    return [(key, random_.randbytes(VALUE_BYTES // 2) + b"x" * (VALUE_BYTES - VALUE_BYTES // 2)) for key in keys]


#: The clock of a round: wall time, or the thread's CPU time on a shared machine.
clock = time.perf_counter_ns


def timed(work: Callable[[], None]) -> float:
    start = clock()
    work()
    return float(clock() - start)


def gets(store: Any, keys: List[bytes]) -> None:
    get = store.get
    for key in keys:
        get(key)


def puts(store: Any, rows: List[Row]) -> None:
    put = store.put
    for key, value in rows:
        put(key, value)


def rows_of(store: Any, count: int) -> None:
    found = 0
    for _key, _value in store.rows():
        found += 1
    if found < count:
        raise SystemExit(f"{store.name}: {found} rows of {count}")


def arrow(store: Any, count: int) -> None:
    if store.arrow().num_rows < count:
        raise SystemExit(f"{store.name}: rows are missing")


Step = Tuple[str, int, Callable[[Any], None]]


def measure(stores: List[Any], count: int, rounds: int) -> Dict[str, Dict[str, List[float]]]:
    """Returns nanoseconds per operation, by step, store and round. Reads come first, while the stores have no
    background work."""
    rows = make_rows(count, SEED)
    for store in stores:
        store.load(rows)
    few = max(1000, count // 5)

    def reads(random_: random.Random) -> List[Step]:
        keys = [random_.choice(rows)[0] for _ in range(few)]
        return [
            ("get", few, lambda store: gets(store, keys)),
            ("rows", count, lambda store: rows_of(store, count)),
            ("arrow", count, lambda store: arrow(store, count)),
        ]

    def writes(random_: random.Random) -> List[Step]:
        news = [random_.choice(rows) for _ in range(few)]
        return [
            ("batch", few, lambda store: store.put_batches(news)),
            ("put", few, lambda store: puts(store, news)),
        ]

    found: Dict[str, Dict[str, List[float]]] = {}
    for steps in (reads, writes):
        if steps is writes:
            for store in stores:
                if hasattr(store, "renew"):
                    store.renew()  # an open reader would pin overwritten pages
        for number in range(rounds + 1):  # the first round is a warm-up
            order = stores[number % len(stores) :] + stores[: number % len(stores)]
            for step, operations, work in steps(random.Random(SEED + number)):
                for store in order:
                    spent = timed(lambda: work(store)) / operations
                    if number > 0:
                        found.setdefault(step, {}).setdefault(store.name, []).append(spent)
    return found


def interval(samples: List[float]) -> Tuple[float, float, float]:
    """Returns the median, and the order statistics that enclose it with about 95 % confidence."""
    ordered = sorted(samples)
    count = len(ordered)
    reach = max(1, round(0.98 * count**0.5))
    low, high = max(0, count // 2 - reach), min(count - 1, (count - 1) // 2 + reach)
    return statistics.median(ordered), ordered[low], ordered[high]


def gate(name: str, metric: str, samples: List[float], unit: str, threshold: float) -> Dict[str, Any]:
    """Compares samples with an upper threshold."""
    value, low, high = interval(samples)
    verdict = "PASS" if high <= threshold else "FAIL" if low > threshold else "INCONCLUSIVE"
    print(f"{verdict} {name} {metric} {value:.3g} {unit} {threshold:g}")
    return {
        "verdict": verdict,
        "id": name,
        "metric": metric,
        "value": value,
        "unit": unit,
        "threshold": threshold,
        "ci_low": low,
        "ci_high": high,
        "n": len(samples),
        "seed": SEED,
    }


def engine_get(program: str, count: int, operations: int, folder: Path) -> Optional[float]:
    """Returns nanoseconds of the engine's own point read, without Python."""
    command = [program, "run", "--engine", "waxseal", "--bench", "fillrandom,settle,readrandom,readrandom"]
    command += ["--num", str(count), "--ops", str(operations), "--threads", "1", "--key", str(KEY_BYTES)]
    command += ["--value", str(VALUE_BYTES), "--seed", str(SEED), "--dir", str(folder / "engine"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return None
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    reads = [1e9 / line["ops_per_s"] for line in lines if line["bench"] == "readrandom"]
    return min(reads) if reads else None


def main() -> int:
    """Measures, prints, and checks the gates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="within a minute")
    parser.add_argument("--json", metavar="FILE", help="the results, for programs")
    parser.add_argument("--engine", metavar="PATH", help="waxseal-bench, for the engine's own point read")
    parser.add_argument("--cpu", action="store_true", help="measure the thread's own time: for a machine that is not quiet")
    arguments = parser.parse_args()
    global clock
    clock = time.thread_time_ns if arguments.cpu else time.perf_counter_ns
    count, rounds = (20_000, 7) if arguments.quick else (200_000, 15)
    folder = Path(tempfile.mkdtemp(prefix="waxseal-peers-"))
    try:
        stores = [kind(str(folder / kind.name)) for kind in (Waxseal, Plyvel, Rocksdict, Lmdb)]
        found = measure(stores, count, rounds)
        for store in stores:
            store.close()
        own = engine_get(arguments.engine, count, count, folder) if arguments.engine else None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{'ns':8}" + "".join(f"{store.name:>12}" for store in stores))
    for step, times in found.items():
        print(f"{step:8}" + "".join(f"{statistics.median(times[store.name]):12.0f}" for store in stores))
    gates = []
    for step, times in found.items():
        peers = {name: samples for name, samples in times.items() if name != "waxseal"}
        best = min(peers, key=lambda name: statistics.median(peers[name]))
        ratios = [ours / theirs for ours, theirs in zip(times["waxseal"], peers[best])]
        gates.append(gate(f"python-{step}", f"time_over_{best}", ratios, "ratio", 1.0))
    gates.append(gate("python-row", "time_per_row", found["rows"]["waxseal"], "ns", 150.0))
    if own is not None:
        over = [sample - own for sample in found["get"]["waxseal"]]
        gates.append(gate("python-get-over-engine", "time_over_engine", over, "ns", 400.0))
    else:
        print("INCONCLUSIVE python-get-over-engine time_over_engine nan ns 400")
        gates.append({"verdict": "INCONCLUSIVE", "id": "python-get-over-engine"})
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"steps": found, "engine_get_ns": own, "gates": gates}, indent=1))
    verdicts = {one["verdict"] for one in gates}
    return 6 if "FAIL" in verdicts else 7 if "INCONCLUSIVE" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
