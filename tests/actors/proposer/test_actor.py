"""What the proposer does with the messages that reach it, in whatever order."""

from __future__ import annotations

import pytest
from proposer_scene import Scene, by_slot, scene

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.actor import ASK_EVERY, ProposerActor
from optimist.actors.proposer.ledger import LATE
from optimist.actors.proposer.suffix import SuffixProposer
from optimist.messages.control import Resync
from optimist.messages.drafting import Drafts


def test_at_the_start_it_asks_for_the_requests_and_for_the_vocabulary(recorded: Scene) -> None:
    recorded.actor.started()
    (to_scheduler,), (to_worker,) = recorded.scheduler.messages, recorded.worker.messages
    assert to_scheduler == to_worker == Resync(incarnation=9, actor="proposer")


def test_an_opened_slot_gets_drafts_behind_each_step_it_was_in(recorded: Scene) -> None:
    recorded.open(2, [1, 2, 3])
    recorded.accept(4, {2: (3, [7])})
    assert recorded.drafts() == [(4, {2: [7, 7, 7]})]
    recorded.accept(5, {2: (4, [7, 8])})
    assert recorded.drafts() == [(5, {2: [8, 8, 8]})]
    assert recorded.kept.slots == {2: [1, 2, 3, 7, 7, 8]}


def test_drafts_name_their_epoch_step_slots_and_generations(recorded: Scene) -> None:
    recorded.open(0, [1], generation=5, epoch=3)
    recorded.accept(8, {0: (1, [2])}, generation=5, epoch=3)
    recorded.actor.turn()
    (sent,) = recorded.worker.messages
    assert isinstance(sent, Drafts)
    assert (sent.incarnation, sent.epoch, sent.after_step) == (9, 3, 8)
    assert sent.generations == (5).to_bytes(4, "little")
    assert by_slot(sent) == {0: [2, 2, 2]}


def test_every_step_is_answered_even_when_there_are_no_drafts(recorded: Scene) -> None:
    recorded.accept(0, {})
    assert recorded.drafts() == [(0, {})]
    assert recorded.drafts() == []


def test_after_a_pause_each_slot_is_answered_once_behind_its_own_last_step(recorded: Scene) -> None:
    recorded.open(0, [1])
    recorded.open(1, [2])
    recorded.accept(0, {0: (1, [5]), 1: (1, [6])})
    recorded.accept(1, {0: (2, [7])})
    recorded.accept(2, {})
    assert recorded.drafts() == [(0, {1: [6] * 3}), (1, {0: [7] * 3}), (2, {})]


def test_where_no_drafts_are_wanted_none_are_made(recorded: Scene) -> None:
    recorded.open(0, [1])
    recorded.accept(0, {0: (1, [5])}, wanted=0)
    assert recorded.drafts() == [(0, {})]
    assert recorded.kept.asked == []


def test_drafts_never_reach_past_the_context(recorded: Scene) -> None:
    recorded.capacity(max_model_len=8)
    recorded.open(0, [1, 2, 3, 4])
    recorded.accept(0, {0: (4, [5])})
    assert recorded.drafts() == [(0, {0: [5, 5]})]
    recorded.accept(1, {0: (5, [6, 7])})
    assert recorded.drafts() == [(1, {})]


def test_until_the_vocabulary_is_known_there_are_no_drafts() -> None:
    from proposer_scene import Kept, Recorder

    worker, kept = Kept(), Recorder(ProposerConfig())
    actor = ProposerActor(ProposerConfig(), 9, worker=worker, scheduler=Kept(), proposer=kept)
    made = Scene(actor, kept, worker, Kept())
    made.open(0, [1])
    made.accept(0, {0: (1, [5])})
    assert made.drafts() == [(0, {})]
    made.capacity()
    made.accept(1, {0: (2, [6])})
    assert made.drafts() == [(1, {0: [6] * 3})]


def test_a_closed_slot_gets_none_and_what_still_comes_for_it_is_left_out(recorded: Scene) -> None:
    recorded.open(0, [1])
    recorded.accept(0, {0: (1, [5])})
    recorded.close(0)
    assert recorded.drafts() == [(0, {})]
    recorded.accept(1, {0: (2, [6])})
    assert recorded.drafts() == [(1, {})]
    assert recorded.kept.closed == [(0, 1)] and recorded.asked() == 0


def test_a_close_of_another_generation_changes_nothing(recorded: Scene) -> None:
    recorded.open(0, [1], generation=2)
    recorded.close(0, 1)
    assert recorded.kept.slots == {0: [1]}


def test_accepted_tokens_that_overtake_the_open_are_not_lost(recorded: Scene) -> None:
    recorded.accept(3, {0: (2, [7])})
    recorded.accept(4, {0: (3, [8, 9])})
    assert recorded.drafts() == [(4, {})]
    recorded.open(0, [1, 2], step=3)
    assert recorded.kept.slots == {0: [1, 2, 7, 8, 9]}


def test_tokens_that_were_lost_are_noticed_and_the_request_is_opened_again(recorded: Scene) -> None:
    recorded.open(0, [1, 2])
    recorded.accept(1, {0: (4, [7])})
    assert recorded.drafts() == [(1, {})]
    assert recorded.asked() == 1
    recorded.open(0, [1, 2, 5, 6], step=1)
    assert recorded.kept.slots == {0: [1, 2, 5, 6, 7]}
    recorded.accept(2, {0: (5, [8])})
    assert recorded.drafts() == [(2, {0: [8] * 3})]


