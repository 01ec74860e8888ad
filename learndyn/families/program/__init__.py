"""Programs as problems: training loops over Gaussian matrices, and networks that are given as a forward pass.

The engine is `learndyn.programs`; here it becomes a network like the others.
"""
