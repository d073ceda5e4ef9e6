"""The reader's own tests: sums against published values, and small stores built from the page, whole and damaged."""

import contextlib
import io
import os
import random
import struct
import tempfile
import unittest

import build
import stamps
import tables
import waxread
from backup import Backup
from codec import COMPANION_8, COMPANION_LIST, DELETE, MERGE, PAGE, POINTER, PUT, Cursor, Damage, Unsupported, unpack
from feed import KeptTable
from frames import BATCH, LARGE, PADDING, SYNCED, TURNOVER
from log import kept_operations, this_machine
from manifest import Manifest, range_delete
from stores import named_in
from sums import block_seed, crc, hash, mix
from table import Record, Table, prefix_of
from values import Values, entry_bytes, pointer

PUT, DELETE = 0x33, 0x5A
SEAL = bytes([0xAA]) + b"sealseal"


class Sums(unittest.TestCase):
    def test_xxh3_of_every_length_class(self):
        """Values of the reference implementation, for bytes 7i + n modulo 256, on both sides of every change of method."""
        known = {
            0: 0x2D06800538D394C2, 1: 0xE12EF9D2EB86CEEB, 3: 0xA9088DDA485B481C, 4: 0x57648C318A7A307E,
            8: 0xB0FB3E3C3F94990A, 9: 0x8ACA5CB309437C2E, 16: 0x2BD926D88792965A, 17: 0x621F018AAD19B14A,
            128: 0xE9549AF9A74093E6, 129: 0xB54AD1CD8A4C84B9, 240: 0x3E136902EC966624, 241: 0xBD7D29B6BA966D6A,
            1024: 0xDC5ACF0B043C445B, 1025: 0xC856C953BBDBC807, 2000: 0xFC03A33C310FCC29, 5000: 0x308F149A673A1625,
        }  # fmt: skip
        for n, value in known.items():
            self.assertEqual(hash(bytes(7 * i + n & 255 for i in range(n))), value, f"length {n}")

    def test_xxh3_against_the_package(self):
        import xxhash

        draw = random.Random(1)
        for n in range(2001):
            data = draw.randbytes(n)
            self.assertEqual(hash(data), xxhash.xxh3_64_intdigest(data), f"length {n}")

    def test_crc_is_zlibs_and_goes_on_from_a_seed(self):
        self.assertEqual(crc(0, b"123456789"), 0xCBF43926)
        self.assertEqual(crc(crc(0, b"1234"), b"56789"), 0xCBF43926)

    def test_mix_keeps_zero_and_is_a_bijection(self):
        self.assertEqual(mix(0), 0)
        self.assertEqual(mix(1), 0x3C02AA47758292BD)
        self.assertEqual(len({mix(x) for x in range(5000)}), 5000)

    def test_block_seed_depends_on_uid_place_and_role(self):
        seeds = {block_seed(build.UID, offset, role) for offset in (64, 65) for role in (1, 2)}
        self.assertEqual(len(seeds | {block_seed(bytes(16), 64, 1)}), 5)


class Pieces(unittest.TestCase):
    def test_varints(self):
        for value in (0, 1, 127, 128, 300, 2**32, 2**64 - 1):
            cursor = Cursor(build.varint(value), "x")
            self.assertEqual(cursor.varint(), value)
            cursor.finish()
        for bad in (b"", b"\x80", b"\xff" * 10 + b"\x01", b"\xff" * 9 + b"\x02"):
            with self.assertRaises(Damage):
                Cursor(bad, "x").varint()

    def test_lz4_blocks_of_the_reference_implementation(self):
        known = [
            (b"", "00"),
            (
                b"abcabcabcabcabcabcabcabcabcabc, and then some literals",
                "3f616263030008f0092c20616e64207468656e20736f6d65206c69746572616c73",
            ),
            (b"a" * 300, "1f610100ff14506161616161"),
        ]
        for data, packed in known:
            self.assertEqual(unpack(1, bytes.fromhex(packed), len(data), "x", 0), data)

    def test_lz4_refuses_what_does_not_fit(self):
        for packed, raw_len in (("10", 1), ("1f6102", 300), ("1f610100ff14506161616161", 299), ("1f610200", 20), ("1f610000", 20)):
            with self.assertRaises(Damage):
                unpack(1, bytes.fromhex(packed), raw_len, "x", 0)


class Zstd(unittest.TestCase):
    GOLDEN = os.path.join(os.path.dirname(__file__), "../../crates/lsm/tests/golden/zstd.txt")

    def test_a_table_with_a_dictionary(self):
        """Where no module for zstd is installed the table is not guessed at."""
        with open(self.GOLDEN) as file:
            data = bytes.fromhex(file.read())
        try:
            found = [record.key for record in Table(data, "000001.tbl").records()]
        except Unsupported as error:
            self.assertIn("zstd", str(error))
            return
        self.assertEqual(found, [b"%08d" % n for n in range(30)])

    def test_a_dictionary_that_was_hit_is_damage(self):
        with open(self.GOLDEN) as file:
            data = bytearray.fromhex(file.read())
        at = data.index(b'{"id":0,"name":"person "')
        data[at] ^= 1
        with self.assertRaises(Damage):
            Table(bytes(data), "000001.tbl")


