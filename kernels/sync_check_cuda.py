"""What only a GPU's driver knows of a step: calls that wait for it, and copies that cannot be enqueued.

Torch tells of waits for the whole process, so that it is only asked to warn, and a hook judges by the
thread: others may wait while this one is in a step.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

Report = Callable[[str], None]

WAITS = "called a synchronizing CUDA operation"
"""what torch warns with"""

PROTOTYPE = "Synchronization debug mode"
"""how torch begins to say that it does not see everything"""


class _Here(threading.local):
    """Whom waits of this thread are reported to: nobody outside steps."""

    report: Report | None = None


_here = _Here()


@contextmanager
def watched(report: Report) -> Iterator[None]:
    """Report waits and staged copies of this thread meanwhile, where the process uses a GPU."""
    cuda: Any = torch.cuda
    if not cuda.is_initialized():
        yield
        return
    before, _here.report = _here.report, report
    try:
        with _ARMED, _Copies(report):
            yield
    finally:
        _here.report = before


class _Armed:
    """Torch's own mode and the hook behind it, from the first step of the process to the last that runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps = 0
        self._mode = 0
        self._filter: Any = None
        self._shows: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._steps += 1
            if self._steps == 1:
                self._begin()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._steps -= 1
            if not self._steps:
                self._end()

    def _begin(self) -> None:
        self._mode, self._shows = torch.cuda.get_sync_debug_mode(), warnings.showwarning
        notice = _filtered("ignore", PROTOTYPE)
        torch.cuda.set_sync_debug_mode("warn")
        _unfiltered(notice)
        # Each time, whatever was warned of before at the same place.
        self._filter = _filtered("always", WAITS)
        warnings.showwarning = self._show

    def _end(self) -> None:
        torch.cuda.set_sync_debug_mode(self._mode)
        _unfiltered(self._filter)
        if warnings.showwarning == self._show:
            warnings.showwarning = self._shows

    def _show(self, message: Warning | str, *about: Any, **more: Any) -> None:
        if WAITS not in str(message):
            self._shows(message, *about, **more)
        elif _here.report is not None:
            _here.report("a call that waits for the device")


_ARMED = _Armed()


def _filtered(action: Any, message: str) -> Any:
    """Put a filter before all others. Returns it."""
    warnings.filterwarnings(action, message=message, append=False)
    return warnings.filters[0]


def _unfiltered(entry: Any) -> None:
    filters: Any = warnings.filters
    # Whoever saves and restores all filters meanwhile has taken it away already.
    with suppress(ValueError):
        filters.remove(entry)


class _Copies(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Reports copies that are said to block nobody and are staged by the driver all the same."""

    def __init__(self, report: Report) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._report = report

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        host = host_of_copy(func, args, kwargs)
        if host is not None and host.numel():
            if not pinned(host):
                self._report(f"{func} without blocking, of host memory that is not pinned")
            elif not dense(host):
                self._report(f"{func} without blocking, of host memory with holes")
        return func(*args, **kwargs)


def host_of_copy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """The host's side of a copy that should not block, between host and device; None of all else."""
    match func._schema.name:  # noqa: SLF001 - the public way to an operator's schema
        case "aten::copy_":
            fast = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
            sides = [one for one in args[:2] if one.device.type == "cpu"]
            return sides[0] if fast and len(sides) == 1 else None
        case "aten::_to_copy":
            target = kwargs.get("device")
            away = target is not None and torch.device(target).type != "cpu"
            here = args[0].device.type == "cpu"
            return args[0] if kwargs.get("non_blocking") and away and here else None
        case _:
            return None


def pinned(host: Tensor) -> bool:
    """Whether a device can copy it by itself."""
    return host.is_pinned()


def dense(host: Tensor) -> bool:
    """Whether its elements, in some order, fill one piece of memory."""
    expected = 1
    for stride, size in sorted(zip(host.stride(), host.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
