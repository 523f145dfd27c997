"""PPO of RLlib on a vector env whose sub-envs live in two workers."""

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

import plangym_ext

# The same in each process that RLlib starts for `num_env_runners` above 0.
register_env(
    "cartpoles",
    lambda context: plangym_ext.make_vec("CartPole-v1", context["num_envs"], n_workers=2),
)
config = (
    PPOConfig()
    .environment("cartpoles")
    .env_runners(
        num_env_runners=0,
        num_envs_per_env_runner=8,
        # RLlib asks gymnasium for one vector env, and not for sub-envs one by one.
        gym_env_vectorize_mode="vector_entry_point",
    )
    .training(train_batch_size_per_learner=512, minibatch_size=128, num_epochs=2)
)

# A cluster of its own, also where one has been started on this machine before.
ray.init(address="local", num_cpus=2, include_dashboard=False)
algorithm = config.build_algo()
for _ in range(2):
    seen = algorithm.train()["env_runners"]
    steps, mean = seen["num_env_steps_sampled"], seen["episode_return_mean"]
    print(f"{steps:.0f} steps, mean return {mean:.0f}")
algorithm.stop()
ray.shutdown()
