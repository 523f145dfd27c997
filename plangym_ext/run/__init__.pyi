from plangym_ext.run.logs.logger import LogService as LogService
from plangym_ext.run.settings.compose import compose as compose
from plangym_ext.run.training.callbacks import Callback as Callback
from plangym_ext.run.training.callbacks import CuriousRewards as CuriousRewards
from plangym_ext.run.training.runner import Runner as Runner
from plangym_ext.run.training.trained import Trained as Trained
from plangym_ext.run.viewer import Viewer as Viewer
from plangym_ext.run.viewer import frame_grid as frame_grid
