"""`plangym-ext doctor ENV_ID`: show how an env's state is captured, and test that it is exact.

`plangym-ext doctor --all` does this for a list of public envs, in temporary virtual environments.
A folder keeps the results so far: the same call continues from there.
"""

from __future__ import annotations

import argparse
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from plangym_ext.core.options import Count, Whole
from plangym_ext.errors import PlangymExtError, plural
from plangym_ext.run.arguments import (
    Argument,
    Option,
    add_env_options,
    env_arguments,
    import_modules,
)
from plangym_ext.run.progress import ProgressLine

# Few, as each plays the episode again from its reset.
_REPLAYS = 5
#: Attributes that are shown, those first that take most time.
_MOST_ATTRIBUTES = 5


class Options:
    """Options of the command.

    Args:
        env: a gymnasium id, such as CartPole-v1; with --all any groups, packages and envs of the
            list, in place of the whole of it
        all: certificates of a list of public envs, which is installed
        list: with --all: another list, in TOML
        out: with --all: folder of certificates.json, and of virtual environments meanwhile
        page: with --all: Markdown page for the table
        deadline: with --all: seconds until an env is ended; ten times that for an installation
        steps: steps of play with saved states
        seed: seed of the reset and the actions
        capture: way of capturing the state, as in make: auto, codec, own, simulator, snapshot,
            replay or approximate
    """

    env: Annotated[tuple[str, ...], Argument("ENV_ID")] = ()
    all: bool = False
    list: Annotated[Path | None, Option("FILE")] = None
    out: Annotated[Path, Option("DIR")] = Path("runs/certificates")
    page: Annotated[Path | None, Option("FILE")] = None
    deadline: Annotated[Count, Option("S")] = 240
    steps: Count = 1000
    seed: Whole = 0
    capture: str = "auto"
    besides = (add_env_options,)


def run(options: argparse.Namespace) -> int:
    """Print the report; exit status 1 if the round trip is not exact."""
    if options.all:
        return _run_all(options)
    if len(options.env) != 1:
        options.parser.error(f"expected one ENV_ID, or --all; got {len(options.env)} ids")
    (options.env,) = options.env
    try:
        return _run_one(options)
    except PlangymExtError:
        raise
    except (Exception, SystemExit) as error:
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        if frame.f_globals["__name__"].startswith("plangym_ext.run."):
            raise  # of the output
        from plangym_ext.states.trials.trial import place_of

        print(f"  {'the env':12} has raised {place_of(error)}")
        return 1


def _run_all(options: argparse.Namespace) -> int:
    """Make the certificates that are missing; exit status 1 if an env died of it or hung."""
    from plangym_ext.run.certificates.certificate import outcomes, text, write_page
    from plangym_ext.run.certificates.collect import PUBLIC, Collection, read_list

    groups = read_list(options.list or PUBLIC, options.env)
    collection = Collection(options.out, steps=options.steps, deadline=options.deadline)
    try:
        collection.collect(groups)
    finally:
        collection.close()
        if options.page:
            write_page(options.page, collection.results)
    print(text(collection.results))
    return int(any(outcomes(collection.results)[kind] for kind in ("died", "hung", "error")))


def _run_one(options: argparse.Namespace) -> int:
    """Print the report of an env."""
    import plangym_ext
    from plangym_ext.core.check_env import check_env
    from plangym_ext.core.gym_env import GymEnv
    from plangym_ext.registry import find_spec
    from plangym_ext.run.certificates.certificate import operation_costs
    from plangym_ext.states.trials.choice import check_way

    import_modules(options, [options.env])
    arguments = {"capture": options.capture, **env_arguments(options)}
    # Before the line of progress, at the end of which the message would stand.
    find_spec(options.env)
    check_way(options.capture)
    line = ProgressLine()
    line.update(f"{options.env}: making the env")
    # Serial: the parts of its state and the simulator itself are looked at, which other backends
    # only wrap or copy.
    with plangym_ext.make(options.env, backend="serial", **arguments) as env:
        line.leave()
        assert isinstance(env, GymEnv)
        print(f"{env.name}: {type(env.gym_env.unwrapped).__qualname__}")
        print(f"  observation  {env.observation_space}")
        print(f"  action       {env.action_space}")
        print(f"  backend      {_backend(env, options.env)}")
        report = check_env(
            env,
            seed=options.seed,
            num_steps=options.steps,
            progress=lambda done, total: line.update(
                f"round trip: step {done} of {total}", force=done == 1
            ),
        )
        line.leave()
        print(report)
        line.update("measuring costs", force=True)
        if env.exact is False:
            print("  approximate  this way is not exact by its nature; it is used only if named")
        costs = operation_costs(env, options.seed)
        replayed = _replay_cost(env, options.seed, options.steps)
        line.leave()
        for name, micros in costs.items():
            # By replay the first number would mislead: it was measured where the env was already,
            # and there was nothing to play.
            if name == "set state" and replayed:
                print(f"  {name:12} {replayed}")
            else:
                print(f"  {name:12} {micros:.1f} us")
        _print_attributes(env)
    # As an answer that is no. 2 would say that the command was not understood.
    return 0 if report.exact else 1


