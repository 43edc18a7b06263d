"""`compress`: a copy of a network in which low-rank factors replace layers."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.estimators.pca import Noise
from bayespca.io.packages import need

from .ranking import TUCKER, LayerRanks, Rank, check_convolutions, given_ranks, ranks, unfolded
from .weights import Layer, layers_of

# Factors become the weights of new layers, which therefore need no random initial values.
NOWHERE = "meta"


def compress(
    model: Any,
    given: Mapping[str, Rank] | LayerRanks | None = None,
    *,
    noise: Noise = "auto",
    convolutions: str = TUCKER,
    skip: Collection[str] = (),
) -> Any:
    """Copy a torch network, with layers replaced by factors wherever that saves parameters.

    A linear layer of rank r becomes ``Sequential(Linear(in, r, bias=False), Linear(r, out))``. A
    convolution becomes three (Tucker-2): one to r_in channels with a kernel of size 1, one to r_out
    channels with the original kernel, and one to all outputs. As a matrix of rank r it becomes two:
    one to r channels with the original kernel, and one to all outputs. Weights are the
    least-squares approximation of that rank, for Tucker the truncated higher-order SVD. Types,
    devices, biases, `requires_grad` and the training mode are kept.

    A warning names the layers whose ranks are rough according to the notes of `ranks`.

    All other layers stay: those with nothing above the noise (rank 0, with a warning), with
    groups, with hooks, with shared weights, of a subclass of torch's layers, or inside
    torch's transformers, which read weights directly.

    >>> import torch
    >>> from bayespca import layers
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(60, 40), torch.nn.ReLU(), torch.nn.Linear(40, 10))
    >>> layers.compress(net, {"0": 3})[0]
    Sequential(
      (0): Linear(in_features=60, out_features=3, bias=False)
      (1): Linear(in_features=3, out_features=40, bias=True)
    )

    Parameters
    ----------
    model
        A ``torch.nn.Module``; it is not changed.
    given
        The result of `ranks`, or a mapping from layer names to ranks: a number, or for convolutions
        a pair (outputs, inputs). Layers that are not named stay. None computes the ranks.
    noise, convolutions
        As in `ranks`; used only if the ranks are computed.
    skip
        Names of layers that stay, such as the last layer of a classifier.

    Returns
    -------
    torch.nn.Module
        The copy; `ranks` lists the savings. Factors are named as in Sequential: ``"fc.0"``,
        ``"fc.1"``.
    """
    check_convolutions(convolutions)
    if given is None:
        table = ranks(model, noise=noise, convolutions=convolutions, skip=skip)
    else:
        table = given_ranks(layers_of(model, skip), given)
    names = [repr(layer.name) for layer in table if layer.why_left == "rank 0"]
    if names:
        warnings.warn(
            f"No component of the weights of {', '.join(names)} is above the noise: these layers "
            "stay unchanged.",
            UserWarning,
            stacklevel=2,
        )
    names = [repr(layer.name) for layer in table if layer.notes and not layer.why_left]
    if names:
        warnings.warn(
            f"The ranks of {', '.join(names)} are rough; print(layers.ranks(model)) shows why.",
            UserWarning,
            stacklevel=2,
        )
    made = copy.deepcopy(model)
    for layer in layers_of(made):
        found = table[layer.name]
        if not found.why_left and found.rank is not None:
            replacement = _replacement(layer, found.rank)
            for name in layer.names:
                if not name:
                    # The network is this layer.
                    made = replacement
                    continue
                parent, _, attribute = name.rpartition(".")
                setattr(made.get_submodule(parent), attribute, replacement)
    return made


def _replacement(layer: Layer, rank: Rank) -> Any:
    nn = need("torch", "bayespca.layers").nn
    W = layer.weight()
    if isinstance(rank, tuple):
        made = _tucker(layer.module, tucker_factors(W, rank))
    else:
        old = layer.module
        first, last = factors(W.reshape(W.shape[0], -1), rank)
        if old.weight.ndim == 2:
            made = [_linear(old, first), _linear(old, last, old.bias)]
        else:
            kernel = first.reshape(len(first), *old.weight.shape[1:])
            made = [_same_convolution(old, kernel), _pointwise(old, last, old.bias)]
    return nn.Sequential(*made).train(layer.module.training)


def factors(W: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    """B (rank × inputs) and A (outputs × rank) of equal norms whose product AB is closest to W."""
    U, singular, Vt = np.linalg.svd(W, full_matrices=False)
    root = np.sqrt(singular[:rank])
    return root[:, None] * Vt[:rank], U[:, :rank] * root


def tucker_factors(
    W: FloatArray, rank: tuple[int, int]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Truncated HOSVD: inputs × r_in, the core r_out × r_in × places, and outputs × r_out."""
    outputs, inputs = (
        np.linalg.svd(unfolded(W, mode), full_matrices=False)[0][:, :size]
        for mode, size in enumerate(rank)
    )
    core = np.einsum("oik,oa,ib->abk", W, outputs, inputs, optimize=True)
    return inputs, core, outputs


def _tucker(old: Any, parts: tuple[FloatArray, FloatArray, FloatArray]) -> list[Any]:
    """Layers of a Tucker-2 convolution; square bases are merged into the core at no cost."""
    inputs, core, outputs = parts
    whole_in, whole_out = (U.shape[0] == U.shape[1] for U in (inputs, outputs))
    if whole_in:
        core = np.einsum("abk,ib->aik", core, inputs)
    if whole_out:
        core = np.einsum("abk,oa->obk", core, outputs)
    kernel = core.reshape(*core.shape[:2], *old.weight.shape[2:])
    first = [] if whole_in else [_pointwise(old, inputs.T)]
    last = [] if whole_out else [_pointwise(old, outputs, old.bias)]
    return [*first, _same_convolution(old, kernel, old.bias if whole_out else None), *last]


def _linear(old: Any, values: FloatArray, bias: Any = None) -> Any:
    made = type(old)(values.shape[1], values.shape[0], bias=False, device=NOWHERE)
    return _filled(old, made, values, bias)


def _pointwise(old: Any, values: FloatArray, bias: Any = None) -> Any:
    made = type(old)(values.shape[1], values.shape[0], 1, bias=False, device=NOWHERE)
    return _filled(old, made, values.reshape(made.weight.shape), bias)


def _same_convolution(old: Any, values: FloatArray, bias: Any = None) -> Any:
    """A convolution between fewer channels with the stride, padding and dilation of the old one."""
    made = type(old)(
        *(values.shape[1], values.shape[0], old.kernel_size),
        stride=old.stride,
        padding=old.padding,
        dilation=old.dilation,
        padding_mode=old.padding_mode,
        bias=False,
        device=NOWHERE,
    )
    return _filled(old, made, values, bias)


def _filled(old: Any, made: Any, values: FloatArray, bias: Any) -> Any:
    torch = need("torch", "bayespca.layers")
    weight = torch.tensor(values, device=old.weight.device, dtype=old.weight.dtype)
    made.weight = torch.nn.Parameter(weight, requires_grad=old.weight.requires_grad)
    # Not copied: other modules may share this parameter.
    made.bias = bias
    return made
