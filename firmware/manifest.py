# Freeze the core into a firmware of your own: it then runs from flash and leaves the heap to data.
# From your board's manifest: include("path/to/edgeforest/firmware/manifest.py")
metadata(version="0.1.0", description="Random forests that train on the device.")  # noqa: F821
package(  # noqa: F821
    "edgeforest",
    files=("core_pure.py", "buffers.py", "files.py", "reader.py", "storage.py", "online.py"),
    base_path="..",
    opt=3,
)
