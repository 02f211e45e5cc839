"""Captures as traffic, with the classes of a router's configuration."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Callable, List, Tuple

import pytest

import rxlane

ROUTER = """
ports = ["wan0", "lan0"]
[[class]]
name = "voice"
lane = "express"
trust = "all"
match = [{ dscp = "EF" }]
[[class]]
name = "rest"
lane = "stack"
"""


def frame(dscp: int, kept: int = 60) -> bytes:
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, dscp << 2, 28, 0, 0, 64, 17, 0, bytes([10, 0, 0, 1]), bytes([10, 1, 0, 1]))
    return (bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]) + ip + struct.pack(">HHHH", 4000, 5060, 8, 0) + bytes(18))[:kept]


def capture(packets: List[Tuple[int, bytes]]) -> bytes:
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    return head + b"".join(struct.pack("<IIII", 1, at, len(data), 60) + data for at, data in packets)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rxlane.toml").write_text(ROUTER)
    (tmp_path / "a.pcap").write_bytes(capture([(10 * i, frame(46 if i % 5 == 0 else 0)) for i in range(1000)]))
    return tmp_path


def pattern(folder: Path, **more: Any) -> Any:
    return {"pattern": "capture", "file": folder / "a.pcap", "router": folder / "rxlane.toml", **more}


def test_a_capture_brings_its_rate_its_classes_and_its_sizes(folder: Path) -> None:
    scenario = rxlane.Scenario({"seconds": 0.02}, traffic={"pattern": pattern(folder)})
    assert scenario["traffic.pps"] == pytest.approx(1e5)
    assert scenario["traffic.shares"] == pytest.approx([0.2, 0.8])
    result = scenario.run(replications=2)
    assert result["packets.rt"].mean / result["arrived"].mean == pytest.approx(0.2, abs=0.01)


def test_numbers_are_those_of_the_command(folder: Path, command: Callable[..., str]) -> None:
    text = 'seconds = 0.02\n[traffic]\npps = 8e5\npattern = { pattern = "capture", file = "a.pcap", router = "rxlane.toml" }\n'
    (folder / "s.toml").write_text(text)
    import json

    (said,) = json.loads(command("sim", "run", str(folder / "s.toml"), "--json"))
    ours = rxlane.Scenario.from_toml(folder / "s.toml").run()
    assert {name: value["mean"] for name, value in said["metrics"].items()} == {name: ours[name].mean for name in ours.keys()}


def test_what_cannot_be_replayed_names_file_packet_cause_and_cure(folder: Path) -> None:
    (folder / "a.pcap").write_bytes(capture([(0, frame(0)), (5, frame(0, kept=20))]))
    with pytest.raises(rxlane.ScenarioError, match=r"a\.pcap: packet 2: 20 bytes of it were kept.*snaplen") as raised:
        rxlane.Scenario(traffic={"pattern": pattern(folder)})
    assert raised.value.key == "traffic.pattern"
    with pytest.raises(rxlane.ScenarioError, match=r"lan9: none of the ports: use wan0, lan0"):
        rxlane.Scenario(traffic={"pattern": pattern(folder, port="lan9")})
    with pytest.raises(rxlane.FileError, match=r"no\.pcap"):
        rxlane.Scenario(traffic={"pattern": pattern(folder, file=folder / "no.pcap")})
