"""Several interpreters answer as the main one does, and a wrong answer is noticed."""

import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent

# A model that answers in the main interpreter as it does nowhere else.
STRANGE = """
import threading
import numpy

class Model:
    def __init__(self, layers, seed):
        pass
    def predict(self, rows):
        main = threading.current_thread() is threading.main_thread()
        return numpy.full((len(rows), 10), main, numpy.float32)
"""


def run(*command, directory=HERE, status=0):
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def test_one_two_and_four_interpreters_answer_as_the_main_one_does():
    *speeds, answers = run("build/serve", "model.hfp", "100").splitlines()
    assert [line.split(":")[0] for line in speeds] == [
        "1 interpreter",
        "2 interpreters",
        "4 interpreters",
    ]
    assert all(float(line.split()[2]) > 0 for line in speeds)
    assert answers == "492 answers, 0 wrong"


def test_a_wrong_answer_is_noticed(tmp_path):
    (tmp_path / "mlp.py").write_text(STRANGE)
    shutil.copy(HERE / "pack.py", tmp_path)
    run(sys.executable, "pack.py", directory=tmp_path)
    output = run(HERE / "build/serve", tmp_path / "model.hfp", "100", status=1)
    assert output.splitlines()[-1] == "492 answers, 492 wrong"


def test_an_executor_does_the_same():
    assert run(sys.executable, "serve.py") == "1000 equal\n"
