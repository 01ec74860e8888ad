"""Recipes: a finite network of the library, written out for PyTorch and JAX in three parameterisations."""
