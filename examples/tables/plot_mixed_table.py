"""
Can one PCA read a table with numbers, words and grades?
========================================================

Real tables have a yes/no column, a grade from low to high, a number of visits and a few
measurements, and there are holes in all of them. Must we turn everything into numbers first?

:class:`~bayespca.GeneralizedPCA` gives each column its own likelihood and fits one low-rank
matrix to all of them. We simulate 300 patients with one hidden trait, call it frailty.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bayespca import GeneralizedPCA

rng = np.random.default_rng(0)
n = 300
frailty = rng.normal(size=n)
pain = np.digitize(frailty + 0.6 * rng.logistic(size=n), [-1, 0.3, 1.5])
table = pd.DataFrame(
    {
        "grip": 35 - 6 * frailty + 4 * rng.normal(size=n),
        "speed": 1.2 - 0.2 * frailty + 0.15 * rng.normal(size=n),
        "blood pressure": 130 + 3 * frailty + 12 * rng.normal(size=n),
        "falls": rng.poisson(np.exp(-0.3 + 0.8 * frailty)),
        "visits": rng.poisson(np.exp(0.9 + 0.4 * frailty)),
        "uses a cane": rng.random(n) < 1 / (1 + np.exp(1 - 2 * frailty)),
        "pain": pd.Categorical.from_codes(pain, ["none", "mild", "strong", "severe"], ordered=True),
        "eye colour": rng.choice(["blue", "brown", "green"], size=n),
    }
)
complete = table.copy()
holes = rng.random(table.shape) < 0.15
for j, name in enumerate(table):
    table[name] = (
        table[name]
        .astype(object)
        .where(~holes[:, j], None)
        .astype(
            "category"
            if name in ("pain", "eye colour")
            else "boolean"
            if name == "uses a cane"
            else float
        )
    )
table["pain"] = table["pain"].cat.set_categories(["none", "mild", "strong", "severe"], ordered=True)
print(table.head(4).to_string())

# %%
# The model recognises the kind of each column by its type and its values.

model = GeneralizedPCA(random_state=0).fit(table)
print(model.n_components_, "component;", model.likelihoods_)

# %%
# Filled cells have the type of their column, and an interval or a probability.

filled, cells = model.impute(table, interval=0.95)
print(filled.head(4).to_string())

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
scores, std = model.transform(table, return_std=True)
sign = np.sign(np.corrcoef(scores[:, 0], frailty)[0, 1])
left.errorbar(
    frailty, sign * scores[:, 0], std[:, 0], fmt=".", color="C0", ecolor="0.8", markersize=5
)
left.set(
    xlabel="true frailty",
    ylabel="score of the first component (± SD)",
    title=f"Correlation {abs(np.corrcoef(scores[:, 0], frailty)[0, 1]):.2f}",
)
shares = {}
for name in ("uses a cane", "pain", "eye colour"):
    hole = holes[:, table.columns.get_loc(name)]
    right_answer = complete[name].astype(str)[hole] == filled[name].astype(str)[hole]
    common = complete[name].astype(str)[~hole].mode()[0]
    shares[name] = (right_answer.mean(), (complete[name].astype(str)[hole] == common).mean())
places = np.arange(3)
right.bar(
    places - 0.2, [100 * own for own, _ in shares.values()], 0.4, label="GeneralizedPCA", color="C0"
)
right.bar(
    places + 0.2,
    [100 * most for _, most in shares.values()],
    0.4,
    label="most frequent level",
    color="0.7",
)
right.set_xticks(places, list(shares))
right.set(ylabel="holes filled with the true level, in %", title="Levels of holes")
right.legend(frameon=False)
plt.show()

# %%
# Cane and pain depend on frailty, and are filled better than by the most frequent level. Eye
# colour does not, so nothing can be gained there.
