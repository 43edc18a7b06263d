"""Networks on scikit-learn's digits with layers replaced by factors: share of answers kept.

Ranks come from a noise model, from plain EVBMF and from the energy rule, all at the same number of
parameters. Answers are compared before and after three epochs of training, with all layers
replaced, and with all but the last.

usage: python benchmarks/bench_layers.py [picture.png]
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from itertools import product

import numpy as np
from sklearn.datasets import load_digits
from timing import heading

from bayespca import evbmf, layers, tensor_ranks
from bayespca.layers.ranking import given_ranks
from bayespca.layers.weights import layers_of

SEEDS, N_TRAIN, RETRAINING = 5, 1200, 3
NOISES = ("auto", "per-feature")


def perceptron():
    from torch import nn

    hidden = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(256, 10))


def convolutional():
    from torch import nn

    return nn.Sequential(
        *(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 32, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 10)),
    )


NETWORKS = {"64–256–256–10": (perceptron, 40), "three convolutions": (convolutional, 8)}


def train(net, X, y, epochs: int):
    import torch

    steps = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(X)).split(100):
            steps.zero_grad()
            torch.nn.functional.cross_entropy(net(X[rows]), y[rows]).backward()
            steps.step()
    return net.eval()


def unfoldings(W: np.ndarray) -> list[np.ndarray]:
    """The unfoldings of a layer's weights, whose ranks are the ranks of the layer."""
    modes = (0,) if W.ndim == 2 else (0, 1)
    return [np.moveaxis(W, mode, 0).reshape(W.shape[mode], -1) for mode in modes]


def weights(net) -> dict[str, np.ndarray]:
    return {one.name: one.module.weight.detach().double().numpy() for one in layers_of(net)}


def by_evbmf(net) -> Callable[[float], dict]:
    """A rule that multiplies the ranks of plain EVBMF by a factor."""
    plain = {
        name: (evbmf(W)[0].shape[1],) if W.ndim == 2 else tensor_ranks(W)[:2]
        for name, W in weights(net).items()
    }
    largest = {name: [min(U.shape) for U in unfoldings(W)] for name, W in weights(net).items()}

    def scaled(factor: float) -> dict:
        return {
            name: rank_of(np.clip(np.rint(np.multiply(found, factor)), 0, largest[name]))
            for name, found in plain.items()
        }

    return scaled


def by_energy(net) -> Callable[[float], dict]:
    """A rule that gives the smallest ranks with a given share of the squared singular values."""
    shares = {}
    for name, W in weights(net).items():
        squares = [np.linalg.svd(U, compute_uv=False) ** 2 for U in unfoldings(W)]
        shares[name] = [np.cumsum(each) / each.sum() for each in squares]

    def of_share(share: float) -> dict:
        return {
            name: rank_of([int(np.searchsorted(each, share)) + 1 for each in both])
            for name, both in shares.items()
        }

    return of_share


def rank_of(found) -> int | tuple[int, int]:
    numbers = tuple(int(rank) for rank in found)
    return numbers[0] if len(numbers) == 1 else numbers


def n_parameters(net) -> int:
    return sum(each.numel() for each in net.parameters())


def nearest(net, rule: Callable[[float], dict], grid: np.ndarray, target: int, left: set[str]):
    """The network that the rule compresses to the number of parameters nearest the target."""
    parts = layers_of(net, left)
    change = target - n_parameters(net)

    def off(ranks: dict) -> int:
        table = given_ranks(parts, ranks)
        return abs(table.after - table.before - change)

    return layers.compress(net, min(map(rule, grid), key=off), skip=left)


def measured(net, small, data) -> tuple[float, float, float]:
    """Thousands of parameters, and % agreement with the network before and after retraining."""
    X, y, new = data
    agree = agreement(net, small, new)
    again = agreement(net, train(copy.deepcopy(small).train(), X, y, RETRAINING), new)
    return n_parameters(small) / 1000, 100 * agree, 100 * again


