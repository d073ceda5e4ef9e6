"""One path of the package many times over, to be counted: `valgrind --tool=callgrind python python/bench/cost.py get 12`.

In: a path, and how often 1,000 keys are gone through. Out: nothing; callgrind says how many instructions were the engine's, the C
library's and the extension's. docs/costs.md.
"""

import sys

import waxseal

KEYS = [b"key%06d" % number for number in range(1000)]
VALUE = b"v" * 100


def get(db: waxseal.DB) -> None:
    read = db.get
    for key in KEYS:
        read(key)


def iterate(db: waxseal.DB) -> None:
    for _ in db.iterator():
        pass


def put(db: waxseal.DB) -> None:
    write = db.put
    for key in KEYS:
        write(key, VALUE)


def batch(db: waxseal.DB) -> None:
    with db.batch() as writes:
        write = writes.put
        for key in KEYS:
            write(key, VALUE)


PATHS = {"get": get, "iterate": iterate, "put": put, "batch": batch}


def main() -> None:
    path, times = PATHS[sys.argv[1]], int(sys.argv[2])
    with waxseal.memory() as db:
        put(db)
        db.flush()
        get(db)
        for _ in range(times):
            path(db)


main()
