"""The equations of the row recursion: feedforward and residual networks, and infinite depth."""
