"""How an env's state becomes a row of bytes, and how a row becomes that state again."""
