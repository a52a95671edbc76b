"""Finds whoever reads a bound, and what stands beside it in the code: a kind and a reason.

A reader is declared where it reads, in a comment above the statement or behind it:

    # bound, sizing: the reason why this is safe

What is seen: the readings of a value that is typed or assigned as a bound, or is a field of that type;
the raw door; integers that were made from bounds; and, of the optimistic kinds, exact prefill lengths.
Whatever else is done with a bound counts as a reading too, unless it is handed on by the name of one
(see bound_ways): kept, unpacked, returned, put into a tuple, taken by a pattern or by a string.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from bound_ways import BOUND_FIELDS, BUFFER, READINGS, SIZES, Ways

ROOT = Path(__file__).parents[1]
ROOMS = ("messages", "transport", "kernels", "models", "actors", "src/optimist")
KINDS = {
    "sizing": "decides how large something is; what is in it follows from lengths on the device",
    "class test": "asks a question whose answer is the same for the bound and for the length",
    "exact on prefill rows": "reads lengths of rows whose tokens are all known, which are exact",
    "handing on": "makes a bound of fewer rows of it, and reads no number",
    "test": "holds the contract itself against the device, in tests",
    "display": "shows it to people, and decides nothing",
}

EXACT_READINGS = READINGS - {"rows"} | {"exact"}
OWNERS = frozenset({"messages/lengths.py", "messages/plans.py", "messages/batches.py"})
"""where these types are at home: they define, copy and count"""

HOME = "messages/lengths.py"
"""the only one of them that may look at the numbers of another's"""

MARK = re.compile(r"#\s*bound, ([a-z ]+): (.+)")


class Reading(NamedTuple):
    """where: path and function. what: the method or field read. line: of the statement.

    kind, reason: as declared; empty where nothing is.
    """

    where: str
    what: str
    line: int
    kind: str
    reason: str


class _Mark(NamedTuple):
    """A declaration. alone: nothing else is on its line."""

    alone: bool
    kind: str
    reason: str


def readings() -> list[Reading]:
    """Every reader in the package, by path and line."""
    return [found for path in _sources() for found in scan(path.read_text(encoding="utf-8"), path)]


def scan(source: str, path: Path) -> list[Reading]:
    """The readers in one source. path: absolute, below the root."""
    name = path.relative_to(ROOT).as_posix()
    if name == HOME:
        return []
    marks = _marks(source)
    found: dict[tuple[str, str, int], Reading] = {}
    for function, statement, what in _Readers(ast.parse(source)).found:
        if name in OWNERS and what != BUFFER:
            continue
        kind, reason = _declared(statement, marks)
        key = (function, what, statement.lineno)
        found[key] = Reading(f"{name}: {function}", what, statement.lineno, kind, reason)
    return sorted(found.values(), key=lambda one: (one.line, one.what))


def _sources() -> Iterator[Path]:
    links = {ROOT / "src/optimist" / room for room in ROOMS}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if not links & set(path.parents):
                yield path


