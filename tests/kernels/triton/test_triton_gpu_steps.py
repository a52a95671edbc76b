"""Steps on a GPU that is not here: everything they touch is on it, and nothing in them waits."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from absent_gpu import GPU, Diary, absent_gpu
from torch import Tensor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker import warm_up
from optimist.actors.worker.base import Progress, RowDrafts
from optimist.actors.worker.torch_executor import TorchExecutor, unheard
from optimist.actors.worker.torch_result import TorchTicket
from optimist.kernels import device
from optimist.kernels.choice import TORCH, torch_kernels, triton_kernels
from optimist.kernels.contract import Kernels
from optimist.kernels.device import Gpu
from optimist.kernels.paged_attention import triton as attention
from optimist.kernels.triton_common import Launch, recorded
from optimist.messages.base import column
from optimist.messages.batches import Batch
from optimist.messages.slots import Sampling
from optimist.models.base import expected_shapes
from optimist.models.llama import Llama
from optimist.testing.hand import GREEDY, Hand, Row
from optimist.testing.torch_toy import TOY

HERE = "cuda:0" if torch.cuda.is_available() else "cpu"
"""what Triton is loaded for in this process: nothing is run on it"""

EVERYTHING = Sampling(
    temperature=0.7,
    seed=3,
    top_k=5,
    top_p=0.9,
    min_p=0.01,
    presence_penalty=0.5,
    repetition_penalty=1.1,
    min_tokens=3,
    stop_ids=column([7]),
    bias_ids=column([3]),
    bias_values=np.array([1.5], np.float32).tobytes(),
    logprobs=2,
)


COMPILED = {
    "_ngram",
    "attend",
    "_rms_norm",
    "_add_rms_norm",
    "_silu_and_mul",
    "_rope",
    "_kv_write",
    "penalise",
    "edit",
    "choose",
    "spread",
    "_compare",
    "_judge",
    "_advance",
}
"""kernels of the network and behind it"""


class Shapes:
    """Weights without values."""

    def take(self, *names: str) -> Tensor:
        shapes = [expected_shapes(TOY)[name] for name in names]
        rows = sum(shape[0] for shape in shapes)
        return torch.empty((rows, *shapes[0][1:]), dtype=torch.bfloat16, device=GPU)


def executor(
    kernels: Kernels,
    diary: Diary | None = None,
    progress: Progress = unheard,
    kind: type[TorchExecutor] = TorchExecutor,
    **options: Any,
) -> TorchExecutor:
    sizes: dict[str, Any] = {"block_size": 4, "kv_blocks": 32, "max_slots": 4, "max_model_len": 32}
    config = WorkerConfig(**(sizes | options))
    network = Llama(TOY, Shapes(), torch.bfloat16, kernels)
    device = Gpu(GPU, Diary() if diary is None else diary)
    draft = network if config.proposer == "draft-model" else None
    return kind(network, config, draft=draft, device=device, progress=progress)


def afternoon(hand: Hand, drafts: int = 0) -> None:
    """Prompts in chunks, decoding, and both in one step; plain requests and ones that use everything."""
    for slot, sampling in enumerate((GREEDY, EVERYTHING)):
        hand.open(slot, range(1, 8), range(4 * slot, 4 * slot + 4), sampling=sampling)
    hand.submit([Row(0, 5), Row(1, 7)])
    hand.submit([Row(1, 1 + drafts, decode=True), Row(0, 2)])
    hand.submit([Row(1, 1 + drafts, decode=True), Row(0, 1 + drafts, decode=True)])


@pytest.fixture(autouse=True)
def every_read_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")


class Drafting(TorchExecutor):
    """Every decode row of a step has room for two drafts."""

    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> TorchTicket:
        if batch.num_decodes:
            room, samples = column([2] * batch.num_decodes), column([1, 1])
            batch = msgspec.structs.replace(batch, draft_counts=room, samples=samples)
        return super().submit(batch, drafts)


@pytest.mark.parametrize("verify", ["sample", "block"])
@pytest.mark.parametrize("kernels", ["torch", "triton"])
def test_every_tensor_of_a_step_is_on_the_gpu(
    kernels: str, verify: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = torch_kernels("cuda:0") if kernels == "torch" else triton_kernels(HERE)
    with absent_gpu(monkeypatch), recorded() as launches:
        if verify == "sample":
            afternoon(Hand(executor(chosen, graphs=False)))
        else:
            proposer = "self-draft" if kernels == "triton" else "draft-model"
            made = executor(chosen, kind=Drafting, proposer=proposer, verify=verify, graphs=False)
            afternoon(Hand(made), drafts=2)
    used = [one for launch in launches for one in launch.arguments if isinstance(one, Tensor)]
    assert {tensor.device for tensor in used} == ({GPU} if kernels == "triton" else set())


def test_a_tensor_that_was_left_on_the_host_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    with absent_gpu(monkeypatch):
        made = executor(TORCH)
        made._state.computed = torch.zeros(4, dtype=torch.int32)  # noqa: SLF001 - planted
        with pytest.raises(RuntimeError, match="same device"):
            afternoon(Hand(made))


def test_a_step_waits_for_nothing_and_its_results_are_copied_beside_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    diary = Diary()
    with absent_gpu(monkeypatch), recorded():
        hand = Hand(executor(triton_kernels(HERE), diary, graphs=False))
        hand.open(0, [1, 2, 3], [0])
        diary.entries.clear()
        ticket = hand.submit([Row(0, 3)])
        hand.submit([Row(0, 1, decode=True)])
    step = [
        "compute: begin",
        "compute: computed",
        "copy: behind computed",
        "copy: begin",
        "copy: end",
        "copy: keeps int64",
        "copy: keeps int64",
        "copy: copied",
        "compute: end",
    ]
    assert diary.entries == [*step, *step]
    ticket.wait()
    assert diary.entries[2 * len(step) :] == ["WAIT for copied"]


@pytest.mark.parametrize(
    ("graphs", "sampling", "copies"),
    [
        (False, GREEDY, 1),
        (True, GREEDY, 2),
        (True, Sampling(temperature=0.7, seed=3, top_p=0.9), 3),
    ],
    ids=["plain", "graph", "sampled"],
)
def test_a_step_tells_the_device_of_its_rows_in_a_copy_or_two(
    graphs: bool, sampling: Sampling, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for the step, one for the memory of its graph, and one for what its rows sample by."""
    with absent_gpu(monkeypatch), recorded():
        hand = Hand(executor(triton_kernels(HERE), graphs=graphs))
        hand.open(0, [1, 2, 3], [0, 1], sampling=sampling)
        hand.submit([Row(0, 3)])
        hand.submit([Row(0, 1, decode=True)])
        made: list[Tensor] = []
        plain = device._enqueued  # noqa: SLF001 - what is counted

        def enqueued(host: Tensor, target: torch.device) -> Tensor:
            made.append(host)
            return plain(host, target)

        monkeypatch.setattr(device, "_enqueued", enqueued)
        hand.submit([Row(0, 1, decode=True)])
    assert len(made) == copies


