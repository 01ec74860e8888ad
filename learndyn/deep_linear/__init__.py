"""Deep linear networks from random initialisation."""
