"""The fsspec file system: fsspec's own tests, and what they do not ask."""

import errno
import gzip
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import waxseal

fsspec = pytest.importorskip("fsspec")

from fsspec.tests import abstract  # noqa: E402

from waxseal.fs import WaxsealFileSystem, split_url  # noqa: E402


EXAMPLES = Path(__file__).parents[1] / "examples" / "files.py"


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self):
        with waxseal.memory() as db:
            yield WaxsealFileSystem(db, auto_mkdir=True, skip_instance_cache=True)
            assert db.files().fsck()["faults"] == 0

    @pytest.fixture
    def fs_path(self):
        return "/"

    @pytest.fixture
    def supports_empty_directories(self):
        return True


#: fsspec's own tests. They run once: files are called through ctypes on both backends.
if waxseal.backend == "native":

    class TestCopy(abstract.AbstractCopyTests, Fixtures):
        pass

    class TestGet(abstract.AbstractGetTests, Fixtures):
        pass

    class TestPut(abstract.AbstractPutTests, Fixtures):
        pass

    class TestOpen(abstract.AbstractOpenTests, Fixtures):
        pass

    class TestPipe(abstract.AbstractPipeTests, Fixtures):
        pass


@pytest.fixture
def fs(path):
    fs = WaxsealFileSystem(path, skip_instance_cache=True)
    yield fs
    fs.close()


