"""The layers of a network that factors can replace, and their weights as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.io.packages import need


@dataclass(frozen=True)
class Layer:
    """A layer with all of its names. `why_left` is empty if factors can replace it."""

    names: tuple[str, ...]
    module: Any
    why_left: str

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.module.weight.shape)

    @property
    def n_parameters(self) -> int:
        return sum(each.numel() for each in self.module.parameters(recurse=False))

    @property
    def is_convolution(self) -> bool:
        return len(self.shape) > 2

    def weight(self) -> FloatArray:
        """Weights in double precision: outputs × inputs, or outputs × inputs × kernel places."""
        values = self.module.weight.detach().cpu().double().numpy()
        if not np.isfinite(values).all():
            raise ValueError(f"The weights of layer {self.name!r} are not all finite.")
        return values.reshape(*self.shape[:2], -1) if self.is_convolution else values


def layers_of(model: Any, skip: Collection[str] = ()) -> list[Layer]:
    """The linear layers and convolutions of a network, in network order."""
    found = _layers(model)
    skipped = {skip} if isinstance(skip, str) else set(skip)
    names = {name for layer in found for name in layer.names}
    if unknown := sorted(skipped - names):
        raise ValueError(f"The network has no linear layer or convolution {unknown[0]!r}.")
    return [
        replace(layer, why_left="skipped") if skipped & set(layer.names) else layer
        for layer in found
    ]


def _layers(model: Any) -> list[Layer]:
    torch = need("torch", "bayespca.layers")
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"A torch.nn.Module is needed; got {type(model).__name__}.")
    names: dict[Any, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        names.setdefault(module, []).append(name)
    kinds = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
    # How many modules own each parameter.
    uses = Counter(id(each) for module in names for each in module.parameters(recurse=False))
    # Torch's transformers read weights of their layers directly, without calling `forward`.
    readers = (torch.nn.TransformerEncoderLayer, torch.nn.MultiheadAttention)
    read_by_torch = {
        child for each in names if isinstance(each, readers) for child in each.children()
    }
    found = []
    for module, called in names.items():
        if isinstance(module, kinds):
            lazy = torch.nn.parameter.is_lazy(module.weight)
            if lazy or module.weight.device.type == "meta":
                remedy = "pass a batch through the network" if lazy else "load them"
                raise ValueError(f"Layer {called[0]!r} has no weights yet: {remedy} first.")
        # Subclasses may do more than multiply. A weight that is not a parameter is computed from
        # others (weight normalization, pruning).
        if type(module) in kinds and "weight" in module._parameters:
            shared = uses[id(module.weight)] > 1
            why = _why_left(module, is_shared=shared, is_read=module in read_by_torch)
            found.append(Layer(tuple(called), module, why))
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no weights of linear layers or convolutions to factorize."
        )
    return found


def _why_left(module: Any, *, is_shared: bool, is_read: bool) -> str:
    if is_shared:
        return "weights shared"
    if is_read:
        return "read by torch"
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
        return "has hooks"
    if module.weight.is_complex():
        return "complex"
    if not module.weight.numel():
        return "empty"
    return "in groups" if getattr(module, "groups", 1) > 1 else ""
