"""Section 4: the bound during training, and its derivatives at the end.

The bound and its derivatives are those of `posterior`, the paper's equations written out; Q is that
of the fitted model.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from ..comparing import claim
from ..drawing import COLOURS, REFERENCE, panels
from ..records import Outcome, Run
from .example import SETTING, Q, points, variational
from .posterior import bound, derivatives, of_fit, sweeps

SWEEPS = 3000
# Sweeps end when the bound rises by less than this share of itself: what rounding leaves.
TOLERANCE = 1e-14


def reproduce(run: Run) -> Outcome:
    T = points(seed=0)
    model = variational(T, tol=TOLERANCE)
    found = of_fit(model, T)
    ours = -np.array(model.trace_.free_energy)
    own = np.array([bound(now, T) for now in islice(sweeps(T, Q, seed=0), SWEEPS)])
    fall = max(-np.diff(ours).min(), 0.0)
    apart = abs(bound(found, T) - model.lower_bound_)
    at_end = derivatives(found, T)
    at_start = derivatives(next(sweeps(T, Q, seed=0)), T)
    worst = max(at_end, key=at_end.__getitem__)
    return Outcome(
        (
            claim(
                "L(Q)",
                "Eq. 10",
                f"written out, {apart:.1g} nats from what the model reports",
                holds=bool(apart < 1e-9),
            ),
            claim(
                "evolution",
                run.printed["evolution"],
                f"{len(ours)} sweeps; largest fall {fall:.1g} nats",
                holds=bool(fall < 1e-9),
            ),
            claim(
                "derivatives at the end",
                run.printed["derivatives"],
                f"at most {at_end[worst]:.1g} nats (with respect to {worst}); "
                f"{max(at_start.values()):.1g} after the first sweep",
                holds=bool(at_end[worst] < 1e-4),
            ),
            claim(
                "cycling through the groups of variables",
                run.printed["cycling"],
                f"after {SWEEPS} sweeps of the paper's equations {ours[-1] - own[-1]:.2f} nats "
                "below",
                holds=bool(np.all(np.diff(own) > -1e-9) and abs(ours[-1] - own[-1]) < 0.1),
            ),
        ),
        setting=f"{SETTING} Sweeps until the bound rises by less than {TOLERANCE:g} of itself. "
        "Derivatives by central differences with respect to each parameter of Q, per unit of its "
        "own scale: a mean's posterior standard deviation, the value of any other.",
        seed="0 (data and starts)",
        figures={
            "The bound during training (left), and how far it is below where it ends (right).": (
                _figure(ours, own)
            )
        },
    )


def _figure(ours: np.ndarray, own: np.ndarray):
    figure, (left, right) = panels(2)
    runs = (("the paper's equations", own, REFERENCE), ("VariationalPCA", ours, COLOURS["vb"]))
    for name, values, colour in runs:
        count = np.arange(1, len(values) + 1)
        left.plot(count, values, color=colour, label=name)
        below = ours[-1] - values
        right.loglog(count[below > 0], below[below > 0], color=colour)
    left.set(xlabel="sweep", ylabel="bound, nats", xlim=(0, 100))
    left.legend(frameon=False)
    right.set(xlabel="sweep", ylabel="below the end, nats", ylim=(1e-9, None))
    return figure