def in_child(work):
    """Runs a function in a forked child, and returns the child's status."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return os.waitpid(child, 0)[1]


def tree(fs):
    fs.makedirs("a/b/c")
    fs.pipe({"a/one": b"1", "a/b/two": b"22", "top": b"333"})


def test_paths_are_listed_walked_and_found(fs):
    tree(fs)
    assert fs.ls("a", detail=False) == ["/a/b", "/a/one"]
    assert [(entry["name"], entry["type"], entry["size"]) for entry in fs.ls("")] == [
        ("/a", "directory", 0),
        ("/top", "file", 3),
    ]
    assert fs.ls("top", detail=False) == ["/top"] and fs.ls("//a//b/", detail=False) == ["/a/b/c", "/a/b/two"]
    assert fs.find("") == ["/a/b/two", "/a/one", "/top"]
    assert fs.find("a", withdirs=True) == ["/a", "/a/b", "/a/b/c", "/a/b/two", "/a/one"]
    assert fs.find("a", maxdepth=1) == ["/a/one"]
    assert fs.find("absent") == [] and fs.find("top") == ["/top"]
    assert fs.find("a", detail=True)["/a/one"]["size"] == 1
    assert fs.glob("a/*") == ["/a/b", "/a/one"] and fs.glob("**/t*") == ["/a/b/two", "/top"]
    walked = [("/", ["a"], ["top"]), ("/a", ["b"], ["one"]), ("/a/b", ["c"], ["two"]), ("/a/b/c", [], [])]
    assert list(fs.walk("")) == walked
    assert fs.du("a") == 3 and fs.exists("a/b") and fs.isdir("a") and fs.isfile("top")
    assert fs.cat(["top", "a/one"]) == {"/top": b"333", "/a/one": b"1"}
    assert fs.cat_file("top", start=-2) == b"33" and fs.cat_file("top", 1, 2) == b"3"


def test_renames_are_one_step(fs):
    tree(fs)
    inode = fs.info("a/one")["ino"]
    fs.mv("a", "z")
    assert fs.info("z/one")["ino"] == inode and not fs.exists("a")
    fs.mv("top", "z")  # into a directory
    fs.mv("z/*e", "z/b/", recursive=False)
    assert fs.find("") == ["/z/b/one", "/z/b/two", "/z/top"]
    fs.rm("z/b", recursive=True)
    fs.rm("z/t*")
    assert fs.find("", withdirs=True) == ["/", "/z"]
    fs.rmdir("z")


def test_errors_are_those_of_posix(fs):
    with pytest.raises(FileNotFoundError, match="no store"):
        fs.ls("")
    tree(fs)
    for error, call in [
        (FileNotFoundError, lambda: fs.info("absent")),
        (FileNotFoundError, lambda: fs.open("absent")),
        (FileNotFoundError, lambda: fs.pipe_file("absent/file", b"")),
        (FileNotFoundError, lambda: fs.rm("absent")),
        (FileExistsError, lambda: fs.mkdir("a")),
        (FileExistsError, lambda: fs.makedirs("a")),
        (FileExistsError, lambda: fs.pipe_file("top", b"", mode="create")),
        (FileExistsError, lambda: fs.open("top", "xb")),
        (IsADirectoryError, lambda: fs.cat_file("a")),
        (IsADirectoryError, lambda: fs.rm("a")),
        (IsADirectoryError, lambda: fs.open("a", "rb")),
        (NotADirectoryError, lambda: fs.pipe_file("top/below", b"")),
        (NotADirectoryError, lambda: fs.rmdir("top")),
        (OSError, lambda: fs.rmdir("a")),
    ]:
        with pytest.raises(error) as caught:
            call()
        assert caught.value.errno and isinstance(caught.value, waxseal.Error), caught.value
        again = pickle.loads(pickle.dumps(caught.value))
        assert (type(again), again.errno) == (type(caught.value), caught.value.errno)
    with pytest.raises(FileNotFoundError) as caught:
        fs.info("a/absent")
    assert caught.value.filename == "/a/absent" and "a/absent" in str(caught.value)


def test_a_content_has_a_tag(fs):
    tree(fs)
    before = fs.info("top")["ETag"], fs.checksum("top"), fs.ukey("top")
    fs.cp("top", "copy")
    assert (fs.info("copy")["ETag"], fs.checksum("copy"), fs.ukey("copy")) == before
    fs.pipe_file("top", b"334")
    assert fs.checksum("top") != before[1] and fs.info("top")["ETag"].endswith("-3")
    with pytest.raises(OSError):
        fs.checksum("a")
    assert fs.ukey("a") and fs.modified("top") >= fs.modified("copy")
    fs.touch("top", truncate=False)
    assert fs.cat_file("top") == b"334" and "ETag" not in fs.info("a")
    fs.touch("top")
    assert fs.cat_file("top") == b""


def test_a_transaction_shows_its_files_at_the_end(fs):
    fs.pipe_file("kept", b"old")
    with fs.transaction:
        with fs.open("kept", "wb") as file:
            file.write(b"new" * 1_000_000)
        fs.pipe_file("more", b"new")
        assert fs.cat_file("kept") == b"old" and not fs.exists("more")
    assert fs.cat_file("kept") == b"new" * 1_000_000 and fs.cat_file("more") == b"new"
    with pytest.raises(KeyError):
        with fs.transaction:
            with fs.open("kept", "wb") as file:
                file.write(b"never")
            with fs.open("more", "ab") as file:
                file.write(b"never")
            raise KeyError
    assert fs.cat_file("kept") == b"new" * 1_000_000 and fs.cat_file("more") == b"new"
    assert waxseal.open(fs._store, "r").files().fsck()["faults"] == 0


def test_files_are_read_and_written_as_streams(fs):
    with fs.open("text", "w", newline="") as file:
        file.write("one\ntwo\n")
        assert not fs.exists("text")
    with fs.open("text", "a") as file:
        file.write("three\n")
    with fs.open("text", "r") as file:
        assert file.readlines() == ["one\n", "two\n", "three\n"]
    with fs.open("text") as file:
        file.seek(-6, 2)
        assert file.read() == b"three\n" and file.info()["size"] == 14
        fs.pipe_file("text", b"another file")
        file.seek(0)
        assert file.read(3) == b"one", "an open file keeps its content"
    with pytest.raises(ValueError):
        with fs.open("text", "wb") as file:
            file.write(b"never")
            raise ValueError
    assert fs.cat_file("text") == b"another file"
    content = os.urandom(3_000_000)
    with fs.open("large", "wb", block_size=65_536) as file:
        file.write(content)
    with fs.open("large", "rb", block_size=65_536) as file:
        assert file.read(7) + file.read() == content
    file = fs.open("large")
    fs.close()
    with pytest.raises(waxseal.ClosedError):
        file.read()
    file.close()


def test_urls_name_the_store_and_the_path(path, tmp_path):
    url = f"waxseal://{path}/a/b.txt"
    assert split_url(url) == (path, "a/b.txt") and split_url(f"waxseal://{path}") == (path, "")
    with pytest.raises(FileNotFoundError):
        fsspec.open(url, "rb").open()
    assert not os.path.exists(path), "looking makes no store"
    with fsspec.open(url, "wb", auto_mkdir=True) as file:
        file.write(b"content")
    fs, inner = fsspec.url_to_fs(url)
    assert isinstance(fs, WaxsealFileSystem) and inner == "/a/b.txt" and fs.cat(url) == b"content"
    assert fs.unstrip_protocol(inner) == url and split_url(url) == (path, "a/b.txt")
    assert fsspec.filesystem("waxseal", store=path).ls("a", detail=False) == ["/a/b.txt"]
    other = f"waxseal://{tmp_path}/other/a/b.txt"
    for call in (lambda: fs.cat(other), lambda: fs.pipe_file(other, b""), lambda: fs.cp(url, other)):
        with pytest.raises(ValueError, match="no path of the store"):
            call()
    os.symlink(path, tmp_path / "alias")
    assert fs.cat(f"waxseal://{tmp_path}/alias/a/b.txt") == b"content"
    copied = tmp_path / "out"
    fs.get(url, os.fspath(copied))
    assert copied.read_bytes() == b"content"
    fs.close()
    WaxsealFileSystem.clear_instance_cache()


def test_a_store_that_is_open_has_a_file_system():
    with waxseal.memory() as db:
        fs = WaxsealFileSystem(db, skip_instance_cache=True)
        fs.pipe_file("file", b"1")
        files = db.files()
        files.symlink("file", "link")
        assert fs.info("link")["type"] == "link" and fs.info("link")["destination"] == "file"
        with pytest.raises(OSError) as caught:
            fs.cat_file("link")
        assert caught.value.errno == 40
        with files.open("file", "r+") as file:
            file.write(b"2", 3)
            assert file.stat().has_changes and "ETag" not in fs.info("file")
        assert fs.cat_file("file") == b"1\0\0002"
        files.set_xattr("file", "user.a", b"1")
        assert files.xattrs("file") == [b"user.a"] and files.xattr("file", "user.a") == b"1"
        assert files.usage().files == 1 and files.verify()["faults"] == 0
        db.register("files", "File.Remove")
        db.session("alice").files().remove("link")
        event = db.query_latest("files", "File.Remove")
        assert event is not None and event.client == "alice"
        with files.with_durability("sync").writer("hole") as writer:
            writer.skip(1 << 30)
            writer.write(b"end")
        assert files.stat("hole").allocated <= 2 * 256 * 1024 and files.open("hole").read(1 << 30, 9) == b"end"
        assert [name for name, _ in files.list(after="file")] == [b"hole"]
        assert [name for name, _ in files.find("", "h*")] == [b"hole"]
        files.truncate("hole", 0)
        files.append("hole", b"more")
        files.copy("hole", "copy")
        assert files.read("copy") == b"more"


def test_damage_is_an_error(path):
    with waxseal.open(path) as db:
        db.files(chunk_bytes=4096).write("file", bytes(range(1, 101)) * 100)
        chunks = db.family("files-chunks")
        del chunks[next(chunks.iterator(prefix=b"c", include_value=False))]
        fs = WaxsealFileSystem(db, skip_instance_cache=True)
        with pytest.raises(waxseal.CorruptionError):
            fs.cat_file("file")
        with fs.open("file") as file, pytest.raises(waxseal.CorruptionError):
            file.read()


def test_a_second_process_reads_beside_the_writer(fs):
    fs.pipe_file("file", b"first")
    with pytest.raises(waxseal.LockedError):
        waxseal.open(fs._store)
    script = """
        import pickle, sys, waxseal
        fs = pickle.loads(bytes.fromhex(sys.argv[1]))
        print(fs.cat_file("file"), flush=True)
        sys.stdin.readline()
        fs.invalidate_cache()
        print(fs.cat_file("file"), flush=True)
        try:
            fs.pipe_file("file", b"never")
        except waxseal.LockedError:
            print("locked")
    """
    command = [sys.executable, "-c", textwrap.dedent(script), pickle.dumps(fs).hex()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout.readline() == "b'first'\n"
        fs.pipe_file("file", b"second")
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.read() == "b'second'\nlocked\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_waits_for_a_store_that_is_being_opened(path):
    script = """
        import os, signal, sys, threading
        from waxseal.fs import WaxsealFileSystem
        fs = WaxsealFileSystem(sys.argv[1], skip_instance_cache=True)
        fs.pipe_file("file", b"content")
        stop = threading.Event()
        def open_and_close():
            while not stop.is_set():
                own = WaxsealFileSystem(sys.argv[1], read_only=True, skip_instance_cache=True)
                assert own.cat_file("file") == b"content"
                own.close()
        fs.close()
        thread = threading.Thread(target=open_and_close)
        thread.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                os._exit(0 if fs.cat_file("file") == b"content" else 1)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        thread.join()
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_workers_read(fs):
    content = os.urandom(200_000)
    fs.pipe({"file": content, "other": b"other"})
    file, changed = fs.open("file", block_size=4096), fs.open("other", block_size=1)
    assert file.read(10) == content[:10]
    fs.pipe_file("other", b"longer than before")

    def work():
        assert file.read(100) == content[10:110]
        file.seek(150_000)
        assert file.read() == content[150_000:]
        assert fs.cat_file("file") == content and fs.ls("", detail=False) == ["/file", "/other"]
        with pytest.raises(OSError) as caught:
            changed.read()
        assert caught.value.errno == 116
        with pytest.raises(waxseal.LockedError):
            fs.pipe_file("new", b"")

    for _ in range(2):
        assert in_child(work) == 0
    file.seek(0)
    assert file.read() == content and changed.read() == b"other"
    file.close()
    changed.close()
    fs.pipe_file("new", b"1")


