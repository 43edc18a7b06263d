"""The command under a limit on memory."""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from bayespca.cli.messages import NO_MEMORY_FOR_BLOCKS, SETTING, _sentence
from bayespca.engines.decomposing import available_memory
from bayespca.io import open_file

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits on addresses as on Linux")


@linux
def test_a_limit_on_addresses_is_known_and_kept(tmp_path):
    """A sparse file of 1.4 GB (mostly zeros) cannot be mapped under a `ulimit -v` of 1.6 GB."""
    array = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (350_000, 1000))
    array[:50, :5] = np.random.default_rng(0).normal(size=(50, 5))
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 * 2**29, 3 * 2**29))\n"
        "from bayespca.engines.decomposing import available_memory\n"
        "assert available_memory() < 3 * 2**29\n"
        "from bayespca.sources.blocks import open_source\n"
        "print(sum(len(block) for block in open_source(sys.argv[1]).blocks()))\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "x.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "350000\n", done.stderr


@linux
def test_without_a_limit_the_free_memory_is_available():
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
    assert available_memory() > 2**20


def test_no_memory_is_not_answered_with_what_was_done_already(monkeypatch):
    assert "try --stream" in _sentence(MemoryError())
    monkeypatch.setattr(SETTING, "streamed", True)
    assert _sentence(MemoryError()) == NO_MEMORY_FOR_BLOCKS


@pytest.mark.parametrize("rows", [20_000, 2_000_000], ids=["many row groups", "one"])
def test_blocks_of_parquet_take_less_memory_than_the_file(tmp_path, rows):
    """pandas writes up to a million rows as one row group, so its pages are read one at a time."""
    values = np.random.default_rng(0).normal(size=1_500_000)
    table = pa.table({f"c{j}": values for j in range(4)})
    pa.parquet.write_table(table, tmp_path / "x.parquet", row_group_size=rows)
    before = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() for _ in open_file(tmp_path / "x.parquet").blocks(2**20)]
    assert len(held) > 10
    assert max(held) - before < table.nbytes / 4
