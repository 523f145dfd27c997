"""Renames, and nothing else: with this pytest plugin plangym's own tests import our face.

Run in plangym's sdist, as the tox environment `plangym` does. What has no counterpart stands for
itself as None, so that modules of tests can be imported: the tests that use it fail.
"""

import importlib.util
import sys
from pathlib import Path

from plangym_ext.compat import plangym
from plangym_ext.compat.plangym import control, core, environment_names, registry, utils, videogames
from plangym_ext.compat.plangym.lunar_lander import FastLander
from plangym_ext.compat.plangym.vectorization import env, parallel, ray

CONTROL = ("balloon", "box_2d", "classic_control", "dm_control", "lunar_lander", "mujoco")
GAMES = ("atari", "env", "montezuma", "nes", "retro")

control.FastGymLunarLander = FastLander
ray.RemoteEnv = None

sys.modules |= {
    "plangym": plangym,
    "src": plangym,
    "src.plangym": plangym,
    "plangym.control": control,
    "plangym.core": core,
    "plangym.environment_names": environment_names,
    "plangym.registry": registry,
    "plangym.utils": utils,
    "plangym.vectorization": env,
    "plangym.vectorization.env": env,
    "plangym.vectorization.parallel": parallel,
    "plangym.vectorization.ray": ray,
    "plangym.videogames": videogames,
    **{f"plangym.control.{name}": control for name in CONTROL},
    **{f"plangym.videogames.{name}": videogames for name in GAMES},
}
spec = importlib.util.spec_from_file_location("api_tests", Path("src/plangym/api_tests.py"))
plangym.api_tests = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plangym.api_tests)
sys.modules |= dict.fromkeys(("plangym.api_tests", "src.plangym.api_tests"), plangym.api_tests)