def test_file_systems_of_open_stores_are_not_shared(path):
    with waxseal.memory() as one, waxseal.memory() as other:
        first, second = WaxsealFileSystem(one), WaxsealFileSystem(other)
        first.pipe_file("file", b"1")
        assert not second.exists("file") and first != second and len({first, second}) == 2
    for content in (b"1", b"2"):
        with waxseal.open(path) as db:
            fs = WaxsealFileSystem(store=db)
            fs.pipe_file("file", content)
            assert fs.cat_file("file") == content


def test_a_relative_store_is_made_absolute(tmp_path, monkeypatch):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        fs = WaxsealFileSystem("store")
        assert fs._store == os.fspath(tmp_path / folder / "store")
        assert fs is WaxsealFileSystem(f"../{folder}/store")
        monkeypatch.chdir(tmp_path)
        assert pickle.loads(pickle.dumps(fs))._store == fs._store
    with pytest.raises(ValueError, match="name the store"):
        WaxsealFileSystem("")
    WaxsealFileSystem.clear_instance_cache()


def test_a_transaction_is_one_step(fs):
    fs.pipe({"a": b"0", "b": b"0"})
    with pytest.raises(IsADirectoryError):
        with fs.transaction:
            fs.pipe_file("a", b"1" * 2_000_000)
            fs.pipe_file("b", b"1")
            with fs.open("c", "wb") as file:
                file.write(b"1")
            fs.mkdir("c")
    assert fs.cat(["a", "b"]) == {"/a": b"0", "/b": b"0"} and fs.isdir("c")
    assert waxseal.open(fs._store, "r").files().fsck()["faults"] == 0
    with fs.transaction:
        for mode, content in (("ab", b"never"), ("wb", b"whole"), ("ab", b" and more")):
            with fs.open("b", mode) as file:
                file.write(content)
    assert fs.cat_file("b") == b"whole and more"
    with fs.transaction:  # the last one has ended
        fs.pipe_file("a", b"1")
        fs.pipe_file("a", b"2")
        seqno = fs.files().stat("a").inode
    assert fs.cat_file("a") == b"2" and fs.files().stat("a").inode != seqno


