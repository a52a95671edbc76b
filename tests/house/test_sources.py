"""What no source may do: run what comes from outside, or use a part of ZeroMQ that loses messages."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from house import CODE, ROOT, files, name

LOADERS = {
    *("pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"),
    *("jsonpickle", "yaml", "zmq.utils.jsonapi", "multiprocessing"),
}
CALLS = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {
    "recv_pyobj": "loads a pickle",
    "send_pyobj": "sends a pickle",
    "unsafe_load": "runs code",
    "PUB": "drops messages without a word",
    "SUB": "drops messages without a word",
    "XPUB": "drops messages without a word",
    "XSUB": "drops messages without a word",
}
KEYWORDS = {
    ("copy", False): "a buffer that may change while it is sent",
    ("allow_pickle", True): "loads a pickle",
    ("weights_only", False): "loads a pickle",
    ("shell", True): "runs a command line",
}


def offences(source: str) -> list[str]:
    """What a source does that none may do, with its line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        at = getattr(node, "lineno", 0)
        match node:
            case ast.Import(names=names):
                modules = {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                modules = {module, *(f"{module}.{alias.name}" for alias in names)}
            case _:
                modules = set()
        roots = {module.split(".")[0] for module in modules}
        found += [f"{at}: import {loader}" for loader in sorted(LOADERS & (modules | roots))]
        match node:
            case ast.Call(func=ast.Name(id=called)) if called in CALLS:
                found.append(f"{at}: {called}()")
            case ast.Attribute(attr=attribute) if attribute in ATTRIBUTES:
                found.append(f"{at}: {attribute} {ATTRIBUTES[attribute]}")
            case ast.keyword(arg=str(key), value=ast.Constant(value=bool(value))):
                if (key, value) in KEYWORDS:
                    found.append(f"{at}: {key}={value}: {KEYWORDS[key, value]}")
            case ast.Constant(value=str(text)) if text.startswith("inproc://"):
                found.append(f"{at}: {text}: slower than a mailbox")
    return found


def test_no_source_runs_what_comes_from_outside() -> None:
    found = [
        f"{name(path)}:{offence}"
        for path in files(*CODE)
        for offence in offences(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        "import pickle",
        "import os, marshal",
        "from dill import loads",
        "from multiprocessing import Queue",
        "def f(x):\n    return eval(x)",
        "socket.recv_pyobj()",
        "context.socket(zmq.PUB)",
        "socket.send(frame, copy=False)",
        "torch.load(path, weights_only=False)",
        "socket.bind('inproc://x')",
    ],
)
def test_each_of_them_is_seen(planted: str) -> None:
    assert len(offences(planted)) == 1


def test_the_scan_reads_the_sources() -> None:
    assert Path("transport/channel.py") in {p.relative_to(ROOT) for p in files(*CODE)}
