"""Graph search: search over states that are recognised when met again."""
