"""The former place of `plangym_ext.learn.trainers.base.ReplayAlgorithm`."""

from plangym_ext.learn.trainers.base import ReplayAlgorithm as ReplayAlgorithm
