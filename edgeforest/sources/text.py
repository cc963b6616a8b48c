"""Text formats, by older names: `edgeforest.sources` has all of them."""

from edgeforest.sources.delimited import CSV
from edgeforest.sources.json_lines import JSONLines
from edgeforest.sources.line_protocol import LineProtocol
from edgeforest.sources.lines import Lines

__all__ = ["CSV", "JSONLines", "LineProtocol", "Lines"]
