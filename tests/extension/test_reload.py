"""reload= of load(): a changed module takes the place of the loaded one, and nothing else does."""

import support

CHANGE = """
def change(old, new):
    with open("fast.c") as file:
        text = file.read()
    assert old in text
    with open("fast.c", "w") as file:
        file.write(text.replace(old, new))
"""
# Fails after Python has entered the module in sys.modules.
EXEC = """
static int execute(PyObject *self)
{
    (void)self;
    PyErr_SetString(PyExc_ValueError, "no");
    return -1;
}
static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};
"""


class Reload(support.TestCase):
    def test_a_changed_module_takes_the_place_of_the_old_one(self):
        self.fine(
            CHANGE
            + """
first = load()
change("(VALUE)", "(VALUE + 40)")
refused("reload=True")
assert sys.modules["fast"] is first
second = load(reload=True)
assert second is not first and sys.modules["fast"] is second
assert (first.value(), second.value()) == (1, 41) and second.owned()
change("(VALUE + 40)", "(VALUE)")
assert load(reload=True).value() == 1 and second.value() == 41
"""
        )
        self.assertEqual(self.compiled(), 2)

    def test_an_unchanged_module_stays(self):
        self.fine("first = load(reload=True); assert load(reload=True) is first is load()")
        self.assertEqual(self.compiled(), 1)

    def test_the_package_has_the_new_one(self):
        self.write("package/__init__.py", "")
        self.fine(
            CHANGE
            + """
import package
load("package.fast")
change("(VALUE)", "(VALUE + 40)")
load("package.fast", reload=True)
assert package.fast.value() == 41
"""
        )

    def test_a_module_that_cannot_be_built_or_imported_changes_nothing(self):
        self.fine(
            CHANGE
            + f"EXEC = {EXEC!r}"
            + """
first = load()
change("PyLong_FromLong(VALUE)", "nonsense")
refused("nonsense", kind=extension.BuildError, reload=True)
assert sys.modules["fast"] is first
change("nonsense", "PyLong_FromLong(VALUE)")
change("static struct PyModuleDef", EXEC + "static struct PyModuleDef")
change(".m_methods = methods}", ".m_methods = methods, .m_slots = slots}")
refused("no", kind=ValueError, reload=True)
assert sys.modules["fast"] is first and first.value() == 1
"""
        )


if __name__ == "__main__":
    support.main()
