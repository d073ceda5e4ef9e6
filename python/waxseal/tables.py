"""Tables: typed rows in a store.

    import waxseal
    from waxseal.tables import Tables, column

    with waxseal.open("library.waxseal") as db:
        columns = {"author": "text", "year": "i32", "title": "text", "genre": "text"}
        books = Tables(db).create("library.books", columns, partition_key="author", clustering="year")
        books.insert({"author": "Austen", "year": 1815, "title": "Emma", "genre": "novel"})
        for row in books.select(prefix="Austen", where=column("genre") == "novel"):
            print(row["title"])

A row is a dict from names of columns to values, or an instance of a dataclass. docs/tables.md describes keys, types,
groups and indexes. All calls go through `ctypes`. """

from __future__ import annotations

import ctypes as C
import dataclasses
import json
import threading
from datetime import datetime, timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generic,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
    overload,
)

from . import _abi, _c, _row_arrow
from ._arrow import stream_of
from ._errors import BusyError, ConflictError
from ._options import durability as durability_number
from ._row_conditions import ColumnName, Condition, column, filter_of
from ._row_schema import Column, Index, Layout, Schema, c_index, field_types, layout_of, names_of, schema_of
from ._row_values import EMPTY, Empty, Json, Kept, column_type, kept_slice, slice_of, value_list
from ._rows import Row, cells_of, options_of, range_of, read_row, typed
from ._sealed import Expires
from ._steps import LentItems
from ._store import DB, Session
from ._times import moment_of

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._handles import Handles
    from ._snapshot import Snapshot

__all__ = [
    "EMPTY",
    "Certificate",
    "Column",
    "ColumnName",
    "Condition",
    "Empty",
    "EventPurge",
    "Index",
    "IndexReport",
    "Json",
    "Page",
    "PurgeReport",
    "Row",
    "Schema",
    "Select",
    "Table",
    "Tables",
    "Transaction",
    "column",
]

R = TypeVar("R")
T = TypeVar("T")

#: The largest number that every integer of the library holds: ctypes cuts larger ones without an error.
_MOST = (1 << 63) - 1
#: Rows of one commit of `Table.load`.
_LOADED_ROWS = 1000


@dataclasses.dataclass(frozen=True)
class Page(Generic[R]):
    """Some rows of a select, and where the rest begins."""

    rows: List[R]
    #: The position for `after`; None if the page has fewer rows than the limit.
    next: Optional[bytes]


class IndexReport(NamedTuple):
    """Result of a check of a table's indexes."""

    rows: int
    entries: int
    #: Missing entries of existing rows, entries that belong to no row, and rows and entries that could not be read.
    missing: int
    stale: int
    damaged: int

    @property
    def clean(self) -> bool:
        """True if every row has its entries, and every entry its row."""
        return not (self.missing or self.stale or self.damaged)


class PurgeReport(NamedTuple):
    """Result of a purge of columns."""

    #: Names of the purged columns, and of those whose values a snapshot still reads.
    columns: List[str]
    held: List[str]
    #: Files that may have had values of these columns when the purge began.
    files: int


class EventPurge(NamedTuple):
    """Result of a purge of the events that showed values of a purged column."""

    #: Events whose values lost the column, and events of entries in its indexes, which were removed.
    changed: int
    removed: int
    ended_at: datetime


class Certificate(NamedTuple):
    """States that no file of the store had a value of a purged column when it was issued."""

    table: str
    column: str
    column_id: int
    #: The sequence number after which no record has a value of the column.
    through: int
    purged_at: datetime
    issued_at: datetime
    #: The purge of events that the certificate covers; None if events of the log may show values.
    events: Optional[EventPurge]
    #: Where values may be that the certificate does not cover.
    not_covered: List[str]


