"""
Why does being Bayesian remove components?
==========================================

Nakajima, Sugiyama and Babacan (ICML 2011) showed that Bayesian PCA has a closed form: each
singular value is kept and shrunk, or removed. What is removed depends on which factors are
integrated out. Where does the threshold come from, if not from the prior?

With a flat prior, maximum a posteriori (MAP) is ordinary PCA and removes nothing. Integrating out
one factor (partially Bayesian, PB) or both (variational Bayes, VB) removes every singular value
below σ√max(L, M), although the prior has no opinion.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import evbmf, spectrum, vbmf

L, M = 20, 50
observed = np.linspace(0.05, 20, 200)


def estimated(method, prior_variance):
    """What is left of each singular value, one at a time, with noise variance 1."""
    left = []
    for gamma in observed:
        one = spectrum.Spectrum(np.array([gamma]), shape=(L, M), sum_of_squares=gamma**2)
        found = spectrum.solve(one, method, noise_variance=1.0, prior_variance=prior_variance)
        left.append(found.shrunk_singular_values.sum())
    return np.array(left)


# %%
# On the left the prior is flat; on the right its variance is 0.05, which is quite strong.

fig, axes = plt.subplots(1, 2, figsize=(9.5, 4.2), sharey=True, layout="constrained")
styles = {
    "map": ("MAP", "C2", "-."),
    "pb": ("PB: one factor", "C1", "--"),
    "vb": ("VB: both factors", "C0", "-"),
}
for ax, prior, title in [(axes[0], 1e6, "Flat prior"), (axes[1], 0.05, "Prior variance 0.05")]:
    ax.plot(observed, observed, color="0.8", linewidth=1)
    for method, (name, colour, line) in styles.items():
        ax.plot(observed, estimated(method, prior), color=colour, linestyle=line, label=name)
    ax.axvline(np.sqrt(L) + np.sqrt(M), color="0.5", linestyle=":", linewidth=1)
    ax.set(title=title, xlabel="observed singular value")
axes[0].text(np.sqrt(L) + np.sqrt(M) + 0.2, 0.4, "largest of pure noise", fontsize=8, color="0.4")
axes[0].set_ylabel("estimated singular value")
axes[0].legend(frameon=False)
plt.show()

# %%
# The threshold of VB under a flat prior is not a matter of taste: it comes from integrating over
# the factors, because the data see only their product. This is called model-induced
# regularization. It still lies below the largest singular value of pure noise (dotted); learning
# the prior as well, as empirical VB does, lifts it above that.

for method in ("map", "pb", "vb"):
    kept = observed[estimated(method, 1e6) > 1e-6]
    print(f"{method:4s} smallest singular value that is kept: {kept.min():.2f}")
print(f"edge of pure noise: {np.sqrt(L) + np.sqrt(M):.2f}; √max(L, M) = {np.sqrt(M):.2f}")

# %%
# The same for a whole matrix of noise, in which there is nothing to find:

noise = np.random.default_rng(0).normal(size=(L, M))
_, S, _, _ = vbmf(noise, cacb=1e3, sigma2=1.0)
print("VB, prior almost flat, keeps", len(S), "of", L)
_, S, _, _ = evbmf(noise, sigma2=1.0)
print("EVB, prior learned, keeps", len(S))
