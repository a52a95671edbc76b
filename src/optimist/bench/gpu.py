"""`optimist bench gpu`: all that can only be seen on a GPU, in one run. Without one it says so and fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import torch

from optimist.bench import gpu_ids, gpu_roofline, gpu_steps
from optimist.kernels import gpus, triton_interpreter
from optimist.messages.errors import ConfigError
from optimist.models.default import default_model

Section = Callable[[], dict[str, Any]]


def measure(model: str = "", device: str = "auto", golden: str = "") -> dict[str, Any]:
    """Ids, gaps between kernels, waits, and attention's share of the roofline, each with a verdict.

    golden: a file of cases as `python -m optimist.testing.golden` reads it; "" compares with the CPU. A part
    that fails says how, and the others are measured all the same; `verdict` is `right` where every part is.
    Raises ConfigError where no GPU is visible.
    """
    where = gpus.chosen_device(device)
    if where == "cpu":
        raise ConfigError(
            "bench gpu: no GPU is visible here, so there is nothing to measure (`optimist doctor` says why)"
        )
    kernels, why = gpus.kernels_for(where, gpus.found(), triton_interpreter.cannot_compile())
    path, options = model or str(default_model()), engine_options(where)
    sections: dict[str, Section] = {
        "ids": _on_loop(lambda: gpu_ids.compare(path, golden, options)),
        "gaps": _on_loop(lambda: gpu_steps.gaps(path, options)),
        "waits": _on_loop(lambda: gpu_steps.waits(path, options)),
        "attention": lambda: gpu_roofline.measure(path, where, kernels),
    }
    found = {name: judged(section) for name, section in sections.items()}
    right = all(one["verdict"] == "right" for one in found.values())
    return {
        "device": torch.cuda.get_device_name(where),
        "kernels": f"{kernels}: {why}",
        **found,
        "verdict": "right" if right else "wrong",
    }


def engine_options(device: str) -> dict[str, Any]:
    """Of every engine that runs on the GPU."""
    return {"device": device}


def judged(section: Section) -> dict[str, Any]:
    """What a part found, and whether it is `right`, `wrong` or has `failed`: one loses no other."""
    try:
        found = section()
    except Exception as error:  # noqa: BLE001 - whatever a GPU does, the other parts are told
        return {"verdict": "failed", "why": _told(error)}
    right = found.pop("right")
    return {"verdict": "right" if right else "wrong", **found}


def _told(error: BaseException) -> str:
    """The error, or the first of those it stands for."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def _on_loop(work: Callable[[], Awaitable[dict[str, Any]]]) -> Section:
    return lambda: anyio.run(work)
