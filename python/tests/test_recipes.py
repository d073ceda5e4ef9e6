"""The Python blocks of docs/recipes.md run, each with a store of its own and families of the names that the page uses."""

import re
from pathlib import Path

import pytest

import waxseal

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recipes.md"
FAMILIES = ("jobs", "done", "counters", "users", "emails", "accounts")


@pytest.mark.skipif(not PAGE.exists(), reason="the page is not here: this is an installed package")
def test_the_recipes_run(tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    for number, block in enumerate(blocks):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        with waxseal.open("store") as db:
            families = {name: db.family(name) for name in FAMILIES}
            families["jobs"][b"1"] = b"wash"
            names = {"waxseal": waxseal, "db": db, "by_city": db.family("users_by_city"), **families}
            exec(compile(block, f"block {number} of {PAGE.name}", "exec"), names)
