"""BibTeX entries of the papers of the theories, of the libraries that solve them, and of learndyn.

A field that is not known for certain is left out.
"""

from importlib.metadata import metadata

PAPERS = {
    "Saad & Solla 1995": """\
@article{saad1995exact,
  author = {Saad, David and Solla, Sara A.},
  title = {Exact solution for on-line learning in multilayer neural networks},
  journal = {Physical Review Letters},
  volume = {74},
  pages = {4337},
  year = {1995}
}

@article{saad1995online,
  author = {Saad, David and Solla, Sara A.},
  title = {On-line learning in soft committee machines},
  journal = {Physical Review E},
  volume = {52},
  pages = {4225},
  year = {1995}
}""",
    "Goldt et al. 2019": """\
@inproceedings{goldt2019dynamics,
  author = {Goldt, Sebastian and Advani, Madhu S. and Saxe, Andrew M. and Krzakala, Florent and Zdeborov{\\'a}, Lenka},
  title = {Dynamics of stochastic gradient descent for two-layer neural networks in the teacher-student setup},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {32},
  year = {2019}
}""",
    "Carrasco-Davis & Grant 2025": """\
@misc{carrascodavis2025primer,
  author = {Carrasco-Davis, Rodrigo and Grant, Erin},
  title = {A primer on analytical learning dynamics of nonlinear neural networks},
  howpublished = {ICLR Blogposts},
  year = {2025}
}""",
    "Asymptotic dynamics for delayed feature learning, HiLD workshop 2024": """\
@misc{hild2024delayed,
  title = {Asymptotic Dynamics for Delayed Feature Learning in a Toy Model},
  note = {Workshop on High-dimensional Learning Dynamics},
  year = {2024}
}""",
    "Bayati & Montanari 2011": """\
@article{bayati2011dynamics,
  author = {Bayati, Mohsen and Montanari, Andrea},
  title = {The Dynamics of Message Passing on Dense Graphs, with Applications to Compressed Sensing},
  journal = {IEEE Transactions on Information Theory},
  volume = {57},
  number = {2},
  pages = {764--785},
  year = {2011}
}""",
    "Bolthausen 2014": """\
@article{bolthausen2014iterative,
  author = {Bolthausen, Erwin},
  title = {An Iterative Construction of Solutions of the {TAP} Equations for the {Sherrington--Kirkpatrick} Model},
  journal = {Communications in Mathematical Physics},
  volume = {325},
  pages = {333--366},
  year = {2014}
}""",
    "Yang 2019": """\
@misc{yang2019scaling,
  author = {Yang, Greg},
  title = {Scaling Limits of Wide Neural Networks with Weight Sharing: {Gaussian} Process Behavior,
    Gradient Independence, and Neural Tangent Kernel Derivation},
  year = {2019},
  eprint = {1902.04760},
  archiveprefix = {arXiv}
}""",
    "Bordelon & Pehlevan 2022": """\
@inproceedings{bordelon2022selfconsistent,
  author = {Bordelon, Blake and Pehlevan, Cengiz},
  title = {Self-Consistent Dynamical Field Theory of Kernel Evolution in Wide Neural Networks},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {35},
  year = {2022},
  eprint = {2205.09653},
  archiveprefix = {arXiv}
}""",
    "Bordelon & Pehlevan 2025": """\
@misc{bordelon2025deep,
  author = {Bordelon, Blake and Pehlevan, Cengiz},
  title = {Deep Linear Network Training Dynamics from Random Initialization: Data, Width, Depth, and Hyperparameter
    Transfer},
  year = {2025}
}""",
    "Urbani 2025": """\
@misc{urbani2025theory,
  author = {Urbani, Pierfrancesco},
  title = {Theory of learning of high-dimensional controlled non-linear dynamical systems ({I}): models and methods},
  year = {2025}
}""",
}
"""By the words with which the reference of a theory names them."""

LIBRARIES = {
    "jax": """\
@software{jax2018github,
  author = {Bradbury, James and Frostig, Roy and Hawkins, Peter and Johnson, Matthew James and Leary, Chris and
    Maclaurin, Dougal and Necula, George and Paszke, Adam and VanderPlas, Jake and Wanderman-Milne, Skye and
    Zhang, Qiao},
  title = {{JAX}: composable transformations of {Python}+{NumPy} programs},
  url = {https://github.com/jax-ml/jax},
  year = {2018}
}""",
    "diffrax": """\
@phdthesis{kidger2021on,
  author = {Kidger, Patrick},
  title = {On Neural Differential Equations},
  school = {University of Oxford},
  year = {2021}
}""",
    "numba": """\
@inproceedings{lam2015numba,
  author = {Lam, Siu Kwan and Pitrou, Antoine and Seibert, Stanley},
  title = {Numba: a {LLVM}-based {Python} {JIT} compiler},
  booktitle = {Proceedings of the Second Workshop on the LLVM Compiler Infrastructure in HPC},
  year = {2015},
  doi = {10.1145/2833157.2833162}
}""",
}
"""By the name of the package."""


def of_reference(reference: str) -> list[str]:
    """The entries of the papers that a reference names, separated by semicolons; a comment for an unknown paper."""
    papers = [words.strip() for words in reference.split(";") if words.strip()]
    return [PAPERS.get(words, f"% {words}") for words in papers]


def of_learndyn(version: str | None = None) -> str:
    """The entry of learndyn, in the installed version unless another is given."""
    package = metadata("learndyn")
    return f"""\
@software{{learndyn,
  author = {{{{{package["Author"]}}}}},
  title = {{{package["Name"]}}},
  version = {{{version or package["Version"]}}}
}}"""
