"""Whatever takes a forest: merge, prune, explain, measure importance, plot."""