def test_a_transaction_commits_what_is_buffered(fs):
    fs.pipe_file("b", b"0")
    with fs.transaction:
        with gzip.GzipFile(fileobj=fs.open("a.gz", "wb"), mode="wb") as file:  # leaves its file open
            file.write(b"compressed")
        left = [fs.open("b", "ab"), fs.open("c", "wb")]
        for file in left:
            file.write(b"123")
    assert gzip.decompress(fs.cat_file("a.gz")) == b"compressed"
    assert fs.cat_file("b") == b"0123" and fs.cat_file("c") == b"123"
    for file in left:
        with pytest.raises(ValueError):
            file.write(b"too late")
        file.close()
    file = fs.open("d", "wb")
    file.write(b"4")
    file.commit()
    file.close()
    assert fs.cat_file("d") == b"4" and fs.cat_file("b") == b"0123" and fs.cat_file("c") == b"123"


def test_a_transaction_leaves_out_what_was_discarded(fs):
    with fs.transaction:
        for name, mode in (("a", "wb"), ("b", "ab"), ("c", "xb")):
            with pytest.raises(KeyError):
                with fs.open(name, mode) as file:
                    file.write(b"never")
                    raise KeyError
        fs.pipe_file("z", b"kept")
    assert fs.ls("", detail=False) == ["/z"]
    with pytest.raises(KeyError):
        with fs.transaction:
            file = fs.open("a", "wb")
            raise KeyError
    with pytest.raises(ValueError):
        file.write(b"never")
    file.close()
    assert fs.ls("", detail=False) == ["/z"]


