"""The engines that tests compare, and the one that the others must agree with.

All that are present, pure last: it is the specification. A run that looks for something else than
agreement (the sanitizers of gcc, see test_kernel_c.py) names one engine in EDGEFOREST_COMPARED.
"""

import os

from edgeforest.engines import present

ENGINES = os.environ.get("EDGEFOREST_COMPARED", "").split() or present()
REFERENCE = ENGINES[-1]
