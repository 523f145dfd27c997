"""A state is tried: does the same future follow when it is restored, and which codec does that."""
