"""The env families that come with the library, one file each.

Importing this package imports none of them: it only tells the table of families
where their codecs are.
"""

from plangym_ext.core.families import Family, register_family

_HERE = "plangym_ext.envs"

for _family in (
    Family(
        name="classic_control",
        module="gymnasium.envs.classic_control",
        codec=f"{_HERE}.classic_control:ClassicControlPart",
    ),
    Family(
        name="atari",
        module="ale_py",
        codec=f"{_HERE}.atari:AtariPart",
        frameskip_argument="frameskip",
    ),
    Family(
        name="mujoco",
        module="gymnasium.envs.mujoco",
        codec=f"{_HERE}.mujoco:MujocoPart",
    ),
    Family(
        name="toy_text",
        module="gymnasium.envs.toy_text",
        codec=f"{_HERE}.toy_text:toy_text_part",
    ),
):
    register_family(_family, builtin=True)
