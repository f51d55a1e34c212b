"""One run at a time in a folder: the second hears who holds it, and one that is dead holds nothing."""

import os
import signal
import subprocess
import sys

import pytest

from privlab.runner import occupancy

pytestmark = pytest.mark.skipif(occupancy.fcntl is None, reason="locks of Unix")
HOLD = """
import sys, time, pathlib
from privlab.runner import occupancy
with occupancy.occupied(pathlib.Path(sys.argv[1])):
    print("holds", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path / "run"], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "holds\n"
    yield process
    process.kill()
    process.wait()


def test_the_second_run_in_a_folder_hears_who_holds_it(tmp_path, holder):
    with (
        pytest.raises(
            ValueError, match=rf"run' is in use by process {holder.pid} on .*; wait for its end, or give another"
        ),
        occupancy.occupied(tmp_path / "run"),
    ):
        raise AssertionError("both are in")


def test_the_lock_of_a_process_that_was_killed_holds_nobody(tmp_path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "run" / ".run").exists()  # its note is still there
    with occupancy.occupied(tmp_path / "run"):
        assert f"process {os.getpid()}" in (tmp_path / "run" / ".run").read_text()
    assert list((tmp_path / "run").iterdir()) == []


def test_a_folder_is_free_again_also_after_an_error(tmp_path):
    for _ in range(2):
        with pytest.raises(KeyError), occupancy.occupied(tmp_path / "run"):
            raise KeyError


@pytest.mark.parametrize("place", ["file", "file/run", "loop", "/dev/null", "/proc/nothing/run"])
def test_a_place_that_cannot_be_a_folder_is_one_line(tmp_path, place):
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    line = r"out='.*' cannot be a folder to write in: .*; give another"
    with pytest.raises(OSError, match=line) as caught, occupancy.occupied(tmp_path / place):
        raise AssertionError("it was taken")
    assert "\n" not in str(caught.value)
