"""DeepMind Control Suite tasks for the native MuJoCo backend, without the dm_control package.

Observation, reward and start are those of dm_control, after its source (Apache License 2.0);
the models lie in `dm_control-models`, whose NOTICE says where they are from. The names are
in `plangym_ext/ids.py`.
"""
