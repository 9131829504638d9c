"""homefree's wheel, for the scripts of this directory: the one that tests/run builds."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[3]


def built_wheel():
    """The wheel in build/dist, or None after a line that says where it comes from."""
    wheels = list((ROOT / "build/dist").glob("homefree-*.whl"))
    if len(wheels) != 1:
        print("no wheel in build/dist; tests/run builds one there")
        return None
    return wheels[0]
