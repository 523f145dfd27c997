import json
import subprocess
import sys

command = "plan FrozenLake-v1 --planner mcts --num-simulations 32 --max-steps 20 --seed 0"
command += " --env.is_slippery false --out lake --tree lake/tree.html"
subprocess.run([sys.executable, "-P", "-m", "plangym_ext", *command.split()], check=True)
with open("lake/tree.html") as page:
    assert page.read(1)
with open("lake/episode.json") as file:
    print(json.dumps({"moves": len(json.load(file)["actions"])}))
