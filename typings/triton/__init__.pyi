"""What the project uses of Triton. The language of kernels is not Python: checkers leave it alone."""

from collections.abc import Callable
from typing import Any

__version__: str

def jit(fn: Callable[..., Any]) -> Any: ...
def compile(src: Any, target: Any, options: dict[str, Any]) -> Any: ...
