#!/bin/sh
# The first process of the emulated machine, once its root is mounted: prepares what tests expect of
# a Linux system, runs the tests, and switches the machine off. The kernel's command line says
# where:
#
#   homefree.tree=DIRECTORY  where the second disk is mounted: the path that the tree has on the
#                            host, because the build directory names absolute paths
#   homefree.tests=FILE    the arguments of run_tests.py, one a line, on that disk
export PATH=/usr/local/bin:/usr/bin:/usr/sbin HOME=/root LANG=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs -o size=1500m tmpfs /tmp
ln -sf /proc/self/fd /dev/fd
ln -sf /proc/self/fd/0 /dev/stdin
ln -sf /proc/self/fd/1 /dev/stdout
ln -sf /proc/self/fd/2 /dev/stderr
hostname homefree
busybox ifconfig lo up
ldconfig

# word NAME: a word of the kernel's command line
word() {
    tr ' ' '\n' </proc/cmdline | sed -n "s/^homefree\.$1=//p"
}
tree=$(word tree)
mkdir -p "$tree"
if mount -t ext4 /dev/disk-tree "$tree" && cd "$tree"; then
    echo "Linux $(uname -r), pages of $(getconf PAGESIZE) bytes, $(nproc) processors"
    # shellcheck disable=SC2046 # a file of words
    setsid python3 tests/long/aarch64/run_tests.py $(cat "$(word tests)") </dev/null
    cd /
    umount "$tree"
fi
sync
busybox poweroff -f
