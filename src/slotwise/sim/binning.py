"""Many things in few groups."""

from __future__ import annotations

__all__ = ["bins"]


def bins(count: int, most: int) -> list[tuple[int, int]]:
    """Return the first and the end of each of at most ``most`` groups of equal size, the last perhaps smaller."""
    size = max(1, -(-count // most))
    return [(first, min(count, first + size)) for first in range(0, count, size)]
