"""A corpus of books: python corpus.py [BOOKS.jsonl]"""

import io
import sys

import waxseal
from waxseal.corpus import Corpus, read_jsonl

BOOKS = b"""
{"id": "iu.1", "title": "The Art of War", "publish_date": "1910", "copyright": "public", "pages": ["Preface", "Plans"]}
{"id": "iu.2", "title": "Emma", "author": "Jane Austen", "publish_date": "c1815.", "copyright": "pd", "pages": ["I"]}
{"id": "iu.3", "title": "A new book", "genre": "novel", "publish_date": "2009-05-01", "pages": ["Secret"]}
"""

with waxseal.open("corpus.waxseal") as db:
    books = Corpus.create(db, "books")
    source = open(sys.argv[1], "rb") if len(sys.argv) > 1 else io.BytesIO(BOOKS)
    with source:
        loaded = books.load(read_jsonl(source))
    print(f"{loaded.volumes} volumes, {len(loaded.errors)} bad lines")

    # Readers see the public domain alone, unless the program says otherwise.
    reader = books.reader()
    print("ids:", reader.ids(), "of", books.reader(all_volumes=True).ids())
    print("title has 'art':", reader.title_has("art"))
    print("published from 1900 to 1910:", reader.published("1900", "1910"))

    # Some pages without the others, and a workset in the order of a seed.
    for id in reader.title_has("war"):
        print(id, "page 2:", reader.pages(id, 2, 2))
    books.define_workset("training", reader.ids())
    for volume in reader.shuffled(reader.workset("training"), seed=7):
        print(volume.metadata.title, len(volume.pages))