class Tables:
    """The tables of a store. Usable from any thread.

    `Tables(db.session("alice"))` are the tables in the name of a session: the events of what is done through them,
    through the tables that they open, and through their transactions name the session as the client."""

    def __init__(self, db: Union[DB, Session]) -> None:
        self._handles = db._handles
        self._db = db
        self._session = db if isinstance(db, Session) else None

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle tables")

    @overload
    def create(
        self,
        name: str,
        columns: Type[R],
        *,
        partition_key: Union[str, Sequence[str]],
        clustering: Union[str, Sequence[str]] = ...,
        groups: Optional[Mapping[str, Sequence[str]]] = ...,
        repeated_groups: Optional[Mapping[str, Mapping[str, Any]]] = ...,
        dynamic_columns: bool = ...,
        hashed: bool = ...,
        indexes: Iterable[Index] = ...,
    ) -> Table[R]: ...

    @overload
    def create(
        self,
        name: str,
        columns: Any,
        *,
        partition_key: Union[str, Sequence[str]],
        clustering: Union[str, Sequence[str]] = ...,
        groups: Optional[Mapping[str, Sequence[str]]] = ...,
        repeated_groups: Optional[Mapping[str, Mapping[str, Any]]] = ...,
        dynamic_columns: bool = ...,
        hashed: bool = ...,
        indexes: Iterable[Index] = ...,
    ) -> Table[Row]: ...

    def create(
        self,
        name: str,
        columns: Any,
        *,
        partition_key: Union[str, Sequence[str]],
        clustering: Union[str, Sequence[str]] = (),
        groups: Optional[Mapping[str, Sequence[str]]] = None,
        repeated_groups: Optional[Mapping[str, Mapping[str, Any]]] = None,
        dynamic_columns: bool = False,
        hashed: bool = False,
        indexes: Iterable[Index] = (),
    ) -> Table[Any]:
        """Creates a table, `keyspace.name`. It is durable when the call returns.

        `columns` are types by names of columns, a dataclass, whose fields are the columns and whose instances are then
        the rows, or a schema of pyarrow. A type is a name, as in "decimal(10, 2)" and "list<text>", or a type of
        Python. `partition_key` and `clustering` name the columns of the key in its order; "-year" is descending.
        `groups` are the names of columns that are stored apart from the others, by the name of their group.
        `repeated_groups` are the types of the columns of each such group. With `hashed`, partitions are in the order of
        a hash of their keys.

        Raises ExistsError; InvalidArgument for a malformed name and for a schema that no table can have.
        """
        row_type = columns if isinstance(columns, type) else None
        given = _row_arrow.column_types(columns) if row_type is None else field_types(columns)
        if given is None:
            given = {name: column_type(kind) for name, kind in columns.items()}
        kept: Kept = []
        key = (names_of(partition_key), names_of(clustering))
        schema = schema_of(given, *key, groups or {}, repeated_groups or {}, list(indexes), kept)
        schema.has_dynamic_columns, schema.is_hashed = dynamic_columns, hashed
        encoded = _c.encoded(name, "a table's name")
        function, owner = self._function("table_create")
        arguments = (owner, encoded, len(encoded), C.byref(schema))
        owned = self._handles.made(function, *arguments, destroy="waxseal_table_destroy")
        return Table(self._handles, owned, row_type)

    @overload
    def table(self, name: str, row: Type[R]) -> Table[R]: ...

    @overload
    def table(self, name: str, row: None = None) -> Table[Row]: ...

    def table(self, name: str, row: Any = None) -> Table[Any]:
        """Opens a table, whose rows are dicts, or instances of the dataclass `row`. Raises NotFoundError."""
        encoded = _c.encoded(name, "a table's name")
        function, owner = self._function("table_open")
        owned = self._handles.made(function, owner, encoded, len(encoded), destroy="waxseal_table_destroy")
        return Table(self._handles, owned, row)

    def drop(self, name: str) -> None:
        """Drops a table and everything in it. Raises NotFoundError."""
        encoded = _c.encoded(name, "a table's name")
        self._handles.call(*self._function("table_drop"), encoded, len(encoded))

    def rename(self, name: str, new_name: str) -> None:
        """Renames a table, also into another keyspace. Raises NotFoundError and ExistsError."""
        old, new = _c.encoded(name, "a table's name"), _c.encoded(new_name, "a table's name")
        self._handles.call(*self._function("table_rename"), old, len(old), new, len(new))

    def names(self) -> List[str]:
        """Returns the names of all tables, sorted."""
        text = self._handles.content("waxseal_table_names", self._handles.db).decode("utf-8")
        return text.split("\0")[:-1]

    def create_keyspace(self, name: str, replication: Optional[Mapping[str, Any]] = None) -> None:
        """Creates a keyspace, a named group of tables, with its replication map, which the store keeps and logs without
        interpreting it. A keyspace also exists, with an empty map, while it has a table. Raises ExistsError, also for a
        keyspace that has tables; InvalidArgument for a malformed name or map."""
        self._keyspace("create", name, _lines(replication or {}))

    def alter_keyspace(self, name: str, replication: Mapping[str, Any]) -> None:
        """Replaces the replication map of a keyspace. Raises NotFoundError."""
        self._keyspace("alter", name, _lines(replication))

    def rename_keyspace(self, name: str, new_name: str) -> None:
        """Renames a keyspace with all its tables. Raises NotFoundError and ExistsError."""
        self._keyspace("rename", name, new_name)

    def drop_keyspace(self, name: str) -> None:
        """Drops a keyspace with all its tables and everything in them. Raises NotFoundError."""
        self._keyspace("drop", name)

    def keyspaces(self) -> Dict[str, Dict[str, str]]:
        """Returns the replication maps of all keyspaces by their names."""
        found: Dict[str, Dict[str, str]] = json.loads(self._handles.text("waxseal_keyspaces_json", self._db._session()))
        return found

    def _keyspace(self, call: str, *texts: str) -> None:
        encoded = [_c.encoded(text, "a keyspace") for text in texts]
        arguments = [part for text in encoded for part in (text, len(text))]
        self._handles.call(f"waxseal_keyspace_{call}", self._db._session(), *arguments)

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def transaction(self, durability: Optional[str] = None) -> Transaction:
        """Begins a transaction over rows of any tables."""
        return _begin(self._handles, self._function("table_transaction_begin"), durability)

    def transact(self, run: Callable[[Transaction], T], durability: Optional[str] = None) -> T:
        """Runs a transaction: passes it to `run`, commits it, and returns the result of `run`. After a conflict all of
        it runs again. An exception of `run` discards the writes."""
        return _transact(lambda: self.transaction(durability), run)

    def _function(self, call: str) -> Tuple[str, int]:
        """Returns the name of a function of the library and its first argument: the store, or the session."""
        if self._session is None:
            return f"waxseal_{call}", self._handles.db
        return f"waxseal_session_{call}", self._session._session()


