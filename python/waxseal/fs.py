"""The fsspec file system of Waxseal: `waxseal://STORE/path`.

    import fsspec

    with fsspec.open("waxseal://photos.waxseal/cats/tom.jpg", "wb") as file:
        file.write(b"...")

STORE is the first directory on the way that holds a store; a URL without one names a new store, the first directory
that does not exist. Install it with `pip install waxseal[fs]`.

A file that is written appears whole when it is closed; in `with fs.transaction:` all files appear together at its end. Errors are those of
POSIX, damage is `waxseal.CorruptionError`, and no call follows a symbolic link.

One process writes: a change opens the store for writing, until `close` or the end of the process. Other processes, and
forked children, read beside it; `invalidate_cache` shows them newer commits. If the process that writes is `waxseal
serve`, changes of others go through it.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from datetime import datetime, timezone
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

try:
    from fsspec.core import has_magic  # type: ignore[import-untyped]
    from fsspec.spec import AbstractBufferedFile, AbstractFileSystem, _Cached  # type: ignore[import-untyped]
    from fsspec.transaction import Transaction  # type: ignore[import-untyped]
    from fsspec.utils import tokenize  # type: ignore[import-untyped]
except ImportError as _error:
    raise ImportError("waxseal.fs needs fsspec: pip install waxseal[fs]") from _error

from . import DB, open as open_store
from ._errors import CLOSED, CorruptionError, FileError, LockedError, file_error, make_error
from ._files import FileInfo, FileStore, FileWriter, OpenFile
from ._served import ServedFiles, ServedWriter

__all__ = ["WaxsealFile", "WaxsealFileSystem", "WaxsealTransaction"]

PROTOCOL = "waxseal"
_SCHEME = PROTOCOL + "://"

#: The file that every store has.
_MARK = "CURRENT"

#: Other files of stores, and how they begin.
_STORE_FILE = re.compile(r"MANIFEST-\d{6,}|\d{6,}\.(tbl|val|log|ring)")
_MAGIC = b"WAXSEAL"

#: Stores that this module opened, by process, directory and mode. File systems of one store share them, since only one
#: handle of a store may write.
_stores: Dict[Tuple[int, str, str], DB] = {}
_lock = threading.RLock()

# No fork comes while a thread opens files: the child would find locks of this module and of the library held forever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def split_url(url: str) -> Tuple[str, str]:
    """Divides a URL, or what follows its scheme, into the directory of the store and the path in it. The store may be
    damaged: opening it then says so."""
    rest = url[len(_SCHEME) :] if url.startswith(_SCHEME) else url
    parts = rest.rstrip("/").split("/")
    for end in range(1, len(parts) + 1):
        store = "/".join(parts[:end])
        if not store:
            continue
        if os.path.exists(os.path.join(store, _MARK)) or not os.path.exists(store) or _is_damaged(store):
            return store, "/".join(parts[end:])
    return "/".join(parts), ""


def _is_damaged(directory: str) -> bool:
    """Returns whether a directory without `CURRENT` has other files of a store."""
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    return any(_is_store_file(os.path.join(directory, name)) for name in names if _STORE_FILE.fullmatch(name))


def _is_store_file(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


class _CachedByStore(_Cached):  # type: ignore[misc]
    """Caches file systems by the directory of the store. fsspec identifies arguments by their `repr`, which is the same
    for two stores in memory, for a store and the same store opened again, and for a relative path after `chdir`."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        store = args[0] if args else kwargs.get("store")
        if isinstance(store, DB):
            made = super().__call__(*args, **{**kwargs, "skip_instance_cache": True})
            made._fs_token_ = tokenize(made._fs_token_, id(store))
            return made
        if isinstance(store, (str, os.PathLike)) and os.fspath(store):
            directory = os.path.realpath(store)
            if args:
                args = (directory, *args[1:])
            else:
                kwargs["store"] = directory
        return super().__call__(*args, **kwargs)


