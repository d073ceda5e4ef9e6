"""A corpus of books: volumes with metadata and pages, queries, worksets, and rights of readers.

    import waxseal
    from waxseal.corpus import Corpus, Metadata, Volume

    with waxseal.open("library.waxseal") as db:
        books = Corpus.create(db, "books")
        metadata = Metadata("iu.1", title="The Art of War", publish_date="c1910", rights="public")
        books.add(Volume(metadata, ["Preface", "Laying plans"]))
        reader = books.reader()
        for volume in reader.shuffled(reader.published("1900", "1910"), seed=7):
            print(volume.metadata.title, len(volume.pages))

The tables have the names, columns and indexes of the Rust crate `waxseal-corpus`. docs/tables.md describes the layouts. """

from __future__ import annotations

import dataclasses
import json
import re
from typing import (
    IO,
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
    TypeVar,
    Union,
)

from . import _abi, _c
from ._errors import ExistsError
from .tables import Index, Row, Table, Tables, Transaction

if TYPE_CHECKING:
    from ._snapshot import Snapshot
    from ._store import DB

__all__ = [
    "IN_COPYRIGHT",
    "PUBLIC",
    "AccessDeniedError",
    "Corpus",
    "Loaded",
    "Metadata",
    "Reader",
    "Volume",
    "read_jsonl",
]

T = TypeVar("T")

#: The rights of a volume.
PUBLIC = "public"
IN_COPYRIGHT = "in-copyright"

#: Texts of a source that stand for the public domain. All others are in copyright: a mistake in a source opens nothing.
_PUBLIC_NAMES = {"public", "public domain", "public-domain", "pd", "pdus"}

_VOLUMES, _COLLECTIONS, _NAMES, _WORDS = "volumes", "collections", "collection_names", "words"
_METADATA = ["volume", "copyright", "page_count", "publish_date", "genre", "title", "author"]
#: The texts of a line of JSON lines, besides its pages.
_TEXTS = ("id", "title", "author", "publish_date", "genre", "copyright")
_MOST_PAGES = 99_999_999
#: Characters of an id that an error shows.
_SHOWN_OF_ID = 80
#: Longest line of JSON lines, in bytes.
_MOST_LINE_BYTES = 256 << 20


class AccessDeniedError(PermissionError):
    """The volume is not in the public domain, and the reader may not read it."""


@dataclasses.dataclass
class Metadata:
    """What is known of a volume."""

    id: str
    title: Optional[str] = None
    author: Optional[str] = None
    #: As the source has it: "1905", "c1905", "2009-05-01".
    publish_date: Optional[str] = None
    #: Queries by genre find no volume without one.
    genre: Optional[str] = None
    #: "public" or "in-copyright". Names of sources, such as "pd", are understood by `read_jsonl`.
    rights: str = IN_COPYRIGHT
    #: Number of pages. `Corpus.add` sets it in the store.
    page_count: int = 0

    @property
    def year(self) -> Optional[int]:
        """The year of publication: the first number of four digits in the date. None without one."""
        return _year_of(self.publish_date or "")


@dataclasses.dataclass
class Volume:
    """A volume: metadata, and the texts of its pages."""

    metadata: Metadata
    pages: List[str] = dataclasses.field(default_factory=list)
    #: The zip file of the whole volume, if the source had one. Readers return it by `Reader.archive` alone.
    archive: Optional[bytes] = None


class Loaded(NamedTuple):
    """Result of `Corpus.load`."""

    volumes: int
    #: The errors of sources that could not be read, and of volumes that the corpus refused.
    errors: List[Exception]


