"""Players compared on the same episodes, and critics on the same states."""
