"""Plain transcriptions of convolutional limits, for comparison: linear units of any depth, and one layer of any units.

Linear units: the equations of fully connected ones with the index (point, position) for h and (output, position) for g,
and patches 𝒯M_ab = Σ_q M_{a+q,b+q}/k of what comes from below, 𝒯*M_ab = Σ_q M_{a−q,b−q}/k of what comes from above the
layer. Whole trajectories are iterated, with forces switched on one step after the other.
"""

import numpy as np
from scipy.stats import norm, qmc


def patched(M, kernel, sign):
    """𝒯M (sign 1) or 𝒯*M (sign −1), positions on axes 2 and 5."""
    shifted = [np.roll(M, (-sign * q, -sign * q), axis=(2, 5)) for q in range(kernel)]
    return sum(shifted) / kernel


def readout_kernel(network):
    """Γ."""
    S, gap = network.convolution.positions, network.convolution.readout == "gap"
    return np.full((S, S), S**-2.0) if gap else np.eye(S) / S


def input_kernel(asked):
    """x_μa·x_αb/D, points × positions × points × positions."""
    x = asked.data.all_inputs()
    x = x.reshape(len(x), asked.network.convolution.positions, -1)
    return np.einsum("pad,qbd->paqb", x, x) / x.shape[-1]


def linear_convolution(asked, setting):
    """f (n, p, C), and by layer H (n, p, S, n, p, S) and G (n, C, S, n, C, S)."""
    n, p, C, L = setting.states, setting.points, setting.outputs, setting.depth
    S = asked.network.convolution.positions
    Gamma = np.einsum("cd,ab->cadb", np.eye(C), readout_kernel(asked.network))
    everywhere = np.ones((n, n))
    f = np.zeros((n, p, C))
    H = [np.einsum("ts,paqb->tpasqb", everywhere, input_kernel(asked)) for _ in range(L + 1)]
    G = [np.einsum("ts,cadb->tcasdb", everywhere, Gamma) for _ in range(L + 2)]
    A = [np.zeros((n, p, S, n, C, S)) for _ in range(L + 1)]
    B = [np.zeros((n, C, S, n, p, S)) for _ in range(L + 1)]
    for forced in range(n):
        for _ in range(40 * L):
            before = [f.copy(), *H, *G]
            E = np.array([setting.loss.force(f[t]) if t < forced else 0 * f[t] for t in range(n)])
            for ell in range(1, L + 1):
                f = _layer(asked, setting, ell, E, H, G, A, B)
            changes = zip([f, *H, *G], before, strict=True)
            change = max(np.abs(new - old).max() for new, old in changes)
            if change < 1e-14:
                break
        assert change < 1e-12, f"not settled with forces on {forced} steps: {change:.1e}"
    return f, H[1:], G[1 : L + 1]


def _layer(asked, setting, ell, E, H, G, A, B):
    """Replaces the order parameters of layer ℓ by what its neighbours make of them; returns Σ_a ⟨h g⟩(t, t)/γ_0."""
    k, L = asked.network.convolution.kernel, setting.depth
    below, from_below = patched(H[ell - 1], k, 1), patched(A[ell - 1], k, 1)
    above, from_above = G[ell + 1], B[ell]
    if ell < L:
        above, from_above = patched(above, k, -1), patched(from_above, k, -1)
    memory = setting.gamma * setting.k  # zero from s = t on
    C_W = setting.C_W[:, None, None, :, None, None]
    c = C_W * from_below + np.einsum("ts,sqd,tpasqb->tpasdb", memory, E, below)
    d = C_W * from_above + np.einsum("ts,sqd,tcasdb->tcasqb", memory, E, above)
    u, r = C_W * below, C_W * above
    n, p, C, S = setting.states, setting.points, setting.outputs, below.shape[2]
    c, d = c.reshape(n * p * S, -1), d.reshape(n * C * S, -1)
    u, r = u.reshape(n * p * S, -1), r.reshape(n * C * S, -1)
    to_h = np.linalg.inv(np.eye(n * p * S) - c @ d)
    to_g = np.linalg.inv(np.eye(n * C * S) - d @ c)
    H[ell] = (to_h @ (u + c @ r @ c.T) @ to_h.T).reshape(n, p, S, n, p, S)
    G[ell] = (to_g @ (r + d @ u @ d.T) @ to_g.T).reshape(n, C, S, n, C, S)
    A[ell] = (to_h @ c).reshape(n, p, S, n, C, S)
    B[ell - 1] = (to_g @ d).reshape(n, C, S, n, p, S)
    both = (to_h @ (u @ d.T + c @ r) @ to_g.T).reshape(n, p, S, n, C, S)
    return np.einsum("tpatca->tpc", both) / setting.gamma


def particles(asked, setting, samples, seed):
    """f (n, p, C) of one hidden layer of any units: every neuron moves on its own, with Γ in what moves its readout."""
    network, gamma, loss = asked.network, setting.gamma, setting.loss
    p, C, S = setting.points, setting.outputs, network.convolution.positions
    kernel = patched(input_kernel(asked)[None, :, :, None], network.convolution.kernel, 1)
    kernel = kernel[0, :, :, 0].reshape(p * S, p * S)
    Gamma = readout_kernel(network)
    roots = [_root(kernel), _root(Gamma)]
    count = roots[0].shape[1] + C * roots[1].shape[1]
    normals = norm.ppf(qmc.Sobol(count, rng=seed).random(samples)).T
    h = (roots[0] @ normals[: roots[0].shape[1]]).reshape(p, S, samples)
    z = np.einsum("ak,ckn->can", roots[1], normals[roots[0].shape[1] :].reshape(C, -1, samples))
    kernel, outputs = kernel.reshape(p, S, p, S), []
    for t in range(setting.states):
        phi, slope = np.tanh(h), 1 - np.tanh(h) ** 2
        outputs.append(np.einsum("can,pan->pc", z, phi) / samples / gamma)
        if t + 1 < setting.states:
            eta, E = gamma * setting.k[t + 1, t], loss.force(outputs[-1])
            force = np.einsum("qc,qbn,cbn->qbn", E, slope, z)
            h = h + eta * np.einsum("paqb,qbn->pan", kernel, force)
            z = z + eta * np.einsum("ab,qc,qbn->can", Gamma, E, phi)
    return np.array(outputs)


def _root(C):
    values, vectors = np.linalg.eigh(C)
    return (vectors * np.sqrt(np.maximum(values, 0)))[:, values > 1e-12]