class WaxsealTransaction(Transaction):  # type: ignore[misc]
    """The files that are written in a block `with fs.transaction:`. They appear in one atomic step when it ends; an error
    leaves all of them as they were.

    Appended files are committed after that, each in a step of its own. So are all files if another process serves the
    store.
    """

    def complete(self, commit: bool = True) -> None:
        """Commits or discards the files, and ends the transaction."""
        fs, files = self.fs, list(self.files)
        try:
            if commit:
                whole = {file.path: number for number, file in enumerate(files) if file.mode != "ab"}
                for number, file in enumerate(files):
                    if number < whole.get(file.path, -1) and file.mode == "ab":
                        file.discard()  # the whole file that is written later replaces it
                writers = [writer for writer in (file._prepared() for file in files) if writer is not None]
                if writers:
                    fs.files(writing=True).finish_all(writers)
            super().complete(commit)
        except BaseException:
            for file in files:
                file.discard()
            fs._intrans, fs._transaction = False, None  # fsspec before 2025 leaves the transaction open
            raise


class WaxsealFileSystem(AbstractFileSystem, metaclass=_CachedByStore):  # type: ignore[misc]
    """The files of a store: of a directory, or of a `DB` that is open.

    `name` is the family of the files. With `read_only` the store is read beside its writer. `auto_mkdir` creates the
    directories above a file that is written. Paths begin with the root of the store, `/`.
    """

    protocol = PROTOCOL
    transaction_type = WaxsealTransaction
    root_marker = "/"
    cachable = True

    def __init__(
        self,
        store: Union[str, os.PathLike[str], DB] = "",
        name: str = "files",
        *,
        read_only: bool = False,
        auto_mkdir: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if not isinstance(store, DB) and not os.fspath(store):
            raise ValueError('name the store: WaxsealFileSystem("photos.waxseal"), or a URL waxseal://STORE/path')
        self._store = store if isinstance(store, DB) else os.path.realpath(os.fspath(store))
        self._name = name
        self._read_only = read_only
        self._auto_mkdir = auto_mkdir
        self._strip_protocol = self._own_path  # type: ignore[method-assign]
        self._process = os.getpid()
        #: The process, the store and its files, as they were used last.
        self._used: Optional[Tuple[int, DB, FileStore]] = None
        #: Another process has made a change for this one, which reads have not seen yet.
        self._is_behind = False

    # The store.

    @property
    def fsid(self) -> str:
        """The directory of the store; for a `DB` in memory its address."""
        place = self._store.path if isinstance(self._store, DB) else self._store
        return f"{PROTOCOL}-{place if place is not None else id(self._store)}-{self._name}"

    def _changing(self) -> Union[FileStore, ServedFiles]:
        """Returns the file store for a change. If another process serves the store, the change goes through it."""
        try:
            return self.files(writing=True)
        except LockedError:
            served = None
            if isinstance(self._store, str):
                served = ServedFiles.connect(self._store, self._name, self.files, self._fall_behind)
            if served is None:
                raise
            return served

    def _fall_behind(self) -> None:
        self._is_behind = True

    def files(self, writing: bool = False) -> FileStore:
        """Returns the file store. Only a change opens the store for writing, and creates a missing one; what this
        process reads from then on is read through the same handle. After a fork the child opens the store again."""
        with _lock:
            if self._is_behind and not writing:
                self._is_behind = False
                self.invalidate_cache()
            db = self._db(writing)
            used = self._used
            if used is not None and used[0] == os.getpid() and used[1] is db:
                return used[2]
            try:
                files = db.files(self._name)
            except FileError as error:
                if error.errno != errno.EINVAL or db.mode != "r":
                    raise
                raise file_error(errno.ENOENT, f"the store {db.path} has no files in {self._name!r}") from error
            self._used = os.getpid(), db, files
            return files

    def _db(self, writing: bool) -> DB:
        """Returns the store. The caller holds the lock."""
        if isinstance(self._store, DB):
            if self._store.path is None or self._process == os.getpid():
                return self._store
            store = self._store.path
        else:
            store = self._store
        if writing and self._read_only:
            raise file_error(errno.EROFS, f"the store {store} was opened for reading only")
        db = None if self._read_only else _opened(store, "c")
        if db is None and not writing:
            db = _opened(store, "r")
        if db is None:
            mode = "c" if writing else "r"
            db = _stores[os.getpid(), store, mode] = open_store(store, mode)
        return db

    def invalidate_cache(self, path: Optional[str] = None) -> None:
        """Shows newer commits of the process that writes."""
        super().invalidate_cache(path)
        used = self._used
        if used is not None and used[0] == os.getpid() and used[1].mode == "r" and not used[1].closed:
            used[1].refresh()

    def close(self) -> None:
        """Closes the store that this file system has opened, for all file systems of this process."""
        self._used = None
        if not isinstance(self._store, DB):
            with _lock:
                for mode in ("c", "r"):
                    db = _stores.pop((os.getpid(), self._store, mode), None)
                    if db is not None:
                        db.close()

    # Paths.

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        if path.startswith(_SCHEME):
            path = split_url(path)[1]
        return "/" + "/".join(_names(path))

    def _own_path(self, path: Any) -> Any:
        """Returns the path of a URL, or several. Raises ValueError for a URL of another store."""
        if isinstance(path, list):
            return [self._own_path(one) for one in path]
        if os.fspath(path).startswith(_SCHEME):
            own = self._store.path if isinstance(self._store, DB) else self._store
            if own is None or os.path.realpath(split_url(os.fspath(path))[0]) != os.path.realpath(own):
                raise ValueError(f"{path} is no path of the store {own or 'in memory'}")
        return type(self)._strip_protocol(path)

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> Dict[str, Any]:
        return {"store": split_url(path)[0]} if path.startswith(_SCHEME) else {}

    def unstrip_protocol(self, name: str) -> str:
        """Returns the URL of a path."""
        if name.startswith(_SCHEME):
            return name
        store = self._store.path or "" if isinstance(self._store, DB) else self._store
        return f"{_SCHEME}{store}{self._strip_protocol(name)}"

    # Reads.

    def _info(self, name: str, info: FileInfo) -> Dict[str, Any]:
        found: Dict[str, Any] = {
            "name": name,
            "size": info.size,
            "type": info.kind if info.kind in ("file", "directory", "link") else "other",
            "mode": info.mode,
            "uid": info.uid,
            "gid": info.gid,
            "ino": info.inode,
            "mtime": info.mtime_ns / 1e9,
            "created": info.ctime_ns / 1e9,
            "islink": info.kind == "link",
        }
        if info.etag is not None:
            found["ETag"] = info.etag
        return found

    def info(self, path: str, **kwargs: Any) -> Dict[str, Any]:
        """Returns the attributes of a path; `ETag` identifies the content of a file."""
        path = self._strip_protocol(path)
        found = self._info(path, self.files().stat(path))
        if found["islink"]:
            found["destination"] = os.fsdecode(self.files().read_link(path))
        return found

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Returns whether a path exists. Damage and other failures raise."""
        return self._kind(path) is not None

    def isdir(self, path: str) -> bool:
        """Returns whether a path is a directory. Damage and other failures raise."""
        return self._kind(path) == "directory"

    def isfile(self, path: str) -> bool:
        """Returns whether a path is a file. Damage and other failures raise."""
        return self._kind(path) == "file"

    def _kind(self, path: str) -> Optional[str]:
        """Returns the kind of a path, None if it does not exist."""
        path = self._strip_protocol(path)
        try:
            return self.files().stat(path).kind
        except (FileNotFoundError, NotADirectoryError):
            return None

    def walk(
        self, path: str, maxdepth: Optional[int] = None, topdown: bool = True, on_error: Any = "omit", **kwargs: Any
    ) -> Iterator[Any]:
        """Walks over the directories of a tree. `on_error` concerns missing paths; damage always raises."""

        def failed(error: OSError) -> None:
            if on_error == "raise" or isinstance(error, (CorruptionError, LockedError)):
                raise error
            if callable(on_error):
                on_error(error)

        yield from super().walk(path, maxdepth=maxdepth, topdown=topdown, on_error=failed, **kwargs)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> List[Any]:
        """Lists a directory, at one point in time; a file is its own list."""
        path = self._strip_protocol(path)
        files = self.files()
        try:
            prefix = path.rstrip("/")
            entries = [(f"{prefix}/{os.fsdecode(name)}", info) for name, info in files.list(path)]
        except NotADirectoryError:
            entries = [(path, files.stat(path))]
        return [self._info(name, info) for name, info in entries] if detail else [name for name, _ in entries]

    def find(
        self, path: str, maxdepth: Optional[int] = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        """Returns the paths below a path, in one scan at one point in time."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        path = self._strip_protocol(path)
        start = len(_names(path))
        found: Dict[str, Any] = {}
        for name, info in self._walked(path):
            if maxdepth is not None and len(_names(name)) - start > maxdepth:
                continue
            if info.kind != "directory" or withdirs:
                found[name] = self._info(name, info)
        return found if detail else sorted(found)

    def _walked(self, path: str) -> Iterator[Tuple[str, FileInfo]]:
        try:
            for name, info in self.files().walk(path):
                yield "/" + os.fsdecode(name), info
        except (FileNotFoundError, NotADirectoryError):
            return  # as of other file systems: nothing is found there

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **kwargs: Any) -> bytes:
        """Returns the content of a file, or a range of it. Every byte is verified."""
        path = self._strip_protocol(path)
        if start is None and end is None:
            return self.files().read(path)
        with self.files().open(path) as file:
            size = file.stat().size
            first, last = slice(start, end).indices(size)[:2]
            return file.read(first, max(0, last - first))

    def created(self, path: str) -> datetime:
        """Returns the time of the last change of the entry."""
        return _time(self.files().stat(self._strip_protocol(path)).ctime_ns)

    def modified(self, path: str) -> datetime:
        """Returns the time of the last change of the content."""
        return _time(self.files().stat(self._strip_protocol(path)).mtime_ns)

    def checksum(self, path: str) -> int:
        """Returns the digest of a file's content."""
        path = self._strip_protocol(path)
        info = self.files().stat(path)
        if info.etag is None:
            raise file_error(errno.EISDIR, f"{path!r}: only the content of a file that does not change has a digest")
        return info.digest

    def ukey(self, path: str) -> str:
        """Returns the entity tag of a file's content; of other entries their inode number and time."""
        info = self.files().stat(self._strip_protocol(path))
        return info.etag or f"{info.inode:x}-{info.ctime_ns:x}"

    # Changes.

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        """Creates a directory."""
        path = self._strip_protocol(path)
        files = self._changing()
        if create_parents:
            files.mkdir(self._parent(path), parents=True)
        files.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Creates a directory and all directories above it."""
        path = self._strip_protocol(path)
        files = self._changing()
        if exist_ok:
            files.mkdir(path, parents=True)
        else:
            self.mkdir(path)

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        self._changing().remove_dir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        """Removes a file."""
        self._changing().remove(self._strip_protocol(path))

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        """Removes files; with `recursive` directories with everything below them, each in one atomic step. A path below
        another one is removed with it. With `maxdepth` only entries down to that depth are removed, one by one, and
        directories that hold deeper ones stay."""
        files = self._changing()
        if recursive and maxdepth is not None:
            for one in sorted(self.expand_path(path, recursive=True, maxdepth=maxdepth), reverse=True):
                self._remove_shallow(files, one)
            return
        paths = self.expand_path(path)
        if recursive:
            for one in _tops(paths):
                files.remove_tree(one)
        else:
            for one in paths:
                files.remove(one)

    def _remove_shallow(self, files: Union[FileStore, ServedFiles], path: str) -> None:
        """Removes a file, or a directory unless it has entries."""
        if files.stat(path).kind != "directory":
            files.remove(path)
            return
        try:
            files.remove_dir(path)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise

    def mv(
        self, path1: Any, path2: Any, recursive: bool = False, maxdepth: Optional[int] = None, **kwargs: Any
    ) -> None:
        """Renames a file or a tree in one atomic step, into a directory if that exists. Lists and patterns are moved
        one by one: into a directory, or to the paths of a list of the same length. A path below another one moves with
        it. Sources that would meet at one path raise `FileExistsError` before any is moved."""
        if maxdepth is not None:
            raise NotImplementedError("mv moves whole trees, and has no maxdepth")
        files = self._changing()
        if not isinstance(path1, (str, os.PathLike)) or has_magic(os.fspath(path1)):
            self._move_all(files, path1, path2)
            return
        old, new = self._strip_protocol(path1), self._strip_protocol(path2)
        if os.fspath(path2).endswith("/") or self.isdir(new):
            new = self._strip_protocol(new + "/" + old.rsplit("/", 1)[-1])
        self._make_parent(files, new)
        files.rename(old, new)

    def _move_all(self, files: Union[FileStore, ServedFiles], sources: Any, target: Any) -> None:
        if isinstance(target, list):
            if not isinstance(sources, list) or len(sources) != len(target):
                raise ValueError("a list of targets needs a list of sources of the same length")
            moves = list(zip(self._strip_protocol(sources), self._strip_protocol(target)))
        else:
            directory = self._strip_protocol(target).rstrip("/")
            moves = [(old, f"{directory}/{old.rsplit('/', 1)[-1]}") for old in _tops(self.expand_path(sources))]
        found: Dict[str, str] = {}
        for old, new in moves:
            files.stat(old)
            if new in found:
                raise file_error(errno.EEXIST, f"{found[new]!r} and {old!r} would both become {new!r}")
            found[new] = old
        for old, new in moves:
            self._make_parent(files, new)
            files.rename(old, new)

    def mv_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Renames a file or a tree in one atomic step."""
        new, files = self._strip_protocol(path2), self._changing()
        self._make_parent(files, new)
        files.rename(self._strip_protocol(path1), new)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copies a file with its attributes, in one atomic step; of a directory the entry alone."""
        old, new = self._strip_protocol(path1), self._strip_protocol(path2)
        files = self._changing()
        if files.stat(old).kind == "directory":
            self.makedirs(new, exist_ok=True)
        else:
            self._make_parent(files, new)
            files.copy(old, new)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        """Writes a whole file; with the mode "create" only if it does not exist."""
        path = self._strip_protocol(path)
        if self._intrans:
            with self.open(path, "xb" if mode == "create" else "wb", **kwargs) as file:
                file.write(value)
            return
        files = self._changing()
        self._make_parent(files, path)
        with files.writer(path, exclusive=mode == "create") as writer:
            writer.write(value)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Creates an empty file; without `truncate`, an existing one gets the time of now."""
        path = self._strip_protocol(path)
        files = self._changing()
        self._make_parent(files, path)
        if truncate or not files.exists(path):
            files.write(path, b"")
        else:
            now = datetime.now(timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)
            files.set_attributes(path, mtime_ns=round(now.total_seconds() * 1e6) * 1000)

    def _make_parent(self, files: Union[FileStore, ServedFiles], path: str) -> None:
        if self._auto_mkdir:
            files.mkdir(self._parent(path), parents=True)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Optional[int] = None,
        autocommit: bool = True,
        cache_options: Optional[Dict[str, Any]] = None,
        **kwargs: Any,
    ) -> WaxsealFile:
        if mode != "rb":
            self._make_parent(self._changing(), path)
        return WaxsealFile(self, path, mode, block_size, autocommit, cache_options=cache_options, **kwargs)


