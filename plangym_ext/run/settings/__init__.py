"""Settings of a training run: their sections, presets and composition."""