class Corpus:
    """A corpus of volumes in a store: four tables in a keyspace of its name. Usable from any thread."""

    def __init__(self, db: DB, name: str) -> None:
        """Opens a corpus. Raises NotFoundError."""
        self._db = db
        self._tables = Tables(db)
        self._volumes = self._tables.table(f"{name}.{_VOLUMES}")
        self._collections = self._tables.table(f"{name}.{_COLLECTIONS}")
        self._names = self._tables.table(f"{name}.{_NAMES}")
        self._words = self._tables.table(f"{name}.{_WORDS}")
        schema = self._volumes.schema
        self._schema = 3 if schema.hashed else 2 if schema.dynamic_columns else 1

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle a corpus")

    @classmethod
    def create(cls, db: DB, name: str, schema: int = 1) -> Corpus:
        """Creates a corpus. It is durable when the call returns.

        `schema` is the paper's: 1 has a group of columns for each page, 2 a record for each column of a page, 3 a row
        for each page. The last one reads some pages without the others. Raises ExistsError."""
        tables = Tables(db)
        if schema not in (1, 2, 3):
            raise ValueError(f"schema is {schema}, and the paper has 1, 2 and 3")
        if f"{name}.{_VOLUMES}" not in tables:
            _create_if_absent(tables, f"{name}.{_COLLECTIONS}", ["collection"], ["volume"])
            _create_if_absent(tables, f"{name}.{_NAMES}", ["collection"], [])
            _create_if_absent(tables, f"{name}.{_WORDS}", ["field"], ["word", "volume"])
        columns = {"volume": "text", "copyright": "text", "page_count": "i32", "publish_date": "text", "year": "i32"}
        columns.update(genre="text", title="text", author="text", whole_volume="bytes")
        page = {"contents": "text", "byte_count": "i32"}
        if schema == 3:
            columns.update(part="text", **page)
        tables.create(  # the last one: with it the corpus exists
            f"{name}.{_VOLUMES}",
            columns,
            partition_key=["volume", "part"] if schema == 3 else "volume",
            groups={"whole_volume": ["whole_volume"]},
            repeated_groups={"pages": page} if schema == 1 else None,
            dynamic_columns=schema == 2,
            hashed=schema == 3,
            indexes=[Index("by_year", ["year"]), Index("by_genre", ["genre"])],
        )
        return cls(db, name)

    @property
    def schema(self) -> int:
        """The schema of the paper: 1, 2 or 3."""
        return self._schema

    def reader(self, *, all_volumes: bool = False) -> Reader:
        """Returns a reader of the volumes in the public domain, or of all volumes."""
        return Reader(self, all_volumes)

    def add(self, volume: Volume) -> None:
        """Adds a volume, or replaces the one of its id, in one commit. Raises ValueError for an empty id, for an id or a
        genre above the limit of keys, for text with a lone surrogate, for unknown rights, and for too many pages."""
        new = volume.metadata
        if not new.id or new.rights not in (PUBLIC, IN_COPYRIGHT) or len(volume.pages) > _MOST_PAGES:
            raise ValueError(
                f"a volume needs an id, rights ({PUBLIC!r} or {IN_COPYRIGHT!r}) and at most {_MOST_PAGES} pages"
            )
        rows = self._rows(volume)

        def write(transaction: Transaction) -> None:
            old = self._stored(new.id)
            if old is not None:
                self._unlist(transaction, old, new)
                self._remove_pages(transaction, old, len(volume.pages))
            for row in rows:
                transaction.upsert(self._volumes, row)
            transaction.upsert(self._collections, {"collection": new.rights, "volume": new.id})
            for field, text in _indexed_fields(new):
                for word in _words(text):
                    transaction.upsert(self._words, {"field": field, "word": word, "volume": new.id})

        self._tables.transact(write)

    def load(self, volumes: Iterable[Union[Volume, Exception]]) -> Loaded:
        """Adds many volumes, each in a commit of its own. An exception among them is a source that could not be read,
        as from `read_jsonl`: it is returned, and the others are added. So is a ValueError for each volume that `add`
        refuses. Other errors of the store end the load."""
        count = 0
        errors: List[Exception] = []
        for volume in volumes:
            if isinstance(volume, Exception):
                errors.append(volume)
                continue
            try:
                self.add(volume)
            except ValueError as error:
                refused = ValueError(f"volume {volume.metadata.id[:_SHOWN_OF_ID]!r}: {error}")
                refused.__cause__ = error
                errors.append(refused)
                continue
            count += 1
        return Loaded(count, errors)

    def remove(self, id: str) -> bool:
        """Removes a volume. Worksets keep its id. Returns False if the corpus does not have it."""

        def write(transaction: Transaction) -> bool:
            old = self._stored(id)
            if old is None:
                return False
            self._unlist(transaction, old, None)
            self._remove_pages(transaction, old, 0)
            transaction.delete(self._volumes, self._key(id))
            return True

        return self._tables.transact(write)

    def define_workset(self, name: str, ids: Iterable[str]) -> None:
        """Makes a workset: a named set of ids. One of the name is replaced. The order of the ids is lost. Raises
        ValueError for an empty name, and for the names of rights."""
        _check_workset(name)
        given = set(ids)

        def write(transaction: Transaction) -> None:
            for row in self._collections.select(prefix=name):
                transaction.delete(self._collections, (name, row["volume"]))
            # Two definitions of one name write this row, so that only one of them commits at a time.
            transaction.get(self._names, name)
            transaction.upsert(self._names, {"collection": name})
            for id in sorted(given):
                transaction.upsert(self._collections, {"collection": name, "volume": id})

        self._tables.transact(write)

    def remove_workset(self, name: str) -> bool:
        """Removes a workset, but none of its volumes. Returns False if it does not exist."""
        _check_workset(name)

        def write(transaction: Transaction) -> bool:
            is_there = transaction.get(self._names, name) is not None
            for row in self._collections.select(prefix=name):
                transaction.delete(self._collections, (name, row["volume"]))
            transaction.delete(self._names, name)
            return is_there

        return self._tables.transact(write)

    def _key(self, id: str) -> Tuple[str, ...]:
        """Returns the key of a volume's metadata."""
        return (id, "metadata") if self._schema == 3 else (id,)

    def _stored(self, id: str, snapshot: Optional[Snapshot] = None) -> Optional[Metadata]:
        for row in self._volumes.select(prefix=self._key(id), columns=_METADATA, snapshot=snapshot):
            return _metadata_of(row)
        return None

    def _rows(self, volume: Volume) -> List[Row]:
        """Returns the rows of a volume."""
        of = volume.metadata
        row: Row = {
            "volume": of.id,
            "copyright": of.rights,
            "page_count": len(volume.pages),
            "publish_date": of.publish_date,
            "year": of.year,
            "genre": of.genre,
            "title": of.title,
            "author": of.author,
            "whole_volume": volume.archive,
        }
        named = [(f"{number:08}", text, len(_c.encoded(text, "a page"))) for number, text in enumerate(volume.pages, 1)]
        if self._schema == 1:
            row["pages"] = {name: {"contents": text, "byte_count": size} for name, text, size in named}
        elif self._schema == 2:
            for name, text, size in named:
                row[f"{name}:contents"], row[f"{name}:byte_count"] = text, size
        else:
            row["part"] = "metadata"
            pages = ({"part": name, "contents": text, "byte_count": size} for name, text, size in named)
            return [row, *({"volume": of.id, **page} for page in pages)]
        return [row]

    def _unlist(self, transaction: Transaction, old: Metadata, new: Optional[Metadata]) -> None:
        """Removes a volume from the collection of its rights and from the index of words, where its successor has no
        entry."""
        if new is None or new.rights != old.rights:
            transaction.delete(self._collections, (old.rights, old.id))
        kept = {field: _words(text) for field, text in _indexed_fields(new)} if new is not None else {}
        for field, text in _indexed_fields(old):
            for word in _words(text) - kept.get(field, set()):
                transaction.delete(self._words, (field, word, old.id))

    def _remove_pages(self, transaction: Transaction, old: Metadata, kept: int) -> None:
        """Removes the rows of pages behind the first `kept` ones. Other schemas have them in the volume's row."""
        if self._schema == 3:
            for number in range(kept + 1, old.page_count + 1):
                transaction.delete(self._volumes, (old.id, f"{number:08}"))


