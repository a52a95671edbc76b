"""docs/architecture.md: the flow-control table is complete and acyclic, and a real run keeps to the map."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import generate
import pytest
import tokenizer_files
import zmq
from house import table

from optimist.actors.config import EngineConfig, Placement
from optimist.actors.contract import plan_kind
from optimist.actors.runtime.host import Host, Refs
from optimist.actors.runtime.lifeline import LifeLine
from optimist.actors.runtime.placement import STARTING_ORDER, layout
from optimist.actors.scheduler.queue import OVERTAKE_BOUND
from optimist.engine_options import engine_config
from optimist.messages.base import ActorMessage
from optimist.messages.batches import ExactBatch, OptimisticBatch
from optimist.messages.client import Generate
from optimist.messages.control import Drain, Dropped, Fault, Restarted, SyncCheck
from optimist.messages.errors import ConfigError
from optimist.messages.params import SamplingParams
from optimist.messages.requests import Placed
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.transport.base import Ref
from optimist.troupe import Troupe, bring_up

Edge = tuple[str, str, str]


def _flow() -> dict[Edge, str]:
    rows = table("docs/architecture.md", "sender")
    return {(sender, kind, receiver): waits for sender, kind, receiver, _, waits in rows}


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """Nodes of a cycle, or nothing."""
    done: set[str] = set()

    def walk(node: str, path: list[str]) -> list[str]:
        if node in path:
            return path[path.index(node) :]
        if node in done:
            return []
        for following in edges.get(node, ()):
            if found := walk(following, [*path, node]):
                return found
        done.add(node)
        return []

    return next((found for node in edges if (found := walk(node, []))), [])


def test_every_edge_says_what_happens_at_its_bound() -> None:
    sent, _ = generate.edges()
    assert set(_flow()) == set(sent)


def test_edges_that_may_wait_form_no_cycle() -> None:
    waiting: dict[str, set[str]] = {}
    for (sender, _, receiver), waits in _flow().items():
        assert waits in ("yes", "no")
        if waits == "yes":
            waiting.setdefault(sender, set()).add(receiver)
    assert cycle(waiting) == []


def test_the_bound_on_being_overtaken_is_the_queues() -> None:
    page = (generate.DOCS / "architecture.md").read_text(encoding="utf-8")
    assert f"overtaken by at most {OVERTAKE_BOUND} that arrived later" in page


def test_a_cycle_would_be_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}) == ["b", "c", "d"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}}) == []


class Watcher:
    """Sees every message between the actors of this loop, and can lose one. seen: their edges."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: set[Edge] = set()
        self.lose: type[ActorMessage] | None = None
        original, told = Refs.to, Host.tell

        def to(refs: Refs, sender: type[Any], receiver: str) -> Ref[Any]:
            return _Seen(self, original(refs, sender, receiver), sender.name, receiver)

        def tell(host: Host, name: str, message: ActorMessage) -> bool:
            said = isinstance(message, Placed) and ("child", "Placed", "supervisor") in self.seen
            if said or isinstance(message, Fault | Restarted | Dropped | Drain | SyncCheck):
                self.seen.add(("supervisor", type(message).__name__, name))
            return told(host, name, message)

        monkeypatch.setattr(Refs, "to", to)
        monkeypatch.setattr(Host, "tell", tell)
        self._watch_life_lines(monkeypatch)

    def _watch_life_lines(self, monkeypatch: pytest.MonkeyPatch) -> None:
        send, receive = LifeLine.send, LifeLine.receive_nowait

        def sending(line: LifeLine[Any], message: ActorMessage) -> None:
            passed_on = isinstance(message, Fault | Restarted | Dropped | Drain | Placed)
            receiver = "gateway" if passed_on else "child"
            receiver = "worker" if isinstance(message, SyncCheck) else receiver
            self.seen.add(("supervisor", type(message).__name__, receiver))
            send(line, message)

        def receiving(line: LifeLine[Any]) -> ActorMessage | None:
            if (message := receive(line)) is not None:
                self.seen.add(("child", type(message).__name__, "supervisor"))
            return message

        monkeypatch.setattr(LifeLine, "send", sending)
        monkeypatch.setattr(LifeLine, "receive_nowait", receiving)


