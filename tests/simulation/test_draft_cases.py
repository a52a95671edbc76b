"""Failure cases of speculation seen in the field, replayed on our actors: drafts in steps that overlap."""

from __future__ import annotations

import pytest

from optimist.messages.base import column, ints, size
from optimist.messages.drafting import Accepted
from optimist.messages.plans import OptimisticPlan
from optimist.messages.results import StepResult
from optimist.messages.slots import Sampling
from optimist.testing.edges import Edge
from optimist.testing.gap import GapRule
from optimist.testing.inspector import Inspector
from optimist.testing.oracle import IntegerOracle
from optimist.testing.plan_rules import PlanRules
from optimist.testing.setup import Setup
from optimist.testing.verdicts import differences, unrest
from optimist.testing.wishes import Wish
from optimist.testing.world import World

TIGHT = Setup(num_blocks=24, block_size=1, max_slots=8, max_model_len=24)


def prompt(length: int, start: int = 1) -> tuple[int, ...]:
    return tuple(range(start, start + length))


class Scene:
    """A world whose actors know each other by the time the first wish arrives."""

    def __init__(self, setup: Setup, *wishes: Wish) -> None:
        moved = [wish._replace(arrival=wish.arrival + 1.0) for wish in wishes]
        self.world = World(1, setup, moved)
        self.rules, self.gap = PlanRules(self.world), GapRule(self.world)
        Inspector(self.world, check=True)
        self.world.rush()
        self.world.now = 1.0
        self.next_token = IntegerOracle(setup.model)
        self.seen: list[object] = []
        self.world.edges.watches.append(lambda edge, message: self.seen.append(message))

    def end(self) -> None:
        self.world.run()
        assert differences(self.world) + unrest(self.world) == []

    def tokens(self) -> dict[int, int]:
        return {request: len(j.tokens) for request, j in self.world.gateway.journals.items()}

    def text(self, wish: Wish, length: int) -> list[int]:
        """What the model says behind a prompt, whatever ends the request."""
        tokens = list(wish.prompt_ids)
        for _ in range(length):
            tokens.append(self.next_token(tokens, len(wish.prompt_ids), wish.sampling))
        return tokens


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_proposer_is_told_of_settled_tokens_only_though_two_of_three_drafts_are_rejected(
    depth: int,
) -> None:
    wishes = [Wish(prompt(3), 30), Wish(prompt(9, 20), 30)]
    scene = Scene(Setup(depth=depth, drafts="first-1"), *wishes)
    scene.end()
    texts = [scene.text(wish, 40) for wish in wishes]
    told = [message for message in scene.seen if isinstance(message, Accepted)]
    assert told and scene.rules.drafted > 2 * scene.rules.accepted > 0
    for message in told:
        parts = zip(ints(message.starts), ints(message.counts), strict=True)
        first = 0
        for start, count in parts:
            came = ints(message.token_ids)[first : first + count].tolist()
            assert came in [text[start : start + count] for text in texts]
            first += count


@pytest.mark.parametrize("budget", [2, 3, 4])
def test_drafts_of_a_row_that_sits_out_steps_are_for_its_next_step(budget: int) -> None:
    wishes = [Wish(prompt(2, 9 * i), 20) for i in range(7)]
    setup = Setup(max_batch_tokens=budget, max_chunk=1, drafts="right", num_blocks=99)
    scene = Scene(setup, *wishes)
    scene.end()
    assert scene.rules.accepted == scene.rules.drafted


def test_a_row_paused_for_credit_goes_on_with_its_drafts() -> None:
    slow, quick = Wish(prompt(5), 20, window=2), Wish(prompt(6), 20)
    scene = Scene(Setup(drafts="right"), slow, quick)
    scene.end()
    assert scene.rules.accepted == scene.rules.drafted > 0