def agreement(a, b, X) -> float:
    import torch

    with torch.no_grad():
        return float((a(X).argmax(1) == b(X).argmax(1)).double().mean())


def compared(net, data, left: set[str]) -> dict[str, tuple[float, float, float]]:
    shares, factors = np.linspace(0.02, 0.999, 200), np.linspace(0.3, 3, 200)
    plain, energy = by_evbmf(net), by_energy(net)
    found = {}
    for noise in NOISES:
        small = layers.compress(net, noise=noise, skip=left)
        size = n_parameters(small)
        found[noise] = measured(net, small, data)
        found[f"{noise}: EVBMF"] = measured(net, nearest(net, plain, factors, size, left), data)
        found[f"{noise}: energy"] = measured(net, nearest(net, energy, shares, size, left), data)
    found["EVBMF as it is"] = measured(net, layers.compress(net, plain(1.0), skip=left), data)
    for share in (0.5, 0.8, 0.9):
        found[f"energy {share:.0%}"] = measured(
            net, layers.compress(net, energy(share), skip=left), data
        )
    return found


def digits(seed: int):
    import torch

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = torch.tensor(X[order] / 16, dtype=torch.float32), torch.tensor(y[order])
    return X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:]


def main() -> None:
    if find_spec("torch") is None:
        print("bench_layers needs torch.")
        return
    import torch

    # Layers of rank 0 stay as they are; the numbers of parameters show that.
    warnings.filterwarnings("ignore", "No component of the weights")
    warnings.filterwarnings("ignore", "The ranks of")
    for (name, (network, epochs)), whole in product(NETWORKS.items(), (True, False)):
        runs = []
        for seed in range(SEEDS):
            torch.manual_seed(seed)
            data = digits(seed)
            net = train(network(), data[0], data[1], epochs)
            last = list(weights(net))[-1]
            runs.append(compared(net, data, set() if whole else {last}))
        which = "all layers" if whole else "all but the last"
        heading(f"{name}, {which}, {n_parameters(net)} parameters, mean of {SEEDS} seeds")
        print(f"    {'ranks by':24s}{'thousands':>10s}{'agreement':>11s}{'retrained':>11s}")
        for way in runs[0]:
            size, agree, again = np.mean([run[way] for run in runs], axis=0)
            print(f"    {way:24s}{size:10.1f}{agree:10.1f}%{again:10.1f}%", flush=True)


def picture(path: str) -> None:
    """Draw singular values of a network's weights, its ranks, and the parameters saved."""
    import torch
    from matplotlib import pyplot as plt

    torch.manual_seed(0)
    X, y, new = digits(0)
    net = train(perceptron(), X, y, NETWORKS["64–256–256–10"][1])
    table = layers.ranks(net, skip=["4"])
    small = layers.compress(net, skip=["4"])
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.4), layout="constrained")
    for ax, name in zip(axes, ("0", "2"), strict=False):
        values, k = np.linalg.svd(weights(net)[name], compute_uv=False), table[name].rank
        places = np.arange(1, len(values) + 1)
        ax.plot(places[:k], values[:k], ".", color="tab:blue", label=f"kept: {k}")
        ax.plot(places[k:], values[k:], ".", color="silver", label="noise")
        shape = "×".join(map(str, table[name].shape))
        ax.set_title(f"singular values of layer {name!r}, {shape}", fontsize=10)
        ax.legend(fontsize=8)
    names, places = [f"layer {one.name!r}" for one in table], np.arange(len(table))
    axes[2].bar(places - 0.2, [one.before for one in table], 0.4, color="silver", label="before")
    axes[2].bar(places + 0.2, [one.after for one in table], 0.4, color="tab:blue", label="after")
    axes[2].set_xticks(places, names)
    axes[2].legend(fontsize=8)
    same = f"{100 * agreement(net, small, new):.0f} % of new answers are the same"
    axes[2].set_title(f"parameters\n{same}", fontsize=10)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    picture(sys.argv[1]) if sys.argv[1:] else main()
