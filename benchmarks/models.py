"""ONNX models that the benchmarks run, as text."""

LOOP = """
<ir_version: 8, opset_import: ["" : 17]>
appends (int64 count, float[d] element) => (float[n] result) {
    start = SequenceEmpty <dtype = 1> ()
    condition = Constant <value = bool {1}> ()
    sequence = Loop (count, condition, start) <body = step
        (int64 i, bool go_on, seq(float[]) before) => (bool still, seq(float[]) after) {
            still = Identity (go_on)
            after = SequenceInsert (before, element)
        }>
    result = ConcatFromSequence <axis = 0> (sequence)
}"""

_GRAPH = """
<ir_version: 8, opset_import: ["" : 17]>
five_nodes ({inputs}) => (float[R, M] y) {{
    {nodes}
}}"""

#: Graphs of five sequence operators, by what they do.
GRAPHS = {
    "construct, insert, erase, insert, concat": _GRAPH.format(
        inputs="float[N, M] x, float[A, M] other, int64 last, int64 second",
        nodes="""s = SequenceConstruct (x, other)
    t = SequenceInsert (s, x)
    u = SequenceErase (t, last)
    v = SequenceInsert (u, other, second)
    y = ConcatFromSequence <axis = 0> (v)""",
    ),
    "split, at, insert, erase, concat": _GRAPH.format(
        inputs="float[N, M] x, int64 last",
        nodes="""s = SplitToSequence (x)
    e = SequenceAt (s, last)
    t = SequenceInsert (s, e)
    u = SequenceErase (t, last)
    y = ConcatFromSequence <axis = 0> (u)""",
    ),
    "split by sizes, at, insert, erase, concat": _GRAPH.format(
        inputs="float[N, M] x, int64[K] sizes, int64 last, int64 second",
        nodes="""s = SplitToSequence (x, sizes)
    e = SequenceAt (s, last)
    t = SequenceInsert (s, e, second)
    u = SequenceErase (t, second)
    y = ConcatFromSequence <axis = 0> (u)""",
    ),
}
