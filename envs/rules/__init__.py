"""The library's own small envs, each written once as a kernel's rules (`RulesEnv`)."""