def test_an_open_that_never_comes_is_asked_for(recorded: Scene) -> None:
    for step in range(LATE):
        assert recorded.asked() == 0
        recorded.accept(step, {0: (2 + step, [step])})
        assert recorded.drafts() == [(step, {})]
    assert recorded.asked() == 1
    recorded.open(0, [8, 9], step=0)
    assert recorded.kept.slots == {0: [8, 9, *range(LATE)]}


def test_it_does_not_ask_at_every_step_of_a_gap(recorded: Scene) -> None:
    recorded.open(0, [1, 2])
    for step in range(2 * ASK_EVERY):
        recorded.accept(step, {0: (4 + step, [7])})
        recorded.drafts()
    assert recorded.asked() == 2


def test_a_step_that_is_told_twice_counts_once(recorded: Scene) -> None:
    recorded.open(0, [1])
    recorded.accept(0, {0: (1, [5])})
    recorded.accept(0, {0: (1, [5])})
    assert recorded.drafts() == [(0, {0: [5] * 3})]
    recorded.accept(0, {0: (1, [5])})
    assert recorded.drafts() == []
    assert recorded.kept.slots == {0: [1, 5]}


def test_a_request_that_is_opened_again_without_news_is_left_alone(recorded: Scene) -> None:
    recorded.open(0, [1, 2])
    recorded.accept(0, {0: (2, [5])})
    recorded.open(0, [1, 2, 5], step=1)
    recorded.open(0, [1, 2], step=0)
    assert recorded.kept.slots == {0: [1, 2, 5]} and recorded.kept.closed == []


def test_tokens_that_an_open_holds_already_are_not_told_twice(recorded: Scene) -> None:
    recorded.open(0, [1, 2, 5, 6], step=7)
    recorded.accept(6, {0: (3, [6])})
    recorded.accept(7, {0: (4, [8])})
    recorded.drafts()
    assert recorded.kept.slots == {0: [1, 2, 5, 6, 8]}


def test_the_next_request_in_a_slot_hears_nothing_of_the_one_before(recorded: Scene) -> None:
    recorded.open(0, [1, 2])
    recorded.close(0)
    recorded.open(0, [8], step=5)
    recorded.accept(4, {0: (1, [3])})
    recorded.accept(5, {0: (1, [9])})
    recorded.drafts()
    assert recorded.kept.slots == {0: [8, 9]}


def test_a_new_epoch_closes_every_slot_of_the_old_one(recorded: Scene) -> None:
    recorded.open(0, [1])
    recorded.open(1, [2])
    recorded.open(1, [2, 3], generation=2, epoch=4)
    assert recorded.kept.closed == [(0, 1), (1, 1)]
    recorded.accept(9, {0: (1, [5])}, epoch=1)
    assert recorded.kept.slots == {1: [2, 3]}
    assert recorded.actor.statistics().ignored == {"epoch": 1}
    recorded.accept(0, {1: (2, [5])}, generation=2, epoch=4)
    assert recorded.drafts() == [(0, {1: [5] * 3})]


def test_rows_that_are_no_news_leave_the_others_of_their_step_alone(recorded: Scene) -> None:
    for slot in range(4):
        recorded.open(slot, [slot, slot])
    recorded.close(3)
    recorded.accept(0, {0: (2, [5]), 1: (4, [6]), 2: (1, [2, 8, 9]), 3: (2, [7])})
    assert recorded.drafts() == [(0, {0: [5] * 3, 2: [9] * 3})]
    assert recorded.kept.slots == {0: [0, 0, 5], 1: [1, 1], 2: [2, 2, 8, 9]}
    assert recorded.asked() == 1


def test_what_a_step_tells_counts_before_the_close_behind_it(recorded: Scene) -> None:
    made = scene(SuffixProposer(ProposerConfig(proposer="suffix")))
    made.open(0, [1, 2, 3])
    made.accept(0, {0: (3, [4, 5])})
    made.close(0)
    made.open(1, [1, 2, 3])
    made.accept(1, {1: (3, [4])})
    assert made.drafts() == [(1, {1: [5]})]


def test_statistics_count_rows_and_drafts(recorded: Scene) -> None:
    recorded.open(0, [1])
    recorded.accept(0, {0: (1, [5])})
    recorded.drafts()
    found = recorded.actor.statistics()
    assert (found.asked, found.drafted, found.faults, found.ignored) == (1, 3, {}, {})


def test_a_worker_whose_inbox_is_full_misses_drafts_and_nothing_breaks(recorded: Scene) -> None:
    from optimist.messages.errors import MailboxFull

    def full(message: object, /) -> None:
        raise MailboxFull("full")

    recorded.worker.send = full  # type: ignore[method-assign]
    recorded.open(0, [1])
    recorded.accept(0, {0: (1, [5])})
    assert recorded.drafts() == []
    assert recorded.actor.statistics().ignored == {"mailbox_full": 1}


@pytest.mark.parametrize(
    ("salt", "use_cache", "drafted"),
    [("a", True, {1: [4, 5, 6]}), ("b", True, {}), ("a", False, {})],
)
def test_the_salt_of_a_request_reaches_the_class(
    salt: str, use_cache: bool, drafted: dict[int, list[int]]
) -> None:
    made = scene(SuffixProposer(ProposerConfig(proposer="suffix")))
    made.open(0, [1, 2, 3], salt="a")
    made.accept(0, {0: (3, [4, 5, 6, 7])}, wanted=0)
    made.close(0)
    made.drafts()
    made.open(1, [8, 2], salt=salt, use_cache=use_cache)
    made.accept(1, {1: (2, [3])})
    assert made.drafts() == [(1, drafted)]
