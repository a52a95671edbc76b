"""The commands on a toy network: what they print, and what happens when they are interrupted."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any

import pytest
from cli_scene import EXECUTOR

from optimist.cli import bench, chat, generate
from optimist.cli.chat import Turns, converse
from optimist.cli.main import main
from optimist.cli.parser import Parsed
from optimist.cli.progress import line, show
from optimist.cli.settings import engine_options
from optimist.cli.timing import Timing
from optimist.engine import Engine
from optimist.messages.control import Progress
from optimist.messages.errors import InvalidRequest, TooLarge
from optimist.testing.byte_tokenizer import ByteTokenizer

SAMPLING = ("--temperature", "0", "--max-tokens", "5", "--ignore-eos")


def toy_engine(parsed: Parsed) -> Engine:
    """The engine that the options describe, with the toy for a model."""
    return Engine(
        **engine_options(parsed),
        executor=EXECUTOR,
        executor_options={"vocab_size": 272},
        tokenizer=ByteTokenizer(),
    )


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (generate, chat, bench):
        monkeypatch.setattr(command, "make_engine", toy_engine)


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_generate_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    answer = _json(capsys, "generate", "abcabc", *SAMPLING)
    assert len(answer["token_ids"]) == 5
    assert answer["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": 6, "completion_tokens": 5, "cached_tokens": 0}
    assert answer["timing"]["ttft_ms"] > 0
    assert answer["timing"]["tokens_per_s"] > 0
    assert answer["speculation"] == {
        "proposer": "none",
        "drafted": 0,
        "accepted": 0,
        "draft_length": 0.0,
        "acceptance_length": 1.0,
        "per_position": [],
    }
    assert set(answer) == {
        *("text", "token_ids", "finish_reason", "seed", "usage", "speculation", "timing")
    }


def test_generate_prints_the_text_and_ends_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    answer = _json(capsys, "generate", "abcabc", *SAMPLING)
    assert main(["generate", "abcabc", *SAMPLING]) == 0
    assert capsys.readouterr().out == answer["text"].rstrip("\n") + "\n"


def test_prompt_ids_are_the_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    text = _json(capsys, "generate", "abc", *SAMPLING)
    ids = _json(capsys, "generate", "--prompt-ids", "97,98,99", *SAMPLING)
    assert ids["token_ids"] == text["token_ids"]


def test_chat_goes_through_the_template(capsys: pytest.CaptureFixture[str]) -> None:
    plain = _json(capsys, "generate", "abc", *SAMPLING)
    chatted = _json(capsys, "generate", "abc", "--chat", *SAMPLING)
    assert chatted["usage"]["prompt_tokens"] > plain["usage"]["prompt_tokens"]


def test_a_refused_request_is_one_line_and_a_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--prompt-ids", "999", *SAMPLING]) == 2
    said = capsys.readouterr()
    assert said.err == "optimist: --prompt-ids[0]: expected a token id in [0, 272), got 999\n"


def test_an_option_of_a_proposer_is_named_as_it_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ("--proposer", "ngram", "--proposer-option", "ngram_max=1")
    assert main(["generate", "x", *given]) == 2
    said = "--proposer-option ngram_max=: expected at least ngram_min, which is 2, got 1"
    assert capsys.readouterr().err == f"optimist: {said}\n"


@pytest.mark.parametrize(("requests", "size", "output"), [(3, 6, 4), (1, 9, 2)])
def test_bench_offline_counts_what_it_was_asked_for(
    capsys: pytest.CaptureFixture[str], requests: int, size: int, output: int
) -> None:
    sizes = ("--requests", str(requests), "--input", str(size), "--output", str(output))
    answer = _json(capsys, "bench", "offline", *sizes)
    assert answer["requests"] == requests
    assert answer["input_tokens"] == requests * size
    assert answer["output_tokens"] == requests * output


def test_bench_prints_nested_results_as_lines() -> None:
    assert bench.lines({"a": 1, "long": {"b": 2}}) == ["a     1", "long", "    b  2"]


def test_chat_answers_every_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _type(monkeypatch, "a", "", "b")
    assert main(["chat", "--system", "c", *SAMPLING]) == 0
    said = capsys.readouterr().out
    assert "[5 tokens, " in said
    assert said.count("tok/s, cut at the limit]") == 2


def test_chat_begins_with_the_system_message_and_remembers() -> None:
    asked: list[Turns] = []

    def ask(turns: Turns) -> str:
        asked.append(list(turns))
        return f"answer {len(asked)}"

    with pytest.MonkeyPatch.context() as patch:
        _type(patch, "one", "two")
        converse(ask, [{"role": "system", "content": "be brief"}])
    assert [turn["content"] for turn in asked[1]] == ["be brief", "one", "answer 1", "two"]


def test_a_refused_turn_is_forgotten_and_the_chat_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[str] = []

    def ask(turns: Turns) -> str:
        asked.append(turns[-1]["content"])
        if len(asked) == 1:
            raise InvalidRequest("too odd")
        assert len(turns) == 1
        return "fine"

    with pytest.MonkeyPatch.context() as patch:
        _type(patch, "odd", "plain")
        converse(ask, [])
    assert asked == ["odd", "plain"]
    assert capsys.readouterr().err == "optimist: too odd\n"


def test_a_full_context_forgets_the_oldest_turns_and_keeps_the_system_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[list[str]] = []

    def ask(turns: Turns) -> str:
        if len(turns) > 4:
            raise TooLarge("too long")
        asked.append([turn["content"] for turn in turns])
        return f"answer {len(asked)}"

    with pytest.MonkeyPatch.context() as patch:
        _type(patch, "one", "two", "three", "/clear", "four")
        converse(ask, [{"role": "system", "content": "be brief"}])
    assert asked == [
        ["be brief", "one"],
        ["be brief", "one", "answer 1", "two"],
        ["be brief", "two", "answer 2", "three"],
        ["be brief", "four"],
    ]
    said = capsys.readouterr().out
    assert said.count("the oldest question and its answer are forgotten") == 1
    assert said.count("[forgotten]") == 1


def test_a_question_that_alone_is_too_long_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    def ask(turns: Turns) -> str:
        raise TooLarge("too long")

    with pytest.MonkeyPatch.context() as patch:
        _type(patch, "x")
        converse(ask, [])
    assert capsys.readouterr().err == "optimist: too long\n"


def test_an_interrupt_ends_the_answer_and_not_the_chat(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _type(monkeypatch, "a", KeyboardInterrupt, "b")
    waits = iter([KeyboardInterrupt, None])

    def wait_for(answer: Future[str]) -> str:
        if next(waits) is not None:
            raise KeyboardInterrupt
        return answer.result()

    monkeypatch.setattr(chat, "wait_for", wait_for)
    assert main(["chat", *SAMPLING]) == 0
    said = capsys.readouterr().out
    assert said.count("[interrupted]") == 1
    assert said.count("[5 tokens, ") == 1


def _type(monkeypatch: pytest.MonkeyPatch, *lines: str | type[BaseException]) -> None:
    """Let the user type these lines, or press the keys that raise, and then end the input."""
    coming = iter(lines)

    def typed(prompt: str = "") -> str:
        line = next(coming, EOFError)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr("builtins.input", typed)


def test_timing_counts_from_the_first_tokens() -> None:
    times = iter([10.0, 10.5, 11.5, 12.5])
    timing = Timing(lambda: next(times))
    assert (timing.ttft_ms, timing.tokens_per_s) == (None, None)
    timing.took(0)
    for tokens in (1, 2, 2):
        timing.took(tokens)
    assert (timing.ttft_ms, timing.tokens_per_s) == (500.0, 2.0)


def test_timing_of_tokens_that_came_at_once_counts_the_whole_time() -> None:
    times = iter([10.0, 12.0])
    timing = Timing(lambda: next(times))
    timing.took(4)
    assert timing.tokens_per_s == 2.0


def test_progress_is_drawn_where_somebody_watches() -> None:
    part = Progress(incarnation=1, actor="worker", what="weights", done=1, total=4)
    assert "weights ██████░" in line(part)
    assert "25 %" in line(part)
    assert line(Progress(incarnation=1, actor="worker", what="x", done=4, total=4)) == "\r\x1b[K"
    assert show() is None
