"""Tree search in compiled code, for envs with compiled rules."""
