"""
Are the data straight or curved?
================================

A linear PCA needs several dimensions for what is really one, if that one is bent. Is the bend
worth a nonlinear model?

:class:`~bayespca.GPLVM`, a Gaussian process latent variable model, lays curves through the data
and says how much evidence they have over planes. We simulate 15 sensors on a turning shaft:
everything depends on one angle, from 0 to 300 degrees.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import GPLVM, BayesianPCA

rng = np.random.default_rng(0)
angle = np.sort(rng.uniform(0, 300, size=100))
phase = rng.uniform(0, 360, size=15)
X = np.cos(np.radians(angle[:, None] - phase)) ** 3 + 0.1 * rng.normal(size=(100, 15))

# %%

linear = BayesianPCA().fit(X)
curved = GPLVM(random_state=0).fit(X)
print("linear dimensions:", linear.n_components_, " curved dimensions:", curved.n_components_)
print(f"evidence of curves over planes: {curved.nonlinear_evidence_:.0f} nats (above 5: they bend)")
print("relevance of each dimension:", curved.relevance_.round(2))

# %%
# On the left, the first two linear components: an open ring, which one number cannot describe. On
# the right, the most relevant dimension of the curved model against the angle, which the model
# has never seen.

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
scores = linear.transform(X)
points = left.scatter(scores[:, 0], scores[:, 1], c=angle, cmap="viridis", s=22)
left.set(
    xlabel="component 1",
    ylabel="component 2",
    title=f"Linear PCA: {linear.n_components_} dimensions",
)
fig.colorbar(points, ax=left, label="angle (degrees)")
latent, std = curved.embedding_, curved.embedding_std_
right.errorbar(angle, latent[:, 0], std[:, 0], fmt="none", ecolor="0.75")
right.scatter(angle, latent[:, 0], c=angle, cmap="viridis", s=22)
right.set(
    xlabel="true angle (degrees)",
    ylabel="latent coordinate (± SD)",
    title=f"GPLVM: {curved.n_components_} dimension{'s' * (curved.n_components_ > 1)}",
)
plt.show()

# %%
# One coordinate is enough, and it is the angle, up to its direction and scale.
