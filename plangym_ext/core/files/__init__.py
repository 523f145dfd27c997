"""Files of states and arrays: written whole, read within bounds."""
