"""Random forests that train on the device, under a hard budget."""

from edgeforest.core_pure import Budget, Forest, Rng, Spent, Training
from edgeforest.engine import load, train, train_steps

__version__ = "0.1.0"
__all__ = ["Budget", "Forest", "Rng", "Spent", "Training", "load", "train", "train_steps"]
