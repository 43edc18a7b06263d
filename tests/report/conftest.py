"""The wine data as a table with named columns, and labels."""

from __future__ import annotations

import pytest
from sklearn.datasets import load_wine


@pytest.fixture(scope="session")
def wine():
    """X, a DataFrame with the names of the features, and y, the names of the cultivars."""
    pytest.importorskip("pandas", reason="pandas is not installed: it holds the names of features")
    data = load_wine(as_frame=True)
    return data.data, [f"cultivar {target}" for target in data.target]