def _print_attributes(env: Any) -> None:
    """Print what states cost and what most of that is for, where attributes are captured."""
    from plangym_ext.states.costs import attribute_costs, cost_note, left_out

    costs = attribute_costs(env.codec)
    for k, cost in enumerate(costs[:_MOST_ATTRIBUTES]):
        pickled = ", pickled" if cost.pickled else ""
        what = f"{cost.name}: {cost.bytes:,} bytes, {cost.seconds * 1e6:.1f} us{pickled}"
        print(f"  {'attributes' if k == 0 else '':12} {what}")
    if len(costs) > _MOST_ATTRIBUTES:
        print(f"  {'':12} and {len(costs) - _MOST_ATTRIBUTES} more that take less")
    for k, (name, size) in enumerate(left_out(env.codec).items()):
        what = f"{name}: {size:,} bytes, unchanged so far, compared in each capture"
        print(f"  {'left out' if k == 0 else '':12} {what}")
    if note := cost_note(env.codec):
        print(f"  {'note':12} {note}")


def _backend(env: Any, name: str) -> str:
    """Return the backend that `make` chooses for the env, and the reason."""
    from plangym_ext.errors import KernelDiffers, NoKernel
    from plangym_ext.native.kernel.kernel_env import KernelEnv
    from plangym_ext.states.families import family_of

    family = family_of(env.gym_env.unwrapped)
    if family is not None and family.is_run_by("mujoco"):
        return _mujoco_backend(env, name)
    try:
        # Not closed: it would close the env, which is looked at further.
        seconds = KernelEnv(env).warm_up()
    except NoKernel as error:
        return _python_backend(env, name, error.reason)
    except KernelDiffers as error:
        return f"serial: {error}"
    return f"kernel, {_equal_in(seconds)}"


def _python_backend(env: Any, name: str, reason: str) -> str:
    """Return workers or this process, and why neither of the native backends."""
    from plangym_ext.registry import find_spec
    from plangym_ext.workers.scheduling import WAVE, chosen_workers, proved_seconds

    target = find_spec(name).entry_point
    n_workers, why = chosen_workers(proved_seconds(env), env.gym_env.render_mode, target, WAVE)
    return f"{'process' if n_workers else 'serial'}: {why}; {reason}"


def _mujoco_backend(env: Any, name: str) -> str:
    from plangym_ext.errors import BackendUnavailable
    from plangym_ext.native.mujoco.env import MujocoEnv

    # A clone, as the native env owns and closes what it is given.
    own = env.clone()
    try:
        with MujocoEnv(own) as native:
            threads = f"{native.threads} {plural('thread', native.threads)}"
            return f"mujoco, on {threads}, {_equal_in(native.compile_seconds)}"
    except BackendUnavailable as error:
        # The constructor has failed, so there is no native env that would close it.
        own.close()
        return _python_backend(env, name, str(error))


def _equal_in(seconds: float) -> str:
    return f"compiled or loaded in {seconds:.2f} s and equal to the env byte for byte"


def _replay_cost(env: Any, seed: int, num_steps: int) -> str:
    """Return the cost of restoring a replayed state by depth; "" for others."""
    from plangym_ext.states.replay import MAX_DEPTH, ReplayPart

    part = next((part for part in env.codec.parts if isinstance(part, ReplayPart)), None)
    if part is None:
        return ""
    env.reset(seed=seed)
    here, depth = env.get_state(), part.depth
    for _ in range(num_steps):
        _, _, terminated, truncated, _ = env.gym_env.step(env.sample_action())
        if terminated or truncated:
            env.set_state(here)  # the deepest of this episode that can be stepped away from
            break
        here, depth = env.get_state(), part.depth
    before = part.count.steps
    action, times = env.sample_action(), []
    for _ in range(_REPLAYS):
        env.gym_env.step(action)  # away from `here`, so that nothing can be continued
        # The median of them is shown: one alone may meet the collector of garbage.
        times.append(_timed(lambda: env.set_state(here)))
    steps = (part.count.steps - before) // _REPLAYS
    return (
        f"{np.median(times) * 1e6:.1f} us at depth {depth}: the reset and {steps} steps are played "
        f"again.\n{'':15}It grows with the depth, which may be {MAX_DEPTH}; an env that is on the "
        f"way to a state\n{'':15}goes on and plays only the steps that are missing"
    )


def _timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
