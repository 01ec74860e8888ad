"""What two families or more need: Gaussian integrals, factors, time grids, precision."""
