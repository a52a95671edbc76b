"""Whole engines with mixed requests in a batch: sampled tokens come as often as they should."""

from __future__ import annotations

import pytest

from optimist.testing.chain import BOUND
from optimist.testing.distribution import KINDS, Kind, one_thread, sampled

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

REQUESTS = 200


@pytest.mark.parametrize("kind", KINDS, ids=str)
async def test_tokens_come_as_often_as_they_should(kind: Kind) -> None:
    with one_thread():
        made = await sampled(kind, REQUESTS)
    assert max(made.surprises()) < BOUND
    assert 0.05 * made.drafted < made.accepted < 0.95 * made.drafted
