"""Files of states and arrays: atomic writes, bounded reads."""
