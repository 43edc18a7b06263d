"""Wine (178×13), whose columns have variances from 0.02 to 99,000: raw, and with `scale=True`."""

from __future__ import annotations

from bayespca import BayesianPCA

from ..comparing import claim
from ..records import Outcome, Run, Table
from .models import NOISES, all_fitted, best, cells


def reproduce(run: Run) -> Outcome:
    X = run.data.table("wine")
    default = {scale: BayesianPCA(scale=scale).fit(X) for scale in (False, True)}
    # Noise of cells takes sweeps.
    noises = NOISES[:-1] if run.quick else NOISES
    models = {
        scale: all_fitted(X, run.each(noises), scale=scale) for scale in run.each((False, True))
    }
    half = {s: BayesianPCA(noise_variance="0db", scale=s).fit(X) for s in (False, True)}
    ranks = [default[scale].n_components_ for scale in (False, True)]
    words = {False: "raw", True: "scale=True"}
    return Outcome(
        (
            claim(
                "the default's rank, raw and with scale=True",
                run.printed["same"],
                f"{ranks[0]} and {ranks[1]}",
                holds=ranks[0] == ranks[1],
            ),
            *(
                claim(
                    f"{words[scale]}: the default's noise",
                    f"that with the most evidence: {best(models[scale])}",
                    default[scale].noise_,
                    holds=default[scale].noise_ == best(models[scale]),
                )
                for scale in (False, True)
            ),
        ),
        setting="UCI's wine; nothing chosen but what the table names.",
        tables=(
            Table(
                "Rank under each noise model, and in brackets by how many nats its evidence "
                "exceeds that of isotropic noise.",
                ("units", "default", *noises, 'noise_variance="0db"'),
                tuple(
                    (
                        words[scale],
                        f"{default[scale].n_components_}, {default[scale].noise_}",
                        *cells(models[scale], noises),
                        str(half[scale].n_components_),
                    )
                    for scale in (False, True)
                ),
            ),
        ),
        remarks=(run.printed["words"],),
    )
