"""Charts of T² and Q."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import monitoring
from bayespca.displays import MonitoringDisplay


def names_on(ax):
    return {text.get_text() for text in ax.texts}


def test_rows_above_a_limit_are_named(model, X):
    new = X[:30].copy()
    new[11, 4] += 20.0
    found = monitoring.statistics(model, new, alpha=1e-4)
    shown = MonitoringDisplay.from_statistics(found, rows=[f"batch {i}" for i in range(30)])
    assert "batch 11" in names_on(shown.ax_)
    assert "batch 12" not in names_on(shown.ax_)
    assert shown.q[11] == found.q[11] / found.q_limit[11]
    with pytest.raises(ValueError, match="30 rows, but 2 names"):
        MonitoringDisplay.from_statistics(found, rows=["a", "b"])


def test_without_components_q_is_shown_alone(noise):
    new = np.random.default_rng(1).normal(size=(20, 100))
    shown = MonitoringDisplay.from_statistics(monitoring.statistics(noise, new))
    assert shown.ax_.get_legend_handles_labels()[1] == ["Q"]
