"""The episode that `plan` plays: what is shown of it meanwhile, and what is left of it."""
