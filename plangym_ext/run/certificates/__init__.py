"""Certificates of public envs: tests of exact state capture (`plangym-ext doctor --all`)."""
