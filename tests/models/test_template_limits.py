"""Templates end, and what they make stays small, whatever they try."""

from __future__ import annotations

import pytest

from optimist.messages.errors import InvalidRequest
from optimist.models import template_limits
from optimist.models.chat_template import ChatTemplate

BIG = "{% set s = 'x' * 9000000 %}"
DOUBLING = "{{% set n = namespace(s='xx') %}}{{% for i in range(60) %}}{}{{% endfor %}}"
ENDLESS = "{% set r = range(100000) | list %}"


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        ENDLESS
        + "{% for a in r %}{% for b in r %}{% for c in r %}{% endfor %}{% endfor %}{% endfor %}",
        ENDLESS + "{% for a in r %}{% for b in r if false %}{% endfor %}{% endfor %}",
        ENDLESS + "{% for a in r %}{% set x = r | map('upper') | list %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ 'x' }}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{{ loop([1]) }}{% endfor %}",
        "{{ 'x' * 999999999999 }}",
        "{{ 999999999999 * 'x' }}",
        "{{ [0] * 999999999999 }}",
        BIG + "{{ s + s }}",
        BIG + "{{ s ~ s }}",
        BIG + "{{ [s, s] | join }}",
        BIG + "{{ ''.join([s, s]) }}",
        BIG + "{{ s | replace('x', 'xx') }}",
        BIG + "{{ s.replace('x', 'xx') }}",
        BIG + "{{ s }}{{ s }}",
        "{{ 9 ** 999999 }}",
        "{{ (9 ** 64) ** 64 ** 64 }}",
        "{{ 'x'.ljust(999999999) }}",
        "{{ 'x'.center(999999999, 'y') }}",
        "{{ 'x' | center(999999999) }}",
        "{{ 'x\ny' | indent(999999999) }}",
        "{{ [1] | batch(999999999, 0) | list }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ '{:{}}'.format(1, 999999999) }}",
        "{{ '%999999999d' | format(1) }}",
        "{{ '%*d' | format(999999999, 1) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ (5).to_bytes(999999999, 'big') }}",
        "{{ range(999999999) | list }}",
        "{{ 'x' | tojson(indent=999999999) }}",
        DOUBLING.format("{% set n.s = n.s + n.s %}"),
        DOUBLING.format("{% set n.s = n.s ~ n.s %}"),
        DOUBLING.format("{% set n.s = n.s * 2 %}"),
        DOUBLING.format("{% set n.s = n.s | replace('x', 'xx') %}"),
        DOUBLING.format("{% set n.s = n.s.replace('x', 'xx') %}"),
        DOUBLING.format("{% set n.s = [n.s, n.s] | join %}"),
        DOUBLING.format("{% set n.s = '{0}{0}'.format(n.s) %}"),
        DOUBLING.format("{% set n.s = [n.s, n.s] %}") + "{{ n.s }}",
        DOUBLING.format("{% set n.s = (n.s, n.s) %}") + "{{ n.s == n.s }}",
        DOUBLING.format("{% set n.s = {'a': n.s, 'b': n.s} %}") + "{{ n.s | tojson }}",
        DOUBLING.format("{% set n.s = dict(a=n.s, b=n.s) %}") + "{{ n.s | string }}",
        DOUBLING.format("{% set n.s = [[n.s] * 2] + [n.s] %}") + "{{ n.s | string }}",
        DOUBLING.format("{% set n.s = namespace(a=n.s, b=n.s) %}") + "{{ n.s }}",
        DOUBLING.format("{% set n.s = namespace(a=n.s, b=n.s) %}") + "{{ n.s ~ '' }}",
        DOUBLING.format("{% set n.s = namespace(a=n.s, b=n.s) %}") + "{{ n.s | string }}",
        DOUBLING.format("{% set n.s = namespace(a=n.s, b=n.s) %}") + "{{ [n.s] }}",
        DOUBLING.format("{% set n.s = namespace(a=n.s, b=n.s) %}") + "{{ '{}'.format(n.s) }}",
    ],
)
def test_a_template_without_end_is_stopped(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_limits, "MAX_STEPS", 20_000)
    with pytest.raises(InvalidRequest, match="messages: the chat template"):
        ChatTemplate(source).render([])


@pytest.mark.parametrize("steps", [3, 4])
def test_turns_are_counted_over_one_rendering(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_limits, "MAX_STEPS", 4)
    template = ChatTemplate("{% for m in messages %}.{% endfor %}")
    for _ in range(3):
        assert template.render([{}] * steps) == "." * steps
    with pytest.raises(InvalidRequest, match="more than 4 steps"):
        template.render([{}] * 5)


def test_what_is_written_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_limits, "MAX_SIZE", 10)
    template = ChatTemplate("{% for m in messages %}abc{{ m.x }}{% endfor %}")
    assert template.render([{"x": "de"}] * 2) == "abcde" * 2
    with pytest.raises(InvalidRequest, match="more than 10"):
        template.render([{"x": "def"}] * 2)


def test_names_of_the_template_do_not_hide_the_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_limits, "MAX_STEPS", 10)
    hidden = (
        "{% set environment = 1 %}{% set count_turn = 1 %}{% macro concatenated() %}{% endmacro %}"
    )
    with pytest.raises(InvalidRequest, match="more than 10 steps"):
        ChatTemplate(hidden + "{% for i in range(99) %}{% endfor %}").render([])


def test_long_conversations_are_within_the_limits() -> None:
    source = (
        "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\\n' + m.content | trim }}"
        "{% endfor %}"
    )
    messages = [{"role": "user", "content": " word" * 200}] * 4000
    assert len(ChatTemplate(source).render(messages)) == 4000 * (len("<|im_start|>user\n") + 999)
