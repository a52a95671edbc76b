"""What the project uses of Triton. The language of kernels is not Python: checkers leave it alone."""

from collections.abc import Callable
from typing import Any, overload

__version__: str

@overload
def jit(fn: Callable[..., Any]) -> Any: ...
@overload
def jit(*, do_not_specialize: list[str]) -> Callable[[Callable[..., Any]], Any]: ...
def compile(src: Any, target: Any, options: dict[str, Any]) -> Any: ...
