"""
Does it matter where the array lives?
=====================================

The data are a tensor on a graphics card. Must they be copied to the host for a PCA, and how much
does single precision cost?

Arrays that follow the array API standard stay where they are: NumPy, torch, CuPy. On a machine
with a GPU, ``torch.tensor(X, device="cuda")`` is all that changes. Where there is no GPU, as in
the build of this page, the tensors are on the CPU; without torch, NumPy stands in.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import BayesianPCA
from bayespca.datasets import low_rank

try:
    import torch
except ImportError:
    torch = None

X = low_rank(2000, 100, rank=5, random_state=0).X
if torch is None:
    print("torch is not installed: NumPy arrays stand in for its tensors")
    arrays = {"float64": X.copy(), "float32": X.astype(np.float32)}
else:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    arrays = {
        "float64": torch.tensor(X, device=device),
        "float32": torch.tensor(X, device=device, dtype=torch.float32),
    }

# %%
# Results have the same type as the input.

reference = BayesianPCA(noise="isotropic").fit(X)
models = {name: BayesianPCA(noise="isotropic").fit(array) for name, array in arrays.items()}
for name, model in models.items():
    print(f"{name}: {model.n_components_} components, {type(model.components_).__module__} arrays")

# %%


def difference(ours, theirs):
    """The largest difference, relative to the largest value."""
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    return max(np.abs(ours - theirs).max() / np.abs(theirs).max(), 1e-17)


rows = {}
for name, model in models.items():
    P, Q = np.asarray(model.components_, float), reference.components_
    rows[name] = {
        "noise variance": difference(model.noise_variance_, reference.noise_variance_),
        "variances": difference(model.explained_variance_, reference.explained_variance_),
        "subspace": difference(P.T @ P, Q.T @ Q),
        "denoised data": difference(model.denoise(arrays[name]), reference.denoise(X)),
    }

fig, ax = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
places = np.arange(4)
for shift, (name, values), colour in zip((-0.2, 0.2), rows.items(), ("C0", "C1"), strict=True):
    ax.barh(places + shift, list(values.values()), 0.4, label=name, color=colour)
ax.set_yticks(places, list(rows["float64"]))
ax.set(xscale="log", xlabel="largest relative difference from NumPy in float64", xlim=(1e-17, 1e-2))
ax.axvline(np.finfo(np.float32).eps, color="0.3", linestyle=":", label="precision of float32")
ax.invert_yaxis()
fig.legend(loc="outside lower center", ncols=3, frameon=False)
ax.set_title("The same answer, to the precision of the numbers")
plt.show()
