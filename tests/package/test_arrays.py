"""A model with NumPy's arrays: their memory lies beside the pickle, and is read or mapped there."""

import subprocess
import sys
import unittest.mock
import zipfile

import support
from homefree import package

try:
    import numpy
except ImportError:
    print("skipped: this Python has no NumPy", file=sys.stderr)
    sys.exit(5)  # as unittest does from 3.12 on if every test was skipped

REGRESSION = """
import numpy as np
from numpy.linalg import lstsq

class BaseEstimator:
    def get_params(self):
        return {name: getattr(self, name) for name in self._names}

class LinearRegression(BaseEstimator):
    _names = ["fit_intercept"]
    def __init__(self, fit_intercept=True):
        self.fit_intercept = fit_intercept
    def fit(self, X, y):
        X = np.column_stack([X, np.ones(len(X))]) if self.fit_intercept else X
        self.coef_ = lstsq(X, y, rcond=None)[0]
        self.dtype_ = X.dtype
        return self
    def predict(self, X):
        X = np.column_stack([X, np.ones(len(X))]) if self.fit_intercept else X
        return X @ self.coef_
"""


class Arrays(support.TestCase):
    def write(self, value, **options):
        with self.writer(**options) as writer:
            writer.extern("numpy.**")
            writer.intern("regression.**")
            writer.add_pickle("models", "model.pkl", value)
        return writer

    def test_an_estimator(self):
        self.source("regression/", "from .linear import LinearRegression\n")
        self.source("regression/linear", REGRESSION)
        import regression

        X = numpy.random.default_rng(0).normal(size=(1000, 5))
        model = regression.LinearRegression().fit(X, X @ [1, 2, 3, 4, 5] + 6)
        self.write(model)
        for mapped in (False, True):
            reader = self.reader(mapped=mapped)
            loaded = reader.load_pickle("models", "model.pkl")
            numpy.testing.assert_array_equal(loaded.predict(X), model.predict(X))
            self.assertEqual(loaded.get_params(), {"fit_intercept": True})
            self.assertEqual(loaded.dtype_, X.dtype)
            self.assertIsNot(type(loaded), type(model))
            self.assertIn("numpy.linalg", reader.extern_modules())
        with self.refused(package.PackageError, "numpy"):
            self.reader(extern=[])

    def test_every_kind_of_array(self):
        values = {
            "plain": numpy.arange(1000.0),
            "empty": numpy.zeros((0, 3)),
            "none": numpy.array(5),
            "fortran": numpy.asfortranarray(numpy.arange(12).reshape(3, 4)),
            "strided": numpy.arange(20)[::3],
            "objects": numpy.array([1, "a", None], dtype=object),
            "records": numpy.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
            "dates": numpy.array(["2020-01-01"], dtype="datetime64[D]"),
            "texts": numpy.array(["ä", "bb"]),
            "scalar": numpy.float32(1.5),
            "dtype": numpy.dtype(">i2"),
            "function": numpy.sum,
            "large": numpy.arange(100000, dtype="u1"),
        }
        values["again"] = values["plain"]
        values["plain"].flags.writeable = False
        for directory in (False, True):
            path = self.path = self.directory / f"{directory}.hfp"
            self.write(values, directory=directory)
            for mapped in (False, True):
                loaded = self.reader(mapped=mapped).load_pickle("models", "model.pkl")
                self.assertEqual(loaded.keys(), values.keys())
                for name, value in values.items():
                    numpy.testing.assert_array_equal(loaded[name], value, name)
                    if isinstance(value, numpy.ndarray):
                        self.assertEqual(loaded[name].dtype, value.dtype, name)
                        self.assertEqual(loaded[name].flags.writeable, value.flags.writeable, name)
                self.assertIs(loaded["again"], loaded["plain"])
                self.assertIs(loaded["function"], numpy.sum)
                # Aligned for any use: at least as the file is, if it is mapped or large.
                self.assertEqual(loaded["large"].ctypes.data % 64, 0)
                if mapped:
                    self.assertEqual(loaded["plain"].ctypes.data % 64, 0)
                loaded["large"][:] = 0
            again = package.Reader(path, verify=True).load_pickle("models", "model.pkl")
            numpy.testing.assert_array_equal(again["large"], values["large"])

    def test_buffers_are_aligned_in_the_file(self):
        for limit in (zipfile.ZIP64_LIMIT, 50):  # as if members from 50 bytes on needed 64 bits
            with unittest.mock.patch.object(zipfile, "ZIP64_LIMIT", limit):
                self.look_for_alignment()

    def look_for_alignment(self):
        with self.writer() as writer:
            writer.extern("numpy.**")
            for number in range(20):
                value = numpy.full(number * 7 + 1, number, dtype="u1")
                writer.add_pickle("x" * number, f"{number}.pkl", [value, value.copy()])
        with zipfile.ZipFile(self.path) as other:
            buffers = [one for one in other.infolist() if one.filename.endswith(".buffers")]
            self.assertEqual(len(buffers), 20)
            self.assertIsNone(other.testzip())
        data = self.path.read_bytes()
        reader = self.reader(mapped=True)
        for one in buffers:
            number = int(one.filename.rpartition("/")[2].partition(".")[0])
            name, extra = data[one.header_offset + 26], data[one.header_offset + 28 :][:2]
            start = one.header_offset + 30 + name + int.from_bytes(extra, "little")
            self.assertEqual(start % 64, 0)
            self.assertEqual(data[start], number)
            self.assertEqual(reader.load_pickle("x" * number, f"{number}.pkl")[1][-1], number)

    def test_mapped_memory_is_shared(self):
        """Two readers that map do not take the model's size twice, and one that reads takes it."""
        size = 64 << 20
        self.write(numpy.ones(size, dtype="u1"))
        code = f"""
from homefree import package
import numpy, re
def private():
    text = open("/proc/self/smaps_rollup").read()
    found = re.findall(r"(?:Private_Dirty|Anonymous): +(\\d+) kB", text)
    return max(map(int, found)) << 10
before, size = private(), {size}
kept = []
for mapped, most, least in ((True, size // 4, 0), (True, size // 4, 0), (False, 2 * size, size)):
    reader = package.Reader({str(self.path)!r}, mapped=mapped)
    kept.append(reader.load_pickle("models", "model.pkl"))
    assert kept[-1].sum() == size
    taken = private() - before
    assert least <= taken < most, (mapped, taken)
"""
        subprocess.run([sys.executable, "-s", "-c", code], check=True)

    def test_changed_buffers_are_noticed(self):
        self.write(numpy.arange(1000.0))
        data = bytearray(self.path.read_bytes())
        at = data.index(numpy.arange(1000.0).tobytes())
        data[at] ^= 1
        self.path.write_bytes(data)
        with self.refused(package.DamagedPackage, "models/model.pkl.buffers", "hash"):
            self.reader(verify=True)
        for mapped in (False, True):
            with self.refused(package.DamagedPackage, "models/model.pkl.buffers", "hash"):
                self.reader(mapped=mapped).load_pickle("models", "model.pkl")
        self.assertNotEqual(self.reader(verify=False).load_pickle("models", "model.pkl")[0], 0)


if __name__ == "__main__":
    support.main()
