"""
How much of a neural network is noise?
======================================

The weights of a trained layer are a large matrix. How many of its directions mean anything, and
what happens to the answers if we keep only those?

:func:`bayespca.layers.compress` replaces each layer by two thin ones whose rank is found by EVB.
This example needs torch; without it, it prints a sentence instead of the picture.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from bayespca import layers

try:
    import torch
except ImportError:
    torch = None

digits = load_digits()
X, y = digits.data / 16, digits.target
train, test = slice(0, 1200), slice(1200, None)

# %%
# A network of 85,000 weights learns to read digits.


def trained():
    """64–256–256–10, ten epochs over 1200 digits."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 10),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=1e-4)
    images, labels = torch.tensor(X[train], dtype=torch.float32), torch.tensor(y[train])
    for _ in range(10):
        for rows in torch.randperm(1200).split(50):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(images[rows]), labels[rows]).backward()
            optimizer.step()
    return net.eval()


def accuracy(net):
    with torch.no_grad():
        answers = net(torch.tensor(X[test], dtype=torch.float32)).argmax(dim=1)
    return float(np.mean(answers.numpy() == y[test]))


def size(net):
    return sum(weights.numel() for weights in net.parameters())


# %%
# The last layer of a classifier stays: its ten outputs are all needed. For comparison we give the
# ranks ourselves, from 2 to 32 in both layers.


def compared():
    net = trained()
    found = layers.ranks(net)
    print(found)
    small = layers.compress(net, found, skip=["4"])
    given = [layers.compress(net, {"0": r, "2": r}, skip=["4"]) for r in (2, 4, 8, 16, 32)]
    print(f"whole: {size(net)} weights, {accuracy(net):.1%} right")
    print(f"rank found: {size(small)} weights, {accuracy(small):.1%} right")

    _, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
    ax.plot(
        [size(g) for g in given],
        [100 * accuracy(g) for g in given],
        "o-",
        color="0.6",
        label="rank given",
    )
    ax.plot(size(small), 100 * accuracy(small), "D", color="C0", markersize=10, label="rank found")
    ax.plot(size(net), 100 * accuracy(net), "s", color="k", label="the network as it was")
    ax.set(xscale="log", xlabel="number of weights", ylabel="new digits read correctly, in %")
    ax.set_xticks([5e3, 1e4, 2e4, 4e4, 8e4], ["5k", "10k", "20k", "40k", "80k"])
    ax.minorticks_off()
    ax.set_title("A network without its noise")
    ax.legend(frameon=False, loc="lower right")
    plt.show()


if torch is None:
    print("torch is not installed: this example needs pip install 'bayespca[torch]'")
else:
    compared()
