"""The MuJoCo backend: rows stepped on MuJoCo's own threads."""
