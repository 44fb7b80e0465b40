from __future__ import annotations

import numpy as np
import pytest

from slotwise.fitting import Fit, fit
from slotwise.workloads.speeds import Measured

pytest.importorskip("matplotlib")


def fitted(name: str) -> Fit:
    workers, servers = np.repeat(np.arange(1, 5), 3), np.tile(np.arange(1, 4), 4)
    seconds = 0.2 + 1.0 / workers + 0.3 * workers / servers
    return fit(Measured(name, "", workers, servers, np.full(12, 64.0), seconds, np.full(12, np.nan), 0))


def test_each_model_has_a_panel_with_its_name_as_it_is() -> None:
    from slotwise.report.plots import measured_against_fitted

    names = ["plain", "a $x_1$ <b>&", "n" * 50, "d", "e"]
    image = measured_against_fitted([fitted(name) for name in names], "svg").decode()
    assert image.count('id="axes_') == 8
    assert image.count("leave-one-out error") >= 5
    assert "$x_1$" in image


def test_a_picture_has_no_date() -> None:
    from slotwise.report.plots import measured_against_fitted

    image = measured_against_fitted([fitted("net")], "svg")
    assert b"<dc:date>" not in image
