"""Tasks of DeepMind's Control Suite on MuJoCo's own threads, without its package.

Observation, reward and start are those of dm_control, after its source (Apache License 2.0);
the models lie in `dm_control-models`, whose NOTICE says where they are from. `envs/ids.py` has
the names.
"""
