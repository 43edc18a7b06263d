"""Several tables of the same samples: factors shared between views, and factors of single views.

    x_vij = Σₕ aᵢₕ b_vjh + μ_vj + ε_vij,   aᵢₕ ~ N(0, 1),  b_vjh ~ N(0, c_vh²),  ε_vij ~ N(0, σ_v²)

A factor has a prior variance in each view, and is absent from a view where that is 0 (group factor
analysis: Klami, Virtanen, Leppäaho and Kaski 2015). One view alone is empirical variational Bayes.
"""
