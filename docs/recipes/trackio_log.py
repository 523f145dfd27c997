"""The log of a run in trackio, on this machine; `trackio show` draws it.

plangym-ext train ppo_cartpole --loggers trackio_log:TrackioLog --out runs/trackio
"""

import trackio

from plangym_ext.run import LogService, Runner, compose


class TrackioLog(LogService):
    """A run in trackio."""

    def __init__(self, folder, params):
        super().__init__(folder, params)
        trackio.init(project="plangym-ext", name=folder.name, config=params, resume="allow")

    def add(self, row):
        """Log the numbers of a row."""
        trackio.log({k: v for k, v in row.items() if k != "step"}, step=int(row["step"]))

    def close(self):
        """End the run."""
        trackio.finish()


if __name__ == "__main__":
    settings = {"loggers": ["trackio_log:TrackioLog"], "rounds": 2, "evaluation": {"episodes": 1}}
    with Runner(compose(["ppo_cartpole", settings]), "runs/trackio") as runner:
        runner.run()
    print(trackio.Api().runs("plangym-ext")[0].name)