class Table(Generic[R]):
    """A table. Created by `Tables`. Usable from any thread.

    A key is a value, or a tuple of the values of the key's columns. Every write is one commit; `durability` is "none",
    "os" or "sync", by default that of the store. `expires` is the time at which a row expires: seconds since 1970, a
    datetime, or a timedelta from now. `group_expires` are such times by the names of groups.
    """

    def __init__(self, handles: Handles, owned: _c.Owned, row: Any) -> None:
        self._handles = handles
        self._owned = owned
        self._layout: Optional[Layout] = None
        self._fields: Optional[Tuple[str, ...]] = None
        self._row = row
        #: The last layout that was compared with the fields.
        self._fitted: Optional[Layout] = None
        if row is not None:
            self._fields = tuple(field_types(row))
            self._fitting(self._current())

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle a table")

    def __repr__(self) -> str:
        return f"<waxseal.tables.Table{' (closed)' if self._handles.store.closed else ' ' + self.name}>"

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._handles.text("waxseal_table_name", self._owned.handle)

    @property
    def schema(self) -> Schema:
        """The present schema."""
        return self._current().schema

    def schema_at(self, version: int) -> Optional[Schema]:
        """Returns a version of the schema, from 1 on; None if it does not exist."""
        layout = self._described(version) if 0 < version <= _MOST else None
        return None if layout is None else layout.schema

    def insert(
        self,
        row: Union[R, Mapping[str, Any]],
        *,
        durability: Optional[str] = None,
        expires: Expires = None,
        group_expires: Optional[Mapping[str, Expires]] = None,
    ) -> None:
        """Adds a row. Raises ExistsError if the table has a row of the key, or of the values of a unique index."""
        self._write("waxseal_table_insert", None, row, durability, expires, group_expires)

    def upsert(
        self,
        row: Union[R, Mapping[str, Any]],
        *,
        durability: Optional[str] = None,
        expires: Expires = None,
        group_expires: Optional[Mapping[str, Expires]] = None,
    ) -> None:
        """Writes a whole row, whether or not the table has a row of the key. Columns that it does not have are null
        afterwards."""
        self._write("waxseal_table_upsert", None, row, durability, expires, group_expires)

    def update(
        self,
        key: Any,
        changes: Mapping[str, Any],
        *,
        where: Optional[Condition] = None,
        durability: Optional[str] = None,
        expires: Expires = None,
        group_expires: Optional[Mapping[str, Expires]] = None,
    ) -> bool:
        """Changes columns of a row; None removes a column, or an entry of a repeated group. Returns False, and changes
        nothing, if the table has no row of the key, or if the row does not match `where`, which takes no other
        options."""
        if where is None:
            return self._update(None, key, changes, durability, expires, group_expires)
        if durability is not None or expires is not None or group_expires is not None:
            raise ValueError("an update with a condition has no options")
        kept: Kept = []
        layout = self._current()
        wanted = (self._key(layout, key, kept), filter_of(layout, where, kept))
        cells = cells_of(layout, changes, kept, True)
        return self._call("waxseal_table_update_if", *wanted, cells) == _abi.WAXSEAL_OK

    def compare_and_set(
        self, key: Any, old: Union[R, Mapping[str, Any], None], new: Union[R, Mapping[str, Any], None]
    ) -> bool:
        """Replaces the row of a key if it is `old`: with `new`, or with no row. None for `old` expects no row. Returns
        False, and changes nothing, if the table has another row."""
        kept: Kept = []
        layout, is_set = self._current(), C.c_bool()
        rows = [cells_of(layout, {} if row is None else self._columns(layout, row), kept) for row in (old, new)]
        if any(row is not None and not cells.count for row, cells in zip((old, new), rows)):
            raise self._handles.store_error(_abi.WAXSEAL_INVALID, "a row without a key: say None for no row")
        self._call("waxseal_table_compare_and_set", self._key(layout, key, kept), *rows, C.byref(is_set))
        return is_set.value

    def delete(self, key: Any, *, durability: Optional[str] = None) -> None:
        """Deletes a row. A key without a row is not an error."""
        self._delete(None, key, durability)

    def delete_partition(self, key: Any) -> None:
        """Deletes all rows of a partition, in one step whatever their number."""
        kept: Kept = []
        self._call("waxseal_table_delete_partition", self._key(self._current(), key, kept))

    def delete_range(
        self,
        prefix: Any = (),
        start: Any = None,
        stop: Any = None,
        *,
        include_start: bool = True,
        include_stop: bool = False,
    ) -> None:
        """Deletes the rows whose key begins with `prefix` and whose next columns are between `start` and `stop`."""
        kept: Kept = []
        layout = self._current()
        between = range_of(layout.key, prefix, start, stop, include_start, include_stop, kept)
        self._call("waxseal_table_delete_range", self._key(layout, prefix, kept), between)

    def truncate(self) -> None:
        """Deletes all rows, with the entries of the indexes, in one step."""
        self._call("waxseal_table_truncate")

    @overload
    def get(self, key: Any, default: None = None, *, snapshot: Optional[Snapshot] = None) -> Optional[R]: ...

    @overload
    def get(self, key: Any, default: T, *, snapshot: Optional[Snapshot] = None) -> Union[R, T]: ...

    def get(self, key: Any, default: Any = None, *, snapshot: Optional[Snapshot] = None) -> Any:
        """Returns the row of a key, or `default`."""
        found = self._get(None, snapshot, key)
        return default if found is None else found

    def __contains__(self, key: object) -> bool:
        return self._get(None, None, key) is not None

    def __iter__(self) -> Iterator[R]:
        return iter(self.select())

    @overload
    def select(
        self,
        *,
        prefix: Any = ...,
        start: Any = ...,
        stop: Any = ...,
        include_start: bool = ...,
        include_stop: bool = ...,
        columns: None = None,
        where: Optional[Condition] = ...,
        index: Optional[str] = ...,
        limit: Optional[int] = ...,
        after: Optional[bytes] = ...,
        reverse: bool = ...,
        full_scan: bool = ...,
        snapshot: Optional[Snapshot] = ...,
    ) -> Select[R]: ...

    @overload
    def select(
        self,
        *,
        columns: Iterable[str],
        prefix: Any = ...,
        start: Any = ...,
        stop: Any = ...,
        include_start: bool = ...,
        include_stop: bool = ...,
        where: Optional[Condition] = ...,
        index: Optional[str] = ...,
        limit: Optional[int] = ...,
        after: Optional[bytes] = ...,
        reverse: bool = ...,
        full_scan: bool = ...,
        snapshot: Optional[Snapshot] = ...,
    ) -> Select[Row]: ...

    def select(
        self,
        *,
        prefix: Any = (),
        start: Any = None,
        stop: Any = None,
        include_start: bool = True,
        include_stop: bool = False,
        columns: Optional[Iterable[str]] = None,
        where: Optional[Condition] = None,
        index: Optional[str] = None,
        limit: Optional[int] = None,
        after: Optional[bytes] = None,
        reverse: bool = False,
        full_scan: bool = False,
        snapshot: Optional[Snapshot] = None,
    ) -> Select[Any]:
        """Chooses rows to read, in the order of their keys, or of an index.

        `prefix` are the first values of the key, or of the index, and `start` and `stop` bound the values behind them,
        least first, also of a descending column. `columns` names the columns to return; the rows are dicts then.
        `where` is a condition, `limit` the largest number of rows, `after` the position of a page. `reverse` reads
        backward. `full_scan` permits a range over hashed partitions. """
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}, which is no number of rows")
        names = None if columns is None else [columns] if isinstance(columns, str) else list(columns)
        between = (prefix, start, stop, include_start, include_stop)
        options = _Select(*between, names, where, index, limit, after, reverse, full_scan, snapshot)
        return Select(self, options)

    def load(self, rows: Iterable[Union[R, Mapping[str, Any]]], *, replace: bool = False) -> int:
        """Adds many rows, 1,000 of them a commit. With `replace`, rows of the same keys are replaced. Returns their
        number. An error leaves the rows of the commits before."""
        count, portion = 0, []
        for row in rows:
            portion.append(row)
            if len(portion) == _LOADED_ROWS:
                count += self._load(portion, replace)
                portion = []
        return count + self._load(portion, replace)

    def _load(self, rows: List[Any], replace: bool) -> int:
        def write(transaction: Transaction) -> None:
            for row in rows:
                (transaction.upsert if replace else transaction.insert)(self, row)

        if rows:
            begin = ("waxseal_table_transaction_begin", self._handles.db)  # commits in the name of the table's session
            _transact(lambda: _begin(self._handles, begin, None), write)
        return len(rows)

    def from_arrow(self, data: Any, *, replace: bool = False) -> int:
        """Adds the rows of an Arrow table, a record batch, a reader, or any object with an Arrow stream, as `load`
        does. Returns their number.

        Columns have the names of the table's; absent ones are null. A column whose type can lose anything in the type
        of the table's column is refused before any row is written. A value that the column cannot hold, and a null in
        a column of the key, are refused before the rows of their batch are written. A malformed JSON document and a row
        that exists already are found by the write: as in `load`, the commits before it stay, of 1,000 rows each."""
        layout = self._current()
        key = {one.name for one in layout.schema.columns if one.role != "value"}
        return self.load(_row_arrow.rows(data, layout.types, key), replace=replace)

    def to_arrow(self) -> Any:
        """Returns all rows as a table of pyarrow: see `Select.to_arrow`."""
        return self.select().to_arrow()

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        return self.select().__arrow_c_stream__(requested_schema)

    def alter(
        self,
        *,
        undelete: Iterable[str] = (),
        rename: Optional[Mapping[str, str]] = None,
        widen: Optional[Mapping[str, Any]] = None,
        add_repeated_groups: Iterable[str] = (),
        add: Optional[Mapping[str, Any]] = None,
        add_in: Optional[Mapping[str, Mapping[str, Any]]] = None,
        drop_indexes: Iterable[str] = (),
    ) -> None:
        """Changes the schema: all changes take effect together, in the order of the arguments, while reads and writes
        go on. Rows are not rewritten.

        `rename` are new names by names, `widen` and `add` types by names, `add_in` the same for each group. `widen`
        takes `i32` to `i64` or `f64`, `f32` to `f64`, `text` to `bytes`, `json` to `text`, and a decimal to one with
        more digits. Raises NotFoundError, ExistsError, and InvalidArgument for a change that is not possible. """
        kept: Kept = []
        steps: List[Any] = []

        def step(kind: int, name: str, new_name: str = "", group: str = "", type_: Any = None) -> None:
            texts = [_c.encoded(text, "a name of a schema") for text in (name, new_name, group)]
            kept.extend(texts)
            c_type = _abi.waxseal_table_type_t() if type_ is None else column_type(type_).c()
            steps.append(_abi.waxseal_table_step_t(kind, *map(slice_of, texts), c_type))

        for name in names_of(undelete):
            step(_abi.WAXSEAL_ALTER_UNDELETE_COLUMN, name)
        for name, new_name in (rename or {}).items():
            step(_abi.WAXSEAL_ALTER_RENAME_COLUMN, name, new_name)
        for name, type_ in (widen or {}).items():
            step(_abi.WAXSEAL_ALTER_WIDEN_COLUMN, name, type_=type_)
        for name in names_of(add_repeated_groups):
            step(_abi.WAXSEAL_ALTER_ADD_REPEATED_GROUP, name)
        for group, columns in {"": add or {}, **(add_in or {})}.items():
            for name, type_ in columns.items():
                step(_abi.WAXSEAL_ALTER_ADD_COLUMN, name, group=group, type_=type_)
        for name in names_of(drop_indexes):
            step(_abi.WAXSEAL_ALTER_DROP_INDEX, name)
        array = (_abi.waxseal_table_step_t * len(steps))(*steps)
        self._call("waxseal_table_alter", _abi.waxseal_table_alteration_t(array, len(steps)))

    def drop_column(self, name: str, keep: timedelta = timedelta(days=7)) -> None:
        """Drops a column: no read returns it any more. For the time `keep`, `alter(undelete=[name])` restores it with
        its values. A second drop, or the end of the time, is final."""
        micros = keep // timedelta(microseconds=1)
        if micros < 0:
            raise ValueError(f"keep is {keep}, which has passed")
        self._named("waxseal_table_drop_column", name, min(micros, _MOST))

    def purge_columns(self) -> PurgeReport:
        """Removes the values of the columns whose drop is final from all files of the table, and then the columns from
        the schema."""
        report = json.loads(self._handles.text("waxseal_table_purge_columns", self._owned.handle))
        return PurgeReport(**report)

    def purge_events(self, name: str) -> EventPurge:
        """Removes the values of a purged column from the store's log: of the last column of this name that was purged.
        Events that show the values of records lose the column and name it as purged, and events of entries in its indexes
        are removed. The log says so as `Registry.Rewrite` of the table's raw families. A certificate that is issued
        afterwards covers the log. After an error or a crash, call it again. Raises InvalidArgument if the column is not
        purged, NotFoundError if no column of the name was dropped.

            people.drop_column("phone"); people.drop_column("phone"); people.purge_columns()
            people.purge_events("phone")
            assert people.certificate("phone").events
        """
        return _event_purge(self._json_of("waxseal_table_purge_events", name))

    def certificate(self, name: str) -> Certificate:
        """Erases what is left of a purged column outside of the table's files, and returns a certificate: of the last
        column of this name that was purged. A certificate is issued once. Raises BusyError, which names the holder, if a
        snapshot, a cursor, the change feed or a kept file may have values; InvalidArgument if the column is not purged;
        NotFoundError if no column of the name was dropped."""
        found = self._json_of("waxseal_table_certificate", name)
        events = _event_purge(found["events"]) if found["events"] else None
        times = {name: moment_of(found[name]) for name in ("purged_at", "issued_at")}
        return Certificate(**{**found, **times, "events": events})

    def _json_of(self, function: str, name: str) -> Any:
        encoded = name.encode("utf-8")
        return json.loads(self._handles.text(function, self._owned.handle, encoded, len(encoded)))

    def create_index(self, index: Index) -> None:
        """Adds an index, and builds it while reads and writes go on. After a crash, call it again. Raises ExistsError,
        also for rows that have the same values of a unique index."""
        kept: Kept = []
        self._call("waxseal_table_create_index", C.byref(c_index(index, kept)))

    def drop_index(self, name: str) -> None:
        """Drops an index and its entries."""
        self.alter(drop_indexes=[name])

    def rebuild_index(self, name: str) -> None:
        """Builds an index again from the rows. If that fails, the index stays as it was."""
        self._named("waxseal_table_rebuild_index", name)

    def verify_indexes(self) -> IndexReport:
        """Checks that every row has its entries and every entry its row. Damage is counted, not raised."""
        report = _abi.waxseal_table_index_report_t()
        self._call("waxseal_table_verify_indexes", C.byref(report))
        return IndexReport(report.rows, report.entries, report.missing, report.stale, report.damaged)

    def repair_indexes(self) -> int:
        """Rebuilds every index. Returns their number.

        Raises `CorruptionError` beside damaged rows: the indexes then stay as they were."""
        return self._handles.number("waxseal_table_repair_indexes", self._owned.handle)

    def _call(self, name: str, *arguments: Any) -> int:
        return self._handles.call(name, self._owned.handle, *arguments)

    def _named(self, function: str, name: str, *arguments: Any) -> None:
        encoded = _c.encoded(name, "a name of a schema")
        self._call(function, encoded, len(encoded), *arguments)

    def _current(self, snapshot: Optional[Snapshot] = None) -> Layout:
        """Returns the present layout, or that of a snapshot. Another handle, or another process, may have changed the
        present one."""
        at = None if snapshot is None else snapshot._open_handle()
        version = self._handles.number("waxseal_table_schema_version", self._owned.handle, at)
        layout = self._layout
        if layout is None or layout.schema.version != version:
            layout = self._described(0 if snapshot is None else version)
            assert layout is not None
            if snapshot is None:
                self._layout = layout
        return layout

    def _described(self, version: int) -> Optional[Layout]:
        arguments = ("waxseal_table_describe", self._owned.handle, version)
        owned = self._handles.made(*arguments, destroy="waxseal_table_description_destroy")
        if not owned.handle:
            return None
        layout = layout_of(_c.function("waxseal_table_description_schema")(owned.handle).contents)
        owned.end()
        return layout

    def _fitting(self, layout: Layout) -> Layout:
        """Returns a layout that has a column for each field of the dataclass. Raises TypeError for another: a field
        would be null although its column, under a new name, has a value."""
        if self._fields is not None and layout is not self._fitted:
            for name in self._fields:
                if name not in layout.types and name not in layout.repeated:
                    raise TypeError(f"{self._row.__name__}.{name} is no column of the table {self.name}")
            self._fitted = layout
        return layout

    def _columns(self, layout: Layout, row: Any) -> Mapping[str, Any]:
        """Returns a row's columns by their names."""
        if isinstance(row, Mapping):
            return row
        if self._fields is not None and isinstance(row, self._row):
            self._fitting(layout)
            return {name: getattr(row, name) for name in self._fields}
        wanted = "a mapping" if self._fields is None else f"a mapping or a {self._row.__name__}"
        raise TypeError(f"a row is {wanted}, not {type(row).__name__}")

    def _maker(self, layout: Layout) -> Callable[[Row], Any]:
        """Returns the function that makes a row of columns that were read: a dict, or an instance of the dataclass."""
        fields = self._fields
        if fields is None:
            return lambda columns: columns
        repeated = self._fitting(layout).repeated
        return lambda columns: self._row(
            **{name: columns.get(name, {} if name in repeated else None) for name in fields}
        )

    def _key(self, layout: Layout, key: Any, kept: Kept) -> Any:
        return value_list(typed(key, layout.key), kept)

    def _write(
        self,
        name: str,
        transaction: Optional[int],
        row: Any,
        durability: Optional[str],
        expires: Expires,
        group_expires: Optional[Mapping[str, Expires]],
    ) -> None:
        kept: Kept = []
        layout = self._current()
        cells = cells_of(layout, self._columns(layout, row), kept)
        self._call(name, transaction, options_of(durability, expires, group_expires, kept), cells)

    def _update(
        self,
        transaction: Optional[int],
        key: Any,
        changes: Mapping[str, Any],
        durability: Optional[str],
        expires: Expires,
        group_expires: Optional[Mapping[str, Expires]],
    ) -> bool:
        kept: Kept = []
        layout = self._current()
        arguments = (self._key(layout, key, kept), cells_of(layout, changes, kept, True))
        options = options_of(durability, expires, group_expires, kept)
        return self._call("waxseal_table_update", transaction, options, *arguments) == _abi.WAXSEAL_OK

    def _delete(self, transaction: Optional[int], key: Any, durability: Optional[str]) -> None:
        kept: Kept = []
        options = options_of(durability, None, None, kept)
        self._call("waxseal_table_delete", transaction, options, self._key(self._current(), key, kept))

    def _get(self, transaction: Optional[int], snapshot: Optional[Snapshot], key: Any) -> Any:
        kept: Kept = []
        layout, row = self._current(snapshot), _abi.waxseal_cells_t()
        made = self._maker(layout)
        at = None if snapshot is None else snapshot._open_handle()
        arguments = (self._owned.handle, transaction, at, self._key(layout, key, kept))
        owned = self._handles.made("waxseal_table_get", *arguments, destroy="waxseal_table_rows_destroy")
        if not owned.handle:
            return None
        self._handles.call("waxseal_table_rows_next", owned.handle, C.byref(row))
        found = made(read_row(row))
        owned.end()
        return found


