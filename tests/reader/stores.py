"""Which store each file of a directory belongs to (docs/format.md, section 3.1 and property 20). Needs no manifest."""

import os
import re
from collections import namedtuple

from codec import PAGE, Cursor, Damage, Unsupported, header, read_file
from sums import hash
from table import Table

# A store, and those that it descends from.
Named = namedtuple("Named", "store ancestors")
# It may have tables of this one with numbers below `number` and no seqno above `seqno`.
Ancestor = namedtuple("Ancestor", "store number seqno")

AT, MOST = 2048, 32
KINDS = {"log": b"L", "ring": b"R", "tbl": b"T"}


def named_in(page):
    """What a first page says; None if it names no store."""
    if len(page) < PAGE:
        return None
    c = Cursor(page[AT:PAGE], "first page", AT)
    store, count = c.take(16), c.u32()
    if count > MOST:
        return None
    ancestors = [Ancestor(c.take(16), c.u64(), c.u64()) for _ in range(count)]
    end = AT + 20 + 32 * count
    return Named(store, ancestors) if c.u64() == hash(page[AT:end]) else None


def store_of(directory, name):
    """The store that a file names; None if it names none, or is no file that could."""
    if re.fullmatch(r"MANIFEST-\d{6,}", name):
        data = read_file(directory, name)
        uid = header(data, name, b"M")
        named = named_in(data[:PAGE])
        return named if named and named.store == uid else Named(uid, [])
    kind = KINDS.get(re.sub(r"^\d{6,}\.", "", name))
    if kind is None:
        return None
    data = read_file(directory, name)
    if kind == b"T":
        store = Table(data, name).properties.store
        return store and Named(store, [])
    return named_in(data[:PAGE]) if data[:8] == b"WAXSEAL" + kind else None


def list_stores(directory):
    """A line for each table, manifest, segment and ring: its name, and the store that it names."""
    for name in sorted(os.listdir(directory)):
        try:
            named = store_of(directory, name)
        except (Damage, Unsupported) as fault:
            print(name, f"? {fault}", sep="\t")
            continue
        if named:
            parents = "".join(f" {of.store.hex()}<{of.number}@{of.seqno}" for of in named.ancestors)
            print(name, named.store.hex() + parents, sep="\t")
        elif re.fullmatch(r"\d{6,}\.(tbl|log|ring)", name):
            print(name, "-", sep="\t")
