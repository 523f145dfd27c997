"""Certificates of public envs: are their states exact, and how; `plangym-ext doctor --all`."""