class _Select(NamedTuple):
    """The arguments of `Table.select`."""

    prefix: Any
    start: Any
    stop: Any
    include_start: bool
    include_stop: bool
    columns: Optional[List[str]]
    where: Optional[Condition]
    by_index: Optional[str]
    limit: Optional[int]
    after: Optional[bytes]
    reverse: bool
    full_scan: bool
    snapshot: Optional[Snapshot]


class Select(Generic[R]):
    """A choice of rows. Created by `Table.select`. Each iteration reads the rows at one moment.

    At a damaged row an iterator raises CorruptionError once, and continues behind it.
    """

    def __init__(self, table: Table[Any], options: _Select) -> None:
        self._table = table
        self._options = options

    def __iter__(self) -> Iterator[R]:
        kept: Kept = []
        handles, table = self._table._handles, self._table._owned.handle
        layout = self._table._current(self._options.snapshot)
        select, made = self._c(layout, kept), self._maker(layout)
        rows = handles.made("waxseal_table_select", table, C.byref(select), destroy="waxseal_table_rows_destroy")
        return _Rows(handles, rows, made)

    def _maker(self, layout: Layout) -> Callable[[Row], Any]:
        return self._table._maker(layout) if self._options.columns is None else lambda columns: columns

    def page(self) -> Page[R]:
        """Reads one page: as many rows as the limit says, and the position of the next page."""
        if not self._options.limit:
            raise ValueError("a page has a limit")
        kept: Kept = []
        layout = self._table._current(self._options.snapshot)
        select, made = self._c(layout, kept), self._maker(layout)
        rows, position = _c.Owned("waxseal_table_rows_destroy"), _c.Owned("waxseal_bytes_destroy")
        self._table._call("waxseal_table_page", C.byref(select), C.byref(rows.place), C.byref(position.place))
        after = _c.content_of(position) if position.handle else None
        return Page(list(_Rows(self._table._handles, rows, made)), after)

    def pages(self, rows: int) -> Iterator[List[R]]:
        """Reads the rows in lists of at most `rows`, each at its own moment. The limit counts the rows of all lists."""
        if rows < 1:
            raise ValueError(f"rows is {rows}, and a page has at least one row")
        after, left = self._options.after, self._options.limit
        while left is None or left > 0:
            limit = rows if left is None else min(rows, left)
            page: Page[R] = Select(self._table, self._options._replace(limit=limit, after=after)).page()
            if page.rows:
                yield page.rows
            if page.next is None:
                return
            after = page.next
            left = None if left is None else left - len(page.rows)

    def count(self) -> int:
        """Returns the number of rows, which are all read."""
        kept: Kept = []
        select = self._c(self._table._current(self._options.snapshot), kept)
        return self._table._handles.number("waxseal_table_count", self._table._owned.handle, C.byref(select))

    def to_arrow(self) -> Any:
        """Returns the rows as a table of pyarrow, with the types of the table's columns."""
        return self.arrow_reader().read_all()

    def arrow_reader(self, batch_rows: Optional[int] = None) -> Any:
        """Returns a reader of pyarrow, whose record batches have at most `batch_rows` rows, 65,536 by default. Repeated
        groups and dynamic columns have no place in it: name other `columns`."""
        if batch_rows is not None and batch_rows < 1:
            raise ValueError(f"batch_rows is {batch_rows}, which is no number of rows")
        return _row_arrow.pyarrow().RecordBatchReader.from_stream(_Batches(self, min(batch_rows or 0, _MOST)))

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """Returns a stream of the rows for an Arrow consumer. A requested schema is ignored."""
        return self._stream(0)

    def _stream(self, batch_rows: int) -> object:
        kept: Kept = []
        select = self._c(self._table._current(self._options.snapshot), kept)
        arguments = (self._table._owned.handle, C.byref(select), batch_rows, 0)
        return stream_of(self._table._handles, "waxseal_table_scan_arrow", *arguments)

    def _c(self, layout: Layout, kept: Kept) -> Any:
        """Returns the library's struct."""
        options, select = self._options, _abi.waxseal_table_select_t()
        types = layout.key
        if options.by_index is not None:
            columns = [index.columns for index in layout.schema.indexes if index.name == options.by_index]
            types = [layout.types.get(name.removeprefix("-")) for name in (columns[0] if columns else ())]
            select.index = kept_slice(options.by_index, kept)
        if options.snapshot is not None:
            select.snapshot = options.snapshot._open_handle()
        select.prefix = value_list(typed(options.prefix, types), kept)
        bounds = (options.start, options.stop, options.include_start, options.include_stop)
        select.range = range_of(types, options.prefix, *bounds, kept)
        if options.columns is not None:
            # An empty array is not null: null stands for all columns.
            slices = [kept_slice(name, kept) for name in options.columns]
            names = (_abi.waxseal_slice_t * max(1, len(slices)))(*slices)
            kept.append(names)
            select.columns, select.column_count = C.cast(names, C.POINTER(_abi.waxseal_slice_t)), len(slices)
        if options.where is not None:
            select.filter = filter_of(layout, options.where, kept)
        if options.after is not None:
            position = _c.lent(options.after, "position")
            kept.append(position)
            select.after = slice_of(position)
        select.limit, select.has_limit = min(options.limit or 0, _MOST), options.limit is not None
        select.is_reverse, select.is_full_scan = options.reverse, options.full_scan
        return select


