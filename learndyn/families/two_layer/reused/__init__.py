"""A reused dataset: two coupled processes, sampled."""
