import json

import numpy as np

import plangym_ext

venv = plangym_ext.make_vec("Acrobot-v1", 8)
venv.reset(seed=1)
states, ended = venv.get_states(), venv.ended
for _ in range(10):
    first = venv.step(np.zeros(8, int))[0]
venv.set_states(states, ended=ended)
for _ in range(10):
    again = venv.step(np.zeros(8, int))[0]
venv.close()
print(json.dumps({"equal": bool(np.array_equal(first, again)), "obs": again.tolist()}))