class _Batches:
    """The Arrow stream of a select, with a limit of its batches."""

    def __init__(self, select: Select[Any], batch_rows: int) -> None:
        self._select = select
        self._batch_rows = batch_rows

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        return self._select._stream(self._batch_rows)


class _Rows(Generic[R]):
    """Iterates over rows. The library lends each row until the next one: one thread at a time advances, and copies."""

    def __init__(self, handles: Handles, rows: _c.Owned, made: Callable[[Row], R]) -> None:
        self._handles = handles
        kinds = (_abi.waxseal_cells_t,)
        self._rows = LentItems(handles, "waxseal_table_rows_next", rows, kinds, lambda lent: read_row(lent))
        self._made = made
        self._lock, self._busy = threading.RLock(), False
        #: The row that a thread has read and that its call has not returned.
        self._unclaimed: Dict[int, Row] = {}

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        self._handles.store.check()
        me = threading.get_ident()
        with self._lock:
            if self._busy:  # a finalizer or the handler of a signal, on the thread that advances
                raise self._handles.store_error(_abi.WAXSEAL_BUSY, "the iterator is being moved on this very thread")
            self._busy = True
            try:
                if me not in self._unclaimed:  # otherwise a signal handler ended the call that read it
                    row = self._rows._found()
                    self._unclaimed[me], self._rows._lent = row, None
            finally:
                self._busy = False
        found = self._made(self._unclaimed[me])
        del self._unclaimed[me]  # no call follows until the return: the caller gets the row
        return found


