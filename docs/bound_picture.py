"""Draws docs/length-contract.svg: what the host plans with, and what is true on the device."""

from __future__ import annotations

from typing import NamedTuple

DRAFTS = 3
PROMPT = 4
ACCEPTED = (3, 1, 0, 2, 3, 0, 0, 1, 3, 2)
"""drafts that turn out right, of each step"""

WIDTH, HEIGHT = 760, 400
LEFT, BOTTOM = 110, 330
STEP, TOKEN = 62, 10
BLUE, ORANGE, GREY, INK = "#1f6feb", "#d9822b", "#8b949e", "#24292f"


class Point(NamedTuple):
    """Lengths of one row in one step, its own query of 1 + DRAFTS tokens included."""

    bound: int
    length: int


def course() -> list[Point]:
    """Of each step, planned while the one before it has not settled."""
    points, computed, before = list[Point](), PROMPT, 0
    for accepted in ACCEPTED:
        length = computed + 1 + DRAFTS
        points.append(Point(length + before, length))
        computed, before = computed + 1 + accepted, DRAFTS - accepted
    return points


def picture() -> str:
    """The SVG text."""
    points = course()
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'font-family="sans-serif" font-size="13" fill="{INK}">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *(_gap(step, point) for step, point in enumerate(points)),
        _stairs([point.bound for point in points], BLUE),
        _stairs([point.length for point in points], ORANGE),
        _line(LEFT, BOTTOM, WIDTH - 20, BOTTOM),
        _line(LEFT, BOTTOM, LEFT, 30),
        *(_text(LEFT - 16, _y(tokens) + 4, str(tokens)) for tokens in range(0, 31, 10)),
        _text(LEFT, 18, "tokens of the row"),
        *_row(BOTTOM + 20, "step", list(range(len(points)))),
        *_row(BOTTOM + 40, "accepted", list(ACCEPTED)),
        *_row(BOTTOM + 60, "bound - length", [point.bound - point.length for point in points]),
        _legend(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(step: float) -> float:
    return LEFT + step * STEP


def _y(tokens: float) -> float:
    return round(BOTTOM - tokens * TOKEN, 1)


def _stairs(values: list[int], colour: str) -> str:
    at = " ".join(
        f"{_x(step)},{_y(value)} {_x(step + 1)},{_y(value)}" for step, value in enumerate(values)
    )
    return f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="3"/>'


def _gap(step: int, point: Point) -> str:
    if (missing := point.bound - point.length) == 0:
        return ""
    top, height = _y(point.bound), round(missing * TOKEN, 1)
    return (
        f'<rect x="{_x(step)}" y="{top}" width="{STEP}" height="{height}" fill="{BLUE}" '
        'fill-opacity="0.15"/>'
    )


def _row(y: float, name: str, values: list[int]) -> list[str]:
    """A line of numbers below the steps."""
    cells = [_text(_x(step) + STEP / 2, y, str(value)) for step, value in enumerate(values)]
    return [_text(LEFT - 8, y, name, "end"), *cells]


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{GREY}"/>'


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>'


def _legend() -> str:
    rows = (
        (BLUE, 1.0, "bound: what the plan carries"),
        (ORANGE, 1.0, "length: what the device holds, and nobody else"),
        (BLUE, 0.15, f"drafts, of {DRAFTS}, rejected in the step before, which had not settled"),
    )
    return "\n".join(
        f'<rect x="{LEFT + 220}" y="{BOTTOM - 88 + 20 * at}" width="22" height="8" fill="{colour}" '
        f'fill-opacity="{opacity}"/>' + _text(LEFT + 250, BOTTOM - 79 + 20 * at, text, "start")
        for at, (colour, opacity, text) in enumerate(rows)
    )
