"""Sees every host read of a device tensor inside a step, on any device.

Inside a step torch tensors are device data and host data is numpy, so that a host read of any torch
tensor is a fault even on a CPU, where it costs nothing. A function mode sees what Python asks of a
tensor, a dispatch mode what operators do below; neither sees all of it alone.
"""

from __future__ import annotations

import contextlib
import os
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import dlpack
from torch.utils._python_dispatch import TorchDispatchMode

from optimist.kernels.sync_check_cuda import watched
from optimist.messages.errors import ConfigError

VARIABLE = "OPTIMIST_SYNC_CHECK"
MODES = ("off", "warn", "error")


class SyncError(RuntimeError):
    """The host read a device tensor inside a step. The message ends with the reader's stack."""


class SyncWarning(RuntimeWarning):
    """The same, under OPTIMIST_SYNC_CHECK=warn."""


class _Doors(threading.local):
    """How many named doors this thread stands in. report: of the step that it runs, if that is checked."""

    open = 0
    report: Callable[[str], None] | None = None


_doors = _Doors()


def mode() -> str:
    """OPTIMIST_SYNC_CHECK as it is now. Raises ConfigError for a value that is none of MODES."""
    value = os.environ.get(VARIABLE) or "off"
    if value not in MODES:
        raise ConfigError(f"{VARIABLE}: expected {', '.join(MODES)}, got {value!r}")
    return value


@contextlib.contextmanager
def checked_step(setting: str = "") -> Iterator[None]:
    """A step of this thread: in it host reads raise SyncError, or warn, or go unseen.

    setting: one of MODES; "" is `mode`.
    """
    setting = setting or mode()
    if setting == "off":
        yield
        return
    report = _raise if setting == "error" else _warn
    with _Functions(report), _Operators(report), _dlpack_watched(report), watched(report):
        yield


def readback(tensor: Tensor) -> NDArray[Any]:
    """The one door from the device to the host: the tensor's values, as an array of its own."""
    _doors.open += 1
    try:
        # A copy: memory that numpy has seen counts as host memory from then on.
        return np.asarray(tensor.detach().to("cpu", copy=True).numpy())
    finally:
        _doors.open -= 1


def begin_readback(tensor: Tensor) -> Tensor:
    """The same door without waiting: a copy in pinned memory, enqueued on the current stream."""
    with kernel_call():
        into = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return into.copy_(tensor, non_blocking=True)


@contextlib.contextmanager
def kernel_call() -> Iterator[None]:
    """The launch of a kernel of ours by this thread: it takes the addresses of tensors, and reads none."""
    _doors.open += 1
    try:
        yield
    finally:
        _doors.open -= 1


Report = Callable[[str], None]

_given_away = dlpack.to_dlpack  # type: ignore[attr-defined]


@contextlib.contextmanager
def _dlpack_watched(report: Report) -> Iterator[None]:
    """While a step runs the old `to_dlpack`, which no mode sees, tells of itself on this thread."""
    before, _doors.report = _doors.report, report
    for module in (torch, dlpack):
        setattr(module, "to_dlpack", _to_dlpack)  # noqa: B010 - unknown to checkers
    try:
        yield
    finally:
        _doors.report = before


def _to_dlpack(tensor: Tensor) -> Any:
    if _doors.report is not None and not _doors.open:
        _doors.report("to_dlpack")
    return _given_away(tensor)


_READS = frozenset(
    [
        "item",
        "tolist",
        "numpy",
        "cpu",
        "nonzero",
        "argwhere",
        "masked_select",
        "unique",
        "unique_consecutive",
        "equal",
        "allclose",
        "is_nonzero",
        "data_ptr",
        "storage",
        "untyped_storage",
        "_typed_storage",
        "__array__",
        "__dlpack__",
        "__bool__",
        "__int__",
        "__float__",
        "__complex__",
        "__index__",
        "__contains__",
        "__repr__",
        "__str__",
        "__format__",
        "__reduce_ex__",
        "bincount",
        "histc",
        "to_sparse",
        "apply_",
        "map_",
        "map2_",
        "_pack_padded_sequence",
    ]
)
"""of torch and of Tensor: functions that read values, or whose result's shape depends on them"""

