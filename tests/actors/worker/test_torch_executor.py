"""The torch executor reads nothing of the device inside a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from toy_device import NETWORK, OTHER, executor

from optimist.testing.hand import Hand, Row


@pytest.mark.usefixtures("strict_torch")
def test_steps_run_inside_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    hand = Hand(executor())
    hand.open(0, OTHER, [9])
    forward: Callable[..., torch.Tensor] = NETWORK.forward

    def nosy(*args: Any) -> torch.Tensor:
        logits = forward(*args)
        assert logits.argmax().item() >= 0
        return logits

    monkeypatch.setattr(NETWORK, "forward", nosy)
    with pytest.raises(Exception, match=r"item: the host read a device tensor"):
        hand.run([Row(0, 3)])