class _Readers(ast.NodeVisitor):
    """Walks a module, knowing which names hold a bound in the function at hand."""

    def __init__(self, module: ast.Module) -> None:
        self.found: list[tuple[str, ast.stmt, str]] = []
        self._functions: list[str] = []
        self._bounds: list[set[str]] = [set()]
        self._prefills: list[set[str]] = [set()]
        self._ways = Ways(module)
        self._statement: ast.stmt = module.body[0] if module.body else ast.Pass()
        self.visit(module)

    def visit(self, node: ast.AST) -> None:
        before = self._statement
        if isinstance(node, ast.stmt):
            self._statement = node
        for what in self._ways.found(node, self._is_bound):
            self._add(what)
        super().visit(node)
        self._statement = before

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._functions.append(node.name)
        self.generic_visit(node)
        self._functions.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        typed = {a.arg: ast.unparse(a.annotation) for a in arguments if a.annotation is not None}
        self._functions.append(node.name)
        self._bounds.append({name for name, hint in typed.items() if "SeqLensUpperBound" in hint})
        self._prefills.append({name for name, hint in typed.items() if "PrefillRows" in hint})
        self.generic_visit(node)
        for stack in (self._functions, self._bounds, self._prefills):
            stack.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name) and "SeqLensUpperBound" in ast.unparse(
            node.annotation
        ):
            self._bounds[-1].add(node.target.id)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            match target, node.value:
                case ast.Tuple(elts=names), ast.Tuple(elts=values):
                    pairs = list(zip(names, values, strict=False))
                case _:
                    pairs = [(target, node.value)]
            for name, value in pairs:
                self._assign(name, value)
        self.generic_visit(node)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            if self._is_bound(value):
                self._bounds[-1].add(target.id)
            if self._is_prefill(value):
                self._prefills[-1].add(target.id)

    def visit_Call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Attribute(attr="sizing_array"):
                self._add("sizing_array")
            case ast.Attribute(value=value, attr=method):
                if method in READINGS and self._is_bound(value):
                    self._add(method)
                elif method in EXACT_READINGS and self._is_exact_part(value):
                    self._add(f"prefill {method}")
            case ast.Name(id="isinstance") if "SeqLensUpperBound" in ast.unparse(node):
                if isinstance(node.args[0], ast.Name):
                    self._bounds[-1].add(node.args[0].id)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in SIZES and isinstance(node.ctx, ast.Load):
            self._add(node.attr)
        self.generic_visit(node)

    def _add(self, what: str) -> None:
        function = ".".join(self._functions) or "module"
        self.found.append((function, self._statement, what))

    def _is_bound(self, node: ast.expr) -> bool:
        match node:
            case ast.Attribute(attr=attr):
                return attr in BOUND_FIELDS
            case ast.Name(id=name):
                return any(name in names for names in self._bounds)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="SeqLensUpperBound"), attr="of")):
                return True
            case ast.Call(func=ast.Name(id="SeqLensUpperBound")):
                return True
            case ast.Call(func=ast.Attribute(value=value, attr="rows")):
                return self._is_bound(value)
            case ast.IfExp(body=one, orelse=other):
                return self._is_bound(one) or self._is_bound(other)
        return False

    def _is_prefill(self, node: ast.expr) -> bool:
        match node:
            case ast.Attribute(attr="prefill"):
                return True
            case ast.Name(id=name):
                return any(name in names for names in self._prefills)
        return False

    def _is_exact_part(self, node: ast.expr) -> bool:
        match node:
            case ast.Attribute(attr="prefill_lens"):
                return True
            case ast.Attribute(value=value, attr="seq_lens"):
                return self._is_prefill(value)
        return False


def _marks(source: str) -> dict[int, _Mark]:
    """Declarations by the last line of their comment."""
    comments: dict[int, tuple[str, bool]] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments[token.start[0]] = (token.string, not token.line[: token.start[1]].strip())
    marks: dict[int, _Mark] = {}
    for line, (text, alone) in sorted(comments.items()):
        if found := MARK.match(text):
            reason, last = found[2], line
            while alone and comments.get(last + 1, ("", False))[1]:
                if MARK.match(comments[last + 1][0]):
                    break
                last += 1
                reason += " " + comments[last][0].lstrip("# ")
            marks[last] = _Mark(alone, found[1], reason)
    return marks


def _declared(statement: ast.stmt, marks: dict[int, _Mark]) -> tuple[str, str]:
    last = statement.end_lineno or statement.lineno
    if body := getattr(statement, "body", None):
        last = body[0].lineno - 1
    above = marks.get(statement.lineno - 1)
    if above is not None and above.alone:
        return above.kind, above.reason
    for line in range(statement.lineno, last + 1):
        if line in marks:
            return marks[line].kind, marks[line].reason
    return "", ""


def rows(found: Iterable[Reading]) -> list[tuple[str, str, str, str]]:
    """Lines of the table: place, what it reads, kind and reason; one for each declaration."""
    merged: dict[tuple[str, str, str], list[str]] = {}
    for one in found:
        reads = merged.setdefault((one.where, one.kind, one.reason), [])
        if one.what not in reads:
            reads.append(one.what)
    return [(where, ", ".join(reads), kind, why) for (where, kind, why), reads in merged.items()]
