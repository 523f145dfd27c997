"""The log of a run in MLflow; a run that is resumed goes on with the same one there.

plangym-ext train ppo_cartpole --loggers mlflow_log:MlflowLog --out runs/mlflow
"""

import mlflow

from plangym_ext.run import LogService, Runner, compose


class MlflowLog(LogService):
    """A run in MLflow."""

    def __init__(self, folder, params):
        super().__init__(folder, params)
        note = folder / "mlflow.txt"
        run = mlflow.start_run(run_id=note.read_text() if note.exists() else None)
        note.write_text(run.info.run_id)

    def add(self, row):
        """Log the numbers of a row."""
        mlflow.log_metrics({k: v for k, v in row.items() if k != "step"}, step=int(row["step"]))

    def close(self):
        """End the run."""
        mlflow.end_run()


if __name__ == "__main__":
    settings = {"loggers": ["mlflow_log:MlflowLog"], "rounds": 2, "evaluation": {"episodes": 1}}
    with Runner(compose(["ppo_cartpole", settings]), "runs/mlflow") as runner:
        runner.run()
    print(mlflow.search_runs(output_format="list")[0].data.metrics["round"])
