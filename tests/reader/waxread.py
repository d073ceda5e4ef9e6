#!/usr/bin/env python3
"""Reads a Waxseal store, written from docs/format.md alone; it shares nothing with the engine, so it keeps that page honest.

    waxread.py list DIR [--json]     every live record: family TAB key TAB value, key and value in hex;
                                     by family id, then key. --json: one object a line, with seqno and companions, and what
                                     a stamp among them says.
                                     Where records were lost (fences), what is left in doubt is not listed, and it is damage
    waxread.py verify DIR            checks every sum, link, digest, bound, count and filter line
    waxread.py export DIR [--json]   an export (EXCHANGE and its tables): key TAB value of every live record, in hex;
                                     --json: one object that counts
    waxread.py stores DIR            of each table, manifest, segment and ring: name TAB the uid of the store that it names, - if none,
                                     and those that this one descends from. Needs no manifest

The store is closed, or a copy that nobody writes to. Exit codes: 0 fine, 1 usage, 3 damage, 4 a file that cannot be read,
7 something this reader does not know (then nothing is claimed about the store).

A record is live if it is the newest of its key, in tables and log together, and a put.
"""

import json
import sys

import stamps
from codec import COMPANION_8, MERGE, POINTER, PUT, RANGE_DELETE, Damage, Unsupported, file_name, read_named
from exchange import FORMS, Export
from log import Log, kept_operations
from merge import merge
from manifest import Manifest, covers, hides, range_delete
from stores import list_stores
from sums import mix
from table import NO_BLOCK, Record, Table
from values import Values, entry_bytes, pointer


