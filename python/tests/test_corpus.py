"""A corpus of books: `waxseal.corpus`. The same expectations as in `crates/corpus/tests/corpus.rs`."""

import io
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import waxseal
from waxseal import corpus as module
from waxseal.corpus import IN_COPYRIGHT, PUBLIC, AccessDeniedError, Corpus, Metadata, Volume, read_jsonl
from waxseal.tables import Tables

EXAMPLE = Path(__file__).parents[1] / "examples" / "corpus.py"


def volume(id, title, date, genre, rights, pages=12):
    metadata = Metadata(id, title, "Edward Gibbon", date, genre, rights)
    return Volume(metadata, [f"{id} page {number}" for number in range(1, pages + 1)], id.encode())


@pytest.fixture(params=[1, 2, 3])
def books(request):
    with waxseal.memory() as db:
        Corpus.create(db, "htrc", request.param)
        books = Corpus(db, "htrc")
        assert books.schema == request.param
        books.add(volume("iu.1", "The Art of Science", "1970", "novel", PUBLIC))
        books.add(volume("iu.2", "Art", "c1979-05-01", None, PUBLIC))
        books.add(volume("iu.3", "Science", "1980", "novel", IN_COPYRIGHT))
        yield books


def all_rows(db):
    tables = Tables(db)
    return {name: list(tables.table(name)) for name in tables}


def test_queries_find_the_volumes_that_the_reader_may_read(books):
    public, everything = books.reader(), books.reader(all_volumes=True)
    assert public.ids() == ["iu.1", "iu.2"]
    assert everything.ids() == ["iu.1", "iu.2", "iu.3"]
    assert everything.published("1970-12-31", "1979-01-01") == ["iu.1", "iu.2"]
    assert public.published("1979", "1980") == ["iu.2"]
    assert everything.published("1980", "1979") == []
    assert everything.genre("novel") == ["iu.1", "iu.3"]
    assert public.genre("novel") == ["iu.1"]
    assert everything.title_has("SCIENCE") == ["iu.1", "iu.3"]
    assert public.title_has("science art") == ["iu.1"]
    assert everything.title_has("science art") == ["iu.1"]
    assert public.author_has("edward") == ["iu.1", "iu.2"]
    assert everything.title_has(" .") == []
    with pytest.raises(ValueError):
        everything.published("undated", "1980")
    for denied in (public.volume, public.metadata, public.archive, lambda id: public.pages(id, 1, 1)):
        with pytest.raises(AccessDeniedError):
            denied("iu.3")
    with pytest.raises(waxseal.NotFoundError):
        everything.volume("iu.4")


def test_volumes_and_pages_are_read_back(books):
    everything = books.reader(all_volumes=True)
    read = everything.volume("iu.2")
    assert (len(read.pages), read.metadata.page_count, read.archive) == (12, 12, None)
    assert read.pages[9] == "iu.2 page 10"
    assert read.metadata == Metadata("iu.2", "Art", "Edward Gibbon", "c1979-05-01", None, PUBLIC, 12)
    assert everything.pages("iu.2", 11, 99) == ["iu.2 page 11", "iu.2 page 12"]
    assert everything.pages("iu.2", 13, 99) == []
    assert everything.archive("iu.2") == b"iu.2"
    with pytest.raises(ValueError):
        everything.pages("iu.2", 0, 1)


def test_a_replaced_volume_leaves_nothing_behind(books):
    everything = books.reader(all_volumes=True)
    books.add(volume("iu.1", "War", "1990", None, IN_COPYRIGHT, 3))
    assert everything.title_has("art") == ["iu.2"]
    assert everything.title_has("war") == ["iu.1"]
    assert everything.genre("novel") == ["iu.3"]
    assert len(everything.volume("iu.1").pages) == 3
    assert books.reader().ids() == ["iu.2"]
    with waxseal.memory() as db:
        fresh = Corpus.create(db, "htrc", books.schema)
        for id in ("iu.2", "iu.3"):
            one = everything.volume(id)
            one.archive = everything.archive(id)
            fresh.add(one)
        assert books.remove("iu.1") and not books.remove("iu.1")
        assert all_rows(db) == all_rows(books._db)


def test_worksets_are_named_sets_of_ids(books):
    public = books.reader()
    books.define_workset("art", ["iu.3", "iu.2", "iu.9", "iu.2"])
    assert public.workset("art") == ["iu.2"]
    assert books.reader(all_volumes=True).workset("art") == ["iu.2", "iu.3"]
    books.define_workset("art", ["iu.1"])
    assert (public.workset("art"), public.worksets()) == (["iu.1"], ["art"])
    for name in ("", "public", "in-copyright"):
        with pytest.raises(ValueError):
            books.define_workset(name, ["iu.3"])
    assert books.remove_workset("art") and not books.remove_workset("art")
    with pytest.raises(waxseal.NotFoundError):
        public.workset("art")


def test_an_order_depends_on_the_seed_alone(books):
    everything = books.reader(all_volumes=True)

    def order(ids, seed):
        return [volume.metadata.id for volume in everything.shuffled(ids, seed)]

    assert order(everything.ids(), 2) == order(reversed(everything.ids()), 2)
    assert any(order(everything.ids(), seed) != order(everything.ids(), 2) for seed in range(9))


def test_words_years_and_orders_are_those_of_the_rust_crate():
    items = list(range(10))
    module._shuffle(items, 2014)
    assert items == [6, 9, 4, 2, 1, 3, 8, 5, 0, 7]
    words = module._words("The Art of Art, d'\u00c9mile\u20141905")
    assert sorted(words) == ["1905", "art", "d", "of", "the", "\u00e9mile"]
    assert module._words(" .\u3002- ") == set()
    assert module._words("\u00e9" * 100) == {"\u00e9" * 64}
    dates = ["2009", "c1905.", "[1890?]", "5 May 2009", "2009-05-01", "18900", "n.d.", ""]
    assert [module._year_of(date) for date in dates] == [2009, 1905, 1890, 2009, 2009, None, None, None]


