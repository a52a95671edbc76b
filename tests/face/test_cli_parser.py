"""What the command line refuses, and what it says then."""

from __future__ import annotations

import pytest

from optimist import environment
from optimist.cli import options
from optimist.cli.main import main
from optimist.cli.parser import BENCHES, COMMANDS, parse
from optimist.cli.settings import engine_config, sampling_params
from optimist.environment import VARIABLES, check_environment
from optimist.messages.errors import ConfigError, InvalidRequest


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "expected a command: chat, generate, serve, bench, doctor"),
        (["ask"], "invalid choice: 'ask'"),
        (["generate", "x", "--temprature", "0"], "--temprature: .* the nearest is --temperature"),
        (["generate", "x", "--max-new-tokens", "4"], "--max-new-tokens: .* use --max-tokens"),
        (["serve", "--max-num-seqs=4"], "--max-num-seqs: .* use --max-slots"),
        (["generate", "x", "--temp", "1"], "--temp: .* use --temperature"),
        (["generate", "x", "--max-tok", "1"], "--max-tok: .* the nearest is --max-tokens"),
        (["generate", "x", "--qqqq"], "--qqqq: .* no such option .see `optimist generate --help`."),
        (["serve", "--temprature", "0"], "no such option; --temperature is one of generate, chat"),
        (["generate", "x", "y"], "'y': not expected here"),
        (["generate", "x", "--max-tokens", "many"], "--max-tokens: expected a whole number"),
        (["generate", "x", "--top-p", "half"], "--top-p: expected a number, got 'half'"),
        (["generate", "--prompt-ids", "1,b"], "--prompt-ids: expected whole numbers such as"),
        (["generate", "x", "--logit-bias", "7"], "--logit-bias: expected pairs such as"),
        (["generate", "x", "--depth", "3"], "--depth: expected one of 1, 2, got '3'"),
        (["generate", "x", "--placement", "here"], "--placement: expected one of inline, embedded"),
        (["generate", "x", "--seed"], "--seed: expected one argument"),
        (["generate"], "expected either a PROMPT or --prompt-ids"),
        (["generate", "x", "--prompt-ids", "1"], "expected either a PROMPT or --prompt-ids"),
        (["generate", "--chat", "--prompt-ids", "1"], "--chat: expected a PROMPT"),
        (["generate", "x", "--model", "/nowhere.gguf"], "/nowhere.gguf"),
        (["bench"], "required: WHAT"),
        (["bench", "offline", "--requests", "0"], "--requests: expected at least 1, got 0"),
        (
            ["generate", "x", "--temperature", "-1"],
            r"--temperature: expected in \[0, 100\], got -1",
        ),
        (["generate", "x", "--max-tokens", "0"], "--max-tokens: expected >= 1, got 0"),
        (["generate", "x", "--threads", "0"], "--threads: expected int >= 1, got 0"),
        (["generate", "x", "--block-size", "0"], "--block-size: expected int >= 1, got 0"),
        (["generate", "x", "--kv-memory-mb", "0"], "--kv-memory-mb: expected int >= 1, got 0"),
        (["generate", "x", "--max-model-len", "9000"], "--max-model-len: expected .* got 9000"),
        (["generate", "x", "--kv-blocks", "1"], "--kv-blocks: expected room"),
        (["generate", "--prompt-ids", "999999"], r"--prompt-ids.0.: expected a token id"),
        (["generate", "x", "--group", "all", "--placement", "processes"], "got 'all'"),
        (["serve", "--port", "99999"], "--port: expected int <= 65535, got 99999"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(arguments)
    said = capsys.readouterr()
    assert status in (1, 2)
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("optimist: ")
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(line)


def test_options_may_stand_before_and_behind_the_prompt() -> None:
    for arguments in (["generate", "--seed", "3", "x"], ["generate", "x", "--seed", "3"]):
        parsed = parse(arguments)
        assert (parsed.command, parsed.prompt) == ("generate", "x")
        assert sampling_params(parsed).seed == 3


def test_repeated_options_gather() -> None:
    params = sampling_params(parse(["generate", "x", "--stop", "a", "--stop", "b"]))
    assert params.stop == ("a", "b")


def test_a_prompt_may_begin_with_a_dash_behind_two() -> None:
    assert parse(["generate", "--seed", "3", "--", "--seed"]).prompt == "--seed"


@pytest.mark.parametrize("command", [*COMMANDS, *(f"bench {what}" for what in BENCHES)])
def test_help_names_every_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([*command.split(), "--help"])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert all(option.flag in said for option in options.options_of(command))


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("optimist 0.")


def test_out_of_range_sampling_is_an_invalid_request() -> None:
    with pytest.raises(InvalidRequest, match="top_p"):
        sampling_params(parse(["generate", "x", "--top-p", "2"]))


def test_no_two_options_share_a_flag_and_each_target_is_taken_once_in_a_command() -> None:
    flags = [option.flag for option in options.OPTIONS]
    assert len(flags) == len(set(flags))
    for command in ("generate", "chat", "serve", "bench offline"):
        targets = [t for option in options.options_of(command) for t in option.targets]
        assert len(targets) == len(set(targets))


def test_a_successor_that_is_one_word_exists() -> None:
    flags = {option.flag for option in options.OPTIONS}
    for successor in options.SUCCESSORS.values():
        assert successor.split()[0] in flags


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (
            "OPTIMIST_CODEK",
            "always",
            "OPTIMIST_CODEK: no such variable; the nearest is OPTIMIST_CODEC",
        ),
        ("OPTIMIST_CODEC", "sometimes", "OPTIMIST_CODEC: expected one of wire, always"),
        (
            "OPTIMIST_NATIVE_ISA",
            "sse9",
            "NATIVE_ISA: expected one of amx, avx512, avxvnni, avx2, portable",
        ),
        ("OPTIMIST_SYNC_CHECK", "loud", "OPTIMIST_SYNC_CHECK: expected one of off, warn, error"),
    ],
)
def test_a_wrong_variable_is_refused_before_anything_else(
    name: str,
    value: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, value)
    assert main(["--version"]) == 2
    assert says in capsys.readouterr().err


