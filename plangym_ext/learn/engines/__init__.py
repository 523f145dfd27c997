"""Engines of updates: gradients without autograd, compiled code, graphs, flat optimisers."""
