"""Where there is no GPU Triton's interpreter runs the kernels: decided before any of them is imported."""

from __future__ import annotations

import pytest
import torch

from optimist.kernels.triton_interpreter import interpret, quiet

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

if DEVICE == "cpu":
    interpret()
else:
    quiet()


@pytest.fixture
def device() -> str:
    """Where kernels run: on a GPU if there is one, else in the interpreter."""
    return DEVICE
