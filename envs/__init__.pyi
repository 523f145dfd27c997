from plangym_ext.envs.rules.chain_mdp import ChainMDPEnv as ChainMDPEnv
from plangym_ext.envs.rules.line_game import LineGameEnv as LineGameEnv
from plangym_ext.envs.rules.narrow_path import NarrowPathEnv as NarrowPathEnv
from plangym_ext.envs.rules.slide_2048 import Slide2048Env as Slide2048Env
from plangym_ext.envs.rules.t_maze import TMazeEnv as TMazeEnv
from plangym_ext.envs.sokoban.env import SokobanEnv as SokobanEnv
