#!/usr/bin/env python3
"""The tests of memory limits and pressure in cgroups of version 2, on a kernel that has them: a
virtual machine with Debian's kernel, whose root is this machine's, read only.

    tests/long/cgroup2.py --seconds 500 [--build DIRECTORY] [--cache DIRECTORY]

The machine that tests run on often has version 1, or no cgroup that may be changed. In the virtual
one, all controllers are those of version 2, and PSI is on. It is emulated (KVM hangs inside of some
virtual machines). Needs root, qemu-system-x86, busybox-static, kmod, apt; the kernel's package is
fetched once, and only unpacked. Exit status: 0, 1 if a test fails or is skipped there, 77 if the
machine cannot be made.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/long/aarch64"))
import machine  # noqa: E402

TESTS = ("cgroup limits", "memory limit", "package pressure")
ONE = {"HOMEFREE_TEST_PYTHONS": sys.executable}
NEEDS = ("qemu-system-x86_64", "busybox", "depmod", "apt-get", "dpkg-deb")
MODULES = ["virtio_pci", "9pnet_virtio", "9p"]
SHARED = "trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro"
INITIAL = f"""#!/bin/busybox sh
busybox mount -t devtmpfs dev /dev
for module in $(busybox cat /order); do busybox insmod /$module; done
busybox mount -t 9p -o {SHARED} root /root || busybox poweroff -f
busybox mount -o move /dev /root/dev
busybox mount -t tmpfs -o size=1g tmp /root/tmp
busybox cp /tests /root/tmp/tests
exec busybox switch_root /root /bin/sh /tmp/tests
"""
FIRST = """
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
export HOME=/tmp LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup /sys/fs/cgroup
mkdir -p /dev/shm && mount -t tmpfs shm /dev/shm
ln -s /proc/self/fd /dev/fd
echo "Linux $(uname -r), cgroup2 with: $(cat /sys/fs/cgroup/cgroup.controllers)"
"""


def fetch_kernel(cache):
    directory = cache / "kernel-x86"
    if (directory / "boot").exists():
        return directory
    cache.mkdir(parents=True, exist_ok=True)
    shown = machine.call(["apt-cache", "show", "--no-all-versions", "linux-image-amd64"])
    package = re.search(r"^Depends: (\S+)", shown, re.MULTILINE)[1]
    machine.call(["apt-get", "-o", "APT::Sandbox::User=root", "download", package], cwd=cache)
    (found,) = cache.glob(f"{package}_*.deb")
    machine.unpack(found, directory)
    found.unlink()
    return directory


def script(build):
    """What the first process runs: each test as Meson would."""
    shown = machine.call(["meson", "introspect", "--tests", build])
    known = {test["name"]: test for test in json.loads(shown[shown.index("[") :])}
    lines = [FIRST, f"cd {shlex.quote(str(build))}"]
    for name in TESTS:
        test = known[name]
        variables = [f"{key}={value}" for key, value in {**test["env"], **ONE}.items()]
        words = shlex.join(["env", *variables, *test["cmd"]])
        lines.append(f"{words} </dev/null >/tmp/log 2>&1; status=$?")
        lines.append("grep -i skip /tmp/log; [ $status = 0 ] || tail -40 /tmp/log")
        lines.append(f'echo "[{name}] status $status"')
    return "\n".join([*lines, "busybox poweroff -f", ""]).encode()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=500)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--cache", type=pathlib.Path)
    options = parser.parse_args()
    build = options.build.resolve()
    cache = options.cache or build / "long/cgroup2"
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [name for name in NEEDS if shutil.which(name) is None]
    if missing or os.geteuid() != 0 or os.uname().machine != "x86_64":
        print(f"this needs root on x86-64, and {', '.join(missing) or 'no more'}")
        return 77
    try:
        kernel = fetch_kernel(cache)
    except RuntimeError as error:
        print(error)
        return 77
    initial = cache / "initial"
    files = [("tests", 0o100644, script(build)), ("tmp", 0o040755, b"")]
    machine.make_initial(pathlib.Path("/"), kernel, initial, MODULES, INITIAL, files)
    command = [
        "qemu-system-x86_64",
        *["-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "3072"],
        *["-nographic", "-no-reboot", "-nic", "none"],
        *["-kernel", next(kernel.glob("boot/vmlinuz-*")), "-initrd", initial],
        *["-append", "console=ttyS0 quiet panic=-1 cgroup_no_v1=all psi=1 edd=off"],
        *["-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"],
        *["-device", "virtio-9p-pci,fsdev=root,mount_tag=root"],
    ]
    try:
        done = subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=options.seconds,
        )
        text = done.stdout + done.stderr
    except subprocess.TimeoutExpired as late:
        text = (late.stdout or b"").decode(errors="replace") + "\nout of time\n"
    print(text[text.find("Linux ") :])
    passed = [name for name in TESTS if f"[{name}] status 0" in text]
    skipped = re.search(r"skip(ped|ping)", text, re.IGNORECASE) is not None
    print(f"{len(passed)} of {len(TESTS)} tests passed" + (", some in part" if skipped else ""))
    return 0 if len(passed) == len(TESTS) and not skipped else 1


if __name__ == "__main__":
    sys.exit(main())
