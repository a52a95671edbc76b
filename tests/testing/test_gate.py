"""GATE holds, releases, reorders, repeats and drops what is sent through it."""

from __future__ import annotations

from optimist.messages.requests import Cancel, Grant
from optimist.testing.gate import Gate


class Receiver:
    def __init__(self) -> None:
        self.got: list[int] = []

    def send(self, message: Grant | Cancel, /) -> None:
        self.got.append(message.request)


def grant(request: int) -> Grant:
    return Grant(incarnation=1, request=request, credit=1)


def three_held() -> tuple[Gate, Receiver]:
    gate, receiver = Gate(Grant), Receiver()
    ref = gate.before(receiver)
    for request in (0, 1, 2):
        ref.send(grant(request))
    return gate, receiver


def test_it_holds_its_kinds_and_lets_others_through() -> None:
    gate, receiver = three_held()
    gate.before(receiver).send(Cancel(incarnation=1, request=7))
    assert receiver.got == [7]
    assert [held.message.request for held in gate.held] == [0, 1, 2]


def test_it_releases_in_the_order_it_is_told() -> None:
    gate, receiver = three_held()
    gate.release(2, 0)
    assert receiver.got == [2, 0]
    gate.release()
    assert receiver.got == [2, 0, 1]


def test_it_repeats_and_goes_on_holding() -> None:
    gate, receiver = three_held()
    gate.repeat(1)
    gate.repeat(1)
    gate.release(1)
    assert receiver.got == [1, 1, 1]


def test_what_it_drops_never_arrives() -> None:
    gate, receiver = three_held()
    gate.drop(0, 2)
    gate.open()
    assert receiver.got == [1]


def test_once_open_it_holds_nothing() -> None:
    gate, receiver = three_held()
    gate.open()
    gate.before(receiver).send(grant(5))
    assert receiver.got == [0, 1, 2, 5]
