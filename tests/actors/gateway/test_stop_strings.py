from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from optimist.actors.gateway.stop_strings import StopStrings


def run(stops: tuple[str, ...], pieces: list[str]) -> tuple[str, str | None]:
    matcher = StopStrings(stops)
    shown = ""
    for piece in pieces:
        text, found = matcher.push(piece)
        shown += text
        if found:
            return shown, found.stop
    return shown + matcher.finish(), None


def expected(stops: tuple[str, ...], text: str) -> tuple[str, str | None]:
    """The definition: for the shortest prefix that ends with a stop, the longest such stop."""
    for end in range(1, len(text) + 1):
        here = [stop for stop in stops if text[:end].endswith(stop)]
        if here:
            longest = max(here, key=len)
            return text[: end - len(longest)], longest
    return text, None


def test_a_stop_spelled_over_three_pieces_is_cut_exactly() -> None:
    assert run(("END",), ["so E", "N", "D and more"]) == ("so ", "END")


def test_what_only_began_like_a_stop_is_shown_in_the_end() -> None:
    assert run(("END",), ["the EN", "ormous"]) == ("the ENormous", None)


def test_only_what_can_still_become_a_stop_is_held_back() -> None:
    matcher = StopStrings(("END",))
    assert matcher.push("fine, E") == ("fine, ", None)
    assert matcher.push("N") == ("", None)
    assert matcher.push("E") == ("EN", None)
    assert matcher.finish() == "E"


def test_of_overlapping_stops_the_one_complete_first_wins() -> None:
    assert run(("abcd", "bc"), ["xabcd"]) == ("xa", "bc")


def test_of_stops_that_end_together_the_longest_wins() -> None:
    assert run(("bc", "abc"), ["xabc"]) == ("x", "abc")


def test_a_stop_that_must_not_stop_passes_and_the_next_one_stops() -> None:
    matcher = StopStrings(("aa",))
    assert matcher.push("aa", may_stop=False) == ("a", None)
    text, found = matcher.push("a")
    assert (text, found and found.stop) == ("", "aa")


pieces = st.lists(st.text(alphabet="abc", max_size=4), max_size=8)
stops = st.lists(st.text(alphabet="abc", min_size=1, max_size=5), min_size=1, max_size=4)


@given(stops.map(tuple), pieces)
def test_the_cut_does_not_depend_on_the_pieces(stops: tuple[str, ...], pieces: list[str]) -> None:
    assert run(stops, pieces) == expected(stops, "".join(pieces))
