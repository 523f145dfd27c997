"""The native MuJoCo backend: rows stepped on MuJoCo's own threads."""
