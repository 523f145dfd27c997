"""Object graphs as bytes without pickle, the format of snapshot states."""
