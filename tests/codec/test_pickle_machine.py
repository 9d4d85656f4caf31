"""The machine that reads pickles: plain data as Python reads it, everything else an error."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qconfig.codec.pickle_machine import run
from qconfig.codec.pickle_tree import check_tree
from qconfig.errors import ContainerError
from qconfig.limits import Limits

LIMITS = Limits()
KEYS = st.none() | st.booleans() | st.integers(-(2**100), 2**100) | st.text()
VALUES = st.recursive(
    KEYS | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(KEYS | st.tuples(KEYS, KEYS), inner)
    ),
    max_leaves=20,
)


class Nothing:
    """Meanings for pickles that name nothing."""

    def name(self, path):
        raise ContainerError("named", found=path)

    call = new = set_state = refer = name


def value_of(data: bytes, limits: Limits = LIMITS):
    """Return what a pickle describes, checked."""
    value, instructions = run(data, Nothing(), limits)
    check_tree(value, instructions, limits)
    return value


def refusal(data: bytes, limits: Limits = LIMITS) -> str:
    """Return the text of the error that a pickle gives."""
    with pytest.raises(ContainerError) as caught:
        value_of(data, limits)
    return str(caught.value)


@settings(max_examples=300, deadline=None)
@given(VALUES, st.integers(0, 5))
def test_plain_data_is_as_python_reads_it(value, protocol):
    """Same values and same types of all the way down, under every protocol."""
    read = value_of(pickle.dumps(value, protocol))
    assert read == value
    assert repr(read) == repr(value)


def test_shared_values_are_shared():
    """What the pickle refers to twice is one object."""
    inner = [1]
    read = value_of(pickle.dumps([inner, inner], 2))
    assert read[0] is read[1]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is damaged after byte 0"),
        (b"N", "pickle exhausted before seeing STOP"),
        (b".", "leaves more or less than one value"),
        (b"NN.", "leaves more or less than one value"),
        (b"(N.", "leaves more or less than one value"),
        (b"N.N", "is followed by other bytes"),
        (b"\xff.", "opcode b'\\\\xff' unknown"),
        (b"\x80\x06N.", "unknown protocol"),
        (b"\x95" + b"\x0c" + bytes(7) + b"N.", "a frame longer than itself"),
        (b"t.", "is damaged at byte 0"),
        (b"N\x86.", "is damaged at byte 1"),
        (b"(NNu.", "is damaged at byte 3"),
        (b"}(Nu.", "is damaged at byte 3"),
        (b"h\x05.", "found: 'BINGET'"),
        (b"q\x00.", "found: 'BINPUT'"),
        (b"NNa.", "appends to what is no list"),
        (b")Na.", "appends to what is no list"),
        (b"]NNs.", "sets items of what is no dict"),
        (b"}K\x01NsK\x01Ns.", "two entries of one key"),
        (b"}(K\x01NI01\nNu.", "two entries of one key"),
        (b"}]Ns.", "a key that is no plain value"),
        (b"})\x85\x85Ns.", "a key that is no plain value"),
        (b"X\x03\x00\x00\x00\xed\xa0\x80.", "half of a surrogate pair"),
        (b"X\x02\x00\x00\x00\xff\xfe.", "found: 'UnicodeDecodeError'"),
        (b"\x8a\x11" + b"\x01" * 17 + b".", "too large an integer"),
        (b"\x8b\xff\xff\xff\x7f\x00.", "is damaged after byte 0"),
        (b"I" + b"9" * 5000 + b"\n.", "is damaged after byte 0"),
        (b"L" + b"9" * 60 + b"L\n.", "too large an integer"),
        (b"\x8e" + b"\xff" * 8 + b".", "is damaged after byte 0"),
        (b"\x8d\x00\x00\x00\x00\x01\x00\x00\x00.", "is damaged after byte 0"),
        (b"Nb.", "is damaged at byte 1"),
        (b"NNR.", "calls something with what is no tuple"),
        (b"N\x93.", "is damaged at byte 1"),
        (b"NN\x93.", "names a class by what is no text"),
    ],
)
def test_a_damaged_pickle_is_refused(data, words):
    """The error says what is wrong and where."""
    assert words in refusal(data)


@pytest.mark.parametrize(
    "data",
    [
        b"(i\nos\nsystem\n.",
        b"ios\nsystem\n.",
        b"(No.",
        b"\x82\x01.",
        b"\x83\x01\x00.",
        b"\x84\x01\x00\x00\x00.",
        b"Pid\n.",
        b"N)}\x92.",
        b"C\x01a.",
        b"B\x01\x00\x00\x00a.",
        b"\x96\x01\x00\x00\x00\x00\x00\x00\x00a.",
        b"\x97.",
        b"\x8f.",
        b"(\x91.",
        b"N0.",
        b"(1.",
        b"N2.",
        b"S'text'\n.",
        b"U\x01a.",
        b"T\x01\x00\x00\x00a.",
    ],
)
def test_an_instruction_that_torch_never_writes_is_refused(data):
    """Old classes, extension registries, sets, bytes, and juggling of the stack."""
    text = refusal(data)
    assert "uses an instruction that is not obeyed" in text or "is damaged after" in text


def test_a_value_that_contains_itself_is_refused():
    """In a list, in a dict, and through several."""
    one, two = [], {}
    one.append(one)
    two["x"] = [({"y": two},)]
    for value in (one, two):
        assert "contains itself" in refusal(pickle.dumps(value, 2))


def test_a_laugh_is_not_written_out():
    """Ten references to ten references, nine times over: 10^9 values in 300 bytes."""
    value = [1]
    for _ in range(9):
        value = [value] * 10
    assert "grows too large" in refusal(pickle.dumps(value, 2))
    value = (1,)
    for _ in range(40):
        value = (value, value)
    assert "grows too large" in refusal(pickle.dumps(value, 2))
    key = b"})q\x00" + b"h\x00\x86q\x00" * 60
    assert "no plain value" in refusal(key + b"Ns.")


@pytest.mark.parametrize("data", [b"]" * 200_000 + b"a" * 199_999, b"N" + b"\x85" * 200_000])
def test_deep_nesting_is_refused(data):
    """However it is built, without a stack overflow."""
    assert "nests values too deep" in refusal(data + b".")


def test_marks_may_be_many():
    """A pickle of marks alone is an error and no overflow."""
    assert "leaves more or less than one value" in refusal(b"(" * 200_000 + b"N.")


def test_a_memo_index_may_be_any_number():
    """The memo is no array: a huge index takes no memory."""
    assert value_of(b"Nr\xff\xff\xff\xffj\xff\xff\xff\xff\x86.") == (None, None)


def test_the_number_of_instructions_is_bounded():
    """Each costs time."""
    text = refusal(b"N" * 100 + b".", Limits(pickle_operations=50))
    assert "too many instructions" in text
    assert "Limits.pickle_operations" in text


def test_a_name_with_an_escape_is_refused_without_a_warning():
    """What the standard library warns of is an error of ours where warnings are errors."""
    with pytest.raises(ContainerError):
        run(b"c\\u\nx\n.", Nothing(), LIMITS)
