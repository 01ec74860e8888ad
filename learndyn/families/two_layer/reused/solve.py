"""`CausalSampling`: the limit of a two-layer network on a reused dataset, in one forward pass over sampled examples."""

import numpy as np

from learndyn.core.progressing import Report
from learndyn.families.two_layer.reused.equations import ReusedSetting, SampleProcess, WeightProcess
from learndyn.families.two_layer.reused.sampled_curves import Batch, Sampling
from learndyn.numerics.causal_factor import CausalFactor


class CausalSampling(Sampling):
    """Solve forward in training time, without iteration: each state follows from those before it."""

    def batch(self, setting: ReusedSetting, seed: np.random.SeedSequence, report: Report) -> Batch:
        K, states = setting.hidden, setting.states
        weights = WeightProcess(setting)
        process = SampleProcess(setting, self.samples, seed, weights.root)
        factor = CausalFactor((states - 1) * K, self.samples)
        batch = Batch(setting, weights, process)
        for t in range(states):
            process.advance(t, weights)
            if batch.exploded(t):
                break
            batch.R_h[t, :, : t + 1], batch.R_star[t] = process.response(t, weights)
            batch.reached = t + 1
            if t + 1 < states:
                L = np.stack([factor.append(g) for g in process.g[t]])
                weights.advance(t, batch.R_h[t, :, : t + 1], batch.R_star[t], L[:, : (t + 1) * K])
            report(((t + 1) / states) ** 3)
        return batch
