"""Settings of a training run: sections, presets and composition."""
