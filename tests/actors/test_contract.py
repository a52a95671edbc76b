"""Which options clash, and what is said about it before anything is loaded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from optimist.actors.config import (
    BuilderConfig,
    DraftTokens,
    EngineConfig,
    GatewayConfig,
    ProposerConfig,
    SchedulerConfig,
    WorkerConfig,
)
from optimist.actors.contract import PlanKind, check_contract, plan_kind, worker_config
from optimist.messages.errors import ConfigError


def engine(
    proposer: str, draft_tokens: DraftTokens = "auto", depth: int = 2, **own: Any
) -> EngineConfig:
    """An engine in which scheduler and proposer are told the same."""
    return EngineConfig(
        scheduler=SchedulerConfig(depth=depth, proposer=proposer, draft_tokens=draft_tokens),
        proposer=ProposerConfig(proposer=proposer, draft_tokens=draft_tokens, **own),
    )


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (engine("none"), "exact"),
        (engine("none", depth=1), "exact"),
        (engine("ngram", depth=1), "exact"),
        (engine("ngram"), "optimistic"),
        (engine("self-draft", 1), "optimistic"),
        (engine("some.where:Else"), "optimistic"),
    ],
)
def test_a_proposer_and_steps_ahead_make_every_plan_optimistic(
    config: EngineConfig, kind: PlanKind
) -> None:
    assert plan_kind(config) == kind
    check_contract(config)


@pytest.mark.parametrize(
    "config",
    [
        EngineConfig(),
        engine("none", 0),
        engine("ngram", 4, ngram_min=1, ngram_max=9),
        engine("ngram-device", 4, ngram_min=1, ngram_max=9),
        engine("suffix", suffix_tokens=0),
        engine("a.b:C", proposer_options={"speed": 3}),
    ],
)
def test_options_that_go_together_pass(config: EngineConfig) -> None:
    check_contract(config)


@pytest.mark.parametrize(
    ("config", "one", "other"),
    [
        (engine("none", 3), "draft_tokens: 3 drafts", "proposer 'none'"),
        (engine("ngram", 0), "draft_tokens: 0 drafts", "proposer 'ngram'"),
        (engine("ngram", suffix_depth=9), "suffix_depth: 9", "proposer is 'ngram'"),
        (engine("suffix", ngram_min=1), "ngram_min: 1", "proposer is 'suffix'"),
        (engine("none", ngram_max=9), "ngram_max: 9", "proposer is 'none'"),
        (engine("self-draft", proposer_options={"a": 1}), "proposer_options", "'self-draft'"),
        (engine("m:C", suffix_tokens=9), "suffix_tokens: 9", "proposer is 'm:C'"),
    ],
)
def test_two_options_that_clash_are_both_named(config: EngineConfig, one: str, other: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_contract(config)
    assert str(refused.value).startswith(one) and other in str(refused.value)


@pytest.mark.parametrize(
    ("changed", "one", "other"),
    [
        (
            {"scheduler": SchedulerConfig(proposer="ngram")},
            "scheduler.proposer",
            "proposer.proposer",
        ),
        ({"proposer": ProposerConfig(proposer="ngram")}, "scheduler.proposer", "proposer.proposer"),
        ({"builder": BuilderConfig(block_size=8)}, "builder.block_size", "worker.block_size"),
        ({"worker": WorkerConfig(block_size=8)}, "builder.block_size", "worker.block_size"),
        (
            {"scheduler": SchedulerConfig(draft_tokens=0)},
            "scheduler.draft_tokens",
            "proposer.draft_tokens",
        ),
    ],
)
def test_actors_that_are_told_different_things_are_both_named(
    changed: dict[str, Any], one: str, other: str
) -> None:
    with pytest.raises(ConfigError, match=f"{one}: expected the same as {other}"):
        check_contract(msgspec.structs.replace(EngineConfig(), **changed))


@pytest.mark.parametrize("proposer", ["n-gram", "eagle", ""])
def test_an_unknown_proposer_is_refused_with_the_nearest(proposer: str) -> None:
    with pytest.raises(ConfigError, match=r"proposer: expected one of none, ngram.*nearest is"):
        check_contract(engine(proposer))


def device(proposer: str, **worker: Any) -> EngineConfig:
    return msgspec.structs.replace(engine(proposer), worker=WorkerConfig(**worker))


@pytest.mark.parametrize(
    ("config", "one", "other"),
    [
        (device("ngram", draft_layers=2), "draft_layers: 2", "proposer is 'ngram'"),
        (device("none", draft_model="/m"), "draft_model: '/m'", "proposer is 'none'"),
        (device("draft-model"), "draft_model", "proposer 'draft-model'"),
        (device("none", verify="block"), "verify: 'block'", "proposer 'none'"),
        (device("ngram-device", executor="native"), "executor: 'native'", "'ngram-device'"),
        (
            device("self-draft", executor="native", verify="rejection"),
            *("executor: 'native'", "verify 'rejection'"),
        ),
        (engine("ngram", 4, ngram_min=5, ngram_max=2), "ngram_max", "ngram_min, which is 5"),
        (engine("ngram-device", ngram_min=0), "ngram_min", "got 0"),
        (engine("suffix", suffix_probability=2.0), "suffix_probability", "got 2.0"),
        (
            msgspec.structs.replace(engine("ngram", 512), worker=WorkerConfig(max_model_len=512)),
            *("draft_tokens: 512 drafts", "max_model_len 512"),
        ),
        (device("none", draft_wait=0.5), "draft_wait: 0.5", "proposer 'none'"),
        (device("self-draft", draft_wait=0.0), "draft_wait: 0", "proposer 'self-draft'"),
        (device("none", executor_options={"a": 1}), "executor_options: {'a': 1}", "'auto'"),
        (device("none", kv_blocks=99, kv_memory_mb=5), "kv_blocks 99", "kv_memory_mb 5"),
        (device("none", reserve_mb=99, kv_blocks=5), "kv_blocks 5", "reserve_mb 99"),
    ],
)
def test_options_of_the_worker_clash_with_the_proposer_by_name(
    config: EngineConfig, one: str, other: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check_contract(config)
    assert str(refused.value).startswith(one) and other in str(refused.value)


@pytest.mark.parametrize(
    "config",
    [
        device("self-draft", draft_layers=2, verify="block"),
        device("ngram", max_model_len=8),
        msgspec.structs.replace(engine("ngram", 511), worker=WorkerConfig(max_model_len=512)),
        device("draft-model", draft_model="/m"),
        device("ngram", executor="native", draft_wait=0.5),
        device("suffix", verify="rejection", executor="native"),
        device("self-draft", executor="native"),
    ],
)
def test_options_of_the_worker_that_fit_pass(config: EngineConfig) -> None:
    check_contract(config)


@pytest.mark.parametrize(
    ("proposer", "told"),
    [
        ("self-draft", "self-draft"),
        ("draft-model", "draft-model"),
        ("ngram-device", "ngram-device"),
        ("ngram", "none"),
        ("none", "none"),
    ],
)
def test_the_worker_is_told_of_proposers_on_its_device_alone(proposer: str, told: str) -> None:
    assert worker_config(engine(proposer)).proposer == told


def test_the_worker_is_told_how_much_must_have_occurred_before() -> None:
    told = worker_config(engine("ngram-device", ngram_min=3, ngram_max=4))
    assert (told.ngram_min, told.ngram_max) == (3, 4)


@pytest.mark.parametrize(
    ("gateway", "said"),
    [
        (GatewayConfig(zmq_keys="k.json"), "zmq_keys: 'k.json' is for zmq"),
        (GatewayConfig(host="0.0.0.0"), "host: '0.0.0.0' is for port"),
    ],
    ids=["keys", "host"],
)
def test_options_of_a_door_that_is_not_there_are_refused(gateway: GatewayConfig, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_contract(msgspec.structs.replace(EngineConfig(), gateway=gateway))


def test_a_negative_number_of_drafts_is_refused() -> None:
    with pytest.raises(ConfigError, match="draft_tokens: expected auto or a number >= 0, got -1"):
        check_contract(engine("ngram", -1))
