"""How much memory is left, on machines and in containers of several kinds."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from optimist.actors.worker.memory import available

MIB = 1 << 20


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """100 MiB are left of its memory."""
    write(tmp_path, {"proc/meminfo": f"MemTotal: 1000000 kB\nMemAvailable:   {100 * 1024} kB"})
    return tmp_path


def group(folder: str, limit: str, used: int = 0, reclaimable: int = 0) -> dict[str, str]:
    """Files of a group, as kernels write them now."""
    return {
        f"{folder}/memory.max": limit,
        f"{folder}/memory.current": str(used * MIB),
        f"{folder}/memory.stat": f"anon 5\ninactive_file {reclaimable * MIB}\nslab 7",
    }


def test_a_machine_without_groups_says_what_it_has(machine: Path) -> None:
    assert available(machine) == 100 * MIB


def test_nothing_known_is_no_limit(tmp_path: Path) -> None:
    assert available(tmp_path) == math.inf


@pytest.mark.parametrize(
    ("limit", "used", "reclaimable", "left"),
    [
        ("max", 30, 0, 100),
        (str(50 * MIB), 30, 0, 20),
        (str(50 * MIB), 30, 10, 30),
        (str(50 * MIB), 60, 0, 0),
        (str(500 * MIB), 30, 0, 100),
        ("garbage", 30, 0, 100),
    ],
)
def test_a_groups_limit_counts_with_what_files_would_make_room_for(
    limit: str, used: int, reclaimable: int, left: int, machine: Path
) -> None:
    write(machine, {"proc/self/cgroup": "0::/a"})
    write(machine, group("sys/fs/cgroup/a", limit, used, reclaimable))
    assert available(machine) == left * MIB


def test_the_smallest_limit_of_the_groups_around_it_counts(machine: Path) -> None:
    write(machine, {"proc/self/cgroup": "0::/a/b"})
    write(machine, group("sys/fs/cgroup/a/b", str(50 * MIB)))
    write(machine, group("sys/fs/cgroup/a", str(40 * MIB)))
    assert available(machine) == 40 * MIB


@pytest.mark.parametrize("path", ["/../../outside", "/of/the/machine"])
def test_in_a_container_the_mount_is_the_group(path: str, machine: Path) -> None:
    write(machine, {"proc/self/cgroup": f"0::{path}"})
    write(machine, group("sys/fs/cgroup", str(50 * MIB), 10))
    assert available(machine) == 40 * MIB


def test_groups_of_older_kernels_count_too(machine: Path) -> None:
    folder = "sys/fs/cgroup/memory/a"
    write(machine, {"proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/a\n0::/"})
    write(machine, {f"{folder}/memory.limit_in_bytes": str(50 * MIB)})
    write(machine, {f"{folder}/memory.usage_in_bytes": str(20 * MIB)})
    write(machine, {f"{folder}/memory.stat": f"cache 1\ntotal_inactive_file {5 * MIB}"})
    write(machine, {"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"})
    write(machine, {"sys/fs/cgroup/memory/memory.usage_in_bytes": str(60 * MIB)})
    assert available(machine) == 35 * MIB


def test_here_there_is_some() -> None:
    assert available() > 0
