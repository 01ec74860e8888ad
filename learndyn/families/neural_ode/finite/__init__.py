"""Finite systems, trained for real."""
