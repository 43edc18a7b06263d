"""`ranks`: the rank of each layer's weights, and the number of parameters of its factors."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import nan, prod
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayespca.arrays.types import FloatArray
from bayespca.estimators.pca import WARNED, BayesianPCA, Noise, RankWarning
from bayespca.noise.asked import EVB

from .weights import Layer, layers_of

# One number for a matrix; (outputs, inputs) for a convolution.
Rank = int | tuple[int, int]
TUCKER, MATRIX = "tucker", "matrix"
# Warnings of fits, reworded for weights.
NOTES = {
    "near-rank-bound": "the rank is nearly the largest that stands out from noise in weights of "
    "this size, so it is rough: little is left to estimate the noise from.",
    "near-rounding": "the residual of the weights is close to rounding error, so the rank is "
    "rough.",
}
EARLY = "the iteration that finds the noise ended early, so the rank is rough."


@dataclass(frozen=True)
class LayerRank:
    """The rank of a layer, with its parameters (bias included) before and after compression.

    `rank` is None if the layer was not examined. `why_left` says why the layer stays as it is; it
    is empty if factors replace the layer. `notes` are warnings from the fits, such as a rank near
    the largest possible one, or an iteration that ended early.

    >>> from bayespca.layers import LayerRank
    >>> layer = LayerRank("fc", (40, 60), rank=3, before=2440, after=340, noise_variance=0.01)
    >>> round(layer.before / layer.after, 1)
    7.2
    """

    name: str
    shape: tuple[int, ...]
    rank: Rank | None
    before: int
    after: int
    noise_variance: float
    why_left: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayerRanks:
    """The layers of a network in network order; prints as a table, with notes below it.

    >>> from bayespca.layers import LayerRank, LayerRanks
    >>> layer = LayerRank("fc", (40, 60), rank=3, before=2440, after=340, noise_variance=0.01)
    >>> found = LayerRanks((layer,))
    >>> found["fc"].rank, found.before, found.after
    (3, 2440, 340)
    """

    layers: tuple[LayerRank, ...]

    def __iter__(self) -> Iterator[LayerRank]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, name: str) -> LayerRank:
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise KeyError(name)

    @property
    def before(self) -> int:
        """Number of parameters of these layers."""
        return sum(layer.before for layer in self.layers)

    @property
    def after(self) -> int:
        """Number of parameters after factors replace layers."""
        return sum(layer.after for layer in self.layers)

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("layer", "shape", "rank", "before", "after", "noise variance", "")
        ]
        notes = []
        for layer in self.layers:
            name = layer.name or "(itself)"
            rank = () if layer.rank is None else np.atleast_1d(layer.rank)
            noise = "" if np.isnan(layer.noise_variance) else f"{layer.noise_variance:.3g}"
            left = f"left: {layer.why_left}" if layer.why_left else ""
            shapes = ("×".join(map(str, sizes)) for sizes in (layer.shape, rank))
            rows.append((name, *shapes, str(layer.before), str(layer.after), noise, left))
            notes += [f"{name}: {note}" for note in layer.notes]
        rows.append(("all", "", "", str(self.before), str(self.after), "", ""))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for name, *figures, left in rows:
            cells = [f"{cell:>{width}}" for cell, width in zip(figures, widths[1:-1], strict=True)]
            lines.append("  ".join([f"{name:{widths[0]}}", *cells, left]).rstrip())
        return "\n".join([*lines, *notes])


def ranks(
    model: Any,
    *,
    noise: Noise = "auto",
    convolutions: str = TUCKER,
    skip: Collection[str] = (),
) -> LayerRanks:
    """The rank of each linear layer and convolution of a torch network.

    The weights W (outputs × inputs) are modelled as a low-rank matrix plus noise. The rank is that
    of `BayesianPCA` without centring; with isotropic noise, that of `evbmf`.

    >>> import torch
    >>> from bayespca import layers
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(60, 40), torch.nn.ReLU(), torch.nn.Linear(40, 10))
    >>> signal = torch.randn(40, 3) @ torch.randn(3, 60)
    >>> net[0].weight.data = signal + 0.1 * torch.randn(40, 60)
    >>> layers.ranks(net, skip=["2"])["0"].rank
    3

    Parameters
    ----------
    model
        A ``torch.nn.Module``; it is not changed.
    noise
        As in `BayesianPCA`, where rows are outputs and columns inputs. ``"isotropic"`` is plain
        EVBMF: the ranks of convolutions are then the first two of `tensor_ranks`.
    convolutions
        ``"tucker"``: one rank for outputs and one for inputs, each from its own unfolding of the
        kernel (Nakajima and Sugiyama 2014, Proposition 1). ``"matrix"``: one rank, that of
        outputs × (inputs · places of the kernel). Kernels with one place are matrices.
    skip
        Names of layers that stay. Skip the last layer of a classifier: all of its few outputs are
        needed, and weak ones look like noise (docs/layers.md).

    Returns
    -------
    LayerRanks
        A `LayerRank` for each layer; prints as a table, with warnings of the fits below it.
        `noise_variance` is the mean over all weights, averaged over both unfoldings for Tucker.
    """
    check_convolutions(convolutions)
    return LayerRanks(tuple(_found(layer, noise, convolutions) for layer in layers_of(model, skip)))


def check_convolutions(convolutions: str) -> None:
    if convolutions not in (TUCKER, MATRIX):
        raise ValueError(f"convolutions must be 'tucker' or 'matrix'; got {convolutions!r}.")


def given_ranks(layers: list[Layer], given: Mapping[str, Rank] | LayerRanks) -> LayerRanks:
    """The table for ranks that the caller gives; layers that are not named stay."""
    if isinstance(given, LayerRanks):
        given = {layer.name: layer.rank for layer in given if layer.rank is not None}
    names = {name for layer in layers for name in layer.names}
    if unknown := sorted(set(given) - names):
        raise ValueError(f"The network has no linear layer or convolution {unknown[0]!r}.")
    found = []
    for layer in layers:
        rank = next((given[name] for name in layer.names if name in given), None)
        if rank is not None:
            _check_rank(layer, rank)
        found.append(_counted(layer, rank, nan))
    return LayerRanks(tuple(found))


def _check_rank(layer: Layer, rank: Rank) -> None:
    pair = isinstance(rank, tuple)
    largest = min(layer.shape[0], prod(layer.shape[1:]))
    sizes = layer.shape[:2] if pair else (largest,)
    fits = len(np.atleast_1d(rank)) == len(sizes) and (layer.is_convolution or not pair)
    if not fits or any(not 0 <= r <= s for r, s in zip(np.atleast_1d(rank), sizes, strict=True)):
        raise ValueError(f"Layer {layer.name!r} of shape {layer.shape} has no rank {rank!r}.")


def _found(layer: Layer, noise: Noise, convolutions: str) -> LayerRank:
    if layer.why_left:
        return _counted(layer, None, nan)
    W = layer.weight()
    if W.ndim == 2 or W.shape[2] == 1 or convolutions == MATRIX:
        fitted, notes = _fitted(W.reshape(W.shape[0], -1), noise)
        return _counted(layer, fitted.n_components_, fitted.noise_variance_, notes)
    (outputs, of_outputs), (inputs, of_inputs) = (
        _fitted(unfolded(W, mode), noise) for mode in (0, 1)
    )
    mean = (outputs.noise_variance_ + inputs.noise_variance_) / 2
    notes = (*(f"outputs: {note}" for note in of_outputs), *(f"inputs: {n}" for n in of_inputs))
    return _counted(layer, (outputs.n_components_, inputs.n_components_), mean, notes)


def unfolded(W: FloatArray, mode: int) -> FloatArray:
    """The unfolding along a mode: a matrix whose rows are the slices of the tensor."""
    return np.moveaxis(W, mode, 0).reshape(W.shape[mode], -1)


def _fitted(W: FloatArray, noise: Noise) -> tuple[BayesianPCA, tuple[str, ...]]:
    """A fit and its warnings as notes."""
    with warnings.catch_warnings():
        # The notes repeat these warnings in terms of weights.
        warnings.simplefilter("ignore", RankWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = BayesianPCA(n_components=EVB, noise=noise, center=False).fit(W)
    advice = [one for one in fitted.status_.advice if one.code in WARNED]
    notes = [NOTES.get(one.code, one.text) for one in advice]
    return fitted, (*notes, *([] if fitted.converged_ else [EARLY]))


def _counted(
    layer: Layer, rank: Rank | None, noise_variance: float, notes: tuple[str, ...] = ()
) -> LayerRank:
    before = layer.n_parameters
    after, why = before, layer.why_left
    if not why and rank is None:
        why = "no rank"
    elif not why and not np.min(np.asarray(rank)):
        why = "rank 0"
    elif not why and rank is not None:
        with_factors = before - prod(layer.shape) + sum(map(prod, factor_shapes(layer.shape, rank)))
        after, why = (with_factors, "") if with_factors < before else (before, "saves nothing")
    figures = (rank, before, after, float(noise_variance))
    return LayerRank(layer.name, layer.shape, *figures, why, notes)


def factor_shapes(shape: tuple[int, ...], rank: Rank) -> list[tuple[int, ...]]:
    """Shapes of the weights of the layers that replace one, in network order.

    A Tucker factor of full rank would only change the basis and is left out.
    """
    L, M, *kernel = shape
    if not isinstance(rank, tuple):
        return [(rank, M, *kernel), (L, rank, *(1 for _ in kernel))]
    ones = tuple(1 for _ in kernel)
    first = [] if rank[1] == M else [(rank[1], M, *ones)]
    last = [] if rank[0] == L else [(L, rank[0], *ones)]
    return [*first, (rank[0], rank[1], *kernel), *last]
