"""States of envs that hold a simulator: Python objects and simulators are set in place."""
