"""What calls were given, looked up as one text: the same codes as each text by itself, in the same
order."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.ingest.columns import StringCodes
from traceanalyzer.ingest.kineto import arguments
from traceanalyzer.ingest.kineto.arguments import COLUMNS, Operands
from traceanalyzer.ingest.kineto.events import Args

TEXTS = st.sampled_from([b"", b"[]", b"[[1]]", b'["a", ""]', b"[1, 2]", b'["\\u0000"]'])
CALLS = st.lists(st.tuples(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS), min_size=1, max_size=20)


def args_of(call: tuple[bytes, ...]) -> Args:
    shapes, old_shapes, *others = (msgspec.Raw(text) for text in call)
    dtypes, strides, concrete = others
    return Args(
        shapes=shapes, old_shapes=old_shapes, dtypes=dtypes, strides=strides, concrete=concrete
    )


@pytest.mark.parametrize("kept", [1, 1000])
@given(chunks=st.lists(CALLS, max_size=8))
def test_as_one_and_one_by_one(kept, chunks):
    texts = StringCodes()
    single = StringCodes()
    found = arguments.MOST_KINDS
    arguments.MOST_KINDS = kept
    try:
        together = Operands(texts)
        for calls in chunks:
            args = [args_of(call) for call in calls]
            codes = together.codes(args)
            expected = [
                single.raw_codes([a.shapes or a.old_shapes for a in args]),
                *(single.raw_codes([getattr(a, name) for a in args]) for name in COLUMNS[1:]),
            ]
            assert [list(codes[name]) for name in COLUMNS] == expected
    finally:
        arguments.MOST_KINDS = found
    assert texts.in_order() == single.in_order()


@pytest.mark.parametrize(
    "text",
    [
        b"[[1,2],[],[[3,4]]]",
        b"[ [1, 2],\n  [],\n  [\n    [3, 4]\n  ]\n]",
        b"[[1, 2],\r\n\t[], [[3 ,4]]]",
    ],
)
def test_the_layout_of_the_file_does_not_matter(text):
    texts = StringCodes()
    assert texts.raw_codes([msgspec.Raw(text), msgspec.Raw(b"[[1, 2], [], [[3, 4]]]")]) == [0, 0]
    assert texts.in_order() == ["[[1, 2], [], [[3, 4]]]"]


def test_texts_inside_stay_and_what_is_no_json_too():
    texts = StringCodes()
    assert texts.raw_codes([msgspec.Raw(b'["a,  b","c [1,2]"]'), msgspec.Raw(b"[1,")]) == [0, 1]
    assert texts.in_order() == ['["a,  b", "c [1,2]"]', "[1,"]
