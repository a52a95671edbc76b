"""The scheduler through its messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.actors.scheduler.conftest import Rig

MakeRig = Callable[..., "Rig"]


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 5])
def test_max_tokens_end_a_request_without_a_wasted_token(
    make_rig: MakeRig, depth: int, max_tokens: int
) -> None:
    rig = make_rig(depth=depth)
    first = rig.admit(6, max_tokens)
    rig.step()
    second = rig.admit(9, max_tokens)
    rig.drain()
    for request in (first, second):
        assert len(rig.delivered(request)) == max_tokens
        assert rig.streams[request].finish == "length"
    assert rig.core.counters.wasted_tokens == 0
    assert rig.device.rows_of == {first: max_tokens, second: max_tokens}
    rig.assert_clean()
