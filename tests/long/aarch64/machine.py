"""An emulated aarch64 machine: Debian's files in a directory, which is also what the cross compiler
takes headers and libraries from, and QEMU with one of Debian's kernels.

Nothing is installed or configured in the emulator: packages are only unpacked. Needs root, because
the files of a Debian system have owners.
"""

import gzip
import lzma
import pathlib
import re
import shutil
import subprocess
import threading

RELEASE = "bookworm"
PACKAGES = [
    "busybox-static",
    "check",
    "cmake",
    "g++",
    "gcc",
    "gdb",
    "libgoogle-perftools-dev",
    "libjemalloc-dev",
    "libjemalloc2",
    "libmimalloc-dev",
    "make",
    "meson",
    "ninja-build",
    "pkg-config",
    "procps",
    "pybind11-dev",
    "python3-dev",
    "python3-numpy",
    "python3-venv",
    "strace",
]
# Kernels by the size of their pages in KiB. Debian has none with 64.
KERNELS = {4: ("bookworm", "linux-image-arm64"), 16: ("trixie", "linux-image-arm64-16k")}
# What the kernel needs to reach its disks; some are part of some kernels.
MODULES = ["virtio_mmio", "virtio_blk", "ext4"]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# What the packages' own scripts would have linked.
LINKS = {"awk": "mawk", "cc": "gcc", "c++": "g++"}

INITIAL = """#!/bin/busybox sh
busybox mount -t devtmpfs dev /dev
for module in $(busybox cat /order); do busybox insmod /$module; done
busybox mount -t sysfs sys /sys
while [ ! -b /dev/vdb ]; do busybox usleep 100000; done
for disk in vda vdb; do
    busybox ln -s $disk /dev/disk-$(busybox cat /sys/block/$disk/serial)
done
busybox umount /sys
busybox mount -t ext4 /dev/disk-root /root
busybox mount -o move /dev /root/dev
exec busybox switch_root /root /sbin/guest_init
"""


def call(command, log=None, **options):
    """Runs a command; its output goes to the log, and is shown when it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        **options,
    )
    if log:
        log.write_text(done.stdout)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-3000:]}")
    return done.stdout


def mirror():
    """The archive of Debian's packages that the host uses."""
    text = call(
        ["apt-get", "indextargets", "--format", "$(RELEASE) $(SITE)", "Created-By: Packages"]
    )
    for line in text.splitlines():
        release, _, site = line.partition(" ")
        if "/debian" in site and not release.endswith("-security"):
            return site
    raise RuntimeError("apt has no archive of Debian's configured here")


