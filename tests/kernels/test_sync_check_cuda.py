"""Waits and staged copies in a step, told by a stand-in for torch's own watch; `meta` is the device."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from optimist.kernels import sync_check_cuda
from optimist.kernels.sync_check import VARIABLE, SyncError, SyncWarning, checked_step
from optimist.kernels.sync_check_cuda import WAITS, dense

HOST = torch.arange(6.0).reshape(2, 3)
DEVICE = torch.empty((2, 3), device="meta")


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A process that uses a GPU; what torch's watch was set to."""
    found: list[Any] = []
    monkeypatch.setenv(VARIABLE, "error")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", found.append)
    return found


def wait() -> None:
    """What torch says where a call waits."""
    warnings.warn(WAITS, UserWarning, stacklevel=1)


def test_a_call_that_waits_in_a_step_is_a_fault_each_time(modes: list[Any]) -> None:
    shows, filters = warnings.showwarning, list(warnings.filters)
    for _ in range(2):
        with pytest.raises(SyncError, match="waits for the device"), checked_step():
            wait()
    assert modes == ["warn", 0] * 2
    assert warnings.showwarning is shows
    assert list(warnings.filters) == filters


def test_other_threads_wait_as_they_please(modes: list[Any]) -> None:
    seen: list[BaseException] = []

    def elsewhere() -> None:
        try:
            wait()
        except BaseException as error:  # noqa: BLE001 - told to the test
            seen.append(error)

    with checked_step():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert not seen


def test_steps_side_by_side_arm_and_disarm_once(modes: list[Any]) -> None:
    with checked_step(), checked_step():
        pass
    assert modes == ["warn", 0]


def test_warn_goes_on_and_other_warnings_are_as_ever(
    modes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "warn")
    with pytest.warns(SyncWarning, match="waits for the device"), checked_step():
        wait()
    with pytest.warns(UserWarning, match="something else"), checked_step():
        warnings.warn("something else", UserWarning, stacklevel=1)


def test_without_a_gpu_nothing_is_armed(modes: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    with checked_step():
        HOST.to("meta", non_blocking=True)
    assert modes == []


@pytest.mark.parametrize(
    "copy",
    [
        lambda: HOST.to("meta", non_blocking=True),
        lambda: DEVICE.copy_(HOST, non_blocking=True),
        lambda: DEVICE.copy_(HOST, True),
    ],
)
def test_a_copy_of_memory_that_is_not_pinned_is_staged(
    copy: Callable[[], Any], modes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SyncError, match="not pinned"), checked_step():
        copy()
    monkeypatch.setattr(sync_check_cuda, "pinned", lambda host: True)
    with checked_step():
        copy()


def test_pinned_memory_with_holes_is_staged_too(
    modes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_check_cuda, "pinned", lambda host: True)
    with pytest.raises(SyncError, match="with holes"), checked_step():
        HOST[:, :2].to("meta", non_blocking=True)


def test_what_blocks_or_stays_where_it_is_or_is_empty_is_no_such_copy(modes: list[Any]) -> None:
    with checked_step():
        DEVICE.copy_(HOST)
        DEVICE.copy_(DEVICE.clone(), non_blocking=True)
        HOST.clone().copy_(HOST, non_blocking=True)
        HOST[:0].to("meta", non_blocking=True)
        HOST.to(torch.float64, non_blocking=True)


def test_dense_is_what_fills_its_memory_in_some_order() -> None:
    assert dense(HOST)
    assert dense(HOST.T)
    assert dense(HOST[:1])
    assert not dense(HOST[:, :2])
    assert not dense(HOST[:, ::2])
