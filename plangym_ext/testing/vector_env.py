"""The contract of a vector env: what `check_vector_env` looks at, as a test."""

from __future__ import annotations

from typing import Any

from plangym_ext.vector.check_vector_env import check_vector_env


class VectorEnvContract:
    """Tests of any `gymnasium.vector.VectorEnv`; write `make`.

    Attributes:
        max_steps: random steps after which an episode is held never to end.
    """

    max_steps = 2000

    def make(self) -> Any:
        """Return a new vector env."""
        raise NotImplementedError

    def test_promises_are_kept(self) -> None:
        venv = self.make()
        try:
            report = check_vector_env(venv, max_steps=self.max_steps)
        finally:
            venv.close()
        assert report.ok, str(report)
