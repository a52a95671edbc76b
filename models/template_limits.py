"""A Jinja sandbox in which a template can neither run nor grow without end.

Steps are counted, not seconds, so that the same template with the same messages always ends alike.
What remains possible is to be slow within the limits: run templates away from an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar, Token
from functools import wraps
from typing import Any, Self

from jinja2 import nodes, pass_environment
from jinja2.environment import Environment
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_STEPS = 1_000_000
"""turns of loops, calls, and thousands of characters or items handled, in one rendering"""
MAX_SIZE = 16 * 2**20
"""characters or items of any value, and characters written"""
MAX_NUMBER = 100_000
"""an integer handed to a method or filter, where it may be a width or a count"""


class BudgetSpent(Exception):
    """A template went beyond a limit. Says which."""


class Budget:
    """What one rendering may still do. Entering it makes it the one that counts."""

    def __init__(self) -> None:
        self._steps = 0
        self._token: Token[Budget | None] | None = None

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _current.reset(self._token)

    def take(self, size: int = 0) -> None:
        """Count a step over so many characters or items. Raises BudgetSpent after the last one."""
        self._steps += 1 + size // 1024
        if self._steps > MAX_STEPS:
            raise BudgetSpent(f"more than {MAX_STEPS} steps")


_current: ContextVar[Budget | None] = ContextVar("template budget", default=None)


class LimitedEnvironment(ImmutableSandboxedEnvironment):
    """The immutable sandbox with whitespace as chat templates expect it, and limits."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation]
        )
        self.globals.pop("lipsum", None)
        self.filters |= {"join": _join_filter, "replace": _replace}
        self.filters = {name: _guarded(filter_) for name, filter_ in self.filters.items()}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        _Counting(self).visit(template)
        return template

    def count_turn(self) -> str:
        """Called at every turn of a loop and call of a macro; writes nothing."""
        _take()
        return ""

    def count_test(self) -> bool:
        """Called for every item that a loop's condition looks at."""
        _take()
        return True

    def concatenated(self, *parts: object) -> str:
        """What `~` makes."""
        return join_texts("", parts)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        receiver = getattr(obj, "__self__", None)
        if isinstance(receiver, str | bytes | int | float):
            _check_numbers(*args, *kwargs.values())
            _take(_size(receiver))
            if obj.__name__ == "join" and isinstance(receiver, str):
                return join_texts(receiver, *args)
            if obj.__name__ == "replace" and isinstance(receiver, str):
                return _replace(receiver, *args, **kwargs)
        return checked(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        match operator:
            case "**":
                _check_numbers(left, right)
                if right > 64:
                    raise BudgetSpent("a power of more than 64")
            case "*" if _is_sized(left) or _is_sized(right):
                _check_size(_size(left) * _size(right))
            case "%" if isinstance(left, str | bytes):
                raise BudgetSpent("the operator % on text, which the filter `format` replaces")
        return checked(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is not None:
            _check_widths(value.__self__)
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


def join_texts(separator: str, parts: Iterable[object]) -> str:
    """The parts as one text. Raises BudgetSpent as soon as it is too long."""
    texts: list[str] = []
    size = 0
    for part in parts:
        texts.append(str(part))
        size += len(texts[-1]) + len(separator)
        _check_size(size)
    return separator.join(texts)


def checked(value: Any) -> Any:
    """The value. Raises BudgetSpent when it is too large."""
    if _is_sized(value):
        _check_size(len(value))
    elif isinstance(value, int) and value.bit_length() > 4096:
        raise BudgetSpent("a number of more than 4096 bits")
    return value


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
    _check_size(len(text) + found * len(new))
    return text.replace(old, new, found)


def _guarded(filter_: Callable[..., Any]) -> Callable[..., Any]:
    """A filter within limits. `wraps` keeps the marks that tell Jinja what to hand it."""

    @wraps(filter_)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        _check_numbers(*args[1:], *kwargs.values())
        _take(sum(_size(value) for value in args if _is_sized(value)))
        if filter_.__name__ == "do_format":
            _check_widths(str(args[0]))
        return checked(filter_(*args, **kwargs))

    return guarded


def _take(size: int = 0) -> None:
    """Compiling folds constants outside any rendering: then there is nothing to count on."""
    if (budget := _current.get()) is not None:
        budget.take(size)


def _is_sized(value: object) -> bool:
    return isinstance(value, str | bytes | list | tuple | dict | set)


def _size(value: Any) -> int:
    if isinstance(value, int):
        return abs(value)
    return len(value) if _is_sized(value) else 1


def _check_size(size: int) -> None:
    if size > MAX_SIZE:
        raise BudgetSpent(f"a text or list of more than {MAX_SIZE}")


def _check_numbers(*values: object) -> None:
    for value in values:
        if isinstance(value, int) and abs(value) > MAX_NUMBER:
            raise BudgetSpent(f"a number above {MAX_NUMBER} as a width or count")


def _check_widths(layout: str) -> None:
    digits = 0
    for character in layout:
        digits = digits + 1 if character.isdigit() else 0
        if digits > 5:
            raise BudgetSpent("a width of more than five digits")