class _Seen:
    def __init__(self, watcher: Watcher, ref: Ref[Any], sender: str, receiver: str) -> None:
        self._watcher, self._ref, self._ends = watcher, ref, (sender, receiver)

    def send(self, message: ActorMessage, /) -> None:
        sender, receiver = self._ends
        self._watcher.seen.add((sender, type(message).__name__, receiver))
        if self._watcher.lose is not None and isinstance(message, self._watcher.lose):
            self._watcher.lose = None
            return
        self._ref.send(message)


def _config(placement: Placement = "inline", model: str = "toy", **more: Any) -> EngineConfig:
    options = {
        "executor": "optimist.testing.integer_model:IntegerExecutor",
        "executor_options": {"vocab_size": 272},
        "kv_blocks": 16,
        "max_slots": 4,
        "max_model_len": 64,
        "credit": 2,
        "restarts": 9,
        **more,
    }
    return engine_config(model, placement, options)


async def _ask(troupe: Troupe, tokens: int) -> None:
    assert troupe.gateway is not None
    params = SamplingParams(max_tokens=tokens, temperature=0, ignore_eos=True, prompt_logprobs=0)
    async for _ in troupe.gateway.open(Generate(request="x", prompt="abc", params=params)):
        pass


async def _kill(troupe: Troupe, actor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an actor die of its next message, then ask for something that needs it."""
    host = troupe._host  # noqa: SLF001 - the only way to an actor of this loop

    def die(message: ActorMessage) -> None:
        monkeypatch.undo()
        raise RuntimeError("killed")

    monkeypatch.setattr(host.actors[actor], "receive", die)
    await _ask(troupe, 4)


async def _afternoon(watcher: Watcher, config: EngineConfig) -> None:
    """Answers, a client that leaves, a batch that is lost, actors that die, and the end of the day."""
    async with bring_up(config, ByteTokenizer()) as troupe:
        gateway = troupe.gateway
        assert gateway is not None
        await _ask(troupe, 50)
        troupe.check_syncs("off")
        left = gateway.open(Generate(request="x", prompt="abc"))
        left.close()
        watcher.lose = OptimisticBatch if plan_kind(config) == "optimistic" else ExactBatch
        await _ask(troupe, 4)
        for actor in layout(config, gateway_here=True).local:
            if actor != "gateway":
                with pytest.MonkeyPatch.context() as patch:
                    await _kill(troupe, actor, patch)
        troupe.drain()


def _throw_rubbish(root: Path) -> None:
    (worker,) = root.rglob("worker.sock")
    with zmq.Context() as context, context.socket(zmq.PUSH) as push:
        push.connect(f"ipc://{worker}")
        push.send(b"rubbish")


async def _child_processes(watcher: Watcher, model: str, root: Path) -> None:
    """Some that come and go in good order, one with all actors in it, and one that cannot start."""
    config = _config("processes", model=model, port=0)
    async with bring_up(config, gateway_here=False) as troupe:
        await anyio.to_thread.run_sync(_throw_rubbish, root)
        with anyio.fail_after(60):
            while ("supervisor", "Dropped", "gateway") not in watcher.seen:
                await anyio.sleep(0.05)
        troupe.drain()
        await troupe.wait_drained()
    async with bring_up(_config("embedded"), ByteTokenizer()) as troupe:
        await _ask(troupe, 4)
    wrong = _config("embedded", executor_options={"vocab": 272})
    with pytest.raises(ConfigError, match="vocab"):
        async with bring_up(wrong, ByteTokenizer()):
            pass


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_runs_take_every_edge_of_the_map_and_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run_root: Path
) -> None:
    watcher = Watcher(monkeypatch)
    for config in (_config(), _config(proposer="ngram", draft_tokens="auto")):
        await _afternoon(watcher, config)
    model = tokenizer_files.write_byte_level(tmp_path, "folder")
    await _child_processes(watcher, str(model), run_root)
    sent, orphans = generate.edges()
    assert orphans == []
    assert watcher.seen == set(sent)
    assert {sender for sender, _, _ in sent} == {*STARTING_ORDER, "supervisor", "child"}
