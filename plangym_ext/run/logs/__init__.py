"""Logs of a training run: CSV, JSON lines, TensorBoard, Weights & Biases, terminal table."""