class Store:
    """A store directory: manifest first, then its log; tables are opened one by one."""

    def __init__(self, directory):
        self.directory = directory
        self.manifest = Manifest(directory)
        self.log = Log(directory, self.manifest)
        self.files = {}  # uid -> Values

    def open_table(self, entry):
        """The table of a manifest entry, if it is the one that the entry means."""
        name = file_name(entry.number, "tbl")
        data = read_named(self.directory, name)
        table = Table(data, name)
        told = (entry.uid, entry.size, entry.digest, entry.family, entry.smallest, entry.largest, entry.ledger)
        p = table.properties
        found = (table.uid, len(data), table.digest, p.family, p.smallest, p.largest, p.ledger)
        if entry.ingest:  # it may have been written for a family of another store
            told, found = told[:3] + told[4:], found[:3] + found[4:]
        if told != found:
            raise Damage(name, 0, f"not the table that the manifest names: {found}, not {told}")
        seqnos = (1, 1, 1) if entry.ingest else (table.base, entry.least, entry.greatest)
        if seqnos != (table.base, p.least, p.greatest):
            raise Damage(name, 0, "seqnos are not those of the manifest")
        if p.comparator.encode() != self.manifest.families[entry.family][1]:
            raise Damage(name, 0, f"comparator {p.comparator} is not the family's")
        return table

    def open_values(self, told):
        """A value file that a table of the manifest points into, if it is the one that is meant."""
        if told.uid not in self.files:
            name = file_name(told.number, "val")
            data = read_named(self.directory, name)
            found = Values(data, name)
            if (found.uid, len(data), found.count, found.digest) != (told.uid, told.size, told.count, told.digest):
                raise Damage(name, 0, "not the value file that the manifest names")
            self.files[told.uid] = found
        return self.files[told.uid]

    def check_values(self, entry, table):
        """What a table points to is what the manifest says, and each value is there."""
        found = {}
        for record in table.records():
            if record.kind == POINTER:
                to = pointer(record.value, table.file)
                count, size = found.get(to.uid, (0, 0))
                found[to.uid] = (count + 1, size + entry_bytes(to, record.key))
        if found != {told.uid: (told.pointers, told.bytes) for told in entry.values}:
            raise Damage(table.file, 0, "pointers are not those that the manifest counts")
        for told in entry.values:
            self.open_values(told)
        for record in table.records():
            self.whole(record)

    def whole(self, record):
        """The record with its value, wherever that stands."""
        if record.kind != POINTER:
            return record
        to = pointer(record.value, "a table")
        if to.uid not in self.files:
            for entry in self.manifest.tables.values():
                for told in entry.values:
                    if told.uid == to.uid:
                        self.open_values(told)
        if to.uid not in self.files:
            raise Damage("a table", 0, f"key {record.key.hex()} points into a file that the manifest does not name")
        return record._replace(kind=PUT, value=self.files[to.uid].value(record))

    def records(self, family):
        """Every record of a family, in tables and log."""
        for entry in self.manifest.tables.values():
            if entry.family != family:
                continue
            table = self.open_table(entry)
            if table.handles["range deletes"] != NO_BLOCK:
                raise Unsupported(f"{table.file}: range deletes")
            for record in table.records():
                yield ingested(record, entry.ingest) if entry.ingest else record
        for op in self.log.operations:
            if op.family == family and op.kind != RANGE_DELETE:
                yield Record(op.key, op.seqno, op.kind, op.value, op.companions)

    def newest(self, family):
        """The newest record of every key of a family."""
        found = {}
        for record in self.records(family):
            keep_newest(found, record)
        return found

    def merged(self, family, newest, ranges):
        """The put that an operand and what lies below it stand for; None if damage leaves it in doubt."""
        versions = sorted((r for r in self.records(family) if r.key == newest.key), key=lambda r: -r.seqno)
        base, operands = None, []
        for record in versions:
            if any(hides(range_, record) for range_ in ranges):
                break
            if self.is_in_doubt(family, record):
                return None
            record = self.whole(record)
            if record.kind != MERGE:
                base = record.value if record.kind == PUT else None
                break
            operands.insert(0, record.value)
        if family not in self.manifest.operators:
            raise Damage("store", 0, f"an operand of key {newest.key.hex()} in a family without a merge operator")
        value = merge(self.manifest.operators[family], base, operands)
        return Record(newest.key, newest.seqno, PUT, value, [])

    def range_deletes(self, family):
        """The range deletes of a family: of the manifest, and of the log."""
        found = [range_ for (of, _), range_ in self.manifest.range_deletes.items() if of == family]
        ops = (op for op in self.log.operations if op.family == family and op.kind == RANGE_DELETE)
        found += (range_delete(op.key, op.value, op.seqno) for op in ops)
        if found and self.manifest.families[family][1] != b"wax.bytewise":
            raise Unsupported("a range delete in an order of its own")
        return found

    def live(self, family):
        """The live records of a family, by key."""
        newest, ranges = self.newest(family), self.range_deletes(family)
        for key in sorted(newest):
            if any(hides(range_, newest[key]) for range_ in ranges):
                continue
            record = self.whole(newest[key])
            if record.kind == MERGE:
                record = self.merged(family, record, ranges)
            if record and record.kind == PUT and not self.is_in_doubt(family, record):
                yield record

    def is_in_doubt(self, family, record):
        fences = (fence for (of, _), fence in self.manifest.fences.items() if of == family)
        lost = (op for op in self.log.lost if op.family == family)
        return any(covers(fence, record.key, record.seqno) for fence in fences) or any(
            op.key == record.key and record.seqno <= op.seqno for op in lost
        )


def ingested(record, seqno):
    """A record of an ingested table, with its seal bound to the seqno of the ingestion (section 7)."""
    term = lambda seqno: mix(seqno ^ 0x23E2A3C826DEE2D5)
    bound = lambda body: (int.from_bytes(body, "little") ^ term(record.seqno) ^ term(seqno)).to_bytes(8, "little")
    companions = [(kind, bound(body) if kind == COMPANION_8 else body) for kind, body in record.companions]
    return record._replace(seqno=seqno, companions=companions)


def keep_newest(found, record):
    if record.kind == RANGE_DELETE:
        raise Unsupported("a range delete")
    before = found.get(record.key)
    if before is None or before.seqno < record.seqno:
        found[record.key] = record
    elif before.seqno == record.seqno:
        raise Damage("store", 0, f"two records of key {record.key.hex()} with seqno {record.seqno}")


