"""Binary formats and `pack`, by older names: `edgeforest.sources` has all of them."""

from edgeforest.sources.joined import Joined
from edgeforest.sources.npy import NpyFile as Npy
from edgeforest.sources.packing import Packed, pack
from edgeforest.sources.parquet import Parquet
from edgeforest.sources.sqlite import SQLite
from edgeforest.sources.stream import Stream

__all__ = ["Joined", "Npy", "Packed", "Parquet", "SQLite", "Stream", "pack"]
