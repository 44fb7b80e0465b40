"""The experiments by name."""

from __future__ import annotations

from collections.abc import Mapping

from slotwise.report.experiments import grids, prices, small
from slotwise.report.experiments._base import Experiment

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment for experiment in (*grids.EXPERIMENTS, *small.EXPERIMENTS, *prices.EXPERIMENTS)
}
"""In the order of the documentation."""
