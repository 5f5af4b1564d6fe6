# SPDX-License-Identifier: Apache-2.0
"""The packets of a file. A connection that ends early never looks like a complete file."""

import pytest
from evenkeel_common.packets import CONTENT_BYTES, PACKET_BYTES, End, Truncated, data, end, parse
from hypothesis import example, given
from hypothesis import strategies as st


@given(st.binary(min_size=1, max_size=CONTENT_BYTES))
def test_content_arrives_as_it_was_sent(content: bytes) -> None:
    packet = data(content)
    assert len(packet) <= PACKET_BYTES
    assert parse(packet) == content


@example(2, "x" * 2000 + "y" * 2000)
@given(st.sampled_from((0, 1, 2)), st.text(max_size=5000))
def test_the_end_arrives_and_fits_into_a_packet(status: int, text: str) -> None:
    packet = end(End(status, text))
    assert len(packet) <= PACKET_BYTES
    assert parse(packet) == End(status, text[-2000:])


@given(st.binary(max_size=100))
def test_any_other_packet_is_content_an_end_or_truncated(packet: bytes) -> None:
    try:
        found = parse(packet)
    except Truncated:
        return
    assert isinstance(found, End) if packet[:1] == b"E" else found == packet[1:]


@pytest.mark.parametrize(
    "packet", [b"", b"D", b"E", b'E[3,""]', b"E[0]", b"E{}", b"X", b"E[[],1]", b"E" + b"[" * 20000]
)
def test_invalid_packets_are_truncated_files(packet: bytes) -> None:
    with pytest.raises(Truncated):
        parse(packet)
