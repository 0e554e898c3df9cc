"""Other collectors read the agent's exports, and the agent reads other exporters: the same flows, packets and octets."""

from pathlib import Path

import pytest

from check_peers import ARRIVALS, TRIPS, Arrival, Trip, Volumes, make_capture


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Volumes]:
    """A capture and its contents."""
    path = tmp_path_factory.mktemp("peers") / "made.pcap"
    return path, make_capture(path)


@pytest.mark.parametrize("trip", TRIPS, ids=Trip.name)
def test_a_peer_reads_what_was_captured(trip: Trip, made: tuple[Path, Volumes]) -> None:
    """Added up by flow, the peer's records equal the capture's packets."""
    if not trip.installed():
        pytest.skip(f"{trip.needs} is not installed")
    capture, expected = made
    found = trip.run(capture)
    assert found.packets == expected.packets
    assert found.octets == expected.octets


@pytest.mark.parametrize("arrival", ARRIVALS, ids=Arrival.name)
def test_the_collector_reads_what_a_peer_sent(
    arrival: Arrival, made: tuple[Path, Volumes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Added up by flow, the collector's records equal those that the peer reports, and the capture's packets."""
    if missing := arrival.missing():
        pytest.skip(f"{missing} is not installed")
    monkeypatch.setenv("PATH", "/usr/sbin:/sbin", prepend=":")
    capture, all_of_it = made
    found, said = arrival.run(capture)
    assert (found.packets, found.octets) == (said.packets, said.octets)
    expected = arrival.expected(all_of_it)
    assert (found.packets, found.octets) == (expected.packets, expected.octets)
