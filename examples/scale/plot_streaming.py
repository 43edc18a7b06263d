"""
How many rows are enough?
=========================

Data arrive in batches. Must we keep them all, and when do we know enough to stop?

``partial_fit`` updates a model with a block of rows and forgets the block. The result is the same
as if all rows had been there at once, so you can watch components appear as the evidence grows.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import BayesianPCA
from bayespca.datasets import low_rank

X = low_rank(3000, 40, rank=6, strength=0.2, random_state=3).X

# %%
# Batches of 25 rows at first, of 100 later.

model = BayesianPCA(noise="isotropic")
seen, rank, variances = [], [], []
for block in np.array_split(X[:400], 16) + np.array_split(X[400:], 26):
    model.partial_fit(block)
    seen.append((seen[-1] if seen else 0) + len(block))
    rank.append(model.n_components_)
    variances.append(model.noise_variance_)
at_once = BayesianPCA(noise="isotropic").fit(X)
print("in batches:", model.n_components_, "components; at once:", at_once.n_components_)
apart = np.abs(model.explained_variance_ - at_once.explained_variance_).max()
print(f"largest difference of the variances: {apart:.1e}")

# %%

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained", sharex=True)
left.step(seen, rank, where="post", color="C0", linewidth=2)
left.axhline(6, color="0.6", linewidth=1, linestyle=":")
left.set(
    xlabel="rows seen",
    ylabel="components found",
    title="Components appear as rows arrive",
    xscale="log",
)
left.text(26, 6.08, "the truth", color="0.4")
left.set_ylim(-0.2, 6.6)
right.plot(seen, variances, ".-", color="C2")
right.axhline(1, color="0.6", linewidth=1, linestyle=":")
right.set(
    xlabel="rows seen",
    ylabel="noise variance",
    title="What is not seen yet counts as noise",
    xscale="log",
)
plt.show()

# %%
# Weak components need more rows. One near the limit may come and go while rows are few; what is
# there after a few hundred rows stays.
