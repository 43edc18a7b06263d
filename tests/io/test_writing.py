"""A file is written whole or not at all, and error messages are sentences."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading

import pytest

from bayespca.io.tables import WRITERS
from bayespca.io.writing import _machine, replacing, replacing_path

as_root = hasattr(os, "geteuid") and os.geteuid() == 0
not_root = pytest.mark.skipif(as_root, reason="root may write anywhere")
posix = pytest.mark.skipif(os.name != "posix", reason="permissions and links as on Unix")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_and_a_replaced_one(tmp_path):
    path = tmp_path / "a.txt"
    for contents in (b"first", b"second, longer", b"3"):
        with replacing(path) as file:
            file.write(contents)
            assert not path.exists() or path.read_bytes() != contents
        assert path.read_bytes() == contents
    assert names(tmp_path) == ["a.txt"]


def test_a_relative_path_as_a_string(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with replacing("a") as file:
        file.write(b"x")
    assert (tmp_path / "a").read_bytes() == b"x"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("writer", [replacing, replacing_path])
def test_after_a_failure_everything_is_as_before(tmp_path, error, writer):
    path = tmp_path / "a.txt"
    path.write_bytes(b"before")

    def fail():
        with writer(path) as file:
            getattr(file, "write" if writer is replacing else "write_bytes")(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert names(tmp_path) == ["a.txt"]
    assert path.read_bytes() == b"before"


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("a.csv", ".csv"),
        ("a.csv.gz", ".csv.gz"),
        ("a", ""),
        (".hidden", ""),
        ("a." + "x" * 200, ""),
    ],
)
def test_the_temporary_path_is_hidden_and_has_the_ending(tmp_path, name, ending):
    with replacing_path(tmp_path / name) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.name.startswith(".")
        assert "".join(temporary.suffixes) == ending
        temporary.write_bytes(b"x")
    assert (tmp_path / name).read_bytes() == b"x"


def test_a_writer_may_replace_the_temporary_file_itself(tmp_path):
    with replacing_path(tmp_path / "a") as temporary:
        temporary.unlink()
        temporary.write_bytes(b"x")
    assert (tmp_path / "a").read_bytes() == b"x"


@posix
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_of_a_new_file_are_those_of_open(tmp_path, umask):
    old = os.umask(umask)
    try:
        with replacing(tmp_path / "a"):
            pass
        (tmp_path / "b").write_bytes(b"")
    finally:
        os.umask(old)
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


@posix
def test_permissions_of_a_replaced_file_stay(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"")
    path.chmod(0o640)
    with replacing(path) as file:
        file.write(b"x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@posix
@pytest.mark.parametrize("dangling", [False, True])
def test_a_symbolic_link_stays(tmp_path, dangling):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link.csv"
    if not dangling:
        target.write_bytes(b"before")
    link.symlink_to(target)
    with replacing_path(link) as temporary:
        assert temporary.suffix == ".csv"
        assert temporary.parent == target.parent
        temporary.write_bytes(b"x")
    assert link.is_symlink()
    assert target.read_bytes() == b"x"


# --- sentences ---------------------------------------------------------------------------------


def refused(path, error, match):
    with pytest.raises(error, match=match) as caught, replacing(path) as file:
        file.write(b"x")
    sentence = str(caught.value)
    assert sentence.startswith(f"cannot write {path}: ")
    assert sentence.endswith(".")
    assert caught.value.errno
    return caught.value


def test_missing_folder(tmp_path):
    refused(tmp_path / "no" / "a", FileNotFoundError, "folder .*no does not exist; create it")


def test_a_folder_is_no_file(tmp_path):
    refused(tmp_path, IsADirectoryError, "it is a folder; add the name of a file")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    refused(tmp_path / "file" / "a", NotADirectoryError, "file is not a folder")


@posix
def test_a_device_is_not_replaced(tmp_path):
    refused("/dev/null", OSError, "device or a pipe")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", OSError, "device or a pipe")


@posix
@not_root
def test_protected_folder_and_file(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_bytes(b"before")
    (folder / "a").chmod(0o444)
    refused(folder / "a", PermissionError, "write-protected")
    folder.chmod(0o555)
    try:
        refused(folder / "b", PermissionError, "no permission to write in the folder")
    finally:
        folder.chmod(0o755)


@posix
def test_a_name_that_is_too_long(tmp_path):
    refused(tmp_path / ("a" * 300), OSError, "too long")
    assert names(tmp_path) == []


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_disk_that_fills_up_at_the_end(tmp_path, monkeypatch, where):
    def fail(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "a"
    path.write_bytes(b"before")
    monkeypatch.setattr(os, where, fail)
    error = refused(path, OSError, "the disk is full or the quota used up; free some space")
    assert error.errno == errno.ENOSPC
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["a"]


@posix
def test_a_file_that_may_not_grow(tmp_path):
    code = (
        "import resource, sys\n"
        "from bayespca.io.writing import replacing\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))\n"
        "try:\n"
        "    with replacing(sys.argv[1]) as file:\n"
        "        for _ in range(10):\n"
        "            file.write(bytes(5000))\n"
        "except OSError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a")],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.stdout == (
        f"cannot write {tmp_path / 'a'}: the disk is full or the quota used up; free some space or "
        "write somewhere else.\n"
    )
    assert names(tmp_path) == []


def test_errors_about_other_files_stay_as_they_are(tmp_path):
    with pytest.raises(FileNotFoundError, match="other") as caught, replacing(tmp_path / "a"):
        (tmp_path / "other").read_bytes()
    assert caught.value.filename == str(tmp_path / "other")
    assert names(tmp_path) == []


def test_two_writers_at_once_leave_one_whole_file(tmp_path):
    path = tmp_path / "a"

    def write(letter):
        for _ in range(20):
            with replacing(path) as file:
                for _ in range(10):
                    file.write(letter * 1000)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in (b"a" * 10000, b"b" * 10000)
    assert names(tmp_path) == ["a"]


@posix
def test_every_format_notices_a_full_disk(tmp_path):
    """No file may grow beyond 10 kB: the old files stay, and no temporary file is left behind."""
    code = (
        "import resource, sys\n"
        "import numpy as np\n"
        "from bayespca.io.records import Table\n"
        "from bayespca.io.tables import WRITERS, write_table\n"
        "table = Table(np.random.default_rng(0).normal(size=(1000, 20)))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))\n"
        "for ending in (*WRITERS, '.csv.gz'):\n"
        "    try:\n"
        "        write_table(sys.argv[1] + ending, table)\n"
        "    except OSError as error:\n"
        "        print(ending, error)\n"
    )
    endings = [*WRITERS, ".csv.gz"]
    for ending in endings:
        (tmp_path / f"a{ending}").write_bytes(b"before")
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a")],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    said = done.stdout.splitlines()
    assert [line.split()[0] for line in said] == endings
    assert all("the disk is full" in line for line in said)
    assert names(tmp_path) == sorted(f"a{ending}" for ending in endings)
    assert all((tmp_path / f"a{ending}").read_bytes() == b"before" for ending in endings)


# --- what killed processes leave behind --------------------------------------------------------


def temporary_of(process, folder, machine=None):
    path = folder / f".bayespca-{machine or _machine()}-{process}-{'0' * 16}.csv"
    path.write_bytes(b"half")
    return path


@posix
def test_what_a_killed_process_has_left_is_removed_by_the_next_one(tmp_path):
    code = (
        "import os, sys\n"
        "from bayespca.io.writing import replacing\n"
        "with replacing(sys.argv[1]) as file:\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.csv")], check=False)
    assert [name.endswith(".csv") for name in names(tmp_path)] == [True]
    with replacing(tmp_path / "b.csv"):
        pass
    assert names(tmp_path) == ["b.csv"]


@posix
def test_files_that_others_may_be_writing_stay(tmp_path):
    kept = [temporary_of(os.getppid(), tmp_path), temporary_of(2**22 + 1, tmp_path, "0" * 12)]
    (tmp_path / ".bayespca-notes").write_bytes(b"mine")
    with replacing(tmp_path / "b.csv"):
        pass
    assert names(tmp_path) == sorted([".bayespca-notes", "b.csv", *(path.name for path in kept)])