class WaxsealFile(AbstractBufferedFile):  # type: ignore[misc]
    """An open file.

    A file that is read keeps its content when the path is replaced or removed. A file that is written appears whole
    when it is closed, or when its transaction ends; `discard`, and an exception in its `with` block, leave the old
    file. Text modes close it then, as on every file system of fsspec. An appended file is committed when it is closed.
    A forked child cannot write a file that its parent opened, and its `close` commits nothing.
    """

    DEFAULT_BLOCK_SIZE = 1 << 20
    closed: bool

    def __init__(
        self,
        fs: WaxsealFileSystem,
        path: str,
        mode: str = "rb",
        block_size: Optional[int] = None,
        autocommit: bool = True,
        cache_type: str = "readahead",
        **kwargs: Any,
    ) -> None:
        self._process = os.getpid()
        self._reader: Optional[OpenFile] = None
        self._writer: Union[FileWriter, ServedWriter, None] = None
        self._appended: List[bytes] = []
        self._is_discarded = False
        #: A transaction finishes the file with others.
        self._is_committed = False
        if mode == "rb":
            self._reader = fs.files().open(path)
            self._seen = self._reader.stat()
            kwargs["size"] = self._seen.size
        elif mode == "xb" and fs.exists(path):
            error = file_error(errno.EEXIST, f"{path!r}: the path exists")
            error.filename = path
            raise error
        elif mode != "ab":
            self._writer = fs._changing().writer(path, exclusive=mode == "xb")
        super().__init__(fs, path, mode, block_size, autocommit, cache_type, **kwargs)
        if mode == "rb":
            self.details = fs._info(path, self._seen)
        elif mode == "ab":
            files = fs._changing()
            self.loc = files.stat(path).size if files.exists(path) else 0

    def _fetch_range(self, start: int, end: int) -> bytes:
        """Reads a range. A forked child opens the file again, and reads it if it is still the same."""
        if self._process != os.getpid():
            reader = self.fs.files().open(self.path)
            now = reader.stat()
            if (now.inode, now.digest, now.size) != (self._seen.inode, self._seen.digest, self._seen.size):
                raise file_error(errno.ESTALE, f"{self.path!r}: the file has changed since it was opened")
            self._process, self._reader = os.getpid(), reader
        assert self._reader is not None
        return self._reader.read(start, end - start)

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise make_error(CLOSED, f"{self.path!r} was opened before a fork: open it again in this process")

    def write(self, data: Any) -> int:
        """Appends bytes, and returns their number."""
        self._check_process()
        written: int = super().write(data)
        return written

    def _upload_chunk(self, final: bool = False) -> bool:
        self._check_process()
        data = self.buffer.getvalue()
        if self._writer is not None:
            self._writer.write(data)
        else:
            self._appended.append(data)
        if final and self.autocommit:
            self.commit()
        return True

    def _prepared(self) -> Optional[FileWriter]:
        """Returns the writer with the whole content, for a transaction that finishes several at once. `None` for a file
        that is committed by itself, or was discarded."""
        if self._is_discarded or not isinstance(self._writer, FileWriter):
            return None
        self._check_process()
        if not self.forced:
            self.flush(force=True)
        self._is_committed = True
        return self._writer

    def commit(self) -> None:
        """Gives the file its content, unless it was discarded."""
        if self._is_discarded or self._is_committed:
            return
        self._check_process()
        if not self.forced:
            self.flush(force=True)
            if self.autocommit:
                return  # the flush has committed
        if self._writer is not None:
            self._writer.finish()
        else:
            data, self._appended = b"".join(self._appended), []
            self.fs._changing().append(self.path, data)

    def discard(self) -> None:
        """Leaves the old file. Later writes are refused."""
        self._is_discarded = self.forced = True
        self._appended = []
        if self._writer is not None:
            self._writer.discard()

    def close(self) -> None:
        """Closes the file; one that is written is committed, unless a transaction does that."""
        if self.closed:
            return
        if self.mode != "rb" and self._process != os.getpid():
            self.closed = True
            return
        try:
            super().close()
        finally:
            if self._reader is not None and self._process == os.getpid():
                self._reader.close()

    def __exit__(self, exc_type: Any = None, exc_value: Any = None, traceback: Any = None) -> None:
        if exc_type is not None and self.mode != "rb" and not self.closed:
            self.discard()
            self.closed = True
        else:
            self.close()


def _names(path: str) -> List[str]:
    """Returns the names in a path."""
    return [name for name in path.split("/") if name]


def _tops(paths: List[str]) -> List[str]:
    """Returns the paths that are not below another one."""
    every = set(paths)
    return [path for path in paths if every.isdisjoint(_above(path))]


def _above(path: str) -> Iterator[str]:
    """Returns the directories above a path."""
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        yield path


def _opened(store: str, mode: str) -> Optional[DB]:
    """Returns a store that is open in this process."""
    db = _stores.get((os.getpid(), store, mode))
    return None if db is None or db.closed else db


def _time(nanos: int) -> datetime:
    seconds, rest = divmod(nanos, 1_000_000_000)
    return datetime.fromtimestamp(seconds, timezone.utc).replace(microsecond=rest // 1000)