class Transaction:
    """Reads and writes of rows of any tables that take effect together, and only if no other commit came between.

    As a context manager it commits at the end of its block; an exception discards its writes. Reads see the store as it
    was when the transaction began, and the transaction's own writes. The commit raises ConflictError, and changes
    nothing, if another commit changed a row that the transaction has read, or the schema of a table that it has used.
    One thread at a time may use it.
    """

    def __init__(self, handles: Handles, owned: _c.Owned, durability: int) -> None:
        """Created by `Tables.transaction`."""
        self._handles = handles
        self._owned = owned
        self._durability = durability

    def __enter__(self) -> Self:
        self._open_handle()
        return self

    def __exit__(self, exc_type: Any = None, exc_value: Any = None, traceback: Any = None) -> None:
        if exc_type is not None:
            self.rollback()
        elif self._owned.handle:
            self.commit()

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle a transaction")

    def get(self, table: Table[R], key: Any) -> Optional[R]:
        """Returns the row of a key; None if there is none."""
        found: Optional[R] = table._get(self._open_handle(), None, key)
        return found

    def insert(
        self,
        table: Table[R],
        row: Union[R, Mapping[str, Any]],
        *,
        expires: Expires = None,
        group_expires: Optional[Mapping[str, Expires]] = None,
    ) -> None:
        """Adds a row: see `Table.insert`. If it is refused, the transaction continues without it."""
        table._write("waxseal_table_insert", self._open_handle(), row, None, expires, group_expires)

    def upsert(
        self,
        table: Table[R],
        row: Union[R, Mapping[str, Any]],
        *,
        expires: Expires = None,
        group_expires: Optional[Mapping[str, Expires]] = None,
    ) -> None:
        """Writes a whole row: see `Table.upsert`."""
        table._write("waxseal_table_upsert", self._open_handle(), row, None, expires, group_expires)

    def update(
        self,
        table: Table[Any],
        key: Any,
        changes: Mapping[str, Any],
        *,
        expires: Expires = None,
        group_expires: Optional[Mapping[str, Expires]] = None,
    ) -> bool:
        """Changes columns of a row: see `Table.update`."""
        return table._update(self._open_handle(), key, changes, None, expires, group_expires)

    def delete(self, table: Table[Any], key: Any) -> None:
        """Deletes a row. A key without a row is not an error."""
        table._delete(self._open_handle(), key, None)

    def commit(self) -> None:
        """Makes all writes visible atomically, and ends the transaction, whatever the outcome."""
        handle = self._open_handle()
        try:
            self._handles.call("waxseal_table_transaction_commit", handle, self._durability)
        except BusyError:
            raise  # another thread uses the transaction, which goes on
        except BaseException:
            self.rollback()
            raise
        self.rollback()

    def rollback(self) -> None:
        """Discards all writes that were not committed, and ends the transaction. A second call does nothing."""
        if self._handles.store.here:
            self._owned.end()

    def _open_handle(self) -> int:
        self._handles.store.check()
        if not self._owned.handle:
            raise self._handles.store_error(_abi.WAXSEAL_INVALID, "the transaction has ended")
        return self._owned.handle


def _event_purge(found: Dict[str, int]) -> EventPurge:
    return EventPurge(found["changed"], found["removed"], moment_of(found["ended_at"]))


def _lines(replication: Mapping[str, Any]) -> str:
    """Returns a replication map as the library reads it. Raises ValueError for a text that would be several entries."""
    lines = [f"{name}={value}" for name, value in replication.items()]
    if any("\n" in line for line in lines) or any("=" in name for name in replication):
        raise ValueError("the names of a replication map have no =, and no text of it has line breaks")
    return "\n".join(lines)


def _begin(handles: Handles, function: Tuple[str, int], durability: Optional[str]) -> Transaction:
    number = durability_number(durability)
    owned = handles.made(*function, destroy="waxseal_table_transaction_destroy")
    return Transaction(handles, owned, number)


def _transact(begin: Callable[[], Transaction], run: Callable[[Transaction], T]) -> T:
    while True:
        with begin() as transaction:
            result = run(transaction)
            try:
                transaction.commit()
                return result
            except ConflictError:
                pass
