"""Other collectors read what the agent exports: the same flows, packets and octets, by every peer that is installed."""

from pathlib import Path

import pytest

from check_peers import TRIPS, Trip, Volumes, make_capture


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Volumes]:
    """A capture and what is in it."""
    path = tmp_path_factory.mktemp("peers") / "made.pcap"
    return path, make_capture(path)


@pytest.mark.parametrize("trip", TRIPS, ids=Trip.name)
def test_a_peer_reads_what_was_captured(trip: Trip, made: tuple[Path, Volumes]) -> None:
    """Added up by flow, its records are the capture's packets."""
    if not trip.installed():
        pytest.skip(f"{trip.needs} is not installed")
    capture, expected = made
    found = trip.run(capture)
    assert found.packets == expected.packets
    assert found.octets == expected.octets
