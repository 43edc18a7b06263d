"""Randomized block Krylov: the largest singular values and vectors, as far as the plan needs them.

*The process.* A Gaussian block of b right vectors is multiplied by A and Aᵀ in turn (A is X less
its column means), each product made orthonormal against all that came before it. This is Golub and
Kahan's bidiagonalisation in blocks. It keeps three things:

    Aᵀ·left = right·Bᵀ      left: n×m and right: p×(m+b), orthonormal; B: m×(m+b), small

so the singular triplets of B, A's Ritz triplets, cost no product with A, and no Gram matrix squares
the condition number. The last b columns of `right` are the *frontier*: not yet multiplied by A.
The weight of a Ritz vector there, its *leak*, shows how far it is from convergence. When all but a
few vectors have settled, only the part of the frontier where those leak is multiplied.

*What is handed to the plan.* Ritz values never exceed the singular values they stand for. Kept ones
are converged, so they and the sum of squares, which is exact, fix the noise. Dropped ones are
handed over as far as they have settled, and one more: an underestimate, which the plan reads as
a bound on all the values it does not get. It is no such bound unless it leaves room for the energy
that remains, (N − j)·θⱼ² ≥ ‖A‖² − Σ_{i≤j} θᵢ² with N = min(n, p), as true ones always do.
The left side less the right falls with j, so the first few Ritz values can be handed over, and
none at all as long as the process has not seen enough. A truncated spectrum cannot exclude that a
great many components, with less noise, explain the whole of it better. The weights of the Ritz
vectors in the random start show how many singular values each stands for: the plan also solves the
complete spectrum that they suggest (`Look.surveyed_rank`).

*How sure it is.* Let a singular value γ be missed, θ < γ be the largest Ritz value left after the
settled ones, and e products be done. The Krylov space holds A·f(AᵀA)·Gc for every polynomial f of
degree below e/2 and every c, with G the Gaussian block; free of the settled vectors, none of these
has a Rayleigh quotient above θ². Take the f with

    √x·√(θ² − x)·f(x) = θ²·sin(e·arcsin √(x/θ²)),

of Chebyshev's kind: at most θ² below θ², growing fastest above; and c along g, the b coordinates
of G in the direction missed. The other coordinates of Gc are independent of g. It follows that

    ‖g‖²·sinh²(e·arsinh √(γ²/θ² − 1)) ≤ χ² of at most N − 1 degrees of freedom,

and the probability of that is a beta distribution's. For b = 1 this is a little sharper than the
1.648·√N·exp(−(e−1)·√(1 − θ²/γ²)) of Kuczyński and Woźniakowski (1992), and it counts the columns of
a block together. The sum of squares bounds how many there can be to miss. Because the process
stops at a fixed level of this, the bound holds whenever it stops.
That the space is free of c settled vectors has its price: f must vanish at their λ, which takes
one degree for b of them, 2c/b products, and leaves the product of |1 − γ²/λ| to the power 1/b of
its growth. This part is an estimate. In thousands of simulations whose start was rigged against one
direction the inequality with it failed once, by 15 %; without it, often and by many powers of ten.
A cluster of more than b singular values that agree to within the tolerance is beyond all this; it
shows as b kept values that agree, and is given up.

*What it costs.* 4·n·p multiplications and additions per basis vector, which no method that only
multiplies can avoid: about five blocks to be sure, more where kept vectors converge more slowly. On
top of that, 2·(n + p)·m² for each of two orthogonalisations, and a pass over X for its mean and sum
of squares. It stores (n + p)·m numbers, both sides alike.
"""
