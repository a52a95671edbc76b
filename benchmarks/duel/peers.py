"""Every peer that can be named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from duel.child import PeerFailed
from duel.llamacpp import LlamaCpp
from duel.prompts import Prompts
from duel.rows import Row
from duel.runner import GuestRunner, Peer, Runner, parse_peer
from duel.vllm import Vllm


class Transformers(GuestRunner):
    """A static batch. The model is a Hugging Face folder and runs in bfloat16."""

    def can(self, row: Row) -> bool:
        return super().can(row) and row.format == "bf16"


class OpenVino(GuestRunner):
    """A model for each format: a folder exported with that weight format (fp16 stands for bf16)."""


KINDS: dict[str, Callable[[Peer, Prompts, int, Path], Runner]] = {
    "llamacpp": LlamaCpp,
    "openvino": OpenVino,
    "vllm": Vllm,
    "transformers": Transformers,
}


def runners(texts: Sequence[str], prompts: Prompts, threads: int, logs: Path) -> list[Runner]:
    """A runner for each --peer. Raises PeerFailed for an unknown peer, or a path that is not there."""
    return [_runner(parse_peer(text), prompts, threads, logs) for text in texts]


def _runner(peer: Peer, prompts: Prompts, threads: int, logs: Path) -> Runner:
    if peer.name not in KINDS:
        raise PeerFailed(f"--peer: expected one of {', '.join(KINDS)}, got {peer.name!r}")
    for path in (peer.path, *peer.models.values()):
        if not Path(path).exists():
            raise PeerFailed(
                f"--peer {peer.name}: {path}: expected a file or folder, found nothing"
            )
    return KINDS[peer.name](peer, prompts, threads, logs)
