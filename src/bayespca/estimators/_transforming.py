"""scikit-learn's tags and output names for estimators that compute scores of rows."""

from __future__ import annotations

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags


class Transforming(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """A transformer with one output column per component, in the dtype of the data."""

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
