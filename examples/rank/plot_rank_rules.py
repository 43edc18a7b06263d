"""
Do the rules for the number of components agree?
================================================

Minka, parallel analysis, Gavish and Donoho, bi-cross-validation: there is a rule for every taste.
What do they say about one real table, and what comes back if we look at only half of the rows?

The table holds 30 measurements of cell nuclei from tumours (every third row of scikit-learn's
breast cancer data). :func:`~bayespca.rank_report` runs all rules on it;
:func:`~bayespca.rank_stability` fits random halves of the rows.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

from bayespca import rank_report, rank_stability

X = load_breast_cancer(as_frame=True).data[::3]

# %%
# Columns are scaled, because areas and fractal dimensions have no unit in common.

report = rank_report(X, scale=True, n_halves=0)
print(report)

# %%
# They range from 3 to 29, because they ask different questions. Parallel analysis and sign flips
# ask which components are larger than those of a table without any relations. EVB asks which ones
# stand out from the noise. The 30 columns are means, errors and extremes of ten quantities, among
# them radius, perimeter and area: their relations are nearly exact, the noise is small, and many
# weak components are real. Rules that take all noise for equal (Minka, the Marchenko–Pastur edge)
# count unequal noise as well.
#
# Half samples show which of the components are robust.

stability = rank_stability(X, scale=True, n_halves=20)
print(stability)

fig, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4.4), layout="constrained", width_ratios=[3, 2]
)
ranks = dict(sorted(report.ranks().items(), key=lambda pair: pair[1]))
left.barh(list(ranks), list(ranks.values()), color="C0")
left.bar_label(left.containers[0], padding=3, fontsize=8)
left.set(xlabel="number of components", title="What each rule says")
left.tick_params(axis="y", labelsize=8)
right.bar(list(stability.ranks), [100 * share for share in stability.ranks.values()], color="C2")
right.set(
    xlabel="number of components found",
    ylabel="share of half samples, in %",
    title="Found in half of the rows",
    xticks=sorted(stability.ranks),
)
plt.show()

# %%
# The first thirteen components come back in every half. The last two of the fifteen need all of
# the rows.
