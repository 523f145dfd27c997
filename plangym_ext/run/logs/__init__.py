"""What a training run writes down about itself."""
