"""Small networks in the native library, and what torch says about the same weights in float64."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.actors.worker.base import Limits
from optimist.actors.worker.native_executor import NativeExecutor
from optimist.kernels.kv_cache import null_block
from optimist.kernels.metadata import ExactMetadata
from optimist.kernels.native.device import NativeDevice
from optimist.kernels.native.shapes import GREEDY, Floats, Ints, Rows
from optimist.messages.lengths import ExactSeqLens
from optimist.models.base import StoredMatrix, WeightSource, expected_shapes
from optimist.models.config import ModelConfig
from optimist.models.llama import Llama
from optimist.models.native import Sizes, load_device
from optimist.models.stored_file import StoredFile

BLOCK = 16

TOY = ModelConfig(
    architecture="llama",
    vocab_size=101,
    hidden_size=48,
    num_layers=2,
    num_heads=6,
    num_kv_heads=2,
    head_dim=64,
    intermediate_size=80,
    max_model_len=512,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
    tie_embeddings=True,
)


class ArraySource(WeightSource):
    """Weights out of arrays, as if they had been read from a file."""

    def __init__(self, config: ModelConfig, weights: dict[str, Floats]) -> None:
        super().__init__(Path("arrays"), config)
        self._weights = weights

    def stored_type(self, name: str) -> str:
        return "F32"

    def read(self, name: str, start: int, out: NDArray[np.float32]) -> None:
        out[...] = self._weights[name][start : start + len(out)]

    def matrix(self, name: str) -> StoredMatrix:
        return StoredMatrix("F32", self._weights[name].view(np.uint8), None)

    def files(self) -> tuple[StoredFile, ...]:
        return ()

    def close(self) -> None:
        pass


def random_weights(config: ModelConfig, seed: int = 0) -> dict[str, Floats]:
    """Exact in bfloat16, and large enough that every part of the network matters."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, shape in expected_shapes(config).items():
        values = rng.standard_normal(shape)
        if name.endswith("norm"):
            values = 1 + 0.2 * values
        elif len(shape) > 1 and name not in ("embed", "head"):
            values *= 1.5 / np.sqrt(shape[1])
        found[name] = torch.from_numpy(values).bfloat16().float().numpy()
    return found


def sizes(**changed: Any) -> Sizes:
    """Forty blocks, eight slots, one thread, unless told otherwise."""
    plain = {"blocks": 40, "slots": 8, "max_len": 256, "max_tokens": 512, "threads": 1}
    return Sizes(**{"block_size": BLOCK, **plain, **changed})


def device(
    config: ModelConfig = TOY, *, isa: str = "", seed: int = 0, **changed: Any
) -> NativeDevice:
    source = ArraySource(config, random_weights(config, seed))
    return load_device(source, sizes(**changed), isa=isa)


def executor(config: ModelConfig = TOY, **changed: Any) -> NativeExecutor:
    """The same behind the contract of an Executor."""
    return NativeExecutor(device(config, **changed), limits(config, sizes(**changed)))


def limits(config: ModelConfig, size: Sizes) -> Limits:
    """What an executor of these sizes says of itself."""
    return Limits(
        num_blocks=size.blocks,
        block_size=size.block_size,
        max_slots=size.slots,
        max_model_len=size.max_len,
        max_batch_tokens=size.max_tokens,
        vocab_size=config.vocab_size,
    )


def ints(*values: int) -> Ints:
    return np.array(values, np.int32)


def open_slot(device: NativeDevice, slot: int, ids: Sequence[int], blocks: Sequence[int]) -> None:
    """Move a text into a slot with these blocks."""
    device.open_slot(slot, ints(*ids), 0, GREEDY)
    count = len(blocks)
    device.set_blocks(ints(*[slot] * count), ints(*range(count)), ints(*blocks))


def rows(slots: Sequence[int], queries: Sequence[int]) -> Rows:
    """Rows whose lengths the device knows and which choose nothing."""
    none, unknown = ints(*[0] * len(slots)), ints(*[-1] * len(slots))
    return Rows(ints(*slots), ints(*queries), unknown, none, none, ints())


def exact_logits(
    config: ModelConfig,
    ids: Sequence[int],
    seed: int = 0,
    weights: dict[str, Floats] | None = None,
) -> NDArray[np.float64]:
    """Logits behind every token of a text, [T, V], from torch in float64. weights: None draws them."""
    weights = random_weights(config, seed) if weights is None else weights
    network = Llama(config, _Taken(weights), torch.float64)
    tokens, blocks = len(ids), -(-len(ids) // BLOCK)
    cache = network.allocate_cache(blocks, BLOCK)
    cache.zero_()
    assert null_block(cache) == blocks
    at = torch.arange(tokens)
    metadata = ExactMetadata(
        query_start_loc=torch.tensor([0, tokens], dtype=torch.int32),
        seq_lens=torch.tensor([tokens], dtype=torch.int32),
        block_table=torch.arange(blocks, dtype=torch.int32)[None],
        slot_mapping=at,
        query_offsets=ints(0, tokens),
        max_query_len=tokens,
        max_seq_len=tokens,
        num_decodes=0,
        is_prefilling=np.array([True]),
        host_lens=ExactSeqLens.of([tokens]),
    )
    logits = network.forward(torch.tensor(ids), at, cache, metadata, at)
    found: NDArray[np.float64] = logits.numpy()
    return found


class _Taken:
    def __init__(self, weights: dict[str, Floats]) -> None:
        self._weights = weights

    def take(self, *names: str) -> Tensor:
        return torch.cat([torch.from_numpy(self._weights[name]).double() for name in names])


class NextToken:
    """What a device alone says behind a text: fresh slot, whole text in one query."""

    def __init__(self, config: ModelConfig = TOY) -> None:
        self._device = device(config)
        self._seen: dict[tuple[int, ...], Floats] = {}

    def logits(self, tokens: Sequence[int]) -> Floats:
        """Of the token behind these, [V]."""
        key = tuple(tokens)
        if key not in self._seen:
            open_slot(self._device, 0, key, range(-(-len(key) // BLOCK)))
            self._seen[key] = self._device.logits(rows([0], [len(key)]))[-1]
        return self._seen[key]

    def greedy(self, prompt: Sequence[int], count: int) -> list[int]:
        """The next tokens, each computed from the whole text."""
        tokens = list(prompt)
        for _ in range(count):
            tokens.append(int(self.logits(tokens).argmax()))
        return tokens[len(prompt) :]
