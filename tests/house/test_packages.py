"""pyproject.toml lists every package, and nothing that is not there."""

from __future__ import annotations

import tomllib
from importlib.metadata import entry_points, version

from house import ROOT, files


def _project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_list_of_packages_is_the_tree() -> None:
    listed = _project()["tool"]["setuptools"]["packages"]  # type: ignore[index]
    face = ROOT / "src/optimist"
    tree = {"optimist"}
    for path in files("src/optimist"):
        if path.name == "__init__.py" and path.parent != face:
            tree.add("optimist." + ".".join(path.parent.relative_to(face).parts))
    for path in files("messages", "transport", "kernels", "models", "actors"):
        tree.add("optimist." + ".".join(path.parent.relative_to(ROOT).parts))
    assert listed == sorted(tree)


def test_every_package_has_an_init_file() -> None:
    rooms = ("messages", "transport", "kernels", "models", "actors", "src/optimist")
    folders = {path.parent for path in files(*rooms)}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_the_command_is_installed() -> None:
    (command,) = entry_points(group="console_scripts", name="optimist")
    assert command.value == "optimist.cli.main:main"
    assert version("optimist") == _project()["project"]["version"]  # type: ignore[index]


def test_torch_is_pinned_for_cpus_only() -> None:
    project = _project()["project"]
    assert "torch>=2.11" in project["dependencies"]  # type: ignore[index]
    assert (ROOT / "constraints/cpu.txt").read_text(encoding="utf-8") == "torch==2.13.0\n"
