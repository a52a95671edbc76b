"""Ways round the readings that bound_readers knows by name: a bound that is handed to where nobody looks."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

BOUND_FIELDS = frozenset({"decode_bound", "bound"})
SIZES = frozenset({"max_seq_len", "max_blocks", "max_query_len"})
"""integers that are made from bounds where rows have bounds"""

READINGS = frozenset({"max", "total", "blocks", "rows", "rows_with_context", "sizing_array"})
BUFFER = "_buf"
"""what lengths of either kind keep their numbers in"""

BOUND = "SeqLensUpperBound"
_SAFE = READINGS | {"count"}
_BY_NAME = frozenset({"getattr", "attrgetter", "methodcaller", "vars"})
_NAMES = BOUND_FIELDS | SIZES | {BUFFER, "rows_with_context", "sizing_array"}


class Ways:
    """What one module does with bounds beside reading them where they stand."""

    def __init__(self, module: ast.Module) -> None:
        self._parents = {
            child: parent for parent in ast.walk(module) for child in ast.iter_child_nodes(parent)
        }

    def found(self, node: ast.AST, is_bound: Callable[[ast.expr], bool]) -> Iterator[str]:
        """Names of what this node does: a bound that is neither asked in place nor handed on as one.

        is_bound: whether an expression is known as a bound where the node stands.
        """
        match node:
            case ast.Attribute(attr=attr) if attr == BUFFER:
                yield BUFFER
            case ast.Attribute(attr=attr, ctx=ast.Load()) if attr in BOUND_FIELDS:
                if not self._is_fair(node):
                    yield attr
            case ast.Attribute(value=value, attr=attr, ctx=ast.Load()) if attr in READINGS:
                if not self._is_called(node) and (is_bound(value) or attr in _NAMES):
                    yield attr
                if isinstance(value, ast.Name) and value.id == BOUND:
                    yield attr
            case ast.Name(id=name, ctx=ast.Load()) if is_bound(node):
                if not self._is_fair(node):
                    yield name
            case ast.MatchClass(kwd_attrs=names):
                yield from (name for name in names if name in _NAMES)
            case ast.Constant(value=str(text)) if self._is_looked_up(node):
                yield from (name for name in text.split(".") if name in _NAMES)
            case ast.FunctionDef(returns=hint) | ast.AsyncFunctionDef(returns=hint):
                if hint is not None and BOUND in ast.unparse(hint):
                    yield node.name

    def _is_fair(self, node: ast.expr) -> bool:
        """Whether a bound is asked where it stands, or handed on under the name of a bound."""
        match self._parents[node]:
            case ast.Attribute(attr=attr) as asked:
                return attr in _SAFE and self._is_called(asked)
            case ast.IfExp(test=test) as chosen:
                return node is not test and self._is_fair(chosen)
            case ast.keyword(arg=str(name)):
                return name in BOUND_FIELDS
            case ast.Call(func=ast.Name(id="isinstance")):
                return True
        return False

    def _is_called(self, node: ast.expr) -> bool:
        parent = self._parents[node]
        return isinstance(parent, ast.Call) and parent.func is node

    def _is_looked_up(self, node: ast.expr) -> bool:
        """Whether a string is the name of an attribute, as far as one can see."""
        match self._parents[node]:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return name in _BY_NAME
            case ast.Subscript(slice=found):
                return found is node
        return False
