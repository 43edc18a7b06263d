"""White noise: low rank with and without holes, and factors that can hardly be seen.

Macdonald, Naim and Ram, VBPCApy (2026); Dobriban and Owen, "Deterministic parallel analysis"
(Journal of the Royal Statistical Society B 81, 2019).
"""

from __future__ import annotations

from itertools import product
from zlib import crc32

import numpy as np

from ..comparing import Comparison, claim
from ..records import Outcome, Run
from . import designs
from .rules import Found, found, table

ROWS, COLUMNS = (20, 30, 50, 70, 100, 150, 200), (10, 20, 30, 50, 70, 100, 200)
RANKS = (2, 5, 10)
PATTERNS = ("complete", "random", "censored", "block")
# Strengths of the third of three factors, of a single factor, and data sets of each.
THIRD, SINGLE, FACTOR_SETS = np.linspace(10, 70, 20), np.linspace(0.2, 6, 10), 2
STRONG = (6.0, 10.0)


def shapes(*, quick: bool) -> list[tuple[int, int, int]]:
    """Rows, columns, rank."""
    if quick:
        return [(20, 10, 2), (50, 30, 5)]
    return [one for one in product(ROWS, COLUMNS, RANKS) if one[2] < min(one[:2])]


def holes(shape: tuple[int, int, int], pattern: str) -> Found:
    rng = np.random.default_rng((0, *shape, crc32(pattern.encode())))
    drawn = designs.low_rank(rng, *shape)
    return found(designs.without_cells(drawn.X, pattern, rng), drawn.rank, 0)


def factors(strengths: tuple[float, ...], seed: int) -> Found:
    drawn = designs.factors(np.random.default_rng((seed, len(strengths))), strengths)
    return found(drawn.X, drawn.rank, seed)


def reproduce(run: Run) -> Outcome:
    some, sets = shapes(quick=run.quick), 1 if run.quick else FACTOR_SETS
    third, strengths = (THIRD[:1], SINGLE[-1:]) if run.quick else (THIRD, SINGLE)
    of_holes = {
        pattern: [holes(shape, pattern) for shape in run.each(some)]
        for pattern in run.each(PATTERNS, 0.8)
    }
    of_three = [factors((*STRONG, s), n) for s in run.each(third, 0.14) for n in range(sets)]
    of_one = {s: [factors((s,), n) for n in range(sets)] for s in run.each(strengths, 0.06)}
    first, most = found_from(of_one), run.printed["single"]
    return Outcome(
        (
            *(_of_holes(run, pattern, found) for pattern, found in of_holes.items()),
            claim(
                "three factors: right",
                run.printed["three"],
                f"{sum(one.right() for one in of_three)} of {len(of_three)}",
                holds=all(one.right() for one in of_three),
            ),
            claim(
                "one factor: found from strength",
                f"{most}",
                f"{first:.1f}",
                holds=run.quick or round(first, 1) <= most,
            ),
        ),
        setting=f"Low rank: a data set of each of {len(some)} shapes and ranks, with each pattern "
        f"of 15 % holes. Factors, 500×300: {sets} data sets of each strength. Three are of "
        "strengths 6, 10 and up to 70. With holes, others have no answer.",
        seed="from 0 on",
        tables=(
            table(
                {f"low rank, {pattern}": found for pattern, found in of_holes.items()}
                | {"three factors": of_three}
                | {f"one factor of strength {s:.2f}": found for s, found in of_one.items()}
            ),
        ),
        remarks=(run.printed["words"],),
    )


def _of_holes(run: Run, pattern: str, some: list[Found]) -> Comparison:
    least, right = run.printed["exact"][pattern], np.mean([one.right() for one in some])
    texts = f"{least:.0%}", f"{right:.1%}"
    return claim(f"low rank, {pattern}: right", *texts, holds=right >= least)


def found_from(results: dict[float, list[Found]]) -> float:
    """The strength from which on a factor is found in most data sets; infinite if from none on."""
    missed = [s for s, some in results.items() if 2 * sum(one.right() for one in some) <= len(some)]
    return min((s for s in results if s > max(missed, default=-np.inf)), default=np.inf)