_MAKING = frozenset(["tensor", "as_tensor", "asarray", "new_tensor"])
"""make a tensor of data, and read every tensor that is an element of it"""

_PLANNED = {"tensor_split": slice(1, None), "linspace": slice(0, 2), "logspace": slice(0, 2)}
"""read a tensor among these arguments, where a number may stand too"""

_OPERATORS = frozenset(
    f"aten::{name}"
    for name in [
        "_local_scalar_dense",
        "item",
        "nonzero",
        "nonzero_numpy",
        "masked_select",
        "equal",
        "is_nonzero",
        "bincount",
        "_unique",
        "_unique2",
        "unique_dim",
        "unique_consecutive",
        "unique_dim_consecutive",
    ]
)

_INDEXING = frozenset(f"aten::{name}" for name in ("index", "index_put", "index_put_"))


class _Functions(TorchFunctionMode):
    def __init__(self, report: Report) -> None:
        super().__init__()
        self._report = report

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        if not _doors.open and _reads(name, args, kwargs):
            self._report(name)
        return func(*args, **kwargs)


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, report: Report) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._report = report

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not _doors.open and (fault := _fault(func, args, kwargs)):
            self._report(fault)
        return func(*args, **kwargs)


def _reads(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a function of this name reads a tensor, given these arguments."""
    if name in _READS:
        return True
    if name == "to":
        return _names_host((*args[1:], *kwargs.values()))
    if name == "type":
        return any(isinstance(kind, str) and "cuda" not in kind for kind in args[1:])
    if name in _MAKING:
        place = int(name == "new_tensor")
        data = args[place] if place < len(args) else kwargs.get("data", kwargs.get("obj"))
        moved = isinstance(data, Tensor) and _names_host((kwargs.get("device"),))
        return moved or (isinstance(data, list | tuple) and _holds_tensor(data))
    if name in _PLANNED:
        planned = (*args[_PLANNED[name]], *kwargs.values())
        return any(isinstance(value, Tensor) for value in planned)
    return False


def _names_host(values: tuple[Any, ...]) -> bool:
    """Whether a function was asked to move to the host, even if the tensor is there already."""
    for value in values:
        if isinstance(value, Tensor) and value.device.type == "cpu":
            return True
        if isinstance(value, str | torch.device) and torch.device(value).type == "cpu":
            return True
    return False


def _holds_tensor(data: list[Any] | tuple[Any, ...]) -> bool:
    return any(
        isinstance(one, Tensor) or (isinstance(one, list | tuple) and _holds_tensor(one))
        for one in data
    )


def _fault(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    schema = func._schema  # noqa: SLF001 - the public way to an operator's schema
    name = schema.name
    if name in _OPERATORS:
        return str(func)
    if name in _INDEXING and any(_is_mask(index) for index in args[1]):
        return f"{func} with a mask"
    if name == "aten::repeat_interleave" and kwargs.get("output_size") is None:
        return f"{func} without output_size"
    if schema.is_mutable and _writes_host(schema, args, kwargs):
        return f"{func} into host memory"
    return None


def _is_mask(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8)


def _writes_host(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an argument that is written to is memory of numpy's, which torch cannot resize."""
    for place, argument in enumerate(schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value: Any = args[place] if place < len(args) else kwargs.get(argument.name)
        if isinstance(value, Tensor) and value.numel() and not value.untyped_storage().resizable():
            return True
    return False


def _message(what: str) -> str:
    stack = [frame for frame in traceback.extract_stack() if frame.filename != __file__]
    listed = "".join(traceback.format_list(stack[-12:]))
    return f"{what}: the host read a device tensor inside a step\n{listed}"


def _raise(what: str) -> None:
    raise SyncError(_message(what))


def _warn(what: str) -> None:
    warnings.warn(_message(what), SyncWarning, stacklevel=3)
