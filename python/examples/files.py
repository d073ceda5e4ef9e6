"""Libraries that read and write the files of a store through fsspec: each example runs if its library is installed.

    pip install waxseal[fs] pandas pyarrow polars dask[dataframe] zarr torch
    python python/examples/files.py [NAME ..]
"""

import importlib.util
import os
import sys
import tempfile
from typing import Callable, Dict, List, Tuple

import fsspec

import waxseal
from waxseal.fs import WaxsealFileSystem

#: The examples by the names of their modules.
EXAMPLES: Dict[str, Callable[[str], None]] = {}


def example(function: Callable[[str], None]) -> Callable[[str], None]:
    """Registers an example. Its argument is the URL of an empty directory in a store."""
    EXAMPLES[function.__name__] = function
    return function


@example
def pandas(url: str) -> None:
    import pandas

    frame = pandas.DataFrame({"name": ["tom", "ada"], "age": [3, 36]})
    frame.to_csv(f"{url}/people.csv", index=False)
    assert pandas.read_csv(f"{url}/people.csv").equals(frame)
    if importlib.util.find_spec("pyarrow"):
        frame.to_parquet(f"{url}/people.parquet")
        assert pandas.read_parquet(f"{url}/people.parquet").equals(frame)


@example
def pyarrow(url: str) -> None:
    import pyarrow
    from pyarrow import dataset
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    fs, path = fsspec.url_to_fs(url)
    files = PyFileSystem(FSSpecHandler(fs))
    table = pyarrow.table({"year": [2025, 2025, 2026], "value": [1, 2, 3]})
    parts = dataset.partitioning(pyarrow.schema([("year", pyarrow.int64())]), flavor="hive")
    dataset.write_dataset(table, f"{path}/parts", format="parquet", partitioning=parts, filesystem=files)
    found = dataset.dataset(f"{path}/parts", partitioning=parts, filesystem=files)
    assert found.to_table(filter=dataset.field("year") == 2025)["value"].to_pylist() == [1, 2]


@example
def polars(url: str) -> None:
    import polars

    frame = polars.DataFrame({"name": ["tom", "ada"], "age": [3, 36]})
    with fsspec.open(f"{url}/people.parquet", "wb") as file:
        frame.write_parquet(file)
    with fsspec.open(f"{url}/people.parquet", "rb") as file:
        assert polars.read_parquet(file).equals(frame)


@example
def dask(url: str) -> None:
    import dask.bag

    with dask.config.set(scheduler="threads"):  # one process writes
        dask.bag.from_sequence(["one", "two", "three"], npartitions=3).to_textfiles(f"{url}/lines/*.txt")
    lines = dask.bag.read_text(f"{url}/lines/*.txt").map(str.strip)
    assert sorted(lines.compute(scheduler="processes", num_workers=2)) == ["one", "three", "two"]


@example
def zarr(url: str) -> None:
    import numpy
    import zarr

    store = zarr.storage.FsspecStore.from_url(url, storage_options={"auto_mkdir": True})
    array = zarr.create_array(store, shape=(100, 100), chunks=(10, 10), dtype="i4")
    array[:] = numpy.arange(10_000).reshape(100, 100)
    again = zarr.open_array(store, mode="r")
    assert again[42, 7] == 4207 and again[:].sum() == 49_995_000


@example
def torch(url: str) -> None:
    from torch.utils.data import DataLoader, Dataset

    class Files(Dataset):  # type: ignore[type-arg]
        """One item for each file. Workers are forked, and read through their own handle of the store."""

        def __init__(self, url: str) -> None:
            self.fs, path = fsspec.url_to_fs(url)
            self.paths: List[str] = self.fs.find(path)

        def __len__(self) -> int:
            return len(self.paths)

        def __getitem__(self, index: int) -> Tuple[str, int]:
            return self.paths[index], len(self.fs.cat_file(self.paths[index]))

    fs, path = fsspec.url_to_fs(url)
    fs.pipe({f"{path}/{number:03}": bytes(number) for number in range(100)})
    loader = DataLoader(Files(url), batch_size=10, num_workers=2, shuffle=True)
    assert sum(int(sizes.sum()) for _, sizes in loader) == sum(range(100))


def main(wanted: List[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "files.waxseal")
        fs = fsspec.filesystem("waxseal", store=store)
        for name, run in EXAMPLES.items():
            if wanted and name not in wanted:
                continue
            if importlib.util.find_spec(name) is None:
                print(f"{name}: not installed")
                continue
            fs.makedirs(name)
            run(f"waxseal://{store}/{name}")
            print(f"{name}: ok")
        assert isinstance(fs, WaxsealFileSystem)
        fs.close()
        with waxseal.open(store) as db:
            assert db.files().fsck()["faults"] == 0 and db.files().verify()["faults"] == 0


if __name__ == "__main__":
    main(sys.argv[1:])
