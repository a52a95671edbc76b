"""A Jinja sandbox in which a template can neither run nor grow without end.

What remains possible is to be slow within the limits: run templates away from an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any

from jinja2 import nodes, pass_environment
from jinja2.environment import Environment
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from optimist.models.template_limits import (
    BudgetSpent,
    check_numbers,
    check_size,
    check_widths,
    checked,
    is_sized,
    join_texts,
    shown,
    size_of,
    take,
)


class LimitedEnvironment(ImmutableSandboxedEnvironment):
    """The immutable sandbox with whitespace as chat templates expect it, and limits.

    filters: more of them, kept within the limits as well.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, filters: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols, _Generation],
            finalize=shown,
        )
        self.globals.pop("lipsum", None)
        self.filters |= {"join": _join_filter, "replace": _replace} | dict(filters)
        self.filters = {name: _guarded(filter_) for name, filter_ in self.filters.items()}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        _Counting(self).visit(template)
        return template

    def count_turn(self) -> str:
        """Called at every turn of a loop and call of a macro; writes nothing."""
        take()
        return ""

    def count_test(self) -> bool:
        """Called for every item that a loop's condition looks at."""
        take()
        return True

    def concatenated(self, *parts: object) -> str:
        """What `~` makes."""
        return join_texts("", parts)

    def made(self, value: object) -> object:
        """A list, tuple or dict that the template wrote down; `call` checks what is returned."""
        return value

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        receiver = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        if isinstance(receiver, str | bytes | int | float):
            check_numbers(*args, *kwargs.values())
            take(size_of(receiver))
            checked([*args, *kwargs.values()])
            if obj.__name__ == "join" and isinstance(receiver, str):
                return join_texts(receiver, *args)
            if obj.__name__ == "replace" and isinstance(receiver, str):
                return _replace(receiver, *args, **kwargs)
        return checked(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        match operator:
            case "**":
                check_numbers(left, right)
                if right > 64:
                    raise BudgetSpent("a power of more than 64")
            case "*" if is_sized(left) or is_sized(right):
                check_size(size_of(left) * size_of(right))
            case "%" if isinstance(left, str | bytes):
                raise BudgetSpent("the operator % on text, which the filter `format` replaces")
        return checked(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is not None:
            check_widths(value.__self__)
        return wrapped


class _Generation(Extension):
    """`{% generation %}` marks what an assistant wrote, for training; here it is only its body."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Counting(NodeTransformer):
    """Puts calls of the environment, which no name can hide, where a template repeats or joins."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def visit_For(self, node: nodes.For) -> nodes.Node:
        if node.test is not None:
            node.test = nodes.And(self._call("count_test", []), node.test)
        return self._counted(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        return self._counted(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        return self._counted(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return self._call("concatenated", node.nodes)

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return self._call("made", [node])

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        return self._call("made", [node])

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return self._call("made", [node]) if node.ctx == "load" else node

    def _counted(self, node: nodes.For | nodes.Macro | nodes.CallBlock) -> nodes.Node:
        self.generic_visit(node)
        turn = nodes.Output([self._call("count_turn", [])])
        turn.set_environment(self._environment)
        node.body.insert(0, turn)
        return node

    def _call(self, name: str, arguments: list[nodes.Expr]) -> nodes.Call:
        called = nodes.Call(nodes.EnvironmentAttribute(name), arguments, [], None, None)
        called.set_environment(self._environment)
        return called


@pass_environment
def _join_filter(
    environment: Environment, value: Iterable[object], d: str = "", attribute: str | None = None
) -> str:
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    return join_texts(str(d), value)


def _replace(value: object, old: str, new: str, count: int | None = None) -> str:
    text = str(value)
    found = text.count(old) if count is None or count < 0 else min(count, text.count(old))
    check_size(len(text) + found * len(new))
    return text.replace(old, new, found)


def _guarded(filter_: Callable[..., Any]) -> Callable[..., Any]:
    """A filter within limits. `wraps` keeps the marks that tell Jinja what to hand it."""

    @wraps(filter_)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        check_numbers(*args[1:], *kwargs.values())
        take(sum(size_of(value) for value in args if is_sized(value)))
        checked([value for value in args if is_sized(value) or isinstance(value, Namespace)])
        if getattr(filter_, "__name__", "") == "do_format":
            check_widths(str(args[0]))
        return checked(filter_(*args, **kwargs))

    return guarded
