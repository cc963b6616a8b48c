# Freezes the part of the kernel that is in Python, for a firmware with the user C module beside it.
# From your board's manifest: include("path/to/edgeforest/firmware/natmod/manifest.py")
module("edgeforest_kernel.py", base_path=".", opt=3)  # noqa: F821
