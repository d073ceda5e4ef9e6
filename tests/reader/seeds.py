#!/usr/bin/env python3
"""Cuts a store into seeds for the fuzz targets:  seeds.py DIR OUT

Writes OUT/table, OUT/values, OUT/block (codec byte, then the stored bytes), OUT/properties, OUT/manifest and OUT/wal, one small file a
seed, named by where it comes from. Large files make slow fuzzing, so files above 64 KiB are left out.
"""

import os
import sys

from codec import read_file
from table import Table

MOST = 64 * 1024


def put(out, target, name, data):
    if len(data) > MOST:
        return
    folder = os.path.join(out, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def cut(directory, out):
    for name in sorted(os.listdir(directory)):
        seed = f"{os.path.basename(os.path.normpath(directory))}-{name}"
        data = read_file(directory, name)
        if name.startswith("MANIFEST-"):
            put(out, "manifest", seed, data)
        elif name.endswith(".log"):
            put(out, "wal", seed, data)
        elif name.endswith(".tbl"):
            put(out, "table", seed, data)
            cut_table(Table(data, name), out, seed)
        elif name.endswith(".val"):
            put(out, "values", seed, data)


def cut_table(table, out, seed):
    """The first and the last data block, and the bodies of the others that are not packed."""
    for _, handle in table.blocks[:1] + table.blocks[1:][-1:]:
        stored = table.data[handle.offset : handle.offset + handle.stored_len]
        codec = table.data[handle.offset + handle.stored_len]
        put(out, "block", f"{seed}-{handle.offset}", bytes([codec]) + stored)
    for role in ("properties", "index", "filter"):
        handle = table.handles[role]
        if handle.offset:
            put(out, "properties", f"{seed}-{role}", table.block(role, handle)[0])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    cut(sys.argv[1], sys.argv[2])
