"""The part of the contract about states that are none, or none of this env."""

from __future__ import annotations

import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import DamagedState, ForeignState
from plangym_ext.states.envelope import HEADER, Envelope


class RefusesDamage:
    """Inherited by `EnvContract`, whose fixtures and attributes it uses."""

    def test_every_flipped_bit_is_refused(self, env, episode):
        state = episode.states[1]
        positions = np.arange(state.size * 8)
        if not self.all_bits:
            rng = np.random.default_rng(0)
            positions = np.concatenate([positions[: HEADER * 8], rng.choice(positions, 200)])
        env.set_state(episode.states[0])
        for position in positions:
            damaged = state.copy()
            damaged[position // 8] ^= np.uint8(1 << position % 8)
            with pytest.raises((DamagedState, ForeignState)):
                env.set_state(damaged)
        # The simulator has seen none of them.
        self.play_on(env, episode, 0, "after refusals", num_steps=3)

    def test_truncated_extended_and_shifted_states_are_refused(self, env, episode):
        state = episode.states[1]
        for wrong in (state[:-1], state[:0], np.append(state, np.uint8(0))):
            with pytest.raises(DamagedState, match=rf"{env.state_width} bytes wide.*{wrong.size}"):
                env.set_state(wrong)
        for cut in {HEADER, (HEADER + state.size) // 16 * 8, state.size - 8}:
            with pytest.raises(DamagedState, match=rf"does not fit its {cut} bytes"):
                env.set_state(state[:cut])
        for damaged in (np.roll(state, 8), np.zeros_like(state), np.full_like(state, 255)):
            with pytest.raises(DamagedState, match="checksum, magic or width"):
                env.set_state(damaged)

    def test_states_of_another_env_or_version_are_refused(self, env, episode):
        with plangym_ext.make(self.stranger, max_episode_steps=321) as stranger:
            foreign, *_ = stranger.reset(seed=0)
        with pytest.raises(ForeignState):
            env.set_state(foreign)
        # A whole row of the right width, but of an env that differs in one argument.
        twin = Envelope({**env.envelope.identity, "id": "Twin-v0"}, env.state_width - HEADER)
        row = episode.states[1][None].copy()
        twin.seal(row, int(row[0, 8:12].view("<u4")[0]))
        with pytest.raises(ForeignState, match="belongs to another env"):
            env.set_state(row[0])

    def test_refused_row_is_named_by_its_index(self, env, episode):
        states, actions = self.rows(episode)
        states[2, -1] ^= 1
        with pytest.raises(DamagedState, match=r"states\[2\]"):
            env.step_batch(actions, states)
