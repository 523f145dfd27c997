"""`plangym-ext audit RUN`: compare a critic's values with returns measured from the same states.

The agent of a run plays several rollouts from each of some stored states. DIR/audit.html shows how
well its values agree with the returns, and the largest errors; it needs no network.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from plangym_ext.core.options import Count, Range, Whole
from plangym_ext.errors import (
    CannotDraw,
    IncompleteState,
    InvalidOption,
    MissingExtra,
    OneEnvPerProcess,
)
from plangym_ext.run.arguments import Argument, Option, as_typed, import_modules
from plangym_ext.run.commands.evaluate import add_changes, changes
from plangym_ext.run.files import OutputFiles, write_json

if TYPE_CHECKING:  # they bring a compiler and simulators, which the help can do without
    from plangym_ext.core.files.state_set import StateSet
    from plangym_ext.run.evaluating.value_audit import ValueAudit
    from plangym_ext.run.training.trained import Trained

# States that the page shows: each costs a picture, which is embedded in it.
_WORST = 10


class Options:
    """Options of the command.

    Args:
        checkpoint: a run, or a checkpoint
        starts: states to audit, written by `states` (default: some that the agent comes through)
        count: states, without --starts
        rollouts: from each state
        max_steps: per rollout; a cut rollout bootstraps from the critic
        seed: of states and rollouts
        out: where to write (default: the folder of the run)
        overwrite: overwrite the audit in DIR
    """

    checkpoint: Annotated[Path, Argument("RUN")]
    starts: Annotated[Path | None, Option("FILE")] = None
    # Two at least: a single state has neither an order nor a variance to compare.
    count: Annotated[int, Range(2), Option("N")] = 100
    rollouts: Annotated[Count, Option("K")] = 8
    max_steps: Annotated[Count, Option("M")] = 1000
    seed: Whole = 0
    out: Annotated[Path | None, Option("DIR")] = None
    overwrite: bool = False
    besides = (add_changes,)


def run(options: argparse.Namespace) -> int:
    """Play, print the numbers, write `audit.html` and `audit.json`."""
    from plangym_ext.learn.agents.agent_planner import AgentPlanner
    from plangym_ext.learn.schedule import at
    from plangym_ext.learn.transforms.rewards import in_rewards
    from plangym_ext.planners import visited_states
    from plangym_ext.run.evaluating.value_audit import audit_values
    from plangym_ext.run.training.solutions import AgentValue
    from plangym_ext.run.training.trained import Trained

    import_modules(options, search=True)
    path = options.checkpoint
    out = options.out or (path if path.is_dir() else path.parent)
    changed = changes(options)
    places = [out / "audit.html", out / "audit.json"]
    with (
        # Of its own run an audit is renewed. The run may go on meanwhile.
        OutputFiles(places, replace=options.overwrite or options.out is None),
        Trained(path, **changed) as trained,
    ):
        agent = _agent(trained)
        # Settings refuse an agent without an algorithm.
        assert trained.config.algorithm is not None
        # As it played while its critic learned.
        settings = trained.config.algorithm.config
        _explore(agent, settings, trained.learned)
        player = AgentPlanner(agent=agent, mode="sample")
        # States that the agent itself comes through, as its critic learned from such ones.
        if options.starts is None:
            limits = {"max_steps": trained.max_steps, "num_episodes": 20}
            states = visited_states(trained.env, player, options.count, seed=options.seed, **limits)
        else:
            from plangym_ext.core.files.state_set import StateSet

            states = StateSet.load(options.starts, trained.env)
            if len(states) < 2:
                raise InvalidOption(
                    f"{options.starts}: it holds {len(states)} states; an audit needs 2 or more."
                )
        audit = audit_values(
            trained.env,
            player,
            AgentValue(agent, trained.env.action_space, in_rewards(settings, trained.learned)),
            states,
            # That of the critic: returns with another one would be of another size.
            discount=at(settings.discount, int(trained.learned["updates"])),
            rollouts=options.rollouts,
            max_steps=options.max_steps,
            seed=options.seed,
        )
        _write(out, trained, audit, options, changed)
    for name, value in audit.summary().items():
        print(f"{name.replace('_', ' '):<20} {value:.4g}")
    print(f"wrote {as_typed(out / 'audit.html')}")
    return 0


def _agent(trained: Trained) -> Any:
    """Return the agent of a run; refuse what has no critic, and envs that cannot be restored."""
    if trained.config.learns_episodes:
        raise InvalidOption(
            f"audit: expected a run whose agent plays; in {trained.path} a planner plays. Evaluate "
            f"its network by `eval`, with and without the search."
        )
    if trained.env.exact is False:
        raise IncompleteState(
            f"audit: the states of {trained.env.name} are not exact, so episodes cannot continue "
            f"from them. `plangym-ext doctor {trained.config.env.id}` says why."
        )
    if trained.learned["steps"] is None:
        raise InvalidOption(
            f"audit: {trained.path} must have the number of steps and the reward scale of the "
            f"training; it has only weights, like files of earlier versions. Name a checkpoint of "
            f"the run."
        )
    return trained.player.agent


def _explore(agent: Any, settings: Any, learned: Mapping[str, Any]) -> None:
    """Set the agent's exploration as at its checkpoint."""
    from plangym_ext.learn.schedule import at

    if not hasattr(settings, "exploration"):
        return
    steps = int(learned["steps"])
    share = at(settings.exploration, steps)
    least = getattr(settings, "exploration_least", None)
    if least is not None:
        # Of a row for each env the middle one: what plays here is one agent.
        share = math.sqrt(share * at(least, steps))
    name = "epsilon" if hasattr(agent, "epsilon") else "exploration"
    setattr(agent, name, share)


