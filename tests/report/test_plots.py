from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.colors import LogNorm

from slotwise.fitting import Fit, fit
from slotwise.report import plots
from slotwise.report.figures import Arrival, Box, Gantt, Heat, Line, Panel
from slotwise.report.plots import measured_against_fitted
from slotwise.workloads.speeds import Measured


def fitted(name: str) -> Fit:
    workers, servers = np.repeat(np.arange(1, 5), 3), np.tile(np.arange(1, 4), 4)
    seconds = 0.2 + 1.0 / workers + 0.3 * workers / servers
    return fit(Measured(name, "", workers, servers, np.full(12, 64.0), seconds, np.full(12, np.nan), 0))


def test_each_model_has_a_panel_with_its_name_as_it_is() -> None:
    names = ["plain", "a $x_1$ <b>&", "n" * 50, "d", "e"]
    image = measured_against_fitted([fitted(name) for name in names], "svg").decode()
    assert image.count('id="axes_') == 8
    assert image.count("leave-one-out error") >= 5
    assert "$x_1$" in image


def test_a_picture_has_no_date() -> None:
    image = measured_against_fitted([fitted("net")], "svg")
    assert b"<dc:date>" not in image


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Figures instead of files."""
    figures: list[Any] = []

    def keep(figure: Any, format: str) -> bytes:
        figures.append(figure)
        return b""

    monkeypatch.setattr(plots, "_saved", keep)
    return figures


def test_a_plan_on_paper_has_its_boxes_where_they_belong(drawn: list[Any]) -> None:
    boxes = [Box(1, 0, 2, 3, 5, 0, 3, 1, ["j"]), Box(0, 0, 1, 0, 0, 1, 0, 2, ["k"])]
    plots.gantt(Gantt("plan", "slot", ["m0", "m1"], 0, 9, boxes, [Arrival(2, "turned away", 0, ["j"])]), "svg")

    axis = drawn[0].axes[0]
    extents = [path.get_extents().bounds for collection in axis.collections[:2] for path in collection.get_paths()]
    high = 0.92 / 2
    assert extents == [
        pytest.approx((2.5, 1 - 0.46, 3, 0.75 * high)),  # three workers of four
        pytest.approx((2.5, 1 - 0.46 + 0.75 * high, 3, 0.25 * high)),
        pytest.approx((-0.5, -0.46, 1, 0.92)),
    ]
    assert axis.collections[1].get_hatch() == "////"
    assert axis.collections[0].get_hatch() is None
    assert axis.yaxis_inverted()


def test_numbers_on_paper_go_by_the_logarithm_where_they_should(drawn: list[Any]) -> None:
    layers: dict[str, list[list[float | None]]] = {"a": [[1e-9, 1.0, None], [10.0, 100.0, 1000.0]]}
    for logarithmic in (True, False):
        plots.heat(Heat("h", "slot", "u", [0, 2, 4], 2, ["m0", "m1"], layers, logarithmic), "svg")
    by_logarithm, plain = (figure.axes[0].collections[0] for figure in drawn)
    assert isinstance(by_logarithm.norm, LogNorm)
    assert (by_logarithm.norm.vmin, by_logarithm.norm.vmax) == pytest.approx((1e-3, 1e3))
    assert not isinstance(plain.norm, LogNorm)
    assert by_logarithm.get_coordinates()[0, :, 0].tolist() == [-0.5, 1.5, 3.5, 5.5]


def test_a_height_holds_until_the_next_point_and_panels_wrap(drawn: list[Any]) -> None:
    panel = Panel("p", "x", "y", [Line("one", [0.0, 1.0], [1.0, 2.0])], steps=True, shares=True)
    plots.chart("t", [panel] * 6, "svg")
    axes = drawn[0].axes
    assert len({axis.get_subplotspec().rowspan.start for axis in axes}) == 2
    assert {line.get_drawstyle() for axis in axes[:6] for line in axis.lines} == {"steps-post"}


def test_names_that_are_long_or_foreign_are_drawn_without_a_word(recwarn: pytest.WarningsRecorder) -> None:
    name = "漢字$x$" + "long" * 60
    plots.heat(Heat(name, "slot", "u", [0], 1, [name], {name: [[1.0]]}), "png")
    plots.chart("t", [Panel("p", "x", "y", [Line(name, [0.0], [1.0])])], "png")
    assert not recwarn.list
