"""What makes updates fast: gradients without autograd, compiled code, graphs, flat optimisers."""