class Reader:
    """Reads a corpus. Created by `Corpus.reader`. Queries return ids, sorted, and only of volumes that the reader may
    read. Each call reads at one moment. Usable from any thread.

    The reader enforces rights; a program with access to the store's files is not bound."""

    def __init__(self, corpus: Corpus, all_volumes: bool) -> None:
        self._corpus = corpus
        self._all = all_volumes

    def ids(self) -> List[str]:
        """Returns the ids of all volumes."""
        with self._corpus._db.snapshot() as snapshot:
            ids = self._collection(PUBLIC, snapshot)
            if self._all:
                ids += self._collection(IN_COPYRIGHT, snapshot)
        return sorted(ids)

    def published(self, first: str, last: str) -> List[str]:
        """Returns the ids of the volumes that were published from the year of one date to the year of another, both
        inclusive. A date is relaxed to its year. Raises ValueError for a date without a year."""
        years = [_year_of(date) for date in (first, last)]
        if None in years:
            raise ValueError(f"{first!r} and {last!r} each need a year of four digits")
        return self._permitted("by_year", start=years[0], stop=years[1], include_stop=True)

    def genre(self, genre: str) -> List[str]:
        """Returns the ids of the volumes of a genre. A volume without a genre is never among them."""
        return self._permitted("by_genre", prefix=genre)

    def title_has(self, words: str) -> List[str]:
        """Returns the ids of the volumes whose title has a word, or all of several words."""
        return self._with_words("title", words)

    def author_has(self, words: str) -> List[str]:
        """Returns the ids of the volumes whose author has a word in the name, or all of several words."""
        return self._with_words("author", words)

    def metadata(self, id: str) -> Metadata:
        """Returns the metadata of a volume. Raises NotFoundError and AccessDeniedError."""
        return self._metadata_at(id, None)

    def volume(self, id: str) -> Volume:
        """Returns a volume with all its pages, and without its archive. Raises NotFoundError and AccessDeniedError."""
        with self._corpus._db.snapshot() as snapshot:
            metadata = self._metadata_at(id, snapshot)
            return Volume(metadata, self._pages_at(metadata, 1, metadata.page_count, snapshot))

    def pages(self, id: str, first: int, last: int) -> List[str]:
        """Returns pages of a volume, from 1 on, both inclusive. Pages behind the last one are left out. With schema 3
        only these pages are read. Raises NotFoundError, AccessDeniedError, and ValueError for a page before 1."""
        if first < 1:
            raise ValueError("pages are counted from 1")
        with self._corpus._db.snapshot() as snapshot:
            metadata = self._metadata_at(id, snapshot)
            return self._pages_at(metadata, first, min(last, metadata.page_count), snapshot)

    def archive(self, id: str) -> Optional[bytes]:
        """Returns the zip file of the whole volume; None if its source had none. Raises NotFoundError and
        AccessDeniedError."""
        with self._corpus._db.snapshot() as snapshot:
            self._metadata_at(id, snapshot)
            key = self._corpus._key(id)
            for row in self._corpus._volumes.select(prefix=key, columns=["whole_volume"], snapshot=snapshot):
                archive: Optional[bytes] = row.get("whole_volume")
                return archive
        return None

    def worksets(self) -> List[str]:
        """Returns the names of all worksets, sorted."""
        return [row["collection"] for row in self._corpus._names]

    def workset(self, name: str) -> List[str]:
        """Returns the ids of a workset. Ids that the corpus does not have are left out. Raises NotFoundError."""
        with self._corpus._db.snapshot() as snapshot:
            if self._corpus._names.get(name, snapshot=snapshot) is None:
                raise self._missing(f"workset {name!r}")
            ids = self._collection(name, snapshot)
            found = [self._corpus._stored(id, snapshot) for id in ids]
        return [one.id for one in found if one is not None and self._may_read(one.rights)]

    def shuffled(self, ids: Iterable[str], seed: int) -> Iterator[Volume]:
        """Reads volumes one after the other, in an order that depends on the seed and the set of ids alone, and is the
        same as in Rust. Raises NotFoundError and AccessDeniedError where the volume is read, which ends the iterator:
        check ids before."""
        order = sorted(ids, key=lambda id: _c.encoded(id, "an id"))
        _shuffle(order, seed)
        return (self.volume(id) for id in order)

    def _may_read(self, rights: str) -> bool:
        return self._all or rights == PUBLIC

    def _missing(self, what: str) -> Exception:
        handles = self._corpus._tables._handles
        return handles.store_error(_abi.WAXSEAL_NO_SUCH_NAME, f"the corpus does not have {what}")

    def _metadata_at(self, id: str, snapshot: Optional[Snapshot]) -> Metadata:
        """Returns the metadata of a volume. Calls read it first, so that no page of a denied volume is read."""
        metadata = self._corpus._stored(id, snapshot)
        if metadata is None:
            raise self._missing(f"volume {id!r}")
        if not self._may_read(metadata.rights):
            raise AccessDeniedError(f"volume {id!r} is not in the public domain, and the reader may not read it")
        return metadata

    def _permitted(self, index: str, **bounds: Any) -> List[str]:
        rows = self._corpus._volumes.select(index=index, columns=["volume", "copyright"], **bounds)
        return sorted(row["volume"] for row in rows if self._may_read(_rights_of(row)))

    def _with_words(self, field: str, text: str) -> List[str]:
        wanted = _words(text)
        ids: List[str] = []
        if not wanted:
            return ids
        longest = max(sorted(wanted), key=len)
        with self._corpus._db.snapshot() as snapshot:
            entries = self._corpus._words.select(prefix=(field, longest), columns=["volume"], snapshot=snapshot)
            for entry in list(entries):
                metadata = self._corpus._stored(entry["volume"], snapshot)
                if metadata is None or not self._may_read(metadata.rights):
                    continue
                if wanted <= _words(dict(_indexed_fields(metadata))[field]):
                    ids.append(metadata.id)
        return ids

    def _collection(self, name: str, snapshot: Snapshot) -> List[str]:
        rows = self._corpus._collections.select(prefix=name, columns=["volume"], snapshot=snapshot)
        return [row["volume"] for row in rows]

    def _pages_at(self, metadata: Metadata, first: int, last: int, snapshot: Snapshot) -> List[str]:
        """Returns pages that the metadata counts."""
        volumes, id, schema = self._corpus._volumes, metadata.id, self._corpus._schema
        names = [f"{number:08}" for number in range(first, last + 1)]
        found: Dict[str, Optional[str]] = {}
        if schema == 3:
            for name in names:
                page = volumes.get((id, name), {}, snapshot=snapshot)
                found[name] = page.get("contents")
        elif names:
            columns = ["pages"] if schema == 1 else [f"{name}:contents" for name in names]
            for row in volumes.select(prefix=id, columns=columns, snapshot=snapshot):
                for name in names:
                    if schema == 1:
                        found[name] = row.get("pages", {}).get(name, {}).get("contents")
                    else:
                        found[name] = row.get(f"{name}:contents")
        pages = []
        for name in names:
            text = found.get(name)
            if text is None:
                raise self._missing(f"page {int(name)} of volume {id!r}")
            pages.append(text)
        return pages


