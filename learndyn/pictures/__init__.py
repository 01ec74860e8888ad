"""Pictures of solutions, runs and sweeps."""