def test_a_removed_variable_names_its_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(environment.REMOVED, "OPTIMIST_OLD", "--new")
    with pytest.raises(ConfigError, match="OPTIMIST_OLD: was removed; use --new"):
        check_environment({"OPTIMIST_OLD": "1"})


def test_every_value_of_every_variable_is_taken() -> None:
    for variable in VARIABLES:
        for value in (*variable.choices, ""):
            check_environment({variable.name: value, "HOME": "/"})


@pytest.mark.parametrize(
    ("given", "groups"),
    [
        ((), ("worker+builder+scheduler",)),
        (("--group", "builder"), ("builder",)),
        (("--placement", "embedded"), ()),
        (("--placement", "processes"), ("worker+builder+scheduler",)),
    ],
)
def test_a_server_keeps_all_that_steps_need_in_one_process_unless_told_otherwise(
    given: tuple[str, ...], groups: tuple[str, ...]
) -> None:
    assert engine_config(parse(["serve", *given])).groups == groups


@pytest.mark.parametrize(
    ("given", "placement"),
    [
        (("--proposer", "ngram"), "inline"),
        (("--proposer", "somebody:Else"), "embedded"),
        (("--proposer", "somebody:Else", "--placement", "inline"), "inline"),
        (("--proposer", "somebody:Else", "--placement", "processes"), "processes"),
    ],
)
@pytest.mark.parametrize("command", ["generate x", "chat", "bench offline"])
def test_a_proposer_of_somebody_else_is_kept_out_of_the_loop_unless_it_is_let_in(
    command: str, given: tuple[str, ...], placement: str
) -> None:
    assert engine_config(parse([*command.split(), *given])).placement == placement
