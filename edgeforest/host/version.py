"""The version of this release: that of pyproject.toml."""

__version__ = "0.1.0"