@pytest.mark.parametrize("proposer", ["self-draft", "draft-model"])
def test_passes_that_draft_are_captured_and_replayed_too(
    proposer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int, int]] = []
    diary = Diary()
    with absent_gpu(monkeypatch), recorded():
        made = executor(
            triton_kernels(HERE),
            diary,
            lambda *part: told.append(part),
            kind=Drafting,
            proposer=proposer,
            most_drafts=2,
            max_slots=2,
        )
        finished = [what for what, done, total in told if done == total]
        assert finished == ["compiled sizes", "ways of sampling", "draft graphs", "graphs"]
        hand = Hand(made)
        for slot in range(2):
            hand.open(slot, range(1, 8), range(4 * slot, 4 * slot + 4))
        hand.submit([Row(0, 7), Row(1, 7)])
        diary.entries.clear()
        hand.submit([Row(0, 3, decode=True), Row(1, 3, decode=True)])
    assert diary.entries.count("replay") == 2 + 1
    assert not [entry for entry in diary.entries if "WAIT" in entry]


def test_decoding_is_captured_at_the_start_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int, int]] = []
    diary = Diary()
    with absent_gpu(monkeypatch), recorded():
        kernels = triton_kernels(HERE)
        made = executor(kernels, diary, lambda *part: told.append(part), max_slots=2)
        assert told[-2:] == [("graphs", 1, 2), ("graphs", 2, 2)]
        assert [entry for entry in diary.entries if "capture" in entry] == [
            "compute: capture into None",
            "compute: capture into pool",
        ]
        assert diary.entries[-1] == "WAIT for everything"
        hand = Hand(made)
        hand.open(0, [1, 2, 3], [0])
        diary.entries.clear()
        hand.submit([Row(0, 3)])
        assert "replay" not in diary.entries
        hand.submit([Row(0, 1, decode=True)])
        assert diary.entries.count("replay") == 1
    assert not [entry for entry in diary.entries if "WAIT" in entry]


def specialised(launches: list[Launch]) -> set[tuple[Any, ...]]:
    """What tells one compiled kernel of a model from another: dtypes, what is None, and options."""
    return {
        (
            launch.kernel.fn.__name__,
            *(one.dtype if isinstance(one, Tensor) else type(one) for one in launch.arguments),
            *sorted(launch.options.items()),
        )
        for launch in launches
        if launch.kernel.fn.__name__ in COMPILED
    }


@pytest.mark.parametrize(
    ("verify", "proposer"),
    [
        ("sample", "ngram-device"),
        ("sample", "self-draft"),
        ("rejection", "self-draft"),
        ("block", "self-draft"),
    ],
)
def test_no_step_is_the_first_to_launch_a_kernel_in_some_way(
    verify: str, proposer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with absent_gpu(monkeypatch), recorded() as launches:
        options: dict[str, Any] = {"proposer": proposer, "most_drafts": 2, "graphs": False}
        made = executor(triton_kernels(HERE), kind=Drafting, verify=verify, **options)
        at_start = specialised(launches)
        launches.clear()
        afternoon(Hand(made), drafts=2)
    assert specialised(launches)
    assert specialised(launches) <= at_start


def test_every_way_in_which_attention_splits_a_context_is_compiled_at_the_start() -> None:
    assert (warm_up.CONTEXT_OF_SPLIT, warm_up.MOST_SPLITS) == (
        attention.CONTEXT_OF_SPLIT,
        attention.MOST_SPLITS,
    )
    passes = warm_up.decoding(5000, 5)
    assert [one.bound for one in passes if one.tokens == 1] == [1, 256, 512, 1024, 2048, 4096, 8192]
    assert {one.tokens for one in passes} == {1, 2, 4, 6}
    assert all(one.decodes for one in passes)
    assert {one.bound for one in warm_up.decoding(1 << 20, 0)} == {1, *(256 << i for i in range(6))}