def _write(
    out: Path,
    trained: Trained,
    audit: ValueAudit,
    options: argparse.Namespace,
    changed: dict[str, Any],
) -> None:
    """Write the page and the numbers."""
    from plangym_ext.core.files.whole_file import replacing
    from plangym_ext.run.evaluating.value_audit import audit_page

    worst = audit.worst(_WORST).tolist()
    title = f"{trained.config.env.id}, {trained.path.name}: values"
    assert trained.config.algorithm is not None
    settings = trained.config.algorithm.config
    notes = [
        f"{len(audit.said)} states, {options.rollouts} rollouts from each by the agent, playing as "
        f"in training; {audit.steps:,} steps in all; discount {settings.discount}.",
        "The env draws the same numbers in all rollouts from a state: its generator is a part of "
        "the state.",
    ]
    if getattr(settings, "clip_reward", None):
        notes.append(
            "The critic learned from rewards that were clipped, and the returns are of rewards as "
            "they are: their order can be compared, their size cannot."
        )
    frames = _frames(trained, audit.states, worst, options.checkpoint, changed)
    with replacing(out / "audit.html") as file:
        file.write(audit_page(audit, title, notes, worst, frames))
    content = {
        "checkpoint": trained.path.name,
        "env": trained.config.env.id,
        "rollouts": options.rollouts,
        "steps": audit.steps,
        **audit.summary(),
        "worst": worst,
        "said": audit.said.tolist(),
        "returned": audit.returned.tolist(),
    }
    write_json(out / "audit.json", content)


def _frames(
    trained: Trained, states: StateSet, chosen: Sequence[int], path: Path, changed: dict[str, Any]
) -> dict[int, Any]:
    """Return a picture `[H, W, 3]` of each chosen state; none where nothing is drawn."""
    if "rgb_array" not in trained.env.metadata.get("render_modes", ()):
        return {}
    from plangym_ext.run.training.trained import Trained as Drawn

    # Another env: how one draws is settled when it is made, and the one that played makes no
    # pictures. Fingerprints leave out the render mode, so its states fit.
    drawn = {**changed, "env": {**changed.get("env", {}), "render_mode": "rgb_array"}}
    try:
        with Drawn(path, **drawn) as other:
            other.env.reset(seed=0)
            found = {}
            for state in chosen:
                other.env.set_state(states.states[state])
                found[state] = other.env.render()
            return found
    # Pictures are an addition: the numbers that were played for are written without them.
    except (MissingExtra, CannotDraw, OneEnvPerProcess):
        return {}
