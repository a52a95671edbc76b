"""What `optimist doctor` says is lost where something is missing."""

from __future__ import annotations

import pytest

from optimist.cli.doctor import examine
from optimist.kernels.native import library


def test_without_the_library_what_is_lost_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "missing", lambda: "the native library was not built: no compiler")
    (finding,) = (each for each in examine() if each.what == "native library")
    assert finding.good is None
    assert finding.says.startswith("the native library was not built: no compiler; torch computes")
    for lost in ("--quant", "--packed-cache", "--kv-dtype int8", "the same bits", "loads torch"):
        assert lost in finding.says
