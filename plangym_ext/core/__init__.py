"""The env contract, the loop over rows, and the requests and results of a batch."""
