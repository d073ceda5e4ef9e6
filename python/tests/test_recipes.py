"""The Python blocks of docs/recipes.md and docs/tables.md run. Those of the recipes have a store of their own, with families
of the names that the page uses."""

import re
from pathlib import Path

import pytest

import waxseal

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, TABLES = DOCS / "recipes.md", DOCS / "tables.md"
FAMILIES = ("jobs", "done", "counters", "users", "emails", "accounts")


def blocks_of(page):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    return blocks


@pytest.mark.skipif(not PAGE.exists(), reason="the page is not here: this is an installed package")
def test_the_recipes_run(tmp_path, monkeypatch):
    for number, block in enumerate(blocks_of(PAGE)):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        with waxseal.open("store") as db:
            families = {name: db.family(name) for name in FAMILIES}
            families["jobs"][b"1"] = b"wash"
            names = {"waxseal": waxseal, "db": db, "by_city": db.family("users_by_city"), **families}
            exec(compile(block, f"block {number} of {PAGE.name}", "exec"), names)


@pytest.mark.skipif(not TABLES.exists(), reason="the page is not here: this is an installed package")
def test_the_page_of_tables_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for number, block in enumerate(blocks_of(TABLES)):
        exec(compile(block, f"block {number} of {TABLES.name}", "exec", dont_inherit=True), {"__name__": "__main__"})
    assert capsys.readouterr().out == "Pride and Prejudice\nThe Art of War 2\n"
