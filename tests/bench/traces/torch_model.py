#!/usr/bin/env python3
"""A model of torch's two caching allocators: what they would reserve for a trace.

    torch_model.py TRACE [--policy device|pinned]

This is not torch. It computes the rules that torch's documentation ("CUDA semantics", memory
management) and the constants of its public sources describe, without a device, so that reserved
bytes can be compared where there is none. Where torch can be measured, tests/gpu/run measures it.

device  Sizes are multiples of 512 bytes. Requests of up to 1 MiB come from segments of 2 MiB,
        others of less than 10 MiB from segments of 20 MiB, and larger ones from a segment of their
        own size, a multiple of 2 MiB. The smallest free block that is large enough is taken, of the
        same stream and kind of segment. It is split if at least 512 bytes are left over (small), or
        more than 1 MiB (large). Free neighbours of a segment are joined. Segments stay.
pinned  Sizes are powers of two. A free block serves only its own size, whatever the stream. Blocks
        stay.

Left out: options (expandable segments, rounding, the limit for splits), garbage collection, retries
after the device is full, events of other streams. Nothing is pending: a freed block can be used at
once.
"""

import argparse
import bisect
import sys

MIB = 1 << 20
SMALLEST = 512
SMALL_REQUEST, SMALL_SEGMENT = 1 * MIB, 2 * MIB
LARGE_REQUEST, LARGE_SEGMENT, LARGE_ROUND = 10 * MIB, 20 * MIB, 2 * MIB


def up(size, step):
    return -(-size // step) * step


class Block:
    """A part of a segment; `before` and `after` are its neighbours there."""

    __slots__ = ("address", "after", "before", "free", "key", "size")

    def __init__(self, address, size, key):
        self.address, self.size, self.key = address, size, key
        self.before = self.after = None
        self.free = False


class Device:
    def __init__(self):
        self.pools = {}  # (stream, whether small) -> sorted [(size, address)]
        self.at = {}  # address of a free block -> block
        self.live = {}
        self.next = 0
        self.reserved = 0

    def hold(self, block):
        block.free = True
        self.at[block.address] = block
        bisect.insort(self.pools.setdefault(block.key, []), (block.size, block.address))

    def drop(self, block):
        pool = self.pools[block.key]
        del pool[bisect.bisect_left(pool, (block.size, block.address))]
        del self.at[block.address]
        block.free = False

    def take(self, name, size, stream):
        size = max(SMALLEST, up(size, SMALLEST))
        small = size <= SMALL_REQUEST
        key = (stream, small)
        pool = self.pools.get(key, [])
        place = bisect.bisect_left(pool, (size, -1))
        if place < len(pool):
            block = self.at[pool[place][1]]
            self.drop(block)
        else:
            if small:
                whole = SMALL_SEGMENT
            elif size < LARGE_REQUEST:
                whole = LARGE_SEGMENT
            else:
                whole = up(size, LARGE_ROUND)
            block = Block(self.next, whole, key)
            self.next += whole
            self.reserved += whole
        left = block.size - size
        if left >= SMALLEST if small else left > SMALL_REQUEST:
            rest = Block(block.address + size, left, key)
            rest.before, rest.after = block, block.after
            if block.after is not None:
                block.after.before = rest
            block.after = rest
            block.size = size
            self.hold(rest)
        self.live[name] = block

    def give(self, name):
        block = self.live.pop(name)
        for other in (block.before, block.after):
            if other is None or not other.free:
                continue
            self.drop(other)
            first, second = (other, block) if other is block.before else (block, other)
            first.size += second.size
            first.after = second.after
            if second.after is not None:
                second.after.before = first
            block = first
        self.hold(block)


class Pinned:
    def __init__(self):
        self.free = {}  # size -> blocks
        self.live = {}
        self.reserved = 0

    def take(self, name, size, stream):
        size = 1 << max(0, size - 1).bit_length()
        if self.free.get(size):
            self.free[size] -= 1
        else:
            self.reserved += size
        self.live[name] = size

    def give(self, name):
        size = self.live.pop(name)
        self.free[size] = self.free.get(size, 0) + 1


POLICIES = {"device": Device, "pinned": Pinned}


def reserved(operations, policy):
    """(most bytes requested at a time, bytes reserved) after the operations of traces.make()."""
    model = POLICIES[policy]()
    sizes, now, peak = {}, 0, 0
    for kind, name, *rest in operations:
        if kind == "a":
            sizes[name] = rest[0]
            now += rest[0]
            peak = max(peak, now)
            model.take(name, *rest)
        else:
            now -= sizes.pop(name)
            model.give(name)
    return peak, model.reserved


def read(lines):
    for line in lines:
        words = line.split("#")[0].split()
        if words:
            yield (words[0], *map(int, words[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("trace", type=argparse.FileType())
    parser.add_argument("--policy", choices=POLICIES, default="device")
    options = parser.parse_args()
    peak, held = reserved(read(options.trace), options.policy)
    print(f"requested {peak} reserved {held} ratio {held / peak:.4f}")


if __name__ == "__main__":
    sys.exit(main())
