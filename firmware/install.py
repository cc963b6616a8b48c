"""Install EdgeForest on the board that runs this: the files and the kernel for its processor.

    import mip
    mip.install("http://.../install.py")  # from where you host dist/firmware
    from install import install
    install("http://.../")                # or install("http://.../", "predict")

The board needs a network. Without one, run `mpremote mip install` with the right package.json.
"""

import sys

import mip
import requests

# By the number of a native architecture in sys.implementation._mpy, where `firmware/build.py` has it.
ARCHITECTURES = {
    1: "x86",
    2: "x64",
    4: "armv6m",
    5: "armv7m",
    7: "armv7emsp",
    10: "xtensawin",
    11: "rv32imc",
}


def folder():
    """The folder for this board, such as 6.3/armv6m; without native modules, of bytecode."""
    mpy = sys.implementation._mpy
    arch = ARCHITECTURES.get(mpy >> 10 & 15, "bytecode")
    return "{}.{}/{}".format(mpy & 255, mpy >> 8 & 3, arch)


def install(address, part="", target="/lib"):
    """Install what lies at this address for this board; `part` is "" or "predict".

    File by file: mip before its version 0.4 finds none that package.json names relative to itself.
    """
    address = "/".join([address.rstrip("/"), folder()] + ([part] if part else []))
    for name, source in requests.get(address + "/package.json").json()["urls"]:
        place = "/".join([target] + name.split("/")[:-1])
        mip.install(address + "/" + source, target=place)
