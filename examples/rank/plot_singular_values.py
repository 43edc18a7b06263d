"""
Can one find the number of components from singular values alone?
=================================================================

Sometimes the table is gone, or too large to move, and all that is left are its singular values and
its shape. Is that enough to find the number of components, and how sharply do the rules see it?

It is: every rule in :mod:`bayespca.spectrum` is a function of a
:class:`~bayespca.spectrum.Spectrum`. We let the signal fade in tables of 400×50 with three
components, and watch where each rule loses them.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import spectrum
from bayespca.datasets import low_rank

RULES = {
    "EVB": lambda seen: spectrum.solve(seen).rank,
    "most probable": lambda seen: int(spectrum.posterior_of_rank(seen).probabilities.argmax()),
    "Minka": lambda seen: int(spectrum.minka(seen).log_evidence.argmax()),
    "edge of the noise": spectrum.marchenko_pastur,
    "Gavish and Donoho": spectrum.gavish_donoho,
    "ScreeNOT": lambda seen: spectrum.screenot(seen, largest=10),
    "parallel analysis": spectrum.parallel_analysis,
}

# %%
# The singular values of one table. Centring takes one row away: 400 rows have 399 degrees of
# freedom, and that is the shape to give.


def seen_in(strength, seed):
    X = low_rank(400, 50, 3, strength=strength, random_state=seed).X
    values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    return spectrum.Spectrum(values, shape=(50, 399))


answer = spectrum.solve(seen_in(1.0, 0))
print(f"rank {answer.rank}, noise variance {answer.noise_variance:.3f} (the truth is 1)")

# %%
# The same for fading signals, five tables each.

strengths = np.geomspace(0.05, 1.0, 9)
found = {name: np.empty(strengths.size) for name in RULES}
for i, strength in enumerate(strengths):
    tables = [seen_in(strength, seed) for seed in range(5)]
    for name, rule in RULES.items():
        found[name][i] = np.mean([rule(seen) for seen in tables])

fig, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
styles = ["-", "-", "--", "--", ":", ":", "-."]
for (name, ranks), style in zip(found.items(), styles, strict=True):
    ax.plot(strengths, ranks, style, label=name, linewidth=2)
ax.axhline(3, color="0.8", zorder=0)
ax.set(
    xscale="log",
    xlabel="strength of the signal",
    ylabel="components found, mean of five tables",
)
ax.legend(frameon=False)
plt.show()

# %%
# Strong signals are found by all. Where the signal fades, the rules part. Parallel analysis, the
# edge of the noise and the probability of each number hold on longest, because they ask what is
# *there*. EVB, and more so Gavish and Donoho's threshold and ScreeNOT, let go earlier, because they
# ask what makes the reconstruction *better*.
