"""The committed schema and golden bytes, and the rules that the client protocol keeps."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from optimist.messages.client import PROTOCOL_VERSION
from optimist.messages.codec import Codec, encode
from optimist.messages.schema.compare import broken_rules
from optimist.messages.schema.directions import every_message
from optimist.messages.schema.examples import examples
from optimist.messages.schema.generate import (
    GOLDEN_FILE,
    SCHEMA_FILE,
    golden_bytes,
    golden_frames,
    schema,
    schema_text,
)

UPDATE = "run: python -m optimist.messages.schema --write"
Change = Callable[[dict[str, Any]], object]


def committed() -> dict[str, Any]:
    """The schema in the repository."""
    read: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return read


def test_the_code_keeps_every_promise_of_the_committed_schema() -> None:
    assert broken_rules(committed(), schema()) == []


def test_the_committed_files_are_those_of_the_code() -> None:
    assert schema_text() == SCHEMA_FILE.read_text(encoding="utf-8"), UPDATE
    assert golden_bytes() == GOLDEN_FILE.read_bytes(), UPDATE
    assert committed()["protocol"] == PROTOCOL_VERSION


def test_every_golden_message_is_decoded_to_its_example() -> None:
    codec = Codec(every_message())
    frames = golden_frames(GOLDEN_FILE.read_bytes())
    assert len(frames) == len(examples())
    for frame, example in zip(frames, examples(), strict=True):
        again = codec.decode(frame)
        assert type(again) is type(example)
        assert encode(again) == frame == encode(example)


def test_the_schema_names_every_message_and_forbids_unknown_fields() -> None:
    definitions = committed()["$defs"]
    for kind in every_message():
        assert definitions[kind.__name__]["additionalProperties"] is False
        assert set(definitions[kind.__name__]["properties"]) == {"type", *kind.__struct_fields__}


def new_field(kind: str, *, required: bool = False, **field: Any) -> Change:
    def change(made: dict[str, Any]) -> None:
        made["$defs"][kind]["properties"]["extra"] = {"type": "integer", **field}
        if required:
            made["$defs"][kind]["required"].append("extra")

    return change


def field(kind: str, name: str, **values: Any) -> Change:
    return lambda made: made["$defs"][kind]["properties"][name].update(values)


BREAKING: dict[str, tuple[Change, str]] = {
    "a message": (
        lambda made: made["directions"]["client to gateway"].remove("Ping"),
        "client to gateway: Ping is gone; a message stays (rule 1)",
    ),
    "a field": (
        lambda made: made["$defs"]["Generate"]["properties"].pop("trace"),
        "Generate.trace is gone; a field stays (rule 2)",
    ),
    "a field of a part": (
        lambda made: made["$defs"]["Usage"]["properties"].pop("cached_tokens"),
        "Usage.cached_tokens is gone; a field stays (rule 2)",
    ),
    "a type": (
        field("Ping", "nonce", type="string"),
        "Ping.nonce has another type; a field keeps its type (rule 3)",
    ),
    "a default": (
        field("SamplingParams", "top_k", default=40),
        "SamplingParams.top_k has another default; a field keeps it (rule 4)",
    ),
    "a required field": (
        new_field("Generate", required=True),
        "Generate.extra is new and required; it needs a default (rule 5)",
    ),
    "a field that old clients refuse": (
        new_field("Delta", default=0),
        "Delta.extra is new; the gateway sends Delta to old clients (rule 6)",
    ),
}


@pytest.mark.parametrize("case", BREAKING)
def test_a_broken_rule_is_named(case: str) -> None:
    change, sentence = BREAKING[case]
    made = copy.deepcopy(committed())
    change(made)
    assert sentence in broken_rules(committed(), made)


@pytest.mark.parametrize(
    "change",
    [
        new_field("Generate", default=0),
        new_field("Admit", required=True),
        field("Ping", "nonce", description="other words"),
        lambda made: made["directions"]["client to gateway"].append("Farewell"),
        lambda made: made["directions"]["gateway to scheduler"].remove("Grant"),
    ],
)
def test_what_breaks_no_rule_is_allowed(change: Change) -> None:
    made = copy.deepcopy(committed())
    change(made)
    assert broken_rules(committed(), made) == []


def test_the_command_agrees_with_the_files() -> None:
    command = [sys.executable, "-m", "optimist.messages.schema"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")
