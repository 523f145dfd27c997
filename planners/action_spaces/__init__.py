"""Action spaces of all kinds, as the numbers or vectors that planners plan over."""
