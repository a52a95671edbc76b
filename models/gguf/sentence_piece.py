"""SentencePiece vocabularies, which rank pieces by score, as byte-pair merges."""

from __future__ import annotations


def merges_by_score(scores: dict[str, float]) -> list[tuple[str, str]]:
    """Every pair of pieces that joins to a piece, the piece of the highest score first.

    scores: of every piece that merging may take or make.
    """
    ranked: list[tuple[float, str, str]] = []
    for piece, score in scores.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in scores and right in scores:
                ranked.append((score, left, right))
    ranked.sort(key=lambda entry: (-entry[0], -len(entry[1])))
    return [(left, right) for _, left, right in ranked]
