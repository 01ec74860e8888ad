"""Deep linear networks from random initialisation: the limit of large width, data and dimension.

The methods are in `solve.py`, the equations in `equations/` and `innovation.py`, the finite networks in `finite.py`.
"""

from learndyn.families.deep_linear import theories as theories
