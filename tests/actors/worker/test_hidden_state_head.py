"""A head over hidden states, randomly initialised: it drafts what a dense computation says it should."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from draft_driver import Driver
from torch import Tensor
from toy_device import NETWORK, SIZES

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.device_proposer import Drafter, Round
from optimist.actors.worker.hidden_state_head import HiddenStateHead
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.kernels.metadata import ExactMetadata
from optimist.messages.lengths import ExactSeqLens
from optimist.models.base import layer_shapes
from optimist.models.draft_head import DraftHead
from optimist.testing.hand import GREEDY
from optimist.testing.torch_oracle import ToyOracle
from optimist.testing.torch_toy import TOY

pytestmark = pytest.mark.usefixtures("strict_torch")

PROMPTS = {0: [5, 60, 7, 81, 9, 10, 11], 1: [1, 2, 3]}


class Random:
    """Weights of a head."""

    def __init__(self) -> None:
        self._generator = torch.Generator().manual_seed(3)

    def take(self, *names: str) -> Tensor:
        return torch.cat([self._tensor(name) for name in names])

    def _tensor(self, name: str) -> Tensor:
        if name == "fuse":
            shape: tuple[int, ...] = (TOY.hidden_size, 2 * TOY.hidden_size)
        else:
            shape = layer_shapes(TOY)[name.removeprefix("layers.0.")]
        drawn = torch.randn(shape, generator=self._generator, dtype=torch.float64)
        return 1 + 0.1 * drawn if name.endswith("norm") else drawn * shape[-1] ** -0.5


HEAD = DraftHead(NETWORK, Random())


def one_row(length: int) -> tuple[Tensor, ExactMetadata]:
    """Positions and metadata of a text that is computed at once, in block 0."""
    positions = torch.arange(length)
    metadata = ExactMetadata(
        query_start_loc=torch.tensor([0, length], dtype=torch.int32),
        seq_lens=torch.tensor([length], dtype=torch.int32),
        block_table=torch.tensor([[0]], dtype=torch.int32),
        slot_mapping=positions,
        query_offsets=torch.tensor([0, length], dtype=torch.int32).numpy(),
        max_query_len=length,
        max_seq_len=length,
        num_decodes=0,
        is_prefilling=torch.ones(1, dtype=torch.bool).numpy(),
        host_lens=ExactSeqLens.of([length]),
    )
    return positions, metadata


def dense(text: list[int], count: int) -> list[int]:
    """Drafts behind a text, everything computed anew for each of them."""
    length = len(text) - 1
    positions, metadata = one_row(length)
    cache = NETWORK.allocate_cache(1, 64).zero_()
    states = NETWORK.hidden(torch.tensor(text[:-1]), positions, cache, metadata)
    drafts: list[int] = []
    for _ in range(count):
        tokens = torch.tensor([*text, *drafts][1:])
        positions, metadata = one_row(len(tokens))
        own = HEAD.allocate_cache(1, 64).zero_()
        x = HEAD.forward(tokens, states, positions, own, metadata)
        drafts.append(int(NETWORK.logits(x[-1:]).argmax()))
        states = torch.cat((states, x[-1:]))
    return drafts


def started(optimistic: bool, **options: Any) -> Driver:
    config = WorkerConfig(dtype="float64", **{**SIZES, **options})
    device = TorchExecutor(
        NETWORK, config, proposer=lambda target, limits: HiddenStateHead(HEAD, limits)
    )
    assert device.brought == (DraftHead.forward,)
    driver = Driver(device, optimistic=optimistic)
    for slot, prompt in PROMPTS.items():
        driver.open(slot, prompt, GREEDY)
    return driver


@pytest.mark.parametrize("optimistic", [False, True], ids=["exact", "optimistic"])
def test_it_drafts_what_a_dense_computation_says(
    optimistic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables: list[Tensor] = []
    draft = Drafter.draft

    def seen(self: Drafter, round: Round) -> Tensor | None:
        proposal = draft(self, round)
        tables.append(round.state.token_ids.clone())
        return proposal

    monkeypatch.setattr(Drafter, "draft", seen)
    driver = started(optimistic)
    driver.prefill({0: 3, 1: 3}, itself=True)
    driver.prefill({0: 4}, {1: [0, 0]}, itself=True)
    for i in range(5):
        texts = {slot: list(tokens) for slot, tokens in driver.tokens.items()}
        counts = {0: 1 + i % 3, 1: (i + 1) % 4}
        driver.decode({slot: [0] * count for slot, count in counts.items()}, itself=True)
        for slot, count in counts.items():
            known = len(texts[slot])
            drafts = tables[-1][slot, known : known + count].tolist()
            assert drafts == dense(texts[slot], count)


def test_tokens_do_not_depend_on_the_head() -> None:
    driver, oracle = started(optimistic=True), ToyOracle()
    driver.prefill({0: 7, 1: 3}, itself=True)
    for ticket in [driver.submit({0: [0] * 3, 1: [0]}, itself=True) for _ in range(4)]:
        driver.read(ticket)
    for slot, prompt in PROMPTS.items():
        text = list(prompt)
        while len(text) < len(driver.tokens[slot]):
            text.append(oracle(text, len(prompt), GREEDY))
        assert driver.tokens[slot] == text