@pytest.mark.parametrize("drafts", ["right", "first-1", "wrong", "device-first-1"])
def test_a_middle_row_ends_while_the_results_of_two_steps_are_held(drafts: str) -> None:
    limits = ((3, 19), (5, 2), (7, 19))
    scene = Scene(Setup(drafts=drafts), *(Wish(prompt(n), limit) for n, limit in limits))
    gate = scene.world.gate("worker", "scheduler", StepResult)
    scene.world.rush()
    while scene.world.gateway.journals[2].live:
        assert len(gate.held) == 2
        gate.release()
        scene.world.rush()
    assert gate.held and scene.world.gateway.live() == [1, 3]
    gate.open()
    scene.end()


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("draft_tokens", [1, 3, 5])
@pytest.mark.parametrize("drafts", ["first-1", "device-right"])
def test_preemption_while_the_results_of_the_victim_are_held(
    drafts: str, draft_tokens: int, depth: int
) -> None:
    wishes = [Wish(prompt(7, start), 16) for start in (1, 11, 21)]
    setup = TIGHT._replace(depth=depth, drafts=drafts, draft_tokens=draft_tokens)
    scene = Scene(setup, *wishes)
    gate = scene.world.gate("worker", "scheduler", StepResult)
    counters, while_held = scene.world.actors["scheduler"].core.counters, 0
    scene.world.rush()
    while scene.world.gateway.live():
        before = counters.preemptions
        gate.release(0)
        scene.world.rush()
        while_held += bool(gate.held) and counters.preemptions > before
    assert while_held > 0
    gate.open()
    scene.end()
    delivered = sum(scene.tokens().values())
    assert scene.rules.preemptions <= delivered


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("draft_tokens", [1, 3, 5])
def test_drafts_cause_no_preemption_that_would_not_have_been(draft_tokens: int, depth: int) -> None:
    wishes = [Wish(prompt(5, start), 16) for start in (1, 11, 21)]
    plain = Scene(TIGHT._replace(depth=depth, num_blocks=60), *wishes)
    plain.end()
    setup = TIGHT._replace(depth=depth, drafts="device-wrong", draft_tokens=draft_tokens)
    scene = Scene(setup._replace(num_blocks=66), *wishes)
    scene.end()
    assert plain.rules.preemptions == scene.rules.preemptions == 0
    assert scene.rules.drafted > 0


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("place", range(1, 8))
def test_a_request_ends_at_a_stop_token_in_the_middle_of_right_drafts(
    place: int, depth: int
) -> None:
    plain = Wish(prompt(6), 30)
    setup = Setup(depth=depth, block_size=1, num_blocks=99, drafts="device-right", draft_tokens=5)
    text = Scene(setup, plain).text(plain, 20)
    stop = text[6 + place - 1]
    end = text.index(stop, 6) + 1
    again = Wish(tuple(text[: end + 6]), 2, arrival=10.0)
    scene = Scene(setup, plain._replace(stop_ids=(stop,)), again)
    scene.end()
    first, second = scene.world.gateway.journals.values()
    assert (first.tokens, first.finish) == (text[6:end], "stop")
    assert second.finish == "length"
    assert scene.world.gateway.cached_tokens == end - 1


@pytest.mark.parametrize("depth", [1, 2])
def test_a_drafted_end_token_that_is_rejected_ends_nothing(depth: int) -> None:
    scene = Scene(Setup(depth=depth, drafts="end-1"), Wish(prompt(6), 30, stop_ids=(0,)))
    scene.end()
    assert scene.rules.accepted > 0


@pytest.mark.parametrize("drafts", ["right", "first-2", "device-right", "device-wrong"])
@pytest.mark.parametrize("draft_tokens", [1, 2, 3, 5, 8])
def test_drafts_stop_at_the_context_limit(draft_tokens: int, drafts: str) -> None:
    setup = Setup(max_model_len=32, drafts=drafts, draft_tokens=draft_tokens)
    scene = Scene(setup, Wish(prompt(28), 40), Wish(prompt(31), 40), Wish(prompt(20), 40))
    scene.end()
    assert scene.tokens() == {1: 4, 2: 1, 3: 12}
    assert {j.finish for j in scene.world.gateway.journals.values()} == {"length"}


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_max_tokens_needs_no_more_steps_than_without_drafts(limit: int, depth: int) -> None:
    wishes = [Wish(prompt(10), limit), Wish(prompt(6, 20), limit, arrival=0.001)]
    plain = Scene(Setup(depth=depth), *wishes)
    plain.end()
    scene = Scene(Setup(depth=depth, drafts="device-right", draft_tokens=5), *wishes)
    scene.end()
    assert scene.tokens() == {1: limit, 2: limit}
    assert scene.rules.steps <= plain.rules.steps
    assert (scene.rules.drafted > 0) == (limit > 2)


