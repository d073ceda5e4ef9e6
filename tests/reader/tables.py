"""Tables (docs/format-tables.md): schemas, keys and packed columns.

In: the records of the families of tables. Out: rows, as names and values.
"""

import struct

from codec import Cursor, Damage, Unsupported
from sums import hash

BYTES, TEXT, BOOL, I32, I64, U64, F32, F64, DECIMAL, DATE, TIMESTAMP, UUID, JSON, LIST, EMPTY = range(1, 16)
WIDTHS = {BOOL: 1, I32: 4, I64: 8, U64: 8, F32: 4, F64: 8, DATE: 4, TIMESTAMP: 8, UUID: 16}
SIGNED = {I32, I64, DATE, TIMESTAMP}
DYNAMIC = 0xFFFF
FIRST_WITH_LENGTH = 128


class Type:
    """A type, from a schema: its tag, and precision and scale or the type of the elements."""

    def __init__(self, cursor):
        self.tag = cursor.u8()
        if not BYTES <= self.tag <= EMPTY:
            raise cursor.damage(f"type {self.tag}")
        self.precision, self.scale = (cursor.u8(), cursor.u8()) if self.tag == DECIMAL else (0, 0)
        self.element = Type(cursor) if self.tag == LIST else None

    def key_width(self):
        if self.tag == DECIMAL:
            return 4 if self.precision <= 9 else 8 if self.precision <= 18 else 16
        return WIDTHS.get(self.tag)


class Column:
    def __init__(self, cursor):
        self.id, self.name, self.type = cursor.varint(), cursor.bytes().decode(), Type(cursor)
        self.role, self.group, self.state = cursor.u8(), cursor.varint(), cursor.u8()
        if self.role > 3 or self.state > 2:
            raise cursor.damage(f"role {self.role} or state {self.state}")
        self.deadline = cursor.u64() if self.state == 1 else None


class Index:
    def __init__(self, cursor):
        self.id, self.name, flags, self.public = cursor.varint(), cursor.bytes().decode(), cursor.u8(), cursor.u8()
        if flags > 3 or self.public > 1:
            raise cursor.damage(f"flags {flags} or state {self.public}")
        self.unique, self.missing = bool(flags & 1), bool(flags & 2)
        self.columns = [(cursor.varint(), cursor.u8()) for _ in range(cursor.varint())]


def about(key):
    """What a record `p` or `e` of the catalogue is about: table, column, and the uid of the store or None."""
    if key[:1] not in (b"p", b"e") or len(key) not in (9, 25):
        raise Damage("catalogue", 0, f"the key {key.hex()}")
    return int.from_bytes(key[1:5], "big"), int.from_bytes(key[5:9], "big"), key[9:] or None


class Purged:
    """The value of a record `p` of the catalogue."""

    def __init__(self, record):
        c = Cursor(record, "purged column")
        version(c)
        self.name, self.through = c.bytes().decode(), c.varint()
        self.indexes = [c.varint() for _ in range(c.varint())]
        self.purged_at = int.from_bytes(c.take(8), "little", signed=True)
        certified = c.u8()
        if certified > 1:
            raise c.damage(f"truth value {certified}")
        self.certified_at = int.from_bytes(c.take(8), "little", signed=True) if certified else None
        c.finish()


class PurgedEvents:
    """The value of a record `e` of the catalogue."""

    def __init__(self, record):
        c = Cursor(record, "purge of events")
        version(c)
        self.changed, self.removed = c.varint(), c.varint()
        ended = c.u8()
        if ended > 1:
            raise c.damage(f"truth value {ended}")
        self.through = c.varint() if ended else None
        self.ended_at = int.from_bytes(c.take(8), "little", signed=True) if ended else None
        c.finish()


class Keyspace:
    """A record `k` of the catalogue."""

    def __init__(self, key, record):
        c = Cursor(record, "keyspace")
        version(c)
        self.name = key[1:].decode()
        self.replication = [(c.bytes().decode(), c.bytes().decode()) for _ in range(c.varint())]
        if self.replication != sorted(dict(self.replication).items()):
            raise c.damage("names that are not ascending")
        c.finish()


