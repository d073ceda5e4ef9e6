"""Shared fixtures: stores in separate directories, and the backend of the whole run."""

import os
from typing import Iterator

import pytest

import waxseal


def pytest_report_header() -> str:
    return f"waxseal {waxseal.__version__}, backend {waxseal.backend}"


@pytest.fixture
def path(tmp_path) -> str:
    return os.fspath(tmp_path / "store")


@pytest.fixture
def db(path) -> Iterator[waxseal.DB]:
    with waxseal.open(path) as db:
        yield db
