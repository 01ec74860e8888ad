"""Numerical tools that several families share: Gaussian integrals, factors of covariances, time grids, precision."""
