"""
Which kinds of respondents answered this survey?
================================================

Sometimes zeros and ones do not vary along directions but fall into kinds: people who answer
alike. How many kinds are there, and what does each of them say?

:class:`~bayespca.BernoulliMixture` describes each kind by the probability of a yes to every
question. We simulate 400 people of four kinds, who answer twelve questions and skip some of them.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import BernoulliMixture, select_components
from bayespca.displays import ComponentSelectionDisplay

rng = np.random.default_rng(0)
truth = np.array(
    [
        [0.9] * 4 + [0.1] * 8,
        [0.1] * 4 + [0.9] * 4 + [0.2] * 4,
        [0.2] * 8 + [0.8] * 4,
        [0.85, 0.15] * 6,
    ]
)
kind = rng.choice(4, size=400, p=[0.4, 0.3, 0.2, 0.1])
X = (rng.random((400, 12)) < truth[kind]).astype(float)
X[rng.random(X.shape) < 0.1] = np.nan

# %%
# Cross-validation chooses the number of kinds: how well are people predicted whose answers the
# model has not seen?

selection = select_components(BernoulliMixture(random_state=0, n_init=3), X, range(1, 8))
print(selection)
model = BernoulliMixture(selection.best, random_state=0, n_init=5).fit(X)

# %%
# The means of the fitted model, largest kind first. They are the four that went into the
# simulation.

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
ComponentSelectionDisplay.from_selection(selection, ax=left)
left.set_title("How many kinds?")
order = np.argsort(-model.weights_)
image = right.imshow(model.means_[order], cmap="viridis", vmin=0, vmax=1, aspect="auto")
right.set_yticks(range(len(order)), [f"{model.weights_[k]:.0%} of people" for k in order])
right.set_xticks(range(12), range(1, 13))
right.set(xlabel="question", title="What each kind answers")
fig.colorbar(image, ax=right, label="probability of yes")
plt.show()

# %%
# Skipped answers can be filled with their probability:

print("the first person's answers, skipped ones filled:", model.impute(X)[0].round(2))
