"""The sync check is a switch of a running engine, wherever its worker is."""

from __future__ import annotations

from typing import Any

import pytest

from optimist import ConfigError, Engine, EngineEnded, RequestFailed, SamplingParams
from optimist.actors.config import Placement
from optimist.testing.byte_tokenizer import ByteTokenizer

pytestmark = pytest.mark.anyio

PARAMS = SamplingParams(max_tokens=48, temperature=0, ignore_eos=True)
"""so many that the switch, which overtakes no request and waits for none, comes long before the last"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


NOSY, TOLD = "nosy_executor:NosyExecutor", "told_executor:ToldExecutor"


def made(placement: Placement, executor: str = TOLD, **options: Any) -> Engine:
    more = {"sleep_ms": 5} if executor == TOLD else {}
    return Engine(
        placement=placement,
        executor=executor,
        executor_options={"vocab_size": 272, **more},
        tokenizer=ByteTokenizer(),
        threads=1,
        kv_blocks=16,
        max_slots=4,
        max_model_len=64,
        **options,
    )


@pytest.mark.parametrize(
    ("placement", "executor"), [("inline", NOSY), ("embedded", TOLD), ("processes", TOLD)]
)
async def test_it_is_switched_while_the_engine_runs_and_holds_for_later_lives_of_the_worker(
    placement: Placement,
    executor: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.delenv("OPTIMIST_SYNC_CHECK", raising=False)
    async with made(placement, executor, restarts=9) as engine:
        before = await engine.complete("abc", PARAMS)
        engine.check_syncs("error")
        # The request fails when the second life of the worker ends as the first one did.
        with pytest.raises(RequestFailed, match="in two steps that died"):
            await engine.complete("abc", PARAMS)
        assert caplog.text.count("Error: item: the host read a device tensor") == 2
        engine.check_syncs("off")
        assert (await engine.complete("abc", PARAMS)).token_ids == before.token_ids


@pytest.mark.parametrize("placement", ["inline", "embedded", "processes"])
async def test_a_value_that_the_variable_does_not_have_is_refused_before_anything_runs(
    placement: Placement, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "loud")
    with pytest.raises(ConfigError, match="SYNC_CHECK: expected one of off, warn, error, got 'lo"):
        await made(placement).start()


async def test_a_switch_that_cannot_be_says_why() -> None:
    with pytest.raises(ConfigError, match="check_syncs: expected off, warn, error, got 'loud'"):
        made("inline").check_syncs("loud")  # type: ignore[arg-type]
    compiled = made("inline", torch_compile="inductor")
    with pytest.raises(ConfigError, match="check_syncs: warn and torch_compile=inductor do not"):
        compiled.check_syncs("warn")
    with pytest.raises(EngineEnded, match="has not started"):
        made("inline").check_syncs("off")
