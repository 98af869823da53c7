"""Phrases of pending reasons that admissions, placements and policies share."""


def become_free(number: int, noun: str) -> str:
    """`one A100 becomes free`, `2 A100 become free`; the noun does not change."""
    return f"one {noun} becomes free" if number == 1 else f"{number} {noun} become free"