class CutIndex(unittest.TestCase):
    GOLDEN = os.path.join(os.path.dirname(__file__), "../../crates/lsm/tests/golden/cut.txt")

    def setUp(self):
        with open(self.GOLDEN) as file:
            lines = [line[8:55] for line in file if not line.startswith("#")]
        self.data = bytes.fromhex("".join(lines))

    def test_a_table_of_several_ranges(self):
        table = Table(self.data, "000001.tbl")
        table.check_contents()
        keys = [record.key for record in table.records()]
        self.assertEqual(keys, [b"", b"apple", b"apple", b"applet", b"banana", b"cherry"])
        self.assertGreater(len(table.spans), 2)
        self.assertEqual(sorted(keys), sorted(key for span in table.spans for key in table.keys_of(span)))

    def test_no_flipped_bit_passes(self):
        for bit in range(len(self.data) * 8):
            data = bytearray(self.data)
            data[bit // 8] ^= 1 << (bit & 7)
            with self.assertRaises((Damage, Unsupported), msg=f"bit {bit}"):
                Table(bytes(data), "000001.tbl").check_contents()


class CutIndexOfAnEarlierBuild(CutIndex):
    """Its table has property 15, which is no longer written."""

    GOLDEN = os.path.join(os.path.dirname(__file__), "../../crates/lsm/tests/golden/collected.txt")


class Prefixes(unittest.TestCase):
    GOLDEN = os.path.join(os.path.dirname(__file__), "../../crates/lsm/tests/golden/prefixes.txt")

    def setUp(self):
        with open(self.GOLDEN) as file:
            lines = [line[8:55] for line in file if not line.startswith("#")]
        self.table = Table(bytes.fromhex("".join(lines)), "000001.tbl")

    def test_a_filter_knows_the_prefixes_of_its_keys(self):
        self.assertEqual(self.table.properties.prefixes, "fixed:4")
        self.table.check_contents()

    def test_a_filter_without_a_prefix_is_damage(self):
        self.table.properties = self.table.properties._replace(prefixes="fixed:3")
        with self.assertRaisesRegex(Damage, "filter denies prefix"):
            self.table.check_contents()

    def test_a_prefix_is_cut_by_its_rule(self):
        for rule, expected in [
            (None, None),
            ("fixed:2", b"a/"),
            ("fixed:6", None),
            ("delimited:2f:1", b"a/"),
            ("delimited:2f:2", b"a/b/"),
            ("delimited:2f:3", None),
            ("of a later version", None),
        ]:
            self.assertEqual(prefix_of(rule, b"a/b/c"), expected, rule)


class Golden(unittest.TestCase):
    """The files of a store, as the engine wrote them."""

    def setUp(self):
        self.files = {}
        with open(self.GOLDEN) as file:
            for line in file:
                if line.startswith("# "):
                    name, length = line[2:].removesuffix(" bytes\n").split(", ")
                    data = self.files[name] = bytearray(int(length))
                else:
                    row = bytes.fromhex(line[8:55])
                    at = int(line[:6], 16)
                    data[at : at + len(row)] = row

    def in_directory(self, files, look):
        with tempfile.TemporaryDirectory() as directory:
            for name, data in files.items():
                with open(os.path.join(directory, name), "wb") as file:
                    file.write(data)
            return look(directory)

    def manifest(self, files):
        def look(directory):
            manifest = Manifest(directory)
            manifest.check()
            return manifest

        return self.in_directory(files, look)


class RangeDeletes(Golden):
    """A manifest with four range deletes, of which one is retired."""

    GOLDEN = os.path.join(os.path.dirname(__file__), "../../crates/lsm/tests/golden/range_deletes.txt")

    def test_the_manifest_names_the_range_deletes_that_are_left(self):
        manifest = self.manifest(self.files)
        self.assertTrue(manifest.log_deletes_ranges)
        ranges = [range_delete(b"b", b"\x01m", 11), range_delete(b"", b"\x03c", 13), range_delete(b"", b"\x02", 14)]
        self.assertEqual(manifest.range_deletes, {(0, seqno): range for seqno, range in zip((11, 13, 14), ranges)})
        self.assertEqual(manifest.hides, {2: (12, True)})


class Ingested(Golden):
    """An ingested table: the manifest says the seqno of its records."""

    GOLDEN = os.path.join(os.path.dirname(__file__), "../../crates/lsm/tests/golden/ingested.txt")

    def test_the_records_have_the_seqno_of_the_manifest_and_seals_bound_to_it(self):
        entry = next(iter(self.manifest(self.files).tables.values()))
        self.assertEqual((entry.ingest, entry.level), (9, 6))
        records = list(Table(bytes(self.files["000002.tbl"]), "000002.tbl").records())
        self.assertEqual([record.seqno for record in records], [1, 1, 1])
        key, value = (hash(word) for word in (records[0].key, records[0].value))
        terms = (key ^ 0x6E9A627B1AFB9125, value ^ 0xB4CFDE19351B44FD, 0x33 ^ 0xA944E6EB31DC8FDF, 9 ^ 0x23E2A3C826DEE2D5)
        seal = 0
        for term in terms:
            seal ^= mix(term)
        record = waxread.ingested(records[0], entry.ingest)
        self.assertEqual((record.seqno, record.companions), (9, [(COMPANION_8, seal.to_bytes(8, "little"))]))


class ValueItems(Golden):
    """Items of a value file in a manifest, tag 49: two tables point into the file, and it has them once."""

    GOLDEN = os.path.join(os.path.dirname(__file__), "../../crates/lsm/tests/golden/value_items.txt")

    def test_the_items_of_a_value_file(self):
        items = {b"a first": [b"k", b"l"], b"bytes": [b"x", b"z"]}
        self.assertEqual(self.manifest(self.files).collected, {b"\3" * 16: items})

    def test_a_damaged_item_is_found(self):
        name = next(name for name in self.files if name.startswith("MANIFEST"))
        self.files[name][self.files[name].index(b"\1x\1z") + 1] ^= 0x80
        with self.assertRaises(Damage):
            self.manifest(self.files)


class ChangeFeed(Golden):
    """What is kept for the change feed: a manifest with a change of each kind, and a segment."""

    GOLDEN = os.path.join(os.path.dirname(__file__), "../../crates/lsm/tests/golden/changes.txt")

    def test_the_manifest_names_what_is_kept(self):
        feed = self.manifest(self.files).feed
        first, second = b"\1" * 16, b"\2" * 16
        self.assertEqual(feed.histories, [(first, 0, 0), (second, 3, 5)])
        self.assertEqual((feed.kept_from, feed.files), (3, {(True, 4): 9, (False, 5): 9}))
        table = KeptTable(4, 100, 9, b"\4" * 16, 6, [(5, b"\5" * 16)])
        self.assertEqual(feed.marks, {9: (0, [table]), 10: (2, ("gone", "wax.bytewise")), 11: (0, [])})
        self.assertEqual(feed.cursors, {"copy": (first, 3, 8)})

    def test_the_frames_of_a_kept_segment_are_read_and_damage_is_found(self):
        def look(directory):
            return kept_operations(directory, Manifest(directory).feed)

        found = [(op.seqno, op.kind, op.key, op.value) for op in self.in_directory(self.files, look)]
        self.assertEqual(found, [(6, PUT, b"a", b"1"), (7, PUT, b"b", b"2"), (8, DELETE, b"a", b"")])
        (segment,) = (name for name in self.files if name.endswith(".log"))
        self.files[segment][PAGE + 30] ^= 1
        with self.assertRaises(Damage):
            self.in_directory(self.files, look)


class FormatLevels(unittest.TestCase):
    """Stores of each format level, as their writer left them when it was killed."""

    GOLDEN = os.path.join(os.path.dirname(__file__), "../../crates/waxseal/tests/golden/store-level-{}.txt")

    def test_stores_of_each_level_are_read_and_verified(self):
        for level in (1, 2):
            with tempfile.TemporaryDirectory() as directory, open(self.GOLDEN.format(level)) as golden:
                self.unpack(golden, directory)
                self.assertEqual(Manifest(directory).level, level)
                said = io.StringIO()
                with contextlib.redirect_stdout(said):
                    self.assertEqual(waxread.main(["verify", directory]), 0, said.getvalue())
                with contextlib.redirect_stdout(said):
                    self.assertEqual(waxread.main(["list", directory]), 0)
                for n in range(20):
                    self.assertIn(f"new value {n}".encode().hex() + "\n", said.getvalue())
                self.assertEqual(b"ingested".hex() in said.getvalue(), level > 1)
                self.assertNotIn(b"ranged".hex() + "2031\t", said.getvalue().split("system")[0])

    def test_a_level_of_a_later_version_is_refused(self):
        edit = bytes([46, 1, 3])
        manifest = Manifest.__new__(Manifest)
        manifest.begin()
        manifest.file = "MANIFEST-000001"
        with self.assertRaises(Unsupported):
            manifest.apply(Cursor(edit, manifest.file, 0))

    def unpack(self, golden, directory):
        files = {}
        for line in golden:
            words = line.split()
            if words[0] == "file":
                data = files[words[1]] = bytearray(int(words[2]))
            else:
                row = bytes.fromhex(words[1])
                data[int(words[0], 16) : int(words[0], 16) + len(row)] = row
        for name, data in files.items():
            with open(os.path.join(directory, name), "wb") as file:
                file.write(data)


class Operands(Golden):
    """A store with merge operands in tables and in the log."""

    GOLDEN = os.path.join(os.path.dirname(__file__), "../../crates/lsm/tests/golden/operands.txt")

    def test_operands_of_tables_and_of_the_log_are_merged(self):
        def look(directory):
            store = waxread.Store(directory)
            live = {name: list(store.live(family)) for family, (name, _, _) in store.manifest.families.items()}
            return live, [op.kind for op in store.log.operations]

        live, logged = self.in_directory(self.files, look)
        values = {b"default": (42).to_bytes(8, "little"), b"tags": b"a, b", b"sets": b"\1a\1b\1c"}
        self.assertEqual({name: [(row.key, row.value) for row in rows] for name, rows in live.items()},
                         {name: [(b"k", value)] for name, value in values.items()})
        tables = [Table(bytes(data), name) for name, data in self.files.items() if name.endswith(".tbl")]
        kinds = [record.kind for table in tables for record in table.records()]
        self.assertEqual(kinds.count(MERGE), 3)
        self.assertIn(MERGE, logged)


class Backups(Golden):
    """A directory with two backups, as the engine wrote it: the second one shares files with the first."""

    GOLDEN = os.path.join(os.path.dirname(__file__), "../../crates/lsm/tests/golden/backup.txt")

    def test_both_backups_are_whole_and_share_their_first_files(self):
        def look(directory):
            one, two = Backup(directory, 1), Backup(directory, 2)
            for backup in (one, two):
                backup.check()
            return one, two

        one, two = self.in_directory(self.files, look)
        self.assertEqual((one.store, one.ancestors), (two.store, []))
        self.assertEqual(one.files().keys() & two.files().keys(), one.files().keys())
        self.assertEqual(sorted(kind for kind, _ in two.files()), ["tbl", "tbl", "val"])
        self.assertEqual(len(self.files), 2 + len(two.files()))
        self.assertEqual(one.copied, sum(size for _, _, size in one.files().values()))

    def test_no_flipped_bit_passes(self):
        for name in self.files:
            for bit in range(3, len(self.files[name]) * 8, 997):
                files = {**self.files, name: bytearray(self.files[name])}
                files[name][bit // 8] ^= 1 << (bit & 7)
                with self.assertRaises((Damage, Unsupported), msg=f"{name}, bit {bit}"):
                    self.in_directory(files, lambda directory: Backup(directory, 2).check() or Backup(directory, 1).check())


class Expiring(Golden):
    """A manifest and its tables, as the engine wrote them: what the manifest says of expiries is what the records say."""

    GOLDEN = os.path.join(os.path.dirname(__file__), "../../crates/lsm/tests/golden/expiring.txt")
    END = 1_893_456_000_000_000  # the year 2030

    def expiries(self, table):
        """When the values of a table expire: the eight bytes of provider 1 in their lists of entries."""
        for record in table.records():
            for kind, body in record.companions:
                c = Cursor(body, table.file)
                if kind == COMPANION_LIST and record.kind == PUT and c.varint() == 1:
                    self.assertEqual((c.varint(), c.varint()), (1, 8))  # sealed, version 0; length
                    yield c.u64()

    def test_the_manifest_says_what_the_records_say(self):
        manifest, found = self.manifest(self.files), {}
        for entry in manifest.tables.values():
            table = Table(bytes(self.files[f"{entry.number:06}.tbl"]), f"{entry.number:06}.tbl")
            table.check_contents()
            self.assertEqual((table.uid, table.digest), (entry.uid, entry.digest))
            if expiries := list(self.expiries(table)):
                found[entry.number] = (len(expiries), min(expiries), max(expiries))
        self.assertEqual(found, {2: (3, self.END, self.END + 86_400_000_000)})
        self.assertEqual({of: manifest.expiries[of] for _, _, of in manifest.tables if of in manifest.expiries}, found)

    def test_what_was_dropped_as_expired(self):
        manifest = self.manifest(self.files)
        self.assertEqual(manifest.expiries[3], (2, self.END + 7, self.END + 7))
        self.assertEqual(manifest.expired_through, self.END + 7)
        self.assertEqual(manifest.expired[0][PUT][0], 2)
        default_ttl = manifest.families[0][2][18]
        self.assertEqual(default_ttl.varint(), 3_600_000_000)


class StoreOfAFile(unittest.TestCase):
    GOLDEN = os.path.join(os.path.dirname(__file__), "../../crates/lsm/tests/golden/owned.txt")

    def test_a_table_names_its_store(self):
        with open(self.GOLDEN) as file:
            data = bytes.fromhex("".join(line[8:55] for line in file if not line.startswith("#")))
        self.assertEqual(Table(data, "000001.tbl").properties.store, b"uid of a store..")

    def test_a_first_page_names_a_store_and_its_parents(self):
        block = b"s" * 16 + struct.pack("<I", 2) + b"p" * 16 + build.words(9, 70) + b"q" * 16 + build.words(5, 30)
        page = bytearray(bytes(2048) + build.checked(block)).ljust(4096, b"\0")
        expected = ("s" * 16, [("p" * 16, 9, 70), ("q" * 16, 5, 30)])
        found = named_in(bytes(page))
        self.assertEqual((found.store.decode(), [(a.store.decode(), a.number, a.seqno) for a in found.ancestors]), expected)
        self.assertIsNone(named_in(bytes(4096)), "an earlier build's")
        for bit in range(2048 * 8, (2048 + len(block) + 8) * 8):
            page[bit // 8] ^= 1 << (bit & 7)
            self.assertIsNone(named_in(bytes(page)), f"bit {bit}")
            page[bit // 8] ^= 1 << (bit & 7)


class CollectedProperties(unittest.TestCase):
    GOLDEN = os.path.join(os.path.dirname(__file__), "../../crates/lsm/tests/golden/properties.txt")

    def test_a_table_has_the_items_of_its_properties(self):
        with open(self.GOLDEN) as file:
            data = bytes.fromhex("".join(line[8:55] for line in file if not line.startswith("#")))
        expected = {b"first": [b"a", b"b", b"c"], b"ninth": [], b"second": [b"a", b"h", b"p"]}
        self.assertEqual(Table(data, "000001.tbl").properties.collected, expected)


class LargeValues(unittest.TestCase):
    ENTRIES = [(b"", b"of the empty key", 1), (b"apple", b"red" * 2000, 2**64 - 1), (b"apple", b"", 0)]

    def test_a_value_file_and_its_pointers(self):
        data, pointers = build.values(self.ENTRIES)
        found = Values(data, "000001.val")
        self.assertEqual([(e.key, e.value, e.term) for e in found.entries.values()], self.ENTRIES)
        for bytes_of, (key, value, _) in zip(pointers, self.ENTRIES):
            self.assertEqual(found.value(Record(key, 7, POINTER, bytes_of, [])), value)
            self.assertEqual(entry_bytes(pointer(bytes_of, "t"), key), 37 + len(key) + len(value))
        with self.assertRaises(Damage):
            found.value(Record(b"pear", 7, POINTER, pointers[1], []))

    def test_no_flipped_bit_of_either_passes(self):
        data, pointers = build.values(self.ENTRIES)
        for at in list(range(200)) + list(range(200, len(data), 97)) + list(range(len(data) - 60, len(data))):
            hit = bytearray(data)
            hit[at] ^= 1 << at % 8
            with self.assertRaises((Damage, Unsupported), msg=f"byte {at}"):
                Values(bytes(hit), "000001.val")
        for at in range(56):
            hit = bytearray(pointers[1])
            hit[at] ^= 1 << at % 8
            with self.assertRaises(Damage, msg=f"byte {at}"):
                pointer(bytes(hit), "t")


def here():
    machine = this_machine(".")
    return machine.boot + build.words(machine.device) if machine else bytes(24)


SEGMENT, NEXT, RING = 0x1111, 0x2222, 0x3333  # nonces
AFTER = 8192 + 5 * 4096  # where the second segment begins: a page behind the turnover's end
FAMILIES = build.field(2, build.varint(0), build.blob(b"default"), build.blob(b"wax.bytewise"), build.blob(b"")) + build.field(
    2, build.varint(1), build.blob(b"users"), build.blob(b"wax.bytewise"), build.blob(build.field(1, build.varint(4096)))
)
EXPECTED = """\
default\t\t656d707479
default\t6170706c65\t6e6577
default\t6d6170\t73686565
users\t75\t6c6f67
users\t76\t""" + (b"L" * 5000).hex() + "\n"  # fmt: skip


def store(closed, more=(), last=()):
    """Two families, two tables, two segments, a ring: name -> bytes. Open: the tail stands in the ring alone. last: one more batch."""
    top, top_entry = build.table(
        0, [[(PUT, b"", 2, b"empty", SEAL), (PUT, b"apple", 5, b"old", SEAL), (PUT, b"apple", 3, b"older", b"")],
            [(PUT, b"apricot", 4, b"gone", SEAL + b"\x0f\x02xx"), (PUT, b"map", 1, b"shee", b"")]], codec=1,
    )  # fmt: skip
    low, low_entry = build.table(0, [[(PUT, b"apricot", 1, b"x", b""), (DELETE, b"map", 0, b"", b"")]], column=[[b"s" * 8] * 2])
    stream = build.Stream(8192, SEGMENT)
    put = build.operation
    stream.put(BATCH, 4, build.batch(put(PUT, 0, b"below", b"flushed")))
    stream.put(BATCH, 6, b"\x02\x3c\x01z" + put(PUT, 0, b"apple", b"new", SEAL) + put(DELETE, 0, b"apricot"))
    stream.put(0x55, 8, b"skip me")
    stream.pad(8, PADDING, build.words(build.mark(8192, 0, SYNCED)))
    stream.put(LARGE, 8, build.batch(put(PUT, 1, b"v", b"L" * 5000)))
    stream.pad(9, TURNOVER, build.words(8, NEXT, AFTER))
    turned = stream.link
    assert stream.offset == 8192 + 4 * 4096, stream.offset
    tail = build.Stream(AFTER, NEXT)
    tail.put(BATCH, 9, build.batch(put(PUT, 1, b"u", b"log")))
    if last:
        tail.put(BATCH, 10, build.batch(*last))
    edits = [
        FAMILIES + build.field(6 + 15, b"") + build.field(18, build.varint(20), build.varint(5), build.varint(2)),
        top_entry(0, 3) + low_entry(1, 4) + build.field(10, build.varint(0), build.varint(5))
        + build.field(12, build.place(7, SEGMENT, 8192, SEGMENT), build.varint(9), build.words(RING))
        + build.field(16, build.varint(8192), build.varint(5)) + build.field(23, build.words(build.mark(8192, 0, SYNCED))),
        build.field(14, build.place(7, SEGMENT, stream.offset, turned)),
    ]  # fmt: skip
    edits += more
    if closed:
        edits.append(build.field(14, build.place(8, NEXT, tail.offset, tail.link)))
    held = () if closed else [(tail.offset - len(tail.data), tail.data)]
    return {
        "MANIFEST-000005": build.manifest(5, 0x5555, edits),
        "000003.tbl": top,
        "000004.tbl": low,
        "000007.log": build.segment(7, SEGMENT, 8192, stream.data, here()),
        "000008.log": build.segment(8, NEXT, AFTER, tail.data if closed else b"", here(), 8192),
        "000009.ring": build.ring(9, RING, here(), tail.offset, AFTER, 0 if closed else 4096, held),
    }


def export(form, tables, complete=0):
    """An export: name -> bytes. tables: lists of blocks, each with its count of rows."""
    files, fields, total = {}, b"", [0, 0]
    for at, (blocks, rows) in enumerate(tables):
        data, _ = build.table(0, blocks)
        name = f"{at + 1:06}.tbl"
        files[name], records = data, sum(map(len, blocks)) - rows
        digest = data[-24:-16]
        fields += build.field(
            14, build.blob(name.encode()), build.UID, build.varint(len(data)), digest, build.varint(records), build.varint(rows)
        )
        total = [total[0] + records, total[1] + rows]
    body = build.header(b"X") + build.field(2, bytes([form])) + build.field(4, b"wax.bytewise")
    body += build.field(8, b"\1") + build.field(10, *map(build.varint, total))
    body += build.field(12, build.varint(0), bytes([complete]), build.words(0)) + fields
    return files | {"EXCHANGE": build.checked(body)}


ROW, SAFE = b"w" * 24, b"WAXSAFE1" + b"w" * 24
RECORDS = [(PUT, b"a", 9, b"1", b""), (PUT, b"a", 4, b"0", b""), (PUT, b"b", 5, b"2", b"")]
ROWS = [(DELETE, b"a\1", 9, ROW, b""), (DELETE, b"a\1", 4, ROW, b""), (DELETE, b"b\1", 5, ROW, b"")]
EXPORTS = {
    "plain": (export(0, [([RECORDS], 0)]), 0, 0),
    "sealed": (export(1, [([[record[:4] + (SEAL,) for record in RECORDS]], 0)], complete=1), 0, 27),
    "safe": (export(2, [([RECORDS], 0), ([[(DELETE, b"a\1", 0, SAFE, b""), (DELETE, b"b\1", 0, SAFE, b"")]], 2)]), 2, 0),
    "literal": (export(3, [([RECORDS[:2] + ROWS[:2] + RECORDS[2:] + ROWS[2:]], 3)]), 3, 0),
}


class Exports(unittest.TestCase):
    def test_nothing_of_the_metadata_shows(self):
        for form, (files, rows, companions) in EXPORTS.items():
            self.assertEqual(run(files, "export"), (0, "61\t31\n62\t32\n"), form)
            code, text = run(files, "export", "--json")
            counts = f'"records": 3, "rows": {rows}, "live": 2, "companion_bytes": {companions}'
            self.assertEqual(code, 0, text)
            self.assertIn(f'"form": "{form}"', text)
            self.assertIn(counts, text)

    def test_a_planted_key_shows_beside_safe_rows_and_not_behind_literal_ones(self):
        planted = (PUT, b"a\1", 7, b"mine", b"")
        safe = export(2, [([RECORDS[:2] + [planted]], 0), ([[(DELETE, b"a\1", 0, SAFE, b"")]], 1)])
        self.assertIn("6101\t6d696e65", run(safe, "export")[1])
        literal = export(3, [([RECORDS[:2] + [ROWS[0], planted, ROWS[1]]], 2)])
        self.assertNotIn("6101", run(literal, "export")[1])

    def test_lies_and_flipped_bits_are_told(self):
        lie = export(1, [([RECORDS], 0)], complete=1)
        self.assertEqual(run(lie, "export")[0], 3)
        counted = export(3, [([RECORDS], 1)])
        self.assertEqual(run(counted, "export")[0], 3)
        draw = random.Random(3)
        for files, _, _ in EXPORTS.values():
            for name in files:
                for _ in range(40):
                    data = bytearray(files[name])
                    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
                    code, text = run(files | {name: bytes(data)}, "export")
                    self.assertIn(code, (3, 7), f"{name}: {text}")
            for name in files:
                self.assertIn(run({at: data for at, data in files.items() if at != name}, "export")[0], (3, 4), name)


def shorten(text):
    return text.replace((b"L" * 5000).hex(), "4c x 5000")


def manifest_of(files):
    with tempfile.TemporaryDirectory() as directory:
        build.write_store(directory, dict(files))
        return waxread.Store(directory).manifest


def run(files, *arguments):
    """Writes a store and runs the tool over it: exit code and standard output."""
    with tempfile.TemporaryDirectory() as directory:
        build.write_store(directory, dict(files))
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = waxread.main([arguments[0], directory, *arguments[1:]])
        return code, out.getvalue() + err.getvalue()


class Stores(unittest.TestCase):
    def expect_all(self, result):
        self.assertEqual(shorten(result[1]), shorten(EXPECTED))
        self.assertEqual(result[0], 0)

    def test_a_closed_store_is_listed(self):
        self.expect_all(run(store(closed=True), "list"))

    def test_the_tail_in_the_ring_counts(self):
        self.expect_all(run(store(closed=False), "list"))

    def test_both_verify(self):
        for closed in (True, False):
            code, text = run(store(closed), "verify")
            self.assertEqual(code, 0, text)
            self.assertIn("3 edits" if not closed else "4 edits", text)
            self.assertIn("2 tables with 7 records", text)

    def test_what_a_fence_leaves_in_doubt_is_not_listed_and_is_damage(self):
        span = build.blob(b"apricot") + build.varint(9) + build.blob(b"n") + build.varint(0)
        span += build.varint(8) + build.blob(b"000003.tbl") + build.varint(64) + build.varint(1)
        fence = build.field(22, build.varint(0), build.varint(21), span)
        lift = build.field(24, build.varint(0), build.varint(21))
        code, text = run(store(True, [fence]), "list")
        self.assertEqual(code, 3, text)
        lost = "default\t6d6170\t73686565\n"
        self.assertEqual(shorten(text).split("damage:")[0], shorten(EXPECTED).replace(lost, ""))
        self.assertIn("1 fences", run(store(True, [fence]), "verify")[1])
        self.expect_all(run(store(True, [fence, lift]), "list"))
        self.assertEqual(run(store(True, [lift]), "list")[0], 3)

    def test_range_deletes_hide_what_is_older(self):
        def added(seqno, start, value, family=0):
            return build.field(32, build.varint(family), build.varint(seqno), *map(build.blob, (start, value, b"")))

        all_rows = [line for line in shorten(EXPECTED).splitlines() if line.startswith("default")]
        listed = lambda *more: [line for line in shorten(run(store(True, *more), "list")[1]).splitlines() if line.startswith("default")]
        later = all_rows[1:]
        at = bytes.fromhex(later[0].split("\t")[1])
        announced = build.field(30)
        self.assertEqual(listed([announced, added(9, b"", b"\x03" + at)]), later)
        self.assertEqual(listed([added(9, b"", b"\x01" + at)]), later)
        self.assertEqual(listed([added(9, at, b"\0")]), all_rows[:1])
        self.assertEqual(listed([added(1, b"", b"\x02")]), all_rows)  # older than every record
        retired = build.field(34, build.varint(0), build.varint(9))
        self.assertEqual(listed([added(9, b"", b"\x02"), retired]), all_rows)
        self.assertEqual(listed([announced], [build.operation(0x96, 0, b"", b"\x03" + at)]), later)
        for value in (b"", b"\x04", b"\0b", b"\x02b"):
            self.assertEqual(run(store(True, [added(9, b"", value)]), "list")[0], 3, value)
            self.assertEqual(run(store(True, [announced], [build.operation(0x96, 0, b"", value)]), "verify")[0], 3)
        for edits in ([retired], [added(9, b"s", b"\x02")], [added(9, b"", b"\x02")] * 2):
            self.assertEqual(run(store(True, edits), "list")[0], 3)

    def test_options_of_a_family_are_replaced(self):
        options = build.blob(build.field(1, build.varint(4096)))
        changed = build.field(43, build.varint(0), options)
        self.assertEqual(run(store(True, [changed]), "list")[0], 0)
        self.assertEqual(run(store(True, [build.field(43, build.varint(7), options)]), "list")[0], 3)
        self.assertEqual(run(store(True, [build.field(43, build.varint(0), options, b"\0")]), "list")[0], 3)

    def test_what_is_kept_for_the_change_feed_is_decoded_or_refused(self):
        def feed(kind, *numbers, rest=b""):
            return build.field(48, *(build.varint(number) for number in (kind, *numbers)), rest)

        def code(*edits):
            return run(store(True, list(edits)), "list")[0]

        id, name = b"\1" * 16, build.blob(b"copy")
        begun, cursor = feed(1, 3, 4, rest=id), feed(6, 9, 1, rest=id + name)
        table = feed(5, 9, 0, 1, 1, 7, 100, 9, 1, rest=b"\2" * 16 + bytes(8) + build.varint(8) + b"\3" * 16)
        dropped = feed(5, 9, 2, 0, rest=name + build.blob(b"wax.bytewise"))
        kept = (feed(2, 6), feed(3, 70, 0, 64, 9, 1, rest=bytes(8)), feed(4, 1, 7, 9), feed(4, 0, 8, 9))
        self.assertEqual(code(begun, *kept, table, dropped, cursor, feed(7, rest=name), feed(2, 0)), 0)
        for wrong in ([begun] * 2, [feed(1, 4, 3, rest=id)], [feed(3, 70, 9, 8, 9, 1, rest=bytes(8))],
                      [feed(3, 70, 0, 64, 0, 1, rest=bytes(8))], [feed(4, 2, 7, 9)], [feed(2, 2**57)],
                      [feed(7, rest=name)], [feed(6, 9, 1, rest=id + build.blob(b"\xff"))],
                      [feed(2, 6, rest=b"\0")]):  # fmt: skip
            self.assertEqual(code(*wrong), 3, wrong)
        self.assertNotIn(code(feed(8)), (0, 3))

    def test_filters_are_named_and_what_they_dropped_is_summed(self):
        def named(family, name):
            return build.field(39, build.varint(family), build.blob(name))

        def ledger(puts):
            entries = ((PUT, puts, puts * 2**62 % 2**64), (0x5A, 0, 0), (0, 0, 0))
            return b"".join(bytes([kind]) + build.varint(count) + build.words(sum) for kind, count, sum in entries)

        filtered = build.field(41, build.varint(0), ledger(2), ledger(3))
        manifest = manifest_of(store(True, [named(0, b"first"), named(0, b"second"), filtered, filtered]))
        self.assertEqual(manifest.filters, {0: b"second"})
        dropped, changed = manifest.filtered[0]
        self.assertEqual((dropped[PUT], changed[PUT]), ((4, 0), (6, 2**63)))  # modulo 2^64
        for edit in (named(9, b"name"), build.field(41, build.varint(9), ledger(1), ledger(1))):
            self.assertEqual(run(store(True, [edit]), "list")[0], 3)
        self.assertEqual(run(store(True, [build.field(41, build.varint(0), ledger(1))]), "list")[0], 3)

    def test_operands_are_merged_into_what_is_below_them(self):
        def merged(name, *operands, more=()):
            named = build.field(36, build.varint(0), build.blob(name))
            operations = [build.operation(0x69, 0, b"k", operand) for operand in operands]
            code, text = run(store(True, [named, *more], operations), "list")
            rows = [line.split("\t")[2] for line in text.splitlines() if line.startswith("default\t6b\t")]
            return (code, bytes.fromhex(rows[0])) if rows else (code, None)

        one = (1).to_bytes(8, "little")
        self.assertEqual(merged(b"wax.add_i64", one, b"\xff" * 8, one), (0, one))
        self.assertEqual(merged(b"wax.add_u64", one), (0, one))
        self.assertEqual(merged(b"wax.append:2c20", b"a", b"b", b"c"), (0, b"a, b, c"))
        self.assertEqual(merged(b"wax.min", b"b", b"ab", b"c"), (0, b"ab"))
        self.assertEqual(merged(b"wax.max", b"b", b"ab", b"c"), (0, b"c"))
        self.assertEqual(merged(b"wax.bit_or", b"\1\2", b"\4"), (0, b"\5\2"))
        self.assertEqual(merged(b"wax.union", b"\1a\1c", b"\1b\1c"), (0, b"\1a\1b\1c"))
        self.assertEqual(merged(b"wax.union", b"\1a", b"\1c\1b"), (3, None))
        self.assertEqual(merged(b"wax.add_i64", one, b"short"), (3, None))
        self.assertNotEqual(merged(b"mine", b"a", b"b")[0], 0)
        other = build.field(36, build.varint(0), build.blob(b"wax.max"))
        self.assertEqual(merged(b"wax.min", b"a", more=[other])[0], 3)
        code, _ = run(store(True, [], [build.operation(0x69, 0, b"k", b"a")]), "list")
        self.assertEqual(code, 3)
        # Onto a base of a table, and hidden by a range delete.
        named = build.field(36, build.varint(0), build.blob(b"wax.append:"))
        base = [line for line in EXPECTED.splitlines() if line.startswith("default")][0].split("\t")
        key, value = (bytes.fromhex(text) for text in base[1:3])
        onto = build.operation(0x69, 0, key, b"+")
        code, text = run(store(True, [named], [onto]), "list")
        self.assertIn(f"default\t{key.hex()}\t{(value + b'+').hex()}", text)
        code, text = run(store(True, [named], [build.operation(0x96, 0, b"", b"\x02"), onto]), "list")
        self.assertIn(f"default\t{key.hex()}\t{b'+'.hex()}\n", text)

    def test_statements_on_what_tables_hide_stand_behind_their_table(self):
        told = lambda *numbers: build.field(37, *map(build.varint, numbers))
        last = max(entry.number for entry in manifest_of(store(True)).tables.values())
        self.expect_all(run(store(True, [told(last, 7, 1)]), "list"))
        for wrong in ((77, 7, 1), (last, 0, 0), (last, 7, 2)):
            self.assertEqual(run(store(True, [told(*wrong)]), "list")[0], 3, wrong)

    def test_items_of_values_belong_to_their_file(self):
        told = lambda uid, sets: build.field(49, uid * 16 + sets)
        sets, others = b"\1a\4\1x\1y", b"\1a\2\1z"
        read = manifest_of(store(True, [told(b"v", sets), told(b"w", others), told(b"v", others)]))
        self.assertEqual(read.collected, {b"v" * 16: {b"a": [b"x", b"y"]}, b"w" * 16: {b"a": [b"z"]}})
        for wrong in (told(b"v", b""), told(b"v", b"\1a\4\1y\1x"), build.field(49, b"v" * 15)):
            self.assertEqual(run(store(True, [wrong]), "list")[0], 3, wrong)
        self.expect_all(run(store(True, [build.field(45, b"of an earlier build")]), "list"))

    def test_barred_tables_are_told_and_end_with_their_table(self):
        bar = build.field(29, build.varint(0), build.varint(3))
        code, text = run(store(True, [bar]), "verify")
        self.assertEqual(code, 0, text)
        self.assertIn("1 barred tables", text)
        self.expect_all(run(store(True, [bar]), "list"))
        self.assertEqual(run(store(True, [build.field(29, build.varint(0), build.varint(77))]), "verify")[0], 3)

    def test_lines_have_numbers_and_go_from_the_front(self):
        line = lambda number: build.field(27, build.varint(number), b"flushed")
        gone = build.field(31, build.varint(2))
        for edits, lines in (([line(1), line(2)], 2), ([line(1), line(3), gone], 1), ([gone, line(3)], 1), ([], 0)):
            code, text = run(store(True, edits), "verify")
            self.assertEqual(code, 0, text)
            self.assertIn(f"{lines} lines", text)
            self.expect_all(run(store(True, edits), "list"))
        for edits in ([line(1), line(1)], [gone, line(2)], [line(0)]):
            self.assertEqual(run(store(True, edits), "list")[0], 3)

    def test_keys_end_in_seqnos_of_their_batch(self):
        events, options = 0xFFFFFF01, build.blob(build.field(10, build.varint(1)))
        made = build.field(2, build.varint(events), build.blob(b"system_metadata.log"), build.blob(b"wax.bytewise"), options)

        def listed(back):
            rows = [build.operation(PUT, family, b"e\xff" + back.to_bytes(7, "big"), b"x") for family in (1, events)]
            return run(store(True, [made], [*rows, build.operation(PUT, events, bytes(8), b"whole")]), "list")

        for back, seqno in ((0, 11), (1, 10)):
            code, text = listed(back)
            self.assertEqual(code, 0, text)
            self.assertIn(f"users\t65ff{back:014x}\t78", text)  # not a family of this kind
            self.assertIn(f"system_metadata.log\t{0:016x}\t{b'whole'.hex()}\nsystem_metadata.log\t65{seqno:016x}\t78\n", text)
        self.assertEqual(listed(2)[0], 3)

    def test_stamps_are_read_and_a_stamp_that_was_hit_is_damage(self):
        stamp = bytes.fromhex("0600 00089E8223D655 07 AE6B27")  # of the page
        said = {"verb": "update", "values": "new", "via": "key", "elsewhere": False, "history": False}
        said |= {"time": 1510051314000000 << 12, "session": 7, "retention": None}
        self.assertEqual(stamps.read(stamp, b"apple"), said)
        for bit in range(len(stamp) * 8):
            hit = bytearray(stamp)
            hit[bit // 8] ^= 1 << bit % 8
            with self.assertRaises(Damage):
                stamps.read(bytes(hit), b"apple")
        with self.assertRaises(Damage):
            stamps.read(stamp, b"pear")
        kept = b"\x86\x03" + bytes(8) + b"\x00\x05"  # history, retention
        self.assertEqual(stamps.read(kept + stamps.check_of(kept, b""), b"")["retention"], 5)
        with self.assertRaises(Damage):
            stamps.of([(0x3C, stamp), (0x3C, stamp)], b"apple")
        self.assertIsNone(stamps.of([(0xAA, b"sealseal")], b"apple"))

    def test_json_shows_companions(self):
        code, text = run(store(closed=True), "list", "--json")
        self.assertEqual(code, 0, text)
        self.assertIn('"seqno": 6, "companions": [["aa", "7365616c7365616c"]]', text)

    def test_a_torn_tail_above_every_mark_is_cut(self):
        files = store(closed=False)
        ring = bytearray(files["000009.ring"])
        for at in (512, 1536):
            ring[at : at + 8] = build.words(build.mark(AFTER, RING, 1))
        ring[4096 + 30] ^= 1
        files["000009.ring"] = bytes(ring)
        code, text = run(files, "list")
        self.assertEqual((code, "users\t75" in text), (0, False), text)

    def test_a_lost_frame_below_a_mark_is_damage(self):
        files = store(closed=False)
        ring = bytearray(files["000009.ring"])
        ring[4096 + 30] ^= 1
        files["000009.ring"] = bytes(ring)
        expected = 3 if this_machine(".") else 0
        self.assertEqual(run(files, "list")[0], expected)

    def test_a_lost_acknowledged_frame_is_a_torn_tail_on_another_kernel(self):
        files = store(closed=False)
        ring = files["000009.ring"]
        cut = bytearray(build.ring(9, RING, b"\x07" * 24, AFTER + 64, AFTER, 4096))
        files["000009.ring"] = bytes(cut)
        self.assertEqual(len(ring), len(cut))
        self.assertEqual(run(files, "list")[0], 0)

    def test_missing_files_are_damage(self):
        for closed, names in ((True, "000003.tbl 000007.log 000008.log"), (False, "000009.ring 000008.log")):
            for name in names.split():
                files = store(closed)
                del files[name]
                self.assertEqual(run(files, "list")[0], 3, name)
                self.assertEqual(run(files, "verify")[0], 3, name)

    def test_a_sealed_store_does_without_its_ring(self):
        files = store(closed=True)
        del files["000009.ring"]
        self.expect_all(run(files, "list"))

    def test_reserved_kinds_are_not_guessed_at(self):
        for kind, refused in ((0x69, 3), (0x96, 7)):  # an operand in a family without a merge operator is damage
            data, entry = build.table(0, [[(kind, b"k", 1, b"v", b"")]])
            stream = build.Stream(0, SEGMENT)
            edits = [
                FAMILIES + entry(0, 3) + build.field(10, build.varint(0), build.varint(9))
                + build.field(12, build.place(7, SEGMENT, 0, SEGMENT), build.varint(9), build.words(RING))
                + build.field(14, build.place(7, SEGMENT, stream.offset, stream.link)),
            ]  # fmt: skip
            files = {
                "MANIFEST-000005": build.manifest(5, 1, edits),
                "000003.tbl": data,
                "000007.log": build.segment(7, SEGMENT, 0, b"", here()),
            }
            self.assertEqual(run(files, "list")[0], refused, hex(kind))
            self.assertEqual(run(files, "verify")[0], 0, hex(kind))

    def test_no_flipped_bit_changes_the_answer(self):
        """Either the exact records, or an exit code that says why not; never others, never a traceback."""
        draw, told = random.Random(7), 0
        for trial in range(400):
            closed = trial % 2 == 0
            files = store_once(closed)
            name = draw.choice(sorted(files))
            data = bytearray(files[name])
            at = draw.randrange(min(len(data), 700)) if trial % 3 == 0 else draw.randrange(len(data))
            data[at] ^= 1 << draw.randrange(8)
            code, text = run(files | {name: bytes(data)}, "list")
            if code == 0:
                self.assertEqual(shorten(text), shorten(EXPECTED), f"{name} at {at}")
            else:
                self.assertIn(code, (3, 7), text)
                told += 1
        self.assertGreater(told, 100)

    def test_wrong_calls_are_told(self):
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(waxread.main(["list"]), 1)
            self.assertEqual(waxread.main(["list", os.path.join(tempfile.gettempdir(), "no such store")]), 4)


MADE = {}


def store_once(closed):
    if closed not in MADE:
        MADE[closed] = store(closed)
    return MADE[closed]


class Tables(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(os.path.dirname(__file__), "tables.txt"), encoding="utf-8") as file:
            lines = [line.rstrip("\n").split(" ") for line in file if not line.startswith("#")]
        self.families, self.rows = {}, {}
        for kind, name, *words in lines:
            if kind == "record":
                key, value = (bytes.fromhex(word) for word in words)
                self.families.setdefault(name, []).append((key, value))
            else:
                self.rows.setdefault(name, []).append(words)

    def test_records_are_the_rows_that_were_written(self):
        catalogue = dict(self.families["waxseal_tables"])
        schemas = [tables.Schema(value) for key, value in catalogue.items() if key[:1] == b"t"]
        self.assertEqual({schema.name for schema in schemas}, self.rows.keys())
        for schema in schemas:
            found = tables.rows(schema, self.families[f"waxseal_tables-{schema.id}-rows"])
            found = [sorted(f"{name}={value}" for name, value in row.items()) for row in found]
            self.assertEqual(found, self.rows[schema.name])
            keys = {key for key, _ in self.families[f"waxseal_tables-{schema.id}-rows"]}
            entries = self.families.get(f"waxseal_tables-{schema.id}-indexes", [])
            self.assertEqual(bool(entries), bool(schema.indexes))
            for key, value in entries:
                index, values, row_key = schema.entry(key, value)
                self.assertIn(row_key, keys)
                row = found[[schema.split(key)[1] for key in sorted(keys) if key == schema.split(key)[1]].index(row_key)]
                for (id, _), value in zip(index.columns, values, strict=True):
                    column = f"{schema.by_id[id].name}={value}"
                    self.assertEqual(column in row, value is not None)
            name = b"n" + schema.name.replace(".", "\0").encode()
            self.assertEqual(catalogue[name], bytes([schema.id]))
            history = b"h" + schema.id.to_bytes(4, "big") + schema.version.to_bytes(8, "big")
            self.assertEqual(tables.Schema(catalogue[history]).name, schema.name)

    def test_the_record_of_a_purged_column_is_read(self):
        # The example of docs/format-tables.md, section 6.
        record = bytes.fromhex("01 05 67 65 6E 72 65 AC 02 02 01 C8 01 FE FF FF FF FF FF FF FF 01 02 01 00 00 00 00 00 00")
        column = tables.Purged(record)
        found = column.name, column.through, column.indexes, column.purged_at, column.certified_at
        self.assertEqual(found, ("genre", 300, [1, 200], -2, 258))
        for wrong in record[:-1], record + b"\0", record[:21] + b"\2" + record[22:]:
            with self.assertRaises(Damage):
                tables.Purged(wrong)

    def test_the_key_of_a_purged_column_names_its_store(self):
        uid = bytes(range(16))
        self.assertEqual(tables.about(b"p\0\0\0\1\0\0\1\2" + uid), (1, 258, uid))
        self.assertEqual(tables.about(b"e\0\0\0\1\0\0\1\2"), (1, 258, None))
        for wrong in b"t\0\0\0\1\0\0\0\1", b"p\0\0\0\1\0\0\0\1" + uid[:-1]:
            with self.assertRaises(Damage):
                tables.about(wrong)

    def test_the_record_of_a_purge_of_events_is_read(self):
        # The example of docs/format-tables.md, section 6.
        record = bytes.fromhex("01 AC 02 02 01 AD 02 02 01 00 00 00 00 00 00")
        events = tables.PurgedEvents(record)
        self.assertEqual((events.changed, events.removed, events.through, events.ended_at), (300, 2, 301, 258))
        self.assertIsNone(tables.PurgedEvents(record[:4] + b"\0").ended_at)
        for wrong in record[:-1], record + b"\0", record[:4] + b"\2" + record[5:]:
            with self.assertRaises(Damage):
                tables.PurgedEvents(wrong)

    def test_the_record_of_a_keyspace_is_read(self):
        found = [tables.Keyspace(k, v) for k, v in self.families["waxseal_tables"] if k[:1] == b"k"]
        self.assertEqual([(one.name, one.replication) for one in found], [("empty", [("dc1", "3"), ("dc2", "2")])])
        with self.assertRaises(Damage):
            tables.Keyspace(b"kempty", bytes.fromhex("01 02 03 64 63 32 01 32 03 64 63 31 01 33"))

    def test_another_version_and_a_wrong_token_are_refused(self):
        schema = next(tables.Schema(v) for k, v in self.families["waxseal_tables"] if k == b"t\0\0\0\x01")
        key, value = self.families["waxseal_tables-1-rows"][0]
        with self.assertRaises(Damage):
            tables.rows(schema, [(bytes([key[0] ^ 1]) + key[1:], value)])
        with self.assertRaises(Unsupported):
            tables.rows(schema, [(key, b"\x02" + value[1:])])


if __name__ == "__main__":
    unittest.main()