def test_a_transaction_creates_a_path_once(fs):
    with pytest.raises(FileExistsError):
        with fs.transaction:
            fs.pipe_file("file", b"1", mode="create")
            fs.pipe_file("file", b"2", mode="create")
    assert not fs.exists("file"), "a transaction that fails changes nothing"
    fs.pipe_file("file", b"1")
    with fs.transaction, pytest.raises(FileExistsError) as caught:
        fs.pipe_file("file", b"3", mode="create")
    assert caught.value.errno == errno.EEXIST and fs.cat_file("file") == b"1"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_commits_no_file_of_its_parent(fs):
    fs.pipe({"a": b"0", "w": b"0"})
    files = [fs.open("a", "ab"), fs.open("w", "wb")]
    for file in files:
        file.write(b"1")
    fs.close()

    def work():
        for file in files:
            for call in (lambda: file.write(b"2"), lambda: file.flush(force=True), file.commit):
                with pytest.raises(waxseal.ClosedError, match="fork"):
                    call()
            file.close()
            assert file.closed
        assert fs.cat_file("a") == b"0" and fs.cat_file("w") == b"0"

    assert in_child(work) == 0
    assert fs.cat_file("a") == b"0" and fs.cat_file("w") == b"0"
    files[0].close()
    assert fs.cat_file("a") == b"01"
    files[1].discard()
    files[1].close()


def test_damage_is_not_absence(path):
    with waxseal.open(path) as db:
        fs = WaxsealFileSystem(db)
        tree(fs)
        fs.pipe({"a/b/three": b"3", "a/z": b""})
        assert not fs.exists("absent") and not fs.exists("top/below") and not fs.isdir("absent/a")
        assert fs.isdir("a") and not fs.isfile("a") and not fs.isfile("absent")
        rows = db.family("files")
        for key in (b"top", b"a\0b"):
            assert rows[key]
            rows[key] = b"\x01\x09"
        for call in (fs.exists, fs.lexists, fs.isfile, fs.isdir):
            with pytest.raises(waxseal.CorruptionError):
                call("top")
        for start in ("", "a"):
            with pytest.raises(waxseal.CorruptionError):
                list(fs.walk(start))
        assert list(fs.walk("absent")) == []
        with pytest.raises(FileNotFoundError):
            list(fs.walk("absent", on_error="raise"))
        names, damaged, entries = [], 0, db.files().list("a")
        while True:
            try:
                names.append(next(entries)[0])
            except waxseal.CorruptionError:
                damaged += 1
            except StopIteration:
                break
        assert names == [b"one", b"z"] and damaged == 1


def test_a_closed_store_is_not_an_empty_one():
    with waxseal.memory() as db:
        fs = WaxsealFileSystem(db)
    for call in (fs.exists, fs.isdir, fs.isfile):
        with pytest.raises(waxseal.ClosedError):
            call("file")


