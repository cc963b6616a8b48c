"""What each device runs: it trains on its own log, and sends the forest alone."""

from edgeforest.fleet.flower import client_app

app = client_app("state", n_trees=20, max_depth=8, budget=5_000_000)
