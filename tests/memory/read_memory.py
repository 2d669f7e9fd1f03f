"""Reads a memory with numpy alone and prints what it is: read_memory.py FILE"""
import json
import sys

import numpy as np

with open(sys.argv[1], "rb") as file:
    length = int.from_bytes(file.read(8), "little")
    header = json.loads(file.read(length))
    data = file.read()


def array(name):
    entry = header[name]
    begin, end = entry["data_offsets"]
    dtype = {"F32": "<f4", "I32": "<i4", "U8": "u1"}[entry["dtype"]]
    return np.frombuffer(data[begin:end], dtype).reshape(entry["shape"])


text = header["__metadata__"]
tasks = json.loads(text["tasks"])
vectors, origin = array("vectors"), array("origin")
assert vectors.ndim == 2 and len(vectors) <= int(text["capacity"])
assert np.isfinite(vectors).all()
assert origin.shape == (len(vectors),) and ((0 <= origin) & (origin < len(tasks))).all()
assert (array("radius") >= 0).all() and (array("slack") >= 0).all()
print(json.dumps({"size": vectors.shape[0], "dimension": vectors.shape[1], "tasks": tasks}))
