"""Serves model.hfp over two interpreters, and compares each answer with the main interpreter's."""

import numpy
from homefree.interpreters import Executor
from homefree.package import Reader


def load(path):
    global model
    model = Reader(path, mapped=True).load_pickle("models", "mlp.pkl")


def predict(rows):
    return model.predict(rows)


if __name__ == "__main__":
    load("model.hfp")
    inputs = numpy.random.default_rng(2).random((1000, 8, 32), numpy.float32)
    with Executor(2, initializer=load, initargs=("model.hfp",)) as executor:
        answers = list(executor.map(predict, inputs))
    print(sum(numpy.allclose(a, predict(i)) for a, i in zip(answers, inputs, strict=True)), "equal")
