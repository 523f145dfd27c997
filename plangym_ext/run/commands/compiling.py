"""`plangym-ext compile ENV`: make a kernel of a Python env, and compare the two bit for bit.

ENV is a class, as `module:Class`, or an env id. What cannot be translated is refused with the file,
the line and the reason. `plangym_ext.compile_env` does the same and returns the class to register.
"""

from __future__ import annotations

import argparse
import time
from typing import Annotated

from plangym_ext.core.options import Count
from plangym_ext.run.arguments import Argument, add_env_options, env_arguments, import_modules


class Options:
    """Options of the command.

    Args:
        env: class of the env, as my_module:Walk, or an env id
        steps: env steps and resets to compare
    """

    env: Annotated[str, Argument("ENV")]
    steps: Count = 20_000
    besides = (add_env_options,)


def run(options: argparse.Namespace) -> int:
    """Print the extent of the comparison and the times."""
    from plangym_ext.native.translate.compile_env import compile_env

    import_modules(options, [options.env])
    start = time.perf_counter()
    found = compile_env(options.env, steps=options.steps, **env_arguments(options))
    seconds = time.perf_counter() - start
    print(f"{options.env}: {found.__name__} is compiled; {seconds:.0f} s in all")
    print(f"  equal bit for bit in {options.steps:,} steps and resets: states, observations,")
    print("  rewards, flags and infos")
    print(f'  plangym_ext.compile_env("{options.env}") returns its class, to be registered')
    return 0