class Schema:
    """The value of a record `t` or `h` of the catalogue."""

    def __init__(self, record):
        c = Cursor(record, "schema")
        version(c)
        self.id, self.version = c.varint(), c.varint()
        self.name = f"{c.bytes().decode()}.{c.bytes().decode()}"
        self.hashed, self.dynamic = c.u8(), c.u8()
        self.next_column, self.next_group = c.varint(), c.varint()
        self.columns = [Column(c) for _ in range(c.varint())]
        self.groups = {c.varint(): (c.bytes().decode(), c.u8()) for _ in range(c.varint())}
        self.next_index = c.varint()
        self.indexes = [Index(c) for _ in range(c.varint())]
        c.finish()
        self.key = [column for column in self.columns if column.role]
        self.by_id = {column.id: column for column in self.columns}

    def split(self, key):
        """The row key's values and bytes, and what follows it."""
        at = 8 if self.hashed else 0
        values = {}
        end_of_partition = at
        for column in self.key:
            value, at = take_part(key, at, column.type, column.role == 3)
            values[column.name] = shown(value, column.type)
            if column.role == 1:
                end_of_partition = at
        if self.hashed and hash(key[8:end_of_partition]) != int.from_bytes(key[:8], "big"):
            raise Damage("rows", 0, "the token is not the hash of the partition key")
        return values, key[:at], key[at:]

    def entry(self, key, value):
        """An entry of an index: the index, the values of its columns (None for a null), and the row key."""
        index = next(index for index in self.indexes if index.id == int.from_bytes(key[:4], "big"))
        at, values = 4, []
        for id, descending in index.columns:
            marker = key[at] ^ (0xFF if descending else 0)
            if marker > 1:
                raise Damage("indexes", at, f"marker {marker}")
            at += 1
            if marker:
                column = self.by_id[id]
                part, at = take_part(key, at, column.type, descending)
                values.append(shown(part, column.type))
            else:
                values.append(None)
        if None in values and not index.missing or bool(value) != (index.unique and None not in values):
            raise Damage("indexes", 0, "an entry of another kind of index")
        return index, values, value or key[at:]

    def packed(self, record):
        """The visible columns of a record."""
        for id, type, value in columns(record):
            column = self.by_id.get(id)
            if column and column.state == 0:
                yield column.name, shown(value, type)


def version(cursor):
    found = cursor.u8()
    if found == 0:
        raise cursor.damage("version 0")
    if found > 1:
        raise Unsupported(f"version {found}")


def take_part(key, at, type, descending):
    """A part of a key, and where it ends."""
    mask = 0xFF if descending else 0
    width = type.key_width()
    if width is None:
        value = bytearray()
        while True:
            byte, following = key[at] ^ mask, key[at + 1] ^ mask if at + 1 < len(key) else None
            if byte:
                value.append(byte)
                at += 1
            elif following == 0xFF:
                value.append(0)
                at += 2
            elif following == 0x01:
                return bytes(value), at + 2
            else:
                raise Damage("rows", at, "an escape that does not exist")
    part = bytes(byte ^ mask for byte in key[at : at + width])
    if len(part) < width:
        raise Damage("rows", at, "a key that is cut short")
    number = int.from_bytes(part, "big")
    top = 1 << (8 * width - 1)
    if type.tag in SIGNED or type.tag == DECIMAL:
        number -= top
        value = (number, type.scale) if type.tag == DECIMAL else number
    elif type.tag in (F32, F64):
        number = number - top if number & top else ~number & (2 * top - 1)
        value = struct.unpack(">f" if type.tag == F32 else ">d", number.to_bytes(width, "big"))[0]
    elif type.tag == UUID:
        value = part
    else:
        value = bool(number) if type.tag == BOOL else number
    return value, at + width


def columns(record):
    """The columns of a packed record: id, tag, value."""
    c = Cursor(record, "packed")
    version(c)
    id = 0
    while c.remaining():
        step = c.varint()
        if step == 0:
            raise c.damage("columns out of order")
        id += step
        tag = c.u8()
        yield id, tag, take_value(c, tag)


def take_value(c, tag):
    if tag in (BYTES, TEXT, JSON) or tag >= FIRST_WITH_LENGTH:
        return c.bytes()
    if tag == EMPTY:
        return None
    if tag == LIST:
        body = Cursor(c.bytes(), "list")
        element, count = body.u8(), body.varint()
        values = [shown(take_value(body, element), element) for _ in range(count)]
        body.finish()
        return values
    if tag == DECIMAL:
        scale, length = c.u8(), c.u8()
        return int.from_bytes(c.take(length), "little", signed=True), scale
    if tag not in WIDTHS:
        raise c.damage(f"value of type {tag}")
    data = c.take(WIDTHS[tag])
    if tag in (F32, F64):
        return struct.unpack("<f" if tag == F32 else "<d", data)[0]
    if tag == UUID:
        return data
    return int.from_bytes(data, "little", signed=tag in SIGNED)


def shown(value, type):
    """A value as the golden file writes it."""
    tag = type.tag if isinstance(type, Type) else type
    if tag in (BYTES, TEXT, JSON, UUID):
        return value.hex()
    if tag == BOOL:
        return "true" if value else "false"
    if tag in (F32, F64):
        return str(int(value)) if value == value and abs(value) < 1e15 and value == int(value) else str(value)
    if tag == DECIMAL:
        return f"{value[0]}e-{value[1]}"
    if tag == LIST:
        return f"[{','.join(value)}]"
    return "empty" if tag == EMPTY else str(value)


def rows(schema, records):
    """The rows of a table's records, sorted by key."""
    found, last = [], None
    for key, record in records:
        values, row_key, suffix = schema.split(key)
        if not suffix:
            last = row_key
            found.append({**values, **dict(schema.packed(record))})
            continue
        if row_key != last:
            continue  # no record of group 0: the row is gone
        group, name = int.from_bytes(suffix[:2], "big"), suffix[2:].decode()
        if group == DYNAMIC:
            ((_, tag, value),) = columns(record)
            found[-1][name] = shown(value, tag)
            continue
        group_name, repeated = schema.groups[group]
        prefix = f"{group_name}/{name}/" if repeated else ""
        found[-1].update((prefix + name, value) for name, value in schema.packed(record))
    return found
