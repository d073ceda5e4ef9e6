"""Backups (docs/format.md, section 11): the description of a backup, and the files beside it.

In: a directory and the number of a backup. Out: the state of the store; `check` reads every file.
"""

from codec import HEADER_BYTES, Cursor, Damage, Unsupported, header, read_file
from manifest import Manifest
from sums import hash
from table import Table
from values import Values

KINDS = {0: "tbl", 1: "val"}


class Edits(Manifest):
    """The state that one edit makes of an empty one."""

    def __init__(self, file, edit):
        self.begin()
        self.file = file
        self.apply(edit)


class Backup:
    """A backup, as its description tells it."""

    def __init__(self, directory, number):
        self.directory, self.file = directory, f"BACKUP-{number:06}"
        data = read_file(directory, self.file)
        if len(data) < HEADER_BYTES + 8:
            raise Damage(self.file, 0, "too short for the description of a backup")
        self.uid = header(data, self.file, b"B")
        if hash(data[:-8]) != int.from_bytes(data[-8:], "little"):
            raise Damage(self.file, len(data) - 8, "check does not hold")
        self.store, self.hashes, self.state, self.number = None, {}, None, None
        for tag, c in Cursor(data[HEADER_BYTES:-8], self.file, HEADER_BYTES).fields():
            self.set(tag, c)
        if self.number != number or self.store is None or self.state is None:
            raise Damage(self.file, HEADER_BYTES, "not the description of this backup")
        if self.files().keys() != self.hashes.keys() or self.state.start is not None:
            raise Damage(self.file, HEADER_BYTES, "the hashes are not those of the files of the state")

    def set(self, tag, c):
        if tag == 2:
            self.number, self.micros, self.copied, self.seqno = c.u64(), c.u64(), c.u64(), c.u64()
        elif tag == 4:
            self.store, self.ancestors = c.take(16), []
            while c.remaining():
                self.ancestors.append((c.take(16), c.u64(), c.u64()))
        elif tag == 6:
            kind, number = c.u64(), c.u64()
            if kind not in KINDS or (KINDS[kind], number) in self.hashes:
                raise c.damage(f"kind {kind} of file {number}, or twice")
            self.hashes[KINDS[kind], number] = c.u64()
        elif tag == 8:
            self.state = Edits(self.file, c)
        elif tag % 2 == 0:
            raise Unsupported(f"{self.file}: tag {tag}")

    def files(self):
        """(kind, number) -> (uid, digest, size) of every file that the state names."""
        named = {}
        for entry in self.state.tables.values():
            named["tbl", entry.number] = (entry.uid, entry.digest, entry.size)
            for told in entry.values:
                named["val", told.number] = (told.uid, told.digest, told.size)
        return named

    def check(self):
        """Reads every file: its length, its hash, and that it is the table or value file of its name."""
        for (kind, number), (uid, digest, size) in self.files().items():
            name = f"{uid.hex()}.{digest:016x}.{kind}"
            data = read_file(self.directory, name)
            if len(data) != size or hash(data) != self.hashes[kind, number]:
                raise Damage(name, 0, "not the file that the description names")
            found = Table(data, name) if kind == "tbl" else Values(data, name)
            if (found.uid, found.digest) != (uid, digest):
                raise Damage(name, 0, "uid and digest are not those of the name")
            if kind == "tbl":
                found.check_contents()