def read_jsonl(source: IO[bytes]) -> Iterator[Union[Volume, Exception]]:
    """Reads volumes from JSON lines: one object a line, with `id`, `title`, `author`, `publish_date`, `genre`,
    `copyright` and `pages`, a list of texts. All but `id` may be absent. `source` is a file that was opened for bytes.

    A malformed line is returned as a ValueError that names the line, and the iterator goes on. A line of more than 256
    MiB ends it. Memory is that of one line."""
    number = 0
    while line := source.readline(_MOST_LINE_BYTES + 1):
        number += 1
        if len(line) > _MOST_LINE_BYTES:
            yield ValueError(f"line {number}: the line has more than {_MOST_LINE_BYTES} bytes")
            return
        if line.strip():
            try:
                yield _volume_of(json.loads(line.decode("utf-8")))
            except (ValueError, RecursionError) as error:
                yield ValueError(f"line {number}: {error}")


def _volume_of(read: Any) -> Volume:
    if not isinstance(read, dict):
        raise ValueError("the line is no object")
    for name in _TEXTS:
        if not isinstance(read.get(name), (str, type(None))):
            raise ValueError(f"{name!r} is no text")
    pages = read.get("pages")
    if not isinstance(pages, (list, type(None))):
        raise ValueError("'pages' is no list")
    if not all(isinstance(page, str) for page in pages or ()):
        raise ValueError("a page is no text")
    if not read.get("id"):
        raise ValueError("the volume has no id")
    for text in (*(read.get(name) or "" for name in _TEXTS), *(pages or ())):
        text.encode("utf-8")  # a ValueError for a lone surrogate, which JSON can name and no text can hold
    is_public = (read.get("copyright") or "").strip().lower() in _PUBLIC_NAMES
    metadata = Metadata(
        read["id"],
        read.get("title"),
        read.get("author"),
        read.get("publish_date"),
        read.get("genre"),
        PUBLIC if is_public else IN_COPYRIGHT,
    )
    return Volume(metadata, pages or [])