def test_json_lines_are_loaded_and_bad_lines_are_named(books):
    good = {"id": "a", "title": "Emma", "copyright": " PD ", "pages": ["one", "two"], "other": 1}
    bad = [b'{"id":', b'{"id":"b","pages":[1]}', b"\xff", b'{"title":"x"}', b"[" * 100_000]
    lines = [json.dumps(good).encode(), b"", *bad, b'{"id":"c"}']
    volumes, errors = books.load(read_jsonl(io.BytesIO(b"\n".join(lines))))
    assert volumes == 2
    assert [str(error).split(":")[0] for error in errors] == [f"line {number}" for number in (3, 4, 5, 6, 7)]
    assert str(errors[1]) == "line 4: a page is no text"
    public = books.reader()
    assert public.volume("a").pages == ["one", "two"]
    with pytest.raises(AccessDeniedError):
        public.metadata("c")


def test_a_volume_that_the_corpus_refuses_is_an_error_of_its_own(books):
    long = 70_000
    bad = [{"id": "b\ud800"}, {"id": "b", "pages": ["\udfff"]}, {"id": "b" * long}, {"id": "b", "genre": "g" * long}]
    lines = [json.dumps(line).encode() for line in [{"id": "a"}, *bad, {"id": "c"}]]
    before = all_rows(books._db)
    volumes, errors = books.load(read_jsonl(io.BytesIO(b"\n".join(lines))))
    assert volumes == 2 and len(errors) == 4 and {type(error) for error in errors} == {ValueError}
    assert all("surrogate" in str(errors[at]) and str(errors[at]).startswith(f"line {at + 2}: ") for at in (0, 1))
    assert str(errors[2]).startswith(f"volume {'b' * 80!r}: ") and str(errors[3]).startswith("volume 'b': ")
    assert isinstance(errors[2].__cause__, waxseal.InvalidArgument)
    given = [Metadata("d\ud800"), Metadata(""), Metadata("d", rights="pd"), Metadata("d")]
    volumes, errors = books.load(map(Volume, given))
    named = [str(error).split(":")[0] for error in errors]
    assert volumes == 1 and named == [r"volume 'd\ud800'", "volume ''", "volume 'd'"]
    assert books.reader(all_volumes=True).ids() == ["a", "c", "d", "iu.1", "iu.2", "iu.3"]
    [books.remove(id) for id in "acd"]
    assert all_rows(books._db) == before, "a refused volume leaves nothing behind"


def test_an_error_of_the_store_ends_a_load(books):
    books._db.close()
    with pytest.raises(waxseal.ClosedError):
        books.load([Volume(Metadata("a"))])


def test_a_line_that_is_too_long_ends_the_read(monkeypatch):
    monkeypatch.setattr(module, "_MOST_LINE_BYTES", 12)
    read = list(read_jsonl(io.BytesIO(b'{"id":"a"}\n{"id":"a longer id"}\n{"id":"b"}\n')))
    assert isinstance(read[0], Volume) and len(read) == 2
    assert str(read[1]) == "line 2: the line has more than 12 bytes"


def test_invalid_arguments_are_refused(books):
    for metadata in (Metadata(""), Metadata("iu.1", rights="pd")):
        with pytest.raises(ValueError):
            books.add(Volume(metadata))
    with pytest.raises(ValueError):
        Corpus.create(books._db, "other", 4)
    with pytest.raises(waxseal.ExistsError):
        Corpus.create(books._db, "htrc")
    with pytest.raises(waxseal.NotFoundError):
        Corpus(books._db, "other")
    Tables(books._db).drop("htrc.volumes")  # as after a crash in `create`
    assert Corpus.create(books._db, "htrc", 2).schema == 2


def test_a_volume_is_replaced_while_it_is_read(books):
    def edition(number):
        rights = PUBLIC if number % 2 else IN_COPYRIGHT
        return volume("iu.1", f"edition{number}", "1990", None, rights, 1 + 3 * number)

    books.add(edition(0))
    writers = [threading.Thread(target=lambda n=n: [books.add(edition(n)) for _ in range(10)]) for n in (0, 1, 2)]
    for writer in writers:
        writer.start()
    everything = books.reader(all_volumes=True)
    while any(writer.is_alive() for writer in writers):
        read = everything.volume("iu.1")
        assert len(read.pages) == 1 + 3 * int(read.metadata.title.removeprefix("edition"))
        assert everything.ids() == ["iu.1", "iu.2", "iu.3"]
    for writer in writers:
        writer.join()


def test_each_call_reads_at_one_moment(books, monkeypatch):
    def before_return(name, write):
        """Writes after a part of a read and before the next one."""
        part = getattr(module.Reader, name)

        def read(*arguments):
            found = part(*arguments)
            write()
            return found

        monkeypatch.setattr(module.Reader, name, read)

    everything = books.reader(all_volumes=True)
    before_return("_collection", lambda: books.add(volume("iu.3", "Science", "1980", None, PUBLIC)))
    assert everything.ids() == ["iu.1", "iu.2", "iu.3"]
    before_return("_metadata_at", lambda: books.add(volume("iu.1", "War", "1990", None, PUBLIC, 3)))
    assert len(everything.volume("iu.1").pages) == 12
    assert len(everything.pages("iu.1", 1, 99)) == 3


def test_the_example_runs(tmp_path):
    done = subprocess.run([sys.executable, str(EXAMPLE)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "title has 'art': ['iu.1']" in done.stdout