def make_root(cache):
    """Unpacks Debian for aarch64 into CACHE/root, once."""
    root = cache / "root"
    ready = cache / "root.ready"
    wanted = "\n".join([RELEASE, *PACKAGES])
    if ready.exists() and ready.read_text() == wanted:
        return root
    ready.unlink(missing_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    call(
        [
            "debootstrap",
            "--foreign",
            "--arch=arm64",
            "--variant=minbase",
            f"--keyring={KEYRING}",
            f"--include={','.join(PACKAGES)}",
            RELEASE,
            root,
            mirror(),
        ],
        cache / "debootstrap.log",
    )
    for package in sorted((root / "var/cache/apt/archives").glob("*.deb")):
        unpack(package, root)
        package.unlink()
    shutil.rmtree(root / "debootstrap")
    proc = root / "proc"
    if proc.is_symlink():  # debootstrap in a container
        proc.unlink()
    proc.mkdir(exist_ok=True)
    for name in ("passwd", "group"):
        shutil.copy(root / f"usr/share/base-passwd/{name}.master", root / "etc" / name)
    for name, target in LINKS.items():
        link = root / "usr/bin" / name
        if not link.is_symlink():
            link.symlink_to(target)
    ready.write_text(wanted)
    return root


def unpack(package, directory):
    """Unpacks a package's files where directories may be links (/lib is usr/lib)."""
    directory.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as files:
        done = subprocess.run(
            ["tar", "-C", directory, "-x", "--keep-directory-symlink", "--overwrite"],
            stdin=files.stdout,
            check=False,
        )
    if files.returncode or done.returncode:
        raise RuntimeError(f"{package} could not be unpacked")


def fetch_kernel(cache, pages):
    """Returns the directory with a kernel's files, which it fetches once."""
    directory = cache / f"kernel-{pages}k"
    if (directory / "boot").exists():
        return directory
    release, package = KERNELS[pages]
    apt = cache / f"apt-{release}"
    for name in ("state/lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    source = apt / "sources.list"
    source.write_text(f"deb [arch=arm64 signed-by={KEYRING}] {mirror()} {release} main\n")
    options = [
        "APT::Architecture=arm64",
        "APT::Architectures=arm64",
        "APT::Sandbox::User=root",
        f"Dir::State={apt}/state",
        f"Dir::State::status={apt}/status",
        f"Dir::Cache={apt}/cache",
        f"Dir::Etc::sourcelist={source}",
        "Dir::Etc::sourceparts=-",
    ]
    options = [word for option in options for word in ("-o", option)]
    call(["apt-get", *options, "update"])
    shown = call(["apt-cache", *options, "show", "--no-all-versions", package])
    depends = re.search(r"^Depends: (\S+)", shown, re.MULTILINE)
    call(["apt-get", *options, "download", depends.group(1)], cwd=apt)
    found = list(apt.glob("linux-image-*.deb"))
    unpack(found[0], directory)
    return directory


def archive_entry(name, mode, data, number):
    """An entry of a cpio archive, as the kernel reads it."""
    fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
    entry = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
    entry += b"\0" * (-len(entry) % 4)
    return entry + data + b"\0" * (-len(data) % 4)


def make_initial(root, kernel, path, modules=MODULES, init=INITIAL, more=()):
    """Writes the archive with which the kernel begins: busybox, and the modules for its disks."""
    directory = next(kernel.glob("**/lib/modules/*"))
    base = directory.parents[2]
    call(["depmod", "-b", base, directory.name])
    entries = list(more)
    order = []
    for name in modules:
        shown = call(["modprobe", "-d", base, "-S", directory.name, "--show-depends", name])
        for line in shown.splitlines():
            words = line.split()
            if words[0] == "insmod":
                module = pathlib.Path(words[1])
                stem = module.name.partition(".")[0] + ".ko"
                if stem not in order:
                    order.append(stem)
                    data = module.read_bytes()
                    data = lzma.decompress(data) if module.suffix == ".xz" else data
                    entries.append((stem, 0o100644, data))
    for name in ("bin", "dev", "root", "sys"):
        entries.append((name, 0o040755, b""))
    entries.append(("bin/busybox", 0o100755, (root / "bin/busybox").read_bytes()))
    entries.append(("order", 0o100644, "\n".join(order).encode()))
    entries.append(("init", 0o100755, init.encode()))
    entries.append(("FOOTER!!!", 0, b""))
    archive = b"".join(archive_entry(*entry, i) for i, entry in enumerate(entries, 1))
    path.write_bytes(gzip.compress(archive, 1))


def make_disk(directory, path, megabytes):
    """Writes a disk with an ext4 file system that has a directory's files."""
    path.unlink(missing_ok=True)
    call(
        [
            "mke2fs",
            "-q",
            "-t",
            "ext4",
            "-E",
            "root_owner=0:0",
            "-d",
            directory,
            path,
            f"{megabytes}M",
        ]
    )


def read_disk(path, directory, target):
    """Copies a directory of a disk that no machine uses any more. Returns whether it was there."""
    # A machine that was ended in between has left its last changes in the journal.
    subprocess.run(
        ["e2fsck", "-fy", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    call(["debugfs", "-R", f"rdump {directory} {target}", path])
    return (target / pathlib.Path(directory).name).exists()


def boot(kernel, initial, disks, words, seconds, log):
    """Runs a machine until it switches itself off, and returns True, or the seconds are over. Its
    console goes to the log, and the lines in brackets, one a test, to standard output.

    A fixed time passes for each instruction. So what a test can see of time depends neither on the
    host nor on what else that does. It needs a machine with one processor; with two, an emulator is
    hardly faster.
    """
    command = [
        "qemu-system-aarch64",
        *["-machine", "virt", "-cpu", "max,pauth-impdef=on", "-accel", "tcg"],
        *["-icount", "shift=0"],
        *["-smp", "1", "-m", "4096", "-nographic", "-no-reboot", "-nic", "none"],
        *["-kernel", next(kernel.glob("boot/vmlinuz-*")), "-initrd", initial],
        *["-append", " ".join(["console=ttyAMA0", "quiet", "panic=-1", *words])],
    ]
    # Changes of the first disk are dropped.
    for name, disk, snapshot in (("root", disks[0], "on"), ("tree", disks[1], "off")):
        command += ["-drive", f"file={disk},format=raw,if=none,id={name},snapshot={snapshot}"]
        command += ["-device", f"virtio-blk-device,drive={name},serial={name}"]
    with (
        open(log, "w") as console,
        subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as machine,
    ):
        watchdog = threading.Timer(seconds, machine.kill)
        watchdog.start()
        try:
            for line in machine.stdout:
                console.write(line)
                console.flush()
                if line.startswith(("[", "Linux ")) and not re.match(r"\[ +\d+\.\d+\]", line):
                    print(line.rstrip(), flush=True)
            return machine.wait() == 0
        finally:
            watchdog.cancel()
            machine.kill()