def _create_if_absent(tables: Tables, name: str, partition: List[str], clustering: List[str]) -> None:
    columns = dict.fromkeys([*partition, *clustering], "text")
    try:
        tables.create(name, columns, partition_key=partition, clustering=clustering)
    except ExistsError:
        pass  # of a creation that a crash ended


def _check_workset(name: str) -> None:
    if name in ("", PUBLIC, IN_COPYRIGHT):
        raise ValueError(f"{name!r} is no name of a workset")


def _metadata_of(row: Mapping[str, Any]) -> Metadata:
    return Metadata(
        row["volume"],
        row.get("title"),
        row.get("author"),
        row.get("publish_date"),
        row.get("genre"),
        _rights_of(row),
        row.get("page_count") or 0,
    )


def _rights_of(row: Mapping[str, Any]) -> str:
    return PUBLIC if row.get("copyright") == PUBLIC else IN_COPYRIGHT


def _indexed_fields(metadata: Metadata) -> List[Tuple[str, str]]:
    """Returns the fields whose words are indexed, with their texts."""
    return [("title", metadata.title or ""), ("author", metadata.author or "")]


def _year_of(date: str) -> Optional[int]:
    match = re.search(r"(?<![0-9])[0-9]{4}(?![0-9])", date)
    return int(match[0]) if match else None


#: ASCII letters and digits, and all characters above U+00BF but general, Chinese and Japanese punctuation.
_WORD = re.compile("[0-9a-z\u00c0-\u1fff\u2070-\u2fff\u3040-\U0010ffff]+")


def _words(text: str) -> Set[str]:
    """Returns the words of a text in lower case, cut to 64 characters, as the Rust crate does."""
    return {word[:64] for word in _WORD.findall(text.lower())}


def _shuffle(items: List[T], seed: int) -> None:
    """The shuffle of Fisher and Yates with numbers of SplitMix64, as in the Rust crate."""
    mask = (1 << 64) - 1
    state = seed & mask
    for at in range(len(items) - 1, 0, -1):
        state = (state + 0x9E3779B97F4A7C15) & mask
        word = state
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
        other = ((word ^ (word >> 31)) * (at + 1)) >> 64
        items[at], items[other] = items[other], items[at]
