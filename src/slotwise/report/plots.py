"""Pictures: the one doorway to matplotlib, which comes with the extra ``plot``."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from slotwise.errors import InvalidInput
from slotwise.fitting import Fit

__all__ = ["FORMATS", "measured_against_fitted", "require"]

FORMATS = ("png", "svg")
"""Formats of a picture, as endings of its file's name."""

_BAND = 0.1
"""Share by which the band around the diagonal misses."""
_PANEL = 3.2
"""Width and height of a panel, inches."""
_MOST_ACROSS = 4
_LONGEST_TITLE = 34
_TICKS, _FEWER_TICKS, _WIDE = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 3.0), 30.0
"""Where an axis has numbers, in each power of ten, and the range from which on it has fewer."""


def require() -> None:
    """Check that matplotlib is there.

    Raises
    ------
    InvalidInput
        If not: it names the extra to install.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InvalidInput("--plot needs matplotlib, which is not there: pip install 'slotwise[plot]'") from None


def measured_against_fitted(fits: Sequence[Fit], format: str) -> bytes:
    """Draw measured against fitted seconds of an iteration, one panel a model, both axes logarithmic.

    Parameters
    ----------
    fits : sequence of Fit
        The models, at least 1.
    format : str
        One of ``FORMATS``.

    Returns
    -------
    bytes
        The picture. The line is where both are equal; the band around it is 10 % wide to each side.
    """
    require()
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    across = min(_MOST_ACROSS, len(fits))
    down = -(-len(fits) // across)
    figure = Figure(figsize=(across * _PANEL, down * _PANEL), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel in panels[len(fits) :]:
        panel.set_axis_off()
    for panel, fit in zip(panels, fits, strict=False):
        measured = fit.measured.seconds
        every = np.concatenate([measured, fit.seconds[fit.seconds > 0]])
        ends = np.array([every.min() / 1.3, every.max() * 1.3])
        panel.fill_between(ends, ends * (1 - _BAND), ends * (1 + _BAND), color="0.88", linewidth=0)
        panel.plot(ends, ends, color="0.45", linewidth=0.8)
        panel.scatter(measured, fit.seconds, s=7, color="#1f5a94", alpha=0.6, linewidths=0)
        panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends, box_aspect=1)
        label = fit.measured.label
        shown = label if len(label) <= _LONGEST_TITLE else label[: _LONGEST_TITLE - 3] + "..."
        # A dollar sign would begin a formula.
        title = f"{shown}\nleave-one-out error {fit.leave_one_out_error:.1%}"
        panel.set_title(title, fontsize=9, parse_math=False)
        panel.tick_params(which="both", labelsize=7)
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_locator(LogLocator(subs=_TICKS if ends[1] / ends[0] < _WIDE else _FEWER_TICKS))
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_formatter(NullFormatter())
    figure.supxlabel("measured seconds of an iteration", fontsize=10)
    figure.supylabel("fitted seconds of an iteration", fontsize=10)
    image = io.BytesIO()
    # Without a date, and with names that do not change, equal fits give equal files.
    metadata = {"Date": None} if format == "svg" else None
    with matplotlib.rc_context({"svg.hashsalt": "slotwise"}):
        figure.savefig(image, format=format, dpi=150, metadata=metadata)
    return image.getvalue()
