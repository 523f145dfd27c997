"""Sizes of what is learned from, the same for all contestants."""

#: T of a fragment.
PPO_STEPS, A2C_STEPS = 256, 5
#: Of PPO.
EPOCHS, BATCH = 10, 64
