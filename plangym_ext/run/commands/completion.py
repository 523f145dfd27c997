"""`plangym-ext completion SHELL`: print the set-up for completion in a shell.

In ~/.bashrc: `eval "$(plangym-ext completion bash)"`; in ~/.zshrc, after compinit:
`eval "$(plangym-ext completion zsh)"`; in ~/.config/fish/config.fish:
`plangym-ext completion fish | source`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Annotated

from plangym_ext.core.options import OneOf
from plangym_ext.errors import PlangymExtError
from plangym_ext.run.arguments import Argument, add_options
from plangym_ext.run.commands import COMMANDS, load_command
from plangym_ext.run.commands.listing import KINDS

#: With this in place of a command, the program says how the words that follow may go on.
# Not one of `COMMANDS`: the help lists those, and this is for shells.
ASKED = "__complete"

#: What is known of the values of an option or an argument, by its name: a kind of `list`.
_VALUES = {
    "agent.name": "agents",
    "algorithm.name": "algorithms",
    "env": "envs",
    "env.id": "envs",
    "envs": "envs",
    "init_from": "pretrained",
    "network": "pretrained",
    "planner": "planners",
    "planner.name": "planners",
    "planners": "planners",
    "players": "pretrained",
    "preset": "presets",
    "who": "pretrained",
}

# All ask the program that is being typed; where it has no answer, file names are meant.
SCRIPTS = {
    "bash": f"""\
_plangym_ext() {{
    local IFS=$'\\n'
    COMPREPLY=($("$1" {ASKED} "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null | cut -f1))
}}
complete -o default -F _plangym_ext plangym-ext
""",
    "zsh": f"""\
_plangym_ext() {{
    local line
    local -a names notes
    for line in "${{(@f)$("$words[1]" {ASKED} "${{(@)words[2,CURRENT]}}" 2>/dev/null)}}"; do
        [[ -n $line ]] && names+=("${{line%%$'\\t'*}}") && notes+=("${{line/$'\\t'/  -- }}")
    done
    if (( $#names )); then compadd -l -d notes -a names; else _files; fi
}}
compdef _plangym_ext plangym-ext
""",
    "fish": f"""\
function __plangym_ext
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] {ASKED} $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c plangym-ext -f -a '(__plangym_ext)'
""",
}


class Options:
    """Options of the command."""

    shell: Annotated[str, OneOf(SCRIPTS), Argument("SHELL", f"one of: {', '.join(SCRIPTS)}")]


def run(options: argparse.Namespace) -> int:
    """Print the shell's completion set-up."""
    print(SCRIPTS[options.shell], end="")
    return 0


def answer(words: Sequence[str]) -> int:
    """Print one line per completion of the last word: word, tab, note."""
    for name, note in candidates(words).items():
        print(f"{name}\t{note}")
    return 0


def candidates(words: Sequence[str]) -> dict[str, str]:
    """Return the completions of the last word, with a note on each.

    Args:
        words: what was typed after the program's name; the last one, which may be empty, is
            being typed.
    """
    *before, word = words or [""]
    try:
        known = _known(before, word)
    except PlangymExtError:
        return {}  # what was typed before has a mistake, which the command itself will tell
    return {name: note for name, note in known.items() if name.startswith(word)}


def _known(before: Sequence[str], word: str) -> dict[str, str]:
    """Return the possible words at the place of `word`."""
    if not before:
        return {name: summary for name, (_, summary) in COMMANDS.items()}
    name, *given = before
    if name not in COMMANDS:
        return {}
    # It is looked at and never parses: the line is not complete, and argparse would end the
    # program.
    parser = argparse.ArgumentParser(prog=f"plangym-ext {name}")
    # With what was typed, as options depend on it: those of a planner, the settings of a preset.
    add_options(parser, load_command(name).Options, given)
    if word.startswith("-"):
        return _flags(parser)
    expected = _expected(parser, given)
    if expected is None:
        return {}
    if expected.choices is not None:
        return {str(choice): "" for choice in expected.choices}
    return KINDS[_VALUES[expected.dest]]() if expected.dest in _VALUES else {}


def _flags(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return the options with their help; one such as `--env.KEY` has no name of its own."""
    return {
        # As argparse expands its texts: `%%`, and `%(default)s`.
        flag: (action.help or "") % {**vars(action), "prog": parser.prog}
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        for flag in action.option_strings
        if flag.islower()
    }


def _expected(parser: argparse.ArgumentParser, given: Sequence[str]) -> argparse.Action | None:
    """Return the option whose value comes after what was typed, or the argument; None for none."""
    options = {flag: action for action in parser._actions for flag in action.option_strings}
    waiting: argparse.Action | None = None
    arguments = 0
    for word in given:
        if word.startswith("-"):
            # `--key=value` is not found here, and rightly so: it waits for no value.
            option = options.get(word)
            waiting = option if option is not None and option.nargs != 0 else None
        elif waiting is None:
            arguments += 1
        elif waiting.nargs in (None, "?"):
            waiting = None  # it takes one value, and has it
    if waiting is not None:
        return waiting
    places = [action for action in parser._actions if not action.option_strings]
    if arguments < len(places):
        return places[arguments]
    # An argument that takes several values is last in its command, and goes on taking them.
    return places[-1] if places and places[-1].nargs == "+" else None
