"""What is the same for all theories: records, curves, runs, methods, theories."""