def test_several_sources_are_renamed(fs):
    tree(fs)
    fs.makedirs("t")
    with pytest.raises(NotImplementedError):
        fs.mv("a", "t", recursive=True, maxdepth=1)
    fs.makedirs("o/one")
    fs.pipe_file("o/one/deep", b"4")
    before = fs.find("", detail=True, withdirs=True)
    for sources, error in ((["a/one", "o/one"], FileExistsError), (["a/one", "absent"], FileNotFoundError)):
        with pytest.raises(error):
            fs.mv(sources, "t", recursive=True)
    with pytest.raises(ValueError):
        fs.mv(["a", "o"], ["t/a"])
    assert fs.find("", detail=True, withdirs=True) == before
    fs.mv(["a", "a/b", "o/one", "top"], "t", recursive=True)
    assert fs.find("") == ["/t/a/b/two", "/t/a/one", "/t/one/deep", "/t/top"]
    assert fs.info("t/a/b/two")["ino"] == before["/a/b/two"]["ino"]
    fs.mv(["t/top", "t/a"], ["up", "o/b"])
    fs.mv("t/*", "/")
    assert fs.find("") == ["/o/b/b/two", "/o/b/one", "/one/deep", "/up"]


def test_a_path_below_another_is_removed_with_it(fs):
    tree(fs)
    fs.pipe({"a-b": b"", "c": b"", "d": b""})
    fs.rm(["a", "a/b", "a-b", "c"], recursive=True)
    assert fs.find("", withdirs=True) == ["/", "/d", "/top"]


def test_integers_that_do_not_fit_are_refused():
    with waxseal.memory() as db:
        files = db.files()
        files.write("file", b"content", mode=0o600, mtime_ns=-5)
        before = files.stat("file")
        assert before.mtime_ns == -5
        with files.open("file", "r+") as file, files.writer("other") as writer:
            for error, call in [
                (OverflowError, lambda: files.truncate("file", 2**64 + 5)),
                (ValueError, lambda: files.truncate("file", -1)),
                (OverflowError, lambda: file.truncate(2**64)),
                (ValueError, lambda: file.read(-1, 10)),
                (ValueError, lambda: file.read(0, -1)),
                (OverflowError, lambda: file.read(2**64, 1)),
                (OverflowError, lambda: file.write(b"x", 2**64)),
                (OverflowError, lambda: writer.skip(2**64 + 1)),
                (OverflowError, lambda: files.set_attributes("file", mode=2**32 + 0o644)),
                (ValueError, lambda: files.set_attributes("file", uid=-1)),
                (OverflowError, lambda: files.set_attributes("file", gid=2**32)),
                (OverflowError, lambda: files.set_attributes("file", mtime_ns=2**63)),
                (OverflowError, lambda: files.write("file", b"", mtime_ns=-(2**63) - 1)),
                (OverflowError, lambda: db.files("more", chunk_bytes=2**32 + 4096)),
                (TypeError, lambda: file.truncate(1.5)),
            ]:
                with pytest.raises(error):
                    call()
        assert files.stat("file") == before and files.read("file") == b"content" and files.read("other") == b""


def test_a_url_makes_no_store_in_a_damaged_one(path):
    url = f"waxseal://{path}/a/b.txt"
    with fsspec.open(url, "wb", auto_mkdir=True) as file:
        file.write(b"content")
    fsspec.url_to_fs(url)[0].close()
    os.remove(os.path.join(path, "CURRENT"))
    before = sorted(os.listdir(path))
    assert split_url(url) == (path, "a/b.txt")
    with pytest.raises(waxseal.Error):
        with fsspec.open(url, "wb", auto_mkdir=True) as file:
            file.write(b"content")
    assert not os.path.exists(os.path.join(path, "a")) and set(before) <= set(os.listdir(path))
    WaxsealFileSystem.clear_instance_cache()


def test_a_directory_with_logs_of_others_is_no_store(tmp_path):
    (tmp_path / "000012.log").write_bytes(b"a log of another program")
    assert split_url(f"{tmp_path}/new/a") == (f"{tmp_path}/new", "a")


def test_a_store_commits_its_open_files_when_it_is_closed(path):
    with waxseal.open(path) as db:
        files = db.files()
        files.write("a", b"1")
        kept = [files.open("a", "a"), files.open("w", "w"), files.open("a", "r")]
        kept[0].append(b"2")
        kept[1].write(b"3", 1)
    for file in kept:
        try:
            file.close()
        except waxseal.ClosedError:
            pass
    with waxseal.open(path) as db:
        assert db.files().read("a") == b"12" and db.files().read("w") == b"\x003"


