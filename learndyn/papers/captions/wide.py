"""What is told of the figures of wide networks."""

from learndyn.papers.figure_facts import facts_of

REFERENCE = "Bordelon & Pehlevan, Self-consistent dynamical field theory of kernel evolution, 2022"
SHARED = (
    "Networks f = w·φ(h^L)/(γ₀N) with L hidden layers of width N → ∞ by full-batch gradient descent with the raw rate "
    "ηγ₀²N on the loss ⟨(y − f)²⟩/2, a mean over the points; A(X, Y) is the cosine of two kernels. Lines: theory; "
    "circles: trained networks, mean and standard error over the seeds."
)
_points = "inputs x ~ N(0, 1) and targets ±1 at random"
_PICTURES = (
    (
        "wide-2",
        "Deep linear networks: deeper ones move their kernels more",
        f"{SHARED} φ(h) = h, γ₀ = 1, P = 20 points of dimension D = 40, {_points}, η = 0.1, 60 steps, 4 networks of "
        "N = 1000 with their initial function subtracted. The theory is exact, without samples. The paper prints "
        "L = 5, N = 1000 and P = 20; the other depths, γ₀ and η are chosen here. (b) Cosine of H^ℓ(t, t) with "
        "H^ℓ(0, 0), mean over the layers: 0.95, 0.86 and 0.80 at the end for L = 1, 2 and 5, at one number of steps "
        "and thus at different losses. (c)–(e) L = 5, theory and one network with the same colours. (c) Kernels at the "
        "end, points with target −1 first. (d) Traces of the feature kernels, and (e) gradient kernels, at two times; "
        "the colours of (e) are logarithmic.",
        0.2,
    ),
    (
        "wide-3",
        "With weight decay, only networks that learn features keep what they learn",
        f"{SHARED} relu, L = 1, P = 6 points of dimension D = 10, {_points}, η = 0.3, 200 steps, weight decay λ = 0.1 "
        "(with a mean over points, λP = 0.6 for their sum; the paper has λ = 1 and prints neither P nor γ₀). 6 "
        "networks of N = 1000, whose initial function is not subtracted: they begin with a loss above ½ by a term of "
        "order 1/(γ₀²N). The theory has 4 × 1024 samples, in bands of two standard errors. (a) The final loss falls "
        "with γ₀; for γ₀ = 0.2 the network forgets all it had learned, f → 0. (b) Alignment of the final Φ^1 with the "
        "targets. Shaded: the trace of the tangent kernel has fallen below 1 % of its start; the alignment there is "
        "that of a kernel about to vanish.",
        0.3,
    ),
    (
        "wide-4",
        "Approximations hold for small γ₀ only, the full theory for all",
        f"{SHARED} φ(h) = h, L = 5, P = 20 points of dimension D = 40, {_points}, η = 0.06, 60 steps, 3 networks of "
        "N = 1000 with their initial function subtracted. The paper's caption has P = 100, and γ₀ = 1 as well as 1.5 "
        "for the same panels; its η is not printed. Full theory; static kernel; gradient independence (no responses, "
        "A = B = 0); and the leading order in γ₀², with the factor of the tangent kernel L(L+1)²(L+2)/12 for the "
        "paper's L(L+1)/2. (b) Cosine with the networks' H^ℓ over all points and 31 × 31 times, mean over ℓ: from 0.98 "
        "for all four at γ₀ = 0.1, where it is the noise of N = 1000, to 0.99, 0.69, 0.94 and 0.86 at γ₀ = 2. Gradient "
        "independence recovers in this measure, which knows no size of kernels; its final loss in (a) is five times "
        "too large. (c) One network and the four theories, points with target −1 first. Colours span the values of the "
        "network and the full theory; values of order γ₀² beyond them are cut.",
        0.7,
    ),
    (
        "wide-4-times",
        "Kernels of all approximations over both times",
        f"{SHARED} The setting of wide-4 with γ₀ = 1.5 (φ(h) = h, L = 5, P = 20, D = 40, η = 0.06, 60 steps): "
        "traces of the feature kernels over the points at two times. The paper shows them in its figure 4 as well. "
        "One network of N = 1000, the full theory, and three approximations. Colours span the values of the network "
        "and the full theory; values of order γ₀² beyond them are cut.",
        0.1,
    ),
)
FACTS = facts_of(REFERENCE, _PICTURES)
"""By the name of the picture."""
