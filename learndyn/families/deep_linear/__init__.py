"""Deep linear networks from random initialisation: the limit of large width, data and dimension, and finite networks.

- `network.py`: the network; `theories.py`: which problems the theories are for
- `solve.py`: the methods `Rows`, `Innovation` and `LayerNodes`, which solve the limit; the entrance
- `limit_numbers.py`: the numbers of a problem that enter the limit equations
- `equations/`: the row recursion (`feedforward.py`, `residual.py`, `infinite_depth.py` with `layer_time_sweeps.py`),
  its adjoint (`feedforward_adjoint.py`), overlaps of two networks (`ensemble_overlaps.py`), the innovation basis
  (`innovation.py`)
- `row_recursion.py`, `growing_training.py`: the row recursion and the innovation basis on their way through training
- `node_refinement.py`: infinite depth with as many nodes of the layer time as it needs
- `observables.py`: the table of observables; `row_observables.py`: their values in a row recursion
- `differentiable_losses.py`: the losses as a JAX function of the training rule
- `finite.py`: finite networks in training; `ensemble_loss.py`: the loss of several networks averaged
"""
