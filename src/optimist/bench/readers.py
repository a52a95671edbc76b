"""Models that read a text and say, behind every token, what they expect next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from optimist.kernels.native.shapes import GREEDY, Rows
from optimist.models.native import Sizes, load_device
from optimist.models.quantisation import Formats, KvDtype, Quant
from optimist.models.source import open_source

BLOCK = 64


class Reader(Protocol):
    """Reads texts of at most the length it was made for."""

    def logits(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Behind every token of a text, [T, V]."""
        ...


class NativeReader:
    """The worker's own library: a text is prefilled in one step. kv: of keys and values. threads: that
    compute.
    """

    def __init__(self, model: str, quant: Quant, kv: KvDtype, longest: int, threads: int) -> None:
        blocks = -(-longest // BLOCK)
        with open_source(model) as source:
            kept = Formats(source, quant).kept(kv)
            sizes = Sizes(BLOCK, blocks, 1, blocks * BLOCK, longest, threads, kept)
            self._device = load_device(source, sizes, quant=quant)
        self._blocks = np.arange(blocks, dtype=np.int32)

    def logits(self, ids: Sequence[int]) -> NDArray[np.float32]:
        none = np.zeros(1, np.int32)
        self._device.reset()
        self._device.open_slot(0, np.array(ids, np.int32), 0, GREEDY)
        self._device.set_blocks(np.zeros_like(self._blocks), self._blocks, self._blocks)
        lengths = np.full(1, len(ids), np.int32)
        return self._device.logits(Rows(none, lengths, lengths, none, none, none[:0]))

    def close(self) -> None:
        """Give up weights and cache."""
        self._device.close()


class TorchReader:
    """The same network in torch in float32, weights as the file has them: what the others are held to."""

    def __init__(self, model: str, longest: int, threads: int) -> None:
        import torch

        from optimist.models.loader import load_model

        torch.set_num_threads(threads)
        self._network = load_model(model, torch.float32)
        self._blocks = -(-longest // BLOCK)
        self._cache = self._network.allocate_cache(self._blocks, BLOCK)
        self._cache.zero_()

    def logits(self, ids: Sequence[int]) -> NDArray[np.float32]:
        import torch

        from optimist.kernels.metadata import ExactMetadata
        from optimist.messages.lengths import ExactSeqLens

        tokens = len(ids)
        at = torch.arange(tokens)
        metadata = ExactMetadata(
            query_start_loc=torch.tensor([0, tokens], dtype=torch.int32),
            seq_lens=torch.tensor([tokens], dtype=torch.int32),
            block_table=torch.arange(self._blocks, dtype=torch.int32)[None],
            slot_mapping=at,
            query_offsets=np.array([0, tokens], np.int32),
            max_query_len=tokens,
            max_seq_len=tokens,
            num_decodes=0,
            is_prefilling=np.array([True]),
            host_lens=ExactSeqLens.of([tokens]),
        )
        with torch.inference_mode():
            text = torch.tensor(list(ids))
            found = self._network.forward(text, at, self._cache, metadata, at)
            logits: NDArray[np.float32] = found.numpy()
        return logits
