"""The env contract, exact states, and the memory of a batch."""
