"""Runs ONNX files and compares their results with those that GT has computed.

usage: judge.py FOLDER

NAME.onnx is a case, and the initializers of NAME.values are its inputs and results. A file must
pass ONNX's checker, its operators must be defined for the dtypes that they get, and its results
must be GT's by ONNX's own evaluator. ONNX Runtime must agree where it has kernels for all of a
file; it decides alone where the evaluator fails. Integers must be equal, and floats within a few
units of the largest element. Results that ONNX leaves open are not compared: of NaN, infinities and
huge numbers, of casts to integers that do not hold the number, and of powers that overflow.
"""

import collections
import pathlib
import sys

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.reference
import onnx.shape_inference
import onnxruntime

# Operators that the evaluator or ONNX Runtime computes in float32 in part, whatever they get.
ROUNDED = {"Erf", "Gelu", "DFT"}
# Operators whose results have the roundings of a decomposition, and how many times as large.
DECOMPOSED = {"Det": 100}
# From here on functions overflow where others do not.
HUGE = 1e3
UNITS = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
# Messages of ONNX Runtime about what it does not compute.
MISSING = ("NOT_IMPLEMENTED", "No Op registered", "not a registered", "Could not find an implementation")


def difference(found, wanted, rounded, factor):
    """What differs, if something does."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype}{found.shape} for {wanted.dtype}{wanted.shape}"
    unit = UNITS.get("float32" if rounded and wanted.dtype == np.float64 else wanted.dtype.name)
    if unit is None:
        wrong = found != wanted
    else:
        found, wanted = found.astype(np.float64), wanted.astype(np.float64)
        finite = np.abs(wanted[np.isfinite(wanted)])
        largest = max(1.0, finite.max()) if finite.size else 1.0
        with np.errstate(invalid="ignore"):
            near = np.abs(found - wanted) <= unit * factor * largest
        wrong = ~(near | (found == wanted) | (np.isnan(found) & np.isnan(wanted)))
    if not np.any(wrong):
        return None
    return f"{np.count_nonzero(wrong)} elements, first {found[wrong][0]} for {wanted[wrong][0]}"


def types(model):
    """The dtype of every value, as schemas spell it."""
    graph = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True).graph
    known = {x.name: x.data_type for x in graph.initializer}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        known[value.name] = value.type.tensor_type.elem_type
    spelled = {1: "float", 2: "uint8", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "double",
               16: "bfloat16"}
    return {name: f"tensor({spelled[number]})" for name, number in known.items()}


def undefined(model):
    """An operator that gets a dtype for which it is not defined."""
    known = types(model)
    version = model.opset_import[0].version
    for node in model.graph.node:
        schema = onnx.defs.get_schema(node.op_type, version)
        for i, name in enumerate(node.input):
            allowed = schema.inputs[min(i, len(schema.inputs) - 1)].types
            if name and known[name] not in allowed:
                return f"{node.op_type} is not defined for {known[name]}"
    return None


def is_ordinary(x):
    """Whether ONNX says what comes of such numbers."""
    size = np.abs(x.astype(np.float64))
    return bool((size < (HUGE if x.dtype.kind in "fV" else 2**53)).all())


def is_open(model, values):
    """Whether ONNX leaves the results open."""
    ops = {node.op_type for node in model.graph.node}
    integers = [x for x in values if x.dtype.kind in "iu"]
    floats = [x.astype(np.float64) for x in values if x.dtype.kind in "fV"]
    outside = any(((x < 0) | (x > 127)).any() for x in floats)
    overflows = any(np.abs(x.astype(np.float64)).max(initial=0) > 5 for x in integers)
    return "Cast" in ops and integers and outside or "Pow" in ops and overflows


def is_misjudged(model):
    """Whether the evaluator is wrong: it mixes up the padding of the axes of a pool."""
    pools = [node for node in model.graph.node if node.op_type == "MaxPool"]
    pads = [x.ints for node in pools for x in node.attribute if x.name == "pads"]
    return any(len(set(x)) > 1 for x in pads)


def by_runtime(file, inputs):
    """The results of ONNX Runtime, or nothing where it has no kernel."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(file), options, ["CPUExecutionProvider"])
        return session.run(None, inputs)
    except Exception as error:
        if any(text in str(error) for text in MISSING):
            return None
        raise


def judged(file):
    """What is wrong with a case, and whether ONNX Runtime has run it."""
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    if why := undefined(model):
        return f"checker: {why}", False
    values = onnx.load(file.with_suffix(".values")).graph.initializer
    values = {x.name: onnx.numpy_helper.to_array(x).copy() for x in values}
    names = [x.name for x in model.graph.input]
    inputs = {name: values[f"input_{i}"] for i, name in enumerate(names)}
    wanted = [values[f"output_{i}"] for i in range(len(model.graph.output))]
    if not all(map(is_ordinary, values.values())) or is_open(model, values.values()):
        return None, False
    # NumPy has no bfloat16 to hand over, and some kernels refuse tensors without elements.
    unfit = any(x.dtype.name == "bfloat16" or x.size == 0 for x in values.values())
    run = None if unfit else by_runtime(file, inputs)
    if run is None and is_misjudged(model):
        return None, False
    try:
        with np.errstate(all="ignore"):
            found = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
    except Exception:
        if run is None and all(x.size for x in values.values()):
            raise
        found = None
    ops = [node.op_type for node in model.graph.node]
    if "LogSoftmax" in ops:
        # The evaluator's is infinite where the softmax is too small for its dtype.
        found = None
    rounded = any(op in ROUNDED for op in ops)
    factor = max((DECOMPOSED.get(op, 1) for op in ops), default=1)
    for by, results in [("evaluator", found), ("runtime", run)]:
        for i, (a, b) in enumerate(zip(results or [], wanted)):
            if why := difference(np.asarray(a), b, rounded, factor):
                return f"{by}: result {i}: {why}", False
    return None, run is not None


def main(folder):
    files = sorted(pathlib.Path(folder).glob("*.onnx"))
    counts, wrong = collections.Counter(), 0
    for file in files:
        try:
            why, has_run = judged(file)
        except Exception as error:
            why, has_run = f"{type(error).__name__}: {str(error).strip()[:300]}", False
        counts["runtime"] += has_run
        if why:
            wrong += 1
            print(f"{file.stem}: {why}")
    print(f"{len(files)} files, {counts['runtime']} of them also by ONNX Runtime: {wrong} differ")
    sys.exit(not files or wrong > 0)


main(sys.argv[1])
