"""Numbers, counts and near misses in the words that people read."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import SupportsFloat

__all__ = ["amount", "counted", "hint", "merged", "one_of"]

_NUMBER = re.compile(r"(?<!\S)\d+(?:\.\d+)?(?:e[+-]?\d+)?(?=,?(?:\s|$))")
_NOTHING = 1e-6
_EXPONENT = 1e15
_ALIKE, _ALIKE_IF_SHORT, _SHORT = 0.5, 0.7, 4
"""How alike names are that may be meant for one another, and those of up to so many letters."""


def amount(value: float, digits: int = 4) -> str:
    """Return an amount of utility with so many significant digits and without exponent.

    Examples
    --------
    >>> amount(33.6549), amount(0.0000123), amount(123456.7), amount(3.8e-23), amount(0.0)
    ('33.65', '0.0000123', '123457', '0 (below 1e-6)', '0')
    """
    size = abs(value)
    if 0.0 < size < _NOTHING:
        return "0 (below 1e-6)"
    if size == 0.0 or not size < _EXPONENT:
        return f"{value + 0.0:.{digits}g}"
    # Rounding may carry into one more digit: 9.9996 is 10.
    exponent = int(f"{size:.{digits - 1}e}".partition("e")[2])
    text = f"{value:.{max(0, digits - 1 - exponent)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def counted(count: SupportsFloat, noun: str) -> str:
    """Return a count, or a mean of counts, with its noun, in the plural but for 1.

    Examples
    --------
    >>> counted(1, "job"), counted(12000, "job"), counted(0, "job"), counted(1.25, "slot")
    ('1 job', '12000 jobs', '0 jobs', '1.25 slots')
    """
    shown = amount(float(count))
    return f"{shown} {noun}{'' if shown == '1' else 's'}"


def hint(name: object, known: Collection[str]) -> str:
    """Return ``" (did you mean gpu?)"`` for a name that is nearly a known one, ``""`` for any other.

    Examples
    --------
    >>> hint("GPUs", ["cpu", "gpu", "memory"]), hint("gpu", ["cpu", "memory"])
    (' (did you mean gpu?)', '')
    """
    small = {one.casefold(): one for one in known}
    given = str(name).casefold()
    # A letter of three makes another word, as gpu and cpu are.
    cutoff = _ALIKE_IF_SHORT if len(given) <= _SHORT else _ALIKE
    near = difflib.get_close_matches(given, small, n=1, cutoff=cutoff)
    return f" (did you mean {small[near[0]]}?)" if near else ""


def one_of(what: str, known: Collection[str], given: object) -> str:
    """Return what is wrong with something that must be one of a few names, and which one may be meant.

    Examples
    --------
    >>> one_of("--solver", ["sweep", "exact"], "swep")
    "--solver must be one of sweep, exact, got 'swep' (did you mean sweep?)"
    """
    return f"{what} must be one of {', '.join(known)}, got {given!r}{hint(given, known)}"


def merged(texts: Iterable[str]) -> Counter[str]:
    """Count texts; those that differ in their numbers only are one, which gives the least and the most of each.

    Examples
    --------
    >>> merged(["needs 9 gpu, the largest has 8", "needs 16 gpu, the largest has 8"])
    Counter({'needs 9 to 16 gpu, the largest has 8': 2})
    """
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(_NUMBER.sub("\0", text), []).append(text)
    out: Counter[str] = Counter()
    for several in alike.values():
        spans = [_span(numbers) for numbers in zip(*map(_NUMBER.findall, several), strict=True)]
        parts = _NUMBER.split(several[0])
        out["".join(part + span for part, span in zip(parts, [*spans, ""], strict=True))] += len(several)
    return out


def _span(numbers: tuple[str, ...]) -> str:
    low, high = min(numbers, key=float), max(numbers, key=float)
    return low if float(low) == float(high) else f"{low} to {high}"
