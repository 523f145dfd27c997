"""Meta-learning over tasks: context encoder, the agent that infers tasks, replays per task."""
