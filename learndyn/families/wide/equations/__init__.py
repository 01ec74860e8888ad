"""The equations of the limit, exact and approximate."""
