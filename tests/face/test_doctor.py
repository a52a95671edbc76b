"""What `optimist doctor` says of the native library, and what is lost where something is missing."""

from __future__ import annotations

import pytest

from optimist.cli.doctor import examine, native_says
from optimist.kernels.native import library, neighbours
from optimist.kernels.native.library import FORCED, here


def test_without_the_library_what_is_lost_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "missing", lambda: "the native library was not built: no compiler")
    (finding,) = (each for each in examine() if each.what == "native library")
    assert finding.good is None
    assert finding.says.startswith("the native library was not built: no compiler; torch computes")
    for lost in ("--quant", "--packed-cache", "--kv-dtype int8", "the same bits", "loads torch"):
        assert lost in finding.says


def test_it_says_which_set_computes_and_which_the_compiler_left_out() -> None:
    assert native_says("avx2", ["avx2", "portable"], []).startswith(
        "avx2 computes, avx2, portable can; KV cache"
    )
    says = native_says("avx2", ["avx2", "portable"], ["avx512", "avxvnni"])
    assert "; avx512, avxvnni left out: this needs GCC 11" in says


@pytest.mark.parametrize(
    ("told", "says"),
    [(True, ", fewer beside engines of other processes"), (False, "; engines of other processes")],
)
def test_it_says_whether_engines_share_the_cores(
    told: bool, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "tell", lambda: told)
    (found,) = [finding for finding in examine() if finding.what == "processors"]
    assert says in found.says


@pytest.mark.parametrize(("name", "good"), [("portable", True), ("avx513", False)])
def test_a_set_that_is_asked_for_is_told_and_one_that_is_not_there_is_bad(
    name: str, good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FORCED, name)
    (found,) = [finding for finding in examine() if finding.what == "native library"]
    wrong = f"{FORCED}: expected one of {', '.join(here())}, got 'avx513'"
    assert found.good is good
    assert found.says.startswith("portable computes, " if good else wrong)
