"""Triton's interpreter without what it does again and again: types of blocks, and copies of CPU tensors.

Nothing of what a kernel computes is changed, only how often the interpreter makes the same thing anew.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any, NamedTuple

Sizes = tuple[int, ...]


class Shaped(NamedTuple):
    """What blocks of the same shape share. shape: as of a type, whole: as of a value, with constants."""

    shape: Any
    whole: Any
    numel: int
    count: Any


def quicken(interpreter: Any) -> None:
    """Speed up Triton's interpreter in this process."""
    _share_shapes(interpreter.tl)
    _leave_alike_as_they_are(interpreter)
    _keep_dtypes(interpreter)
    _leave_tensors_where_they_are(interpreter)


def _share_shapes(language: Any) -> None:
    """Shapes are checked and wrapped once, not for every value of them."""
    core = language.core
    plain = core.block_type.__init__
    known: dict[Sizes, Shaped] = {}
    names: dict[tuple[Sizes, str], str] = {}

    def shaped(sizes: Sizes) -> Shaped:
        made = object.__new__(core.block_type)
        plain(made, language.int32, list(sizes))
        wrapped = [core.constexpr(size) for size in sizes]
        return Shaped(made.shape, core.tuple(wrapped), made.numel, core.constexpr(made.numel))

    def block_type(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple(size.value if isinstance(size, core.constexpr) else size for size in shape)
        if sizes not in known:
            known[sizes] = shaped(sizes)
        self.element_ty = element_ty
        self.shape, self.numel = known[sizes].shape, known[sizes].numel
        name = sizes, element_ty.name
        if name not in names:
            names[name] = f"<{self.shape}, {element_ty}>"
        self.name = names[name]

    nothing = Shaped(None, core.tuple([]), 1, core.constexpr(1))

    def tensor(self: Any, handle: Any, type: Any) -> None:
        self.handle, self.type, self.dtype = handle, type, type.scalar
        found = known[tuple(type.shape.values)] if type.is_block() else nothing
        self.shape, self.numel = found.whole, found.count

    core.block_type.__init__ = block_type
    core.tensor.__init__ = tensor


def _leave_alike_as_they_are(interpreter: Any) -> None:
    """Blocks of one shape need no look at each of its sizes to be computed with."""
    semantic = type(interpreter.interpreter_semantic)
    plain = semantic.broadcast_impl_value

    def broadcast(self: Any, one: Any, other: Any) -> Any:
        if one.type.is_block() and other.type.is_block() and one.type.shape is other.type.shape:
            return one, other
        return plain(self, one, other)

    semantic.broadcast_impl_value = broadcast


def _keep_dtypes(interpreter: Any) -> None:
    """A table of all types is not built for each look at it."""
    plain, private = interpreter._get_np_dtype, vars(interpreter)  # noqa: SLF001 - to be mended
    of_scalar = lru_cache(maxsize=None)(plain)
    pointer = interpreter.tl.pointer_type

    def numpy_dtype(dtype: Any) -> Any:
        scalar = dtype.scalar
        return plain(scalar) if isinstance(scalar, pointer) else of_scalar(scalar)

    private["_get_np_dtype"] = numpy_dtype


def _leave_tensors_where_they_are(interpreter: Any) -> None:
    """Tensors are on the CPU as it is: no copies, and no look at a signature, for each launch."""
    signatures: dict[Any, tuple[inspect.Signature, frozenset[str]]] = {}
    builder, convert = interpreter.interpreter_builder, interpreter._implicit_cvt  # noqa: SLF001 - to be mended

    def call(self: Any, *arguments: Any, **options: Any) -> None:
        if self.fn not in signatures:
            signature = inspect.signature(self.fn)
            signatures[self.fn] = signature, frozenset(signature.parameters)
        signature, names = signatures[self.fn]
        bound = signature.bind(*arguments, **{n: v for n, v in options.items() if n in names})
        bound.apply_defaults()
        given = {
            name: value if name in self.constexprs else convert(value)
            for name, value in bound.arguments.items()
        }
        x, y, z = (*self.grid, 1, 1)[:3]
        builder.set_grid_dim(x, y, z)
        for i_x in range(x):
            for i_y in range(y):
                for i_z in range(z):
                    builder.set_grid_idx(i_x, i_y, i_z)
                    self.fn(**given)

    executors: dict[Any, Any] = {}

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> None:
        if warmup:
            return
        if self.fn not in executors:
            executors[self.fn] = interpreter.GridExecutor(self.rewrite(), self.arg_names, grid)
        executors[self.fn].grid = grid
        executors[self.fn](*arguments, **options)

    interpreter.GridExecutor.__call__ = call
    interpreter.InterpretedFunction.run = run
