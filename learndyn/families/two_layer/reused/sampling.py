"""What the theory of a reused dataset takes from the sampling of programs: batches, their halves and their averages."""

from learndyn.families.program.sampling import Batch, Sampling, sampled

__all__ = ["Batch", "Sampling", "sampled"]
