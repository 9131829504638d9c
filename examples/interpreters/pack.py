"""Writes model.hfp: the model, and the code that it needs. NumPy comes from where it is loaded."""

from homefree.package import Writer
from mlp import Model

with Writer("model.hfp") as writer:
    writer.extern("numpy.**")
    writer.intern("mlp")
    writer.add_pickle("models", "mlp.pkl", Model(layers=16, seed=1))
