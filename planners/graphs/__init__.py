"""Search in a graph of states, which knows a state again."""
