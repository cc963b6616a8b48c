"""What the server runs: it joins the forests, and checks them on rows of its own."""

import csv
import json
from dataclasses import asdict
from pathlib import Path

from flwr.serverapp import ServerApp

from edgeforest.fleet.flower import strategy

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    with open(config["rows"], newline="", encoding="utf-8") as file:
        _, *rows = csv.reader(file)
    X, y = [[float(value) for value in row[:-1]] for row in rows], [row[-1] for row in rows]
    joint = strategy(X, y, nodes=config["nodes"], max_bytes=config["max-bytes"])
    joint.start(grid, joint.nothing(), num_rounds=config["rounds"], timeout=config["timeout"])
    folder = Path(config["out"])
    folder.mkdir(parents=True, exist_ok=True)
    if joint.joint.forest is not None:
        joint.joint.forest.save(folder / "joint.json")
    verdicts = [
        {**asdict(verdict), "device": joint.names.get(verdict.name)}
        for verdict in joint.joint.verdicts
    ]
    part = folder / "verdicts.json.part"
    part.write_text(json.dumps(verdicts))
    part.rename(folder / "verdicts.json")  # it is there when it is whole
