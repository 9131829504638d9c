"""Libraries that predictions.py tries beside those of tests/long/interpreter_modules/libraries.py:
large ones, which bring allocators, OpenMP, BLAS, OpenSSL or the CUDA runtime along.

Without daft: its threads drop Python objects while the interpreter ends, and 8 of 80 processes died
of it that had done this work twice, all without homefree (0.7.26)."""

NEEDED = ("geoarrow-pyarrow",)  # by sedonadb, which does not say so
LIBRARIES = {
    "torch": """
import torch
assert (torch.ones(300, 300) @ torch.ones(300, 300))[0, 0] == 300
assert torch.nn.Linear(3, 2)(torch.zeros(1, 3)).shape == (1, 2)
""",
    "tensorflow": """
import tensorflow as tf
assert float(tf.reduce_sum(tf.ones((300, 300)) @ tf.ones((300, 300)))) == 300 ** 3
""",
    "jaxlib": """
import jaxlib, jaxlib.mlir.ir as ir
with ir.Context():
    assert str(ir.Type.parse("tensor<2xf32>")) == "tensor<2xf32>"
""",
    "paddlepaddle": """
import paddle
assert float((paddle.ones([300, 300]) @ paddle.ones([300, 300]))[0, 0]) == 300
""",
    "mkl-service": """
import mkl
mkl.set_num_threads(2)
assert mkl.get_max_threads() >= 1
""",
    "datafusion": """
import datafusion
context = datafusion.SessionContext()
assert context.sql("select 1 + 2 as a").to_pydict() == {"a": [3]}
""",
    "xgboost": """
import numpy as np, xgboost
x = np.arange(40.0).reshape(-1, 1)
model = xgboost.XGBClassifier(n_estimators=3, n_jobs=2).fit(x, x[:, 0] > 19)
assert model.predict(x).sum() > 10
""",
    "lightgbm": """
import numpy as np, lightgbm
x = np.arange(400.0).reshape(-1, 1)
model = lightgbm.LGBMClassifier(n_estimators=3, n_jobs=2, verbose=-1).fit(x, x[:, 0] > 199)
assert model.predict(x).sum() > 10
""",
    "catboost": """
import numpy as np, catboost
x = np.arange(40.0).reshape(-1, 1)
model = catboost.CatBoostClassifier(3, thread_count=2, verbose=0, allow_writing_files=False)
assert model.fit(x, x[:, 0] > 19).predict(x).shape == (40,)
""",
    "onnxruntime": """
import onnxruntime
assert "CPUExecutionProvider" in onnxruntime.get_available_providers()
try:
    onnxruntime.InferenceSession(b"no model")
except Exception as error:
    assert "protobuf" in str(error).lower() or "INVALID" in str(error), error
""",
    "faiss-cpu": """
import faiss, numpy as np
index = faiss.IndexFlatL2(8)
index.add(np.eye(8, dtype="f4"))
assert index.search(np.eye(8, dtype="f4"), 1)[1][3, 0] == 3
""",
    "h5py": """
import io, h5py, numpy as np
with h5py.File(io.BytesIO(), "w") as file:
    file["a"] = np.arange(100)
    assert file["a"][5:7].tolist() == [5, 6]
""",
    "netCDF4": """
import netCDF4
with netCDF4.Dataset("x.nc", "w", diskless=True) as data:
    data.createDimension("n", 3)
    data.createVariable("v", "f8", ("n",))[:] = 1
    assert data["v"][:].sum() == 3
""",
    "tables": """
import tables
with tables.open_file("x.h5", "w", driver="H5FD_CORE", driver_core_backing_store=0) as file:
    file.create_carray("/", "a", obj=[1, 2, 3], filters=tables.Filters(5, "blosc"))
    assert file.root.a[:].sum() == 6
""",
    "rdkit": """
from rdkit import Chem
from rdkit.Chem import AllChem, Draw
molecule = Chem.AddHs(Chem.MolFromSmiles("CCO"))
assert AllChem.EmbedMolecule(molecule, randomSeed=1) == 0 and molecule.GetNumAtoms() == 9
""",
    "sentencepiece": """
import io, sentencepiece
model = io.BytesIO()
text = ["a text that repeats itself and a text that does not"] * 50
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(text), model_writer=model, vocab_size=20, minloglevel=9)
assert sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).encode("a text")
""",
    "av": """
import av, io, numpy as np
file = io.BytesIO()
with av.open(file, "w", "matroska") as container:
    stream = container.add_stream("mpeg4", rate=5)
    stream.width = stream.height = 64
    for _ in range(5):
        frame = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), "u1"), format="rgb24")
        container.mux(stream.encode(frame))
    container.mux(stream.encode())
assert len(file.getvalue()) > 500
""",
    "rasterio": """
import numpy as np, rasterio
from rasterio.io import MemoryFile
with MemoryFile() as file:
    with file.open(driver="GTiff", width=4, height=4, count=1, dtype="u1") as data:
        data.write(np.ones((1, 4, 4), "u1"))
    with file.open() as data:
        assert data.read().sum() == 16
""",
    "pyproj": """
import pyproj
change = pyproj.Transformer.from_crs(4326, 3857)
assert abs(change.transform(0, 10)[0] - 1113194.9) < 1
""",
    "fiona": """
import fiona
with fiona.MemoryFile() as file:
    schema = {"geometry": "Point", "properties": {"a": "int"}}
    with file.open(driver="GeoJSON", schema=schema) as layer:
        point = {"type": "Point", "coordinates": (0, 0)}
        layer.write({"type": "Feature", "geometry": point, "properties": {"a": 1}})
    with file.open() as layer:
        assert len(layer) == 1
""",
    "pymongo": """
import bson
from bson import _cbson
assert bson.decode(bson.encode({"a": [1, "x"]})) == {"a": [1, "x"]}
""",
    "confluent-kafka": """
import confluent_kafka
producer = confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
producer.produce("topic", b"text")
assert producer.flush(0.01) == 1
producer.purge()
""",
    "statsmodels": """
import numpy as np, statsmodels.api as sm
x = sm.add_constant(np.arange(30.0))
assert abs(sm.OLS(x[:, 1] * 2, x).fit().params[1] - 2) < 1e-9
assert sm.tsa.ARIMA(np.sin(np.arange(50.0)), order=(1, 0, 0)).fit().nobs == 50
""",
    "scikit-image": """
import numpy as np
from skimage import filters, measure, transform
image = np.zeros((40, 40))
image[10:20, 10:20] = 1
assert measure.label(transform.resize(filters.gaussian(image), (80, 80)) > 0.4).max() == 1
""",
    "cvxpy": """
import cvxpy
x = cvxpy.Variable(2)
assert abs(cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(x - 1))).solve()) < 1e-6
""",
    "highspy": """
import highspy
solver = highspy.Highs()
solver.silent()
x = solver.addVariable(lb=0, ub=4)
solver.maximize(x)
assert solver.val(x) == 4
""",
    "spacy": """
import spacy
assert [token.text for token in spacy.blank("en")("A text, and more")][2] == ","
""",
    "tiktoken": """
import tiktoken
encoding = tiktoken.Encoding("x", pat_str=r"\\w+|\\s+", special_tokens={},
    mergeable_ranks={bytes([byte]): byte for byte in range(256)})
assert encoding.encode("ab") == [97, 98]
""",
    "pybase64": """
import pybase64, pybase64._pybase64
assert pybase64.b64decode(pybase64.b64encode(b"text" * 99)) == b"text" * 99
""",
    "blosc2": """
import blosc2
assert blosc2.decompress2(blosc2.compress2(b"text" * 1000)) == b"text" * 1000
""",
    "rerun-sdk": """
import os, tempfile
import numpy, rerun
with tempfile.TemporaryDirectory() as directory:
    stream = rerun.RecordingStream("homefree")
    stream.save(directory + "/a.rrd")
    for i in range(50):
        stream.log("points", rerun.Points3D(numpy.full((100, 3), i)))
    stream.flush()
    stream.disconnect()
    assert os.path.getsize(directory + "/a.rrd") > 5000
""",
    "sedonadb": """
import sedonadb
query = (
    "select sum(ST_X(ST_Point(cast(value as double), 0.0))) a from generate_series(0, 999)"
)
assert sedonadb.connect().sql(query).to_pandas().a[0] == 499500
""",
}
