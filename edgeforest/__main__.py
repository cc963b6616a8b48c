"""Run the command line as `python -m edgeforest`."""

from edgeforest.cli import main

raise SystemExit(main())
