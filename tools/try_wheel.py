"""Check an installed package in a few seconds: every engine that is present grows the same forest.

    python tools/try_wheel.py [--without-native]

The build of wheels runs it on each platform. It needs nothing but the package itself, and refuses a
package without the native engine (which a build without a working compiler makes) unless
`--without-native` is given. Exit codes: 0 all is well, 1 something is not.
"""

import sys

import edgeforest
from edgeforest import engine


def main(argv: list[str]) -> int:
    """Train and load with every engine; say what is wrong, if anything is."""
    if "native" not in engine.present() and "--without-native" not in argv:
        print(f"the native engine is missing: {engine.absent()['native'].reason}", file=sys.stderr)
        return 1
    rows = [[i % 7, i * 13 % 50, "open" if i % 3 else "shut"] for i in range(2000)]
    labels = ["warm" if t > 3 and window == "shut" else "cool" for t, _, window in rows]
    texts = set()
    for name in engine.present():
        forest = edgeforest.train(
            rows, labels, categorical=[2], n_trees=5, budget=100_000, seed=3, engine=name
        )
        texts.add(forest.to_json())
        right = sum(a == b for a, b in zip(forest.predict(rows), labels, strict=True))
        if right < 0.98 * len(rows):
            print(f"{name} predicts only {right} of {len(rows)} rows right", file=sys.stderr)
            return 1
    if len(texts) != 1:
        print(f"the forests of {', '.join(engine.present())} differ", file=sys.stderr)
        return 1
    print(f"{edgeforest.__file__}: {', '.join(engine.present())} grow the same forest")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