@pytest.mark.parametrize("drafts", ["right", "first-1", "wrong", "device-first-1"])
@pytest.mark.parametrize("depth", [1, 2])
def test_log_probabilities_and_penalties_are_those_without_drafts(drafts: str, depth: int) -> None:
    sampling = Sampling(
        temperature=1.0,
        seed=7,
        presence_penalty=1.5,
        repetition_penalty=1.5,
        min_tokens=6,
        stop_ids=column(range(0, 90, 3)),
        logprobs=3,
    )
    wishes = [Wish(prompt(4, s), 24, sampling, stop_ids=tuple(range(0, 90, 3))) for s in (1, 30)]
    scene = Scene(Setup(depth=depth, drafts=drafts), *wishes)
    scene.end()
    assert scene.rules.drafted > 0


def test_no_draft_before_the_prompt_is_complete_and_a_full_budget_holds_exactly() -> None:
    wishes = [Wish(prompt(10, s), 12) for s in (1, 20)]
    setup = Setup(max_chunk=4, max_batch_tokens=8, drafts="device-right", draft_tokens=3)
    scene = Scene(setup, *wishes)
    scene.end()
    plans = [plan for plan in scene.seen if isinstance(plan, OptimisticPlan)]
    prefilling = [plan for plan in plans if plan.prefill.slots and not plan.decode_slots]
    assert len(prefilling) >= 2
    full = [size(p.decode_slots) + int(ints(p.draft_counts).sum()) for p in plans]
    assert max(full) == 8


@pytest.mark.parametrize("budget", [4, 8])
def test_a_prompt_gets_on_though_drafts_could_fill_every_step(budget: int) -> None:
    busy, late = Wish(prompt(3), 30), Wish(prompt(25, 40), 3, arrival=0.002)
    setup = Setup(max_batch_tokens=budget, drafts="device-wrong", draft_tokens=8)
    scene = Scene(setup, busy, late)
    while scene.tokens().get(2, 0) == 0:
        scene.world.step()
    assert scene.tokens()[1] < 30
    scene.end()


@pytest.mark.parametrize("drafts", ["", "device-right", "device-first-1", "right"])
@pytest.mark.parametrize("depth", [1, 2])
def test_what_is_cached_does_not_depend_on_drafts_or_depth(depth: int, drafts: str) -> None:
    first = Wish((0, 1, 2, 3), 2)
    setup = Setup(depth=depth, block_size=1, drafts=drafts)
    text = Scene(setup, first).text(first, 2)
    scene = Scene(setup, first, Wish((*text, 9), 2, arrival=10.0))
    scene.end()
    assert scene.world.gateway.cached_tokens == 5


@pytest.mark.parametrize("drafts", ["right", "first-1", "ngram", "lie-late"])
def test_two_clients_with_different_drafts_both_get_on_in_every_step(drafts: str) -> None:
    setup = Setup(max_model_len=256, num_blocks=160, drafts=drafts, draft_tokens="auto")
    scene = Scene(setup, Wish(prompt(5), 200), Wish(prompt(8, 50), 200))
    last: dict[int, int] = {}

    def watch(edge: Edge, message: object) -> None:
        if isinstance(message, StepResult) and len(scene.world.gateway.live()) == 2:
            last.update(dict.fromkeys(ints(message.slots).tolist(), message.step))
            assert not last or message.step - min(last.values()) < 12

    scene.world.edges.watches.append(watch)
    scene.end()
    assert scene.tokens() == {1: 200, 2: 200}


def test_a_proposer_that_dies_again_and_again_costs_no_token() -> None:
    scene = Scene(Setup(drafts="right", max_model_len=200, num_blocks=99), Wish(prompt(5), 150))
    for _ in range(6):
        for _ in range(40):
            scene.world.step()
        scene.world.kill("proposer")
    scene.end()
    assert scene.rules.accepted > 0