def list_records(directory, as_json):
    store = Store(directory)
    for family, (name, _, _) in sorted(store.manifest.families.items()):
        name = name.decode(errors="backslashreplace")
        for record in store.live(family):
            if as_json:
                companions = [[f"{kind:02x}", body.hex()] for kind, body in record.companions]
                row = {"family": name, "key": record.key.hex(), "value": record.value.hex()}
                stamp = stamps.of(record.companions, record.key)
                row |= {"seqno": record.seqno, "companions": companions} | ({"stamp": stamp} if stamp else {})
                print(json.dumps(row))
            else:
                print(name.replace("\t", "\\t").replace("\n", "\\n"), record.key.hex(), record.value.hex(), sep="\t")
    for op in store.log.lost:
        raise Damage("the log", 0, f"the value of key {op.key.hex()} with seqno {op.seqno} was lost")
    for fence in store.manifest.fences.values():
        raise Damage(fence.file.decode(errors="backslashreplace"), fence.offset, f"records were lost between {fence.start} and {fence.end}")


def verify(directory):
    """Prints every fault, one a line, and a last line that sums up; gives the exit code."""
    faults, tables, records = [], 0, 0
    try:
        store = Store(directory)
        store.manifest.check()
    except Damage as fault:
        print(f"damage: {fault}")
        return 3
    for entry in store.manifest.tables.values():
        try:
            table = store.open_table(entry)
            table.check_contents()
            store.check_values(entry, table)
            tables, records = tables + 1, records + sum(count for count, _ in table.properties.ledger.values())
        except Damage as fault:
            faults.append(fault)
    for family in store.manifest.families:
        try:
            (store.newest(family), store.range_deletes(family)) if not faults else None
        except Unsupported:
            pass  # sums hold all the same
        except Damage as fault:
            faults.append(fault)
    try:
        kept_operations(directory, store.manifest.feed)
    except Damage as fault:
        faults.append(fault)
    for op in store.log.lost:
        faults.append(Damage("the log", 0, f"the value of key {op.key.hex()} with seqno {op.seqno} was lost"))
    for fault in faults:
        print(f"damage: {fault}")
    log = store.log
    print(
        f"{store.manifest.edits} edits, {len(store.manifest.families)} families, {tables} tables with {records} records, "
        f"{log.frames} frames with {len(log.operations)} records, {log.note}, "
        f"{len(store.manifest.fences)} fences, {len(store.manifest.barred)} barred tables, {len(store.manifest.lines)} lines: "
        + (f"{len(faults)} damaged" if faults else "all sums hold")
    )
    return 3 if faults else 0


def show_export(directory, as_json):
    export = Export(directory)
    live, records, rows, companions = export.read()
    if as_json:
        counts = {"records": records, "rows": rows, "live": len(live), "companion_bytes": companions}
        print(json.dumps({"form": FORMS[export.form], "complete": export.complete} | counts))
        return
    for record in live:
        print(record.key.hex(), record.value.hex(), sep="\t")


def main(arguments):
    words = [word for word in arguments if not word.startswith("--")]
    options = set(arguments) - set(words)
    if len(words) != 2 or words[0] not in ("list", "verify", "export", "stores") or options - {"--json"}:
        print(__doc__, file=sys.stderr)
        return 1
    try:
        if words[0] == "verify":
            return verify(words[1])
        if words[0] == "stores":
            list_stores(words[1])
            return 0
        show = show_export if words[0] == "export" else list_records
        show(words[1], "--json" in options)
        return 0
    except Damage as fault:
        print(f"damage: {fault}", file=sys.stderr)
        return 3
    except Unsupported as what:
        print(f"not known to this reader: {what}", file=sys.stderr)
        return 7
    except OSError as error:
        print(f"cannot read: {error}", file=sys.stderr)
        return 4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
