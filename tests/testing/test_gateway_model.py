"""The gateway of the simulation holds the scheduler to the rules, and keeps them itself."""

from __future__ import annotations

from typing import Any

import pytest

from optimist.messages.base import column, ints
from optimist.messages.control import Resync
from optimist.messages.errors import Problem
from optimist.messages.requests import Admit, Cancel, FinishReason, Grant, Retired, Tokens
from optimist.testing.gateway_model import GatewayModel, RuleBroken
from optimist.testing.wishes import Wish


class Sent(list[Any]):
    def send(self, message: Any, /) -> None:
        self.append(message)


def opened(window: int = 8) -> tuple[GatewayModel, Sent]:
    sent = Sent()
    gateway = GatewayModel(1, scheduler=sent, clock=lambda: 5.0)
    gateway.open(Wish((1, 2, 3), 8, window=window, deadline=2.0))
    return gateway, sent


def tokens(
    index: int, *ids: int, finish: FinishReason | None = None, incarnation: int = 2
) -> Tokens:
    return Tokens(
        incarnation=incarnation, request=1, index=index, token_ids=column(ids), finish=finish
    )


def test_it_admits_with_its_window_and_deadline() -> None:
    _, (admit,) = opened()
    assert isinstance(admit, Admit)
    assert (admit.credit, admit.deadline, admit.emitted_ids) == (8, 7.0, b"")


def test_tokens_that_repeat_are_dropped() -> None:
    gateway, _ = opened()
    gateway.receive(tokens(0, 10, 11))
    gateway.receive(tokens(1, 11, 12))
    assert gateway.journals[1].tokens == [10, 11, 12]


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (tokens(3, 12), "index 3 came after 2 tokens"),
        (tokens(1, 99), r"\[11\] became \[99\]"),
        (tokens(2, *range(7)), "9 tokens, 8 granted"),
        (Retired(incarnation=2, request=1), "without reason"),
        (Retired(incarnation=2, request=5), "never asked for"),
    ],
)
def test_a_scheduler_that_breaks_a_rule_is_named(message: Any, complaint: str) -> None:
    gateway, _ = opened()
    gateway.receive(tokens(0, 10, 11))
    with pytest.raises(RuleBroken, match=complaint):
        gateway.receive(message)


@pytest.mark.parametrize("again", [tokens(2, 12), Retired(incarnation=2, request=1)])
def test_nothing_may_come_after_the_end(again: Any) -> None:
    gateway, _ = opened()
    gateway.receive(tokens(0, 10, 11, finish="length"))
    with pytest.raises(RuleBroken, match="after its end"):
        gateway.receive(again)


def test_tokens_taken_are_granted_again() -> None:
    gateway, sent = opened(window=2)
    gateway.receive(tokens(0, 10, 11))
    gateway.take(1, 2)
    assert sent[-1] == Grant(incarnation=1, request=1, credit=2)
    gateway.receive(tokens(2, 12, 13))


def test_a_newborn_scheduler_gets_every_live_request_behind_what_was_delivered() -> None:
    gateway, sent = opened()
    gateway.receive(tokens(0, 10, 11))
    gateway.receive(Resync(incarnation=3, actor="scheduler"))
    assert ints(sent[-1].emitted_ids).tolist() == [10, 11]
    assert sent[-1].credit == 6
    gateway.receive(tokens(2, 55))
    assert gateway.journals[1].tokens == [10, 11]
    assert gateway.fenced == 1


def test_a_request_that_was_admitted_twice_is_cancelled_at_its_end() -> None:
    gateway, sent = opened()
    gateway.receive(Resync(incarnation=2, actor="scheduler"))
    gateway.receive(tokens(0, 10, finish="stop"))
    assert sent[-1] == Cancel(incarnation=1, request=1)
    gateway.receive(tokens(0, 10, finish="stop"))


def test_a_refusal_is_noted() -> None:
    gateway, _ = opened()
    problem = Problem(code="overloaded", message="full")
    gateway.receive(Retired(incarnation=2, request=1, problem=problem))
    assert gateway.journals[1].code == "overloaded"
    assert gateway.live() == []
