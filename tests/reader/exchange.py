"""Exports (docs/format.md, section 8): `EXCHANGE` and the tables beside it.

In: a directory. Out: the records of users, and counts. Every table is held against what `EXCHANGE` says of it.
"""

from codec import DELETE, HEADER_BYTES, PUT, Cursor, Damage, Unsupported, header, read_file, read_named
from sums import hash
from table import Table

NAME = "EXCHANGE"
FORMS = {0: "plain", 1: "sealed", 2: "safe", 3: "literal"}
SAFE_MAGIC = b"WAXSAFE1"


class Export:
    """An export: what it says of itself, then its records by `records`."""

    def __init__(self, directory):
        self.directory = directory
        data = read_file(directory, NAME)
        if len(data) < HEADER_BYTES + 8:
            raise Damage(NAME, 0, "too short for the description of an export")
        header(data, NAME, b"X")
        if hash(data[:-8]) != int.from_bytes(data[-8:], "little"):
            raise Damage(NAME, len(data) - 8, "check does not hold")
        self.form, self.files, self.algorithm, self.complete, self.total = None, [], 0, False, (0, 0)
        for tag, c in Cursor(data[HEADER_BYTES:-8], NAME, HEADER_BYTES).fields():
            self.set(tag, c)
        if self.form not in FORMS:
            raise Unsupported(f"{NAME}: form {self.form}")
        sums = tuple(sum(file[at] for file in self.files) for at in (4, 5))
        if sums != self.total:
            raise Damage(NAME, HEADER_BYTES, f"the tables hold {sums}, all together {self.total}")

    def set(self, tag, c):
        if tag == 2:
            self.form = c.u8()
        elif tag == 4:
            self.comparator = c.data.decode(errors="backslashreplace")
        elif tag == 10:
            self.total = (c.varint(), c.varint())
        elif tag == 12:
            self.algorithm, self.complete, self.sum = c.varint(), c.u8() == 1, c.u64()
        elif tag == 14:
            name = c.bytes().decode(errors="backslashreplace")
            if not name or "/" in name or "\\" in name or name.startswith("."):
                raise c.damage(f"a table named {name!r}")
            self.files.append((name, c.take(16), c.varint(), c.u64(), c.varint(), c.varint()))
        elif tag % 2 == 0 and tag not in (6, 8):
            raise Unsupported(f"{NAME}: tag {tag}")

    def is_row(self, record):
        """Whether a record is a row of the paper's, in the form of this export."""
        if record.kind != DELETE or record.key[-1:] != b"\x01":
            return False
        if self.form == 3:
            return len(record.value) == 24
        safe = record.value[:8] == SAFE_MAGIC and len(record.value) % 24 == 8
        return self.form == 2 and record.seqno == 0 and safe

    def records(self):
        """(record, whether it is a row) of every table, once the table is what EXCHANGE says, and its counts hold."""
        for name, uid, size, digest, records, rows in self.files:
            data = read_named(self.directory, name)
            table = Table(data, name)
            if (table.uid, len(data), table.digest) != (uid, size, digest):
                raise Damage(name, 0, "not the table that EXCHANGE names")
            table.check_contents()
            found = [0, 0]
            for record in table.records():
                row = self.is_row(record)
                found[row] += 1
                if self.complete and not row and not any(kind == 0xAA for kind, _ in record.companions):
                    raise Damage(name, 0, f"key {record.key.hex()} has no seal, and each was promised one")
                if self.form != 1 and record.companions:
                    raise Damage(name, 0, f"key {record.key.hex()} carries companions")
                yield record, row
            if found != [records, rows]:
                raise Damage(name, 0, f"{found[0]} records and {found[1]} rows, not as told")

    def read(self):
        """The live records by key, and counts: records, rows, bytes of companions."""
        newest, counts, companions = {}, [0, 0], 0
        for record, row in self.records():
            counts[row] += 1
            companions += sum(1 + len(body) for _, body in record.companions)
            # Nothing tells a row from a tombstone here: what is live must not depend on it.
            before = newest.get(record.key)
            if before is None or before.seqno < record.seqno:
                newest[record.key] = record
        live = [newest[key] for key in sorted(newest) if newest[key].kind == PUT]
        return live, counts[0], counts[1], companions
