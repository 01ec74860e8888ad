"""The limit equations: the row recursion (feedforward, residual, infinite depth) and the innovation basis."""
