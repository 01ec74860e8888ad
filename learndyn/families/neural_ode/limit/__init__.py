"""The limit of large dimension."""
