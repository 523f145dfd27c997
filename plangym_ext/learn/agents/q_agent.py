"""QAgent: epsilon-greedy actions on Q values."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.core.options import Positive, Whole
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.agent import Acted, legal_index
from plangym_ext.learn.agents.inputs import Inputs, Mode, needed_noise
from plangym_ext.learn.agents.network_agent import ROWS, NetworkAgent, refuse_infinite
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.networks.agent_network import AgentNetwork
from plangym_ext.learn.networks.bodies import num_factors, row_noise, use_noise
from plangym_ext.learn.torch_extra import torch


@final
class QAgent(NetworkAgent):
    """Acts epsilon-greedily on Q values.

    With a noisy network every row has noise of its own, and other noise in every step. The infos
    of a step are "q" `[B, A]` float32.

    Args:
        network: with a Q head.
        epsilon: share of random actions in modes "train" and "sample": a number, or an array
            with one per row of all envs of a sampler, such as `log_spaced(num_envs)`.
            A learner sets the attribute by its schedule; it travels with the weights.
        eval_epsilon: the same in mode "eval".
        device: where the network runs.

    Raises:
        InvalidOption: an epsilon is not in [0, 1], or the device is not there.
    """

    def __init__(
        self,
        network: AgentNetwork,
        *,
        epsilon: float | npt.ArrayLike = 0.05,
        eval_epsilon: float = 0.0,
        device: str = "cpu",
    ) -> None:
        super().__init__(network, device=device)
        self._start = int(getattr(network.distribution, "start", 0))
        self._num_factors = num_factors(network)
        self.epsilon = epsilon
        #: Rows that `state_dict` has an epsilon for; None: as many as were set.
        self._num_rows: int | None = None
        self.eval_epsilon = float(_checked(eval_epsilon, "eval_epsilon"))

    @property
    def epsilon(self) -> npt.NDArray[np.float64]:
        """Share of random actions, float64: a number, or one per row of all envs."""
        return self._epsilon

    @epsilon.setter
    def epsilon(self, share: float | npt.ArrayLike) -> None:
        self._epsilon = _checked(share, "epsilon")

    def set_mode(self, mode: Mode) -> None:
        """Change the mode; noisy layers are without noise in "eval"."""
        super().set_mode(mode)
        use_noise(self.network, mode != "eval")

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        with torch.inference_mode(), self._row_noise(inputs):
            out, carry = self._forward(inputs, carry)
            q = self._q(out).numpy()
        refuse_infinite(q, type(self).__name__, "Q values")
        legal = inputs.legal
        # Masked after the check above, which has to read the network's own outputs.
        index = np.argmax(masked(q, legal), axis=1)
        epsilon = self.eval_epsilon if self.mode == "eval" else self._epsilons(inputs)
        if np.any(epsilon):
            # Drawn in every row, so that a row's draws do not depend on other rows.
            dice = needed_noise(inputs, type(self).__name__).uniform(2)
            if legal is None:
                anything = np.floor(dice[:, 1] * q.shape[1]).astype(np.int64)
            else:
                anything = legal_index(dice[:, 1], legal)
            index = np.where(dice[:, 0] < epsilon, anything, index)
        return Acted(index + self._start if self._start else index, {"q": q}, carry)

    def value(self, inputs: Inputs, carry: Any) -> Any:
        """Return `[B]` float32, the best Q value of each row; see `Agent.value`."""
        with torch.inference_mode():
            out, _ = self._forward(inputs, carry)
            q = self._q(out).numpy()
        # The best of the legal actions: illegal ones do not count.
        return masked(q, inputs.legal).max(axis=1)

    def state_dict(self) -> dict[str, Any]:
        """Return "version", "epsilon", and the weights as arrays by name."""
        epsilon = self.epsilon
        if self._num_rows is not None and epsilon.ndim == 0:
            # An algorithm may come to set one for each row.
            epsilon = np.broadcast_to(epsilon, (self._num_rows,))
        return {**super().state_dict(), "epsilon": epsilon.copy()}

    def sent_to(self, num_rows: int) -> None:
        self._num_rows = num_rows

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        epsilon = _checked(state.get("epsilon", self._epsilon), "epsilon")
        super().load_state_dict(state)
        # After the weights, which may be refused: then nothing has changed.
        self._epsilon = epsilon

    def _row_noise(self, inputs: Inputs) -> AbstractContextManager[None]:
        """Return a context with separate layer noise for each row."""
        if self.mode == "eval" or not self._num_factors:
            return nullcontext()
        drawn = needed_noise(inputs, type(self).__name__).normal(self._num_factors)
        rows = drawn.astype(np.float32)
        return row_noise(self.network, self._tensor(rows, -len(rows) % ROWS))

    def _epsilons(self, inputs: Inputs) -> Any:
        """Return one epsilon, or one per row."""
        if self._epsilon.ndim == 0:
            return self._epsilon
        # The rows of all envs that these are, wherever they are played; their place in the batch
        # otherwise.
        rows = getattr(inputs.noise, "rows", None)
        rows = np.arange(len(inputs.first)) if rows is None else np.asarray(rows)
        if rows.max() >= len(self._epsilon):
            raise InvalidOption(
                f"QAgent: epsilon must have a number for each of the rows, the last of which is "
                f"{rows.max()}; it has {len(self._epsilon)}. Give one per env of the sampler."
            )
        return self._epsilon[rows]

    def _q(self, out: Any) -> Any:
        if out.q is None:
            raise InvalidOption(
                "QAgent: the network must have a Q head; it has none. Make it with "
                "AgentConfig(heads=('q',))."
            )
        return out.q


@checking_arguments
def log_spaced(
    num_rows: Whole, low: Positive = 0.01, high: Positive = 1.0
) -> npt.NDArray[np.float64]:
    """Return `[num_rows]` epsilons, fresh, from `low` to `high`, evenly spaced in their logarithms.

    Source: rlpyt's vector epsilon-greedy, after Horgan et al. 2018 (Ape-X).
    """
    return np.geomspace(low, high, num_rows)


def _checked(share: Any, name: str) -> npt.NDArray[np.float64]:
    """Return shares in [0, 1], a copy."""
    shares = np.array(share, np.float64)
    if shares.ndim > 1 or not shares.size or not ((shares >= 0) & (shares <= 1)).all():
        raise InvalidOption(
            f"QAgent: {name} must be a number in [0, 1], or one per row; got {share!r}."
        )
    return shares
