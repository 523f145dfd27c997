"""State rows: sealed and checked, and refused after any change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plangym_ext.states.envelope as envelope_module
from plangym_ext.errors import DamagedState, ForeignState, StateError
from plangym_ext.states.envelope import (
    HEADER,
    VERSION,
    Envelope,
    difference,
    fingerprint,
    payload,
)

IDENTITY = {"id": "Some-v0", "arguments": {"a": 1}}
WIDTH = 37  # not a multiple of a word: the row has padding


def sealed(content: bytes, identity=IDENTITY):
    """Envelope and one row that holds `content`."""
    envelope = Envelope(identity, WIDTH)
    rows = np.zeros((1, envelope.width), np.uint8)
    rows[0, HEADER : HEADER + len(content)] = np.frombuffer(content, np.uint8)
    envelope.seal(rows, len(content))
    return envelope, rows


def test_width_is_header_and_payload_in_whole_words():
    # 48 bytes of header, and 37 bytes of payload in five words of 8.
    assert Envelope(IDENTITY, WIDTH).width == 48 + 40


@given(st.binary(max_size=WIDTH))
@settings(max_examples=50, deadline=None)
def test_sealed_row_passes_and_keeps_its_payload(content):
    envelope, rows = sealed(content)
    checked = envelope.check(rows, "test")
    assert checked is rows
    assert bytes(payload(checked[0])[: len(content)]) == content
    assert int(rows[0, 8:12].view("<u4")[0]) == len(content)


@given(
    content=st.binary(max_size=WIDTH),
    changes=st.dictionaries(
        st.integers(0, HEADER + 39), st.integers(1, 255), min_size=1, max_size=6
    ),
)
@settings(max_examples=300, deadline=None)
@pytest.mark.slow
def test_any_changed_bytes_are_refused(content, changes):
    envelope, rows = sealed(content)
    for position, flips in changes.items():
        rows[0, position] ^= np.uint8(flips)
    with pytest.raises(StateError):
        envelope.check(rows, "test")


def test_every_pair_of_flipped_top_bits_is_refused():
    # Top bits are worth 2**63 each: times two odd weights they add up to 0 modulo
    # 2**64, so a plain weighted sum would not notice. Every pair of bits is tried.
    envelope, rows = sealed(b"payload")
    bits = [word * 64 + bit for word in range(rows.shape[1] // 8) for bit in (31, 62, 63)]
    pairs = [(a, b) for k, a in enumerate(bits) for b in bits[:k]]
    for pair in pairs:
        damaged = rows.copy()
        for bit in pair:
            damaged[0, bit // 8] ^= np.uint8(1 << bit % 8)
        with pytest.raises(StateError):
            envelope.check(damaged, "test")


def test_swapped_words_are_refused():
    envelope, rows = sealed(b"one word" + b"another!")
    rows[0, HEADER : HEADER + 16] = np.roll(rows[0, HEADER : HEADER + 16], 8)
    with pytest.raises(DamagedState, match=r"test: states\[0\] is damaged"):
        envelope.check(rows, "test")


@pytest.mark.parametrize("width", [0, 1, 8, HEADER - 8, HEADER, 80, 87, 89])
def test_other_widths_are_refused(width):
    envelope, rows = sealed(b"x" * WIDTH)
    cut = np.zeros((1, width), np.uint8)
    cut[0, : min(width, rows.shape[1])] = rows[0, :width]
    with pytest.raises(DamagedState, match=str(width)):
        envelope.check(cut, "test")


def test_truncated_row_is_refused_even_if_only_zeros_are_cut_off():
    envelope, rows = sealed(b"short")  # the last words are zero
    with pytest.raises(DamagedState):
        envelope.check(rows[:, :-8], "test")


@pytest.mark.parametrize(
    "identity",
    [
        {"id": "Other-v0", "arguments": {"a": 1}},
        {"id": "Some-v0", "arguments": {"a": 2}},
        {"id": "Some-v0", "arguments": {"a": 1}, "gymnasium": "1.2.2"},
        {},
    ],
)
def test_row_of_another_identity_is_foreign(identity):
    envelope, _ = sealed(b"")
    _, foreign = sealed(b"", identity)
    with pytest.raises(ForeignState, match=r"states\[0\] belongs to another env.*Some-v0"):
        envelope.check(foreign, "test")


@pytest.mark.parametrize(
    ("there", "found"),
    [
        ({"id": "a", "parts": {"Limit": {"steps": 7}}}, ("parts > Limit > steps", 7, 500)),
        ({"id": "b", "parts": {"Limit": {"steps": 7}}}, ("id", "b", "a")),
        ({"id": "a", "parts": {"Other": 1}}, ("parts", {"Other": 1}, {"Limit": {"steps": 500}})),
        ({"id": "a"}, ("parts", None, {"Limit": {"steps": 500}})),
        ({"id": "a", "parts": {"Limit": {"steps": 500}}}, ("", None, None)),
    ],
)
def test_of_two_identities_only_what_differs_is_told(there, found):
    where, theirs, ours = difference(there, {"id": "a", "parts": {"Limit": {"steps": 500}}})
    assert where == found[0]
    assert not where or (theirs, ours) == found[1:]


@pytest.mark.parametrize("made_here", [True, False])
def test_row_captured_in_another_way_names_both(made_here, monkeypatch):
    monkeypatch.setattr(envelope_module, "_identities", {})
    other = Envelope({**IDENTITY, "layers": ["Recorder"]}, WIDTH, "replay")
    rows = np.zeros((1, other.width), np.uint8)
    other.seal(rows, WIDTH)
    if not made_here:
        envelope_module._identities.clear()
    own = Envelope({**IDENTITY, "layers": []}, WIDTH, "snapshot")
    told = r"by 'replay', and this env captures by 'snapshot' \(made with capture='replay'"
    with pytest.raises(ForeignState, match=told):
        own.check(rows, "test")
    # Widened, it is of the same way still.
    assert own.widened(99).way == "snapshot"


def test_order_of_keys_is_no_difference():
    assert fingerprint({"a": 1, "b": {"c": 2, "d": 3}}) == fingerprint(
        {"b": {"d": 3, "c": 2}, "a": 1}
    )


def test_large_arrays_that_differ_in_the_middle_have_different_fingerprints():
    # Their text is abbreviated to the first and last three numbers.
    first, second = np.zeros(5000), np.zeros(5000)
    second[2500] = 1.0
    assert fingerprint({"map": first}) != fingerprint({"map": second})
    assert fingerprint({"map": first}) == fingerprint({"map": first.copy()})


def test_fingerprint_of_an_object_is_the_same_in_every_process():
    # The text of a plain object holds its address.
    class Thing:
        pass

    assert fingerprint({"thing": Thing()}) == fingerprint({"thing": Thing()})


def test_row_of_another_format_version_is_named(monkeypatch):
    _, rows = sealed(b"old")
    monkeypatch.setattr("plangym_ext.states.envelope.VERSION", VERSION + 1)
    with pytest.raises(ForeignState, match=f"format version {VERSION}; expected {VERSION + 1}"):
        sealed(b"new")[0].check(rows, "test")


@pytest.mark.parametrize(
    "states", [None, 1, "text", [[1, 2]], np.zeros(88, np.uint8), np.zeros((1, 88))], ids=repr
)
def test_anything_but_a_batch_of_bytes_is_refused(states):
    with pytest.raises(ValueError, match=r"states must be \(B, 88\) uint8.*got"):
        sealed(b"")[0].check(states, "test")


def test_first_bad_row_of_many_is_named():
    envelope, row = sealed(b"fine")
    rows = np.repeat(row, 5, axis=0)
    rows[3, 50] ^= 1
    with pytest.raises(DamagedState, match=r"states\[3\]"):
        envelope.check(rows, "test")


def test_rows_of_any_memory_order_are_checked_alike():
    envelope, row = sealed(b"fine")
    rows = np.repeat(row, 4, axis=0)
    for view in (np.asfortranarray(rows), rows[::2], rows[::-1], np.broadcast_to(row, (4, 88))):
        assert envelope.check(view, "test").tobytes() == view.tobytes()
    unaligned = np.zeros(4 * 88 + 1, np.uint8)[1:].reshape(4, 88)
    unaligned[...] = rows
    envelope.check(unaligned, "test")
    assert envelope.check(rows[:0], "test").shape == (0, 88)
