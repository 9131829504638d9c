"""Uses matrix.c: its memory in NumPy and torch, freed once, when the last view goes."""

import matrix

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch.utils.dlpack
except ImportError:
    torch = None


def main():
    if numpy:
        table = matrix.array(9, 9)
        corner = table[-1, -1:]
        assert matrix.owned(table.ctypes.data) and not table.flags.owndata
        del table
        assert corner.tolist() == [81.0] and matrix.live() == 1
        del corner
        assert matrix.live() == 0
        print("NumPy: no copy, freed with the last view")
    if torch:
        table = torch.utils.dlpack.from_dlpack(matrix.dlpack(9, 9))
        row = table[8]
        assert matrix.owned(table.data_ptr())
        del table
        assert row.sum().item() == 9 * 45 and matrix.live() == 1
        del row
        assert matrix.live() == 0
        print("torch: no copy, freed with the last view")
    unused = matrix.dlpack(9, 9)
    assert matrix.live() == 1
    del unused
    assert matrix.live() == 0
    print("a capsule that nobody took: freed")


if __name__ == "__main__":
    main()