def test_a_store_that_cannot_commit_an_open_file_reports_it(path, monkeypatch):
    db = waxseal.open(path)
    files = db.files()
    broken, other = files.open("broken", "w"), files.open("other", "w")
    other.write(b"1", 0)

    def fail():
        raise waxseal.Error("no space")

    monkeypatch.setattr(broken, "flush", fail)
    with pytest.raises(waxseal.Error, match="no space"):
        db.close()
    assert db.closed
    with waxseal.open(path) as db:
        assert db.files().read("other") == b"1"


def test_a_shallow_removal_keeps_what_is_deeper(fs):
    tree(fs)
    fs.rm("a", recursive=True, maxdepth=1)
    assert fs.find("", withdirs=True) == ["/", "/a", "/a/b", "/a/b/c", "/a/b/two", "/top"]
    fs.rm("a", recursive=True, maxdepth=2)
    assert fs.find("", withdirs=True) == ["/", "/top"]


@pytest.fixture
def served(path):
    """A store that another process serves, and that process."""
    with waxseal.open(path) as db:
        db.files().write("old", b"old")
    command = [sys.executable, "-m", "waxseal", "serve", path, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert "http://127.0.0.1:" in server.stdout.readline()
        fs = WaxsealFileSystem(path, skip_instance_cache=True)
        yield fs
        fs.close()
        server.terminate()
        assert server.wait() == 0
    with waxseal.open(path) as db:
        assert db.files().fsck()["faults"] == 0


def test_a_store_that_is_served_is_changed_through_its_process(served):
    fs = served
    tree(fs)
    assert fs.find("") == ["/a/b/two", "/a/one", "/old", "/top"] and fs.cat_file("a/b/two") == b"22"
    large = os.urandom(3 << 20)
    with fs.open("large", "wb") as file:
        file.write(large[: 1 << 20])
        file.write(large[1 << 20 :])
        assert not fs.exists("large")
    assert fs.cat_file("large") == large
    with pytest.raises(ZeroDivisionError), fs.open("large", "wb") as file:
        file.write(large + large)
        raise ZeroDivisionError
    assert fs.cat_file("large") == large
    with fs.open("top", "ab") as file:
        file.write(b"4" * (5 << 20))
    assert fs.info("top")["size"] == 3 + (5 << 20)
    fs.touch("old", truncate=False)
    fs.cp("a/one", "copy")
    fs.mv("a", "moved")
    fs.rm(["top", "large"])
    with fs.transaction:
        fs.pipe({"x": b"1", "y": b"2"})
        assert not fs.exists("x")
    fs.rm("moved/b", recursive=True)
    assert {name: fs.cat_file(name) for name in fs.find("")} == {
        "/copy": b"1", "/moved/one": b"1", "/old": b"old", "/x": b"1", "/y": b"2"
    }
    for error, call in [
        (FileNotFoundError, lambda: fs.pipe_file("absent/file", b"")),
        (FileNotFoundError, lambda: fs.rm_file("absent")),
        (FileExistsError, lambda: fs.mkdir("moved")),
        (FileExistsError, lambda: fs.pipe_file("x", b"", mode="create")),
        (FileExistsError, lambda: fs.open("x", "xb")),
        (IsADirectoryError, lambda: fs.rm("moved")),
        (NotADirectoryError, lambda: fs.rmdir("x")),
        (OSError, lambda: fs.rmdir("moved")),
        (waxseal.LockedError, lambda: waxseal.open(fs._store)),
    ]:
        with pytest.raises(error) as caught:
            call()
        assert caught.value.errno and isinstance(caught.value, waxseal.Error), caught.value
    other = WaxsealFileSystem(fs._store, name="other", skip_instance_cache=True)
    with pytest.raises(waxseal.Error, match="family"):
        other.pipe_file("x", b"")


def test_the_examples_of_libraries_run(tmp_path):
    """pandas, pyarrow, polars, dask, zarr and torch: each that is installed."""
    done = subprocess.run([sys.executable, str(EXAMPLES)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = dict(line.split(": ") for line in done.stdout.splitlines())
    assert set(said) == {"pandas", "pyarrow", "polars", "dask", "zarr", "torch"}
    assert set(said.values()) <= {"ok", "not installed"}
    assert said["pyarrow"] == "ok"
