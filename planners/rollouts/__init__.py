"""Playing on from states: what leaves are worth, and the planners that need no tree."""
