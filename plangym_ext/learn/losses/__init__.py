"""Loss functions: pure functions of tensors, one module per kind of learning."""
