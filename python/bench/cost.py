"""Runs one operation of the package many times, for counting: `valgrind --tool=callgrind python python/bench/cost.py
get 12`.

In: an operation, and the number of passes over 1,000 keys. Out: nothing; callgrind reports the instructions of the
engine, the C library and the extension. See docs/costs.md.
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
