"""Numeric limits of distribution parameters. Needs the standard library only."""

#: Logarithms of standard deviations: between 1/150 and 7, in units in which actions are [-1, 1].
LOG_STD = (-5.0, 2.0)
