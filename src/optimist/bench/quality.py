"""What formats of weights and of the KV cache cost in quality: perplexity of prose, and agreement with
float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, product
from math import exp
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from optimist.actors.worker.processors import threads_of
from optimist.bench.prose import passages
from optimist.bench.readers import NativeReader, Reader, TorchReader
from optimist.messages.errors import ConfigError
from optimist.models.default import default_model
from optimist.models.quantisation import KvDtype, Quant
from optimist.models.tokenizer import load_tokenizer

WINDOW = 512
"""tokens that are read together: the first of them is given, every other one predicted"""

QUANTS: tuple[Quant, ...] = get_args(Quant)[:3]
CACHES: tuple[KvDtype, ...] = ("bfloat16", "int8")


class Tally:
    """Of one reader beside the reference, over all tokens so far.

    loss: sum of -log probability of the text's own tokens. agreed: where both think the same token
    likeliest. divergence: sum of KL(reference || reader), in nats.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self.loss = self.divergence = 0.0
        self.agreed = 0

    def add(
        self, expected: NDArray[np.float32], logs: NDArray[np.float32], text: NDArray[np.intp]
    ) -> None:
        """expected, logs: log probabilities of reference and reader, [T, V]. text: what came, [T]."""
        self.tokens += len(text)
        self.loss -= float(logs[np.arange(len(text)), text].sum(dtype=np.float64))
        self.agreed += int((logs.argmax(-1) == expected.argmax(-1)).sum())
        gap = np.exp(expected)
        gap *= expected - logs
        self.divergence += float(gap.sum(dtype=np.float64))

    def figures(self) -> dict[str, float]:
        """Perplexity, share of tokens agreed on, and mean divergence in nats."""
        return {
            "perplexity": round(exp(self.loss / self.tokens), 4),
            "top1_agreement": round(self.agreed / self.tokens, 4),
            "kl": round(self.divergence / self.tokens, 6),
        }


def measure(
    model: str = "",
    *,
    quants: Sequence[Quant] = QUANTS,
    caches: Sequence[KvDtype] = CACHES,
    tokens: int = 24_000,
    threads: int | None = None,
) -> dict[str, Any]:
    """Perplexity of the shipped prose in each format of weights with each cache, `quant/cache`, beside
    float32 in torch; top-1 agreement, and KL.

    model: path, "" is the default one. tokens: to predict at most. Raises ConfigError for fewer than
    one, for int4 of a file without blocks of four bits, and for a cache of GPUs.
    """
    if tokens < 1:
        raise ConfigError(f"--tokens: expected at least 1, got {tokens}")
    path, many = model or str(default_model()), threads_of(threads)
    readers: dict[str, NativeReader] = {}
    try:
        for quant, kv in product(quants, caches):
            readers[f"{quant}/{kv}"] = NativeReader(path, quant, kv, WINDOW, many)
        tallies, seen = compare(TorchReader(path, WINDOW, many), readers, _windows(path, tokens))
    finally:
        for reader in readers.values():
            reader.close()
    base = tallies.pop("float32")
    figures: dict[str, Any] = {"tokens": seen, "window": WINDOW, "float32": base.figures()}
    for name, tally in tallies.items():
        lost = 100 * (exp((tally.loss - base.loss) / seen) - 1)
        figures[name] = tally.figures() | {"perplexity_lost_percent": round(lost, 3)}
    return figures


def compare(
    reference: Reader, readers: Mapping[str, Reader], windows: Iterable[list[int]]
) -> tuple[dict[str, Tally], int]:
    """A tally for float32 and for each reader, and how many tokens were predicted."""
    tallies: dict[str, Tally] = {name: Tally() for name in ("float32", *readers)}
    for window in windows:
        text = np.array(window[1:])
        expected = log_probabilities(reference.logits(window[:-1]))
        tallies["float32"].add(expected, expected, text)
        for name, reader in readers.items():
            tallies[name].add(expected, log_probabilities(reader.logits(window[:-1])), text)
    return tallies, tallies["float32"].tokens


def log_probabilities(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of logits [T, V]; the array is changed."""
    logits -= logits.max(-1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
    return logits


def _windows(model: str, tokens: int) -> Iterable[list[int]]:
    """Windows of WINDOW + 1 tokens, and shorter ones where a passage or `tokens` ends."""
    tokenizer = load_tokenizer(model)
    for passage in passages():
        ids = iter(tokenizer.encode(passage))
        window = list(islice(ids, WINDOW + 1))
        while len(window) > 1 and tokens > 0:
            window = window[: tokens + 1]
            tokens -= len(window) - 1
            yield window
            window = [window[-1], *islice(ids, WINDOW)]
