"""Recordings of command streams: what is kept, what a replay gives, and damaged files."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.graphics_streams import THREE_D, Stream
from warpwright.errors import OutOfMemoryError, WarpwrightError
from warpwright.graphics.recording import MAGIC, Recorder, RecordingError, Replay, digest_of, last_image, png
from warpwright.graphics.video_memory import FIRST_ADDRESS, Buffer, VideoMemory

RECORDINGS = sorted((Path(__file__).parents[1] / "warpwright" / "studies" / "recordings").glob("*.wwcs"))


def recorded(path: Path) -> Stream:
    """A stream of copies and clears between what the host writes, recorded."""
    stream = Stream()
    memory = stream.device.memory
    recorder = Recorder(stream.device, path)
    source, target = memory.allocate(8192, 4096, False), memory.allocate(8192, 4096, True)
    stream.device.host_writes(source)
    for turn in range(3):
        memory.view(source.address, 8192, "a test")[turn * 1000 : turn * 1000 + 500] = turn + 1
        stream.copy(source.address, target.address + turn * 100, 700, 2, 900)
        stream.submit_mapped()
        if turn == 1:
            memory.free(memory.allocate(1 << 16, 4096, True))
    stream.put(THREE_D, "QUERY_ADDRESS_HIGH", source.address >> 32, source.address, 77, 0x1000_F010)
    stream.submit_mapped()
    recorder.finish()
    return stream


@pytest.mark.ci
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recordings_of_the_package_end_as_they_were_recorded(path: Path) -> None:
    """Sines changed by a bit once, and the recording of a scene that has them was not made anew."""
    replay = Replay(path)
    replay.run()
    assert replay.is_same is True


def test_a_replay_ends_with_the_same_memory(tmp_path: Path) -> None:
    path = tmp_path / "stream.wwcs"
    stream = recorded(path)
    replay = Replay(path)
    replay.run()
    assert replay.is_same is True
    assert replay.submissions == 4
    assert replay.device is not None
    assert digest_of(replay.device) == digest_of(stream.device)
    assert last_image(replay.device) is None


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "stream.wwcs"
    recorded(path)
    unpacked = bytearray(zlib.decompress(path.read_bytes()[len(MAGIC) :]))
    unpacked[unpacked.rindex(b"\x03" * 500) + 7] = 9
    path.write_bytes(MAGIC + zlib.compress(bytes(unpacked)))
    replay = Replay(path)
    replay.run()
    assert replay.is_same is False


@pytest.mark.ci
def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path, cut = tmp_path / "stream.wwcs", tmp_path / "cut.wwcs"
    recorded(path)
    whole = path.read_bytes()
    ends = []
    for size in range(len(MAGIC) + 2, len(whole) - 1, 37):
        cut.write_bytes(whole[:size])
        replay = Replay(cut)
        try:
            replay.run()
        except RecordingError as error:
            ends.append(str(error))
        assert replay.is_same is None
    assert any(end.endswith("cut.wwcs ends within a record") for end in ends)
    cut.write_bytes(b"something else")
    with pytest.raises(
        RecordingError, match="is not a recording of a command stream: warpwright run --record FILE makes one"
    ):
        Replay(cut)
    with pytest.raises(RecordingError, match="No such file"):
        Replay(tmp_path / "missing.wwcs")
    rng = np.random.default_rng(0)
    for _ in range(12):
        damaged = bytearray(zlib.decompress(whole[len(MAGIC) :]))
        for at in rng.integers(0, len(damaged), 3).tolist():
            damaged[at] ^= 1 << int(rng.integers(8))
        cut.write_bytes(MAGIC + zlib.compress(bytes(damaged)))
        replay = Replay(cut)
        try:
            replay.run()
        except WarpwrightError:
            continue
        assert replay.is_same is not None


def test_buffers_are_placed_where_there_is_room() -> None:
    memory = VideoMemory(1 << 20, 1 << 20)
    memory.place_buffer(Buffer(7, FIRST_ADDRESS + 8192, 4096, True))
    with pytest.raises(OutOfMemoryError, match="4096 bytes are not free there"):
        memory.place_buffer(Buffer(8, FIRST_ADDRESS + 8192, 4096, True))
    assert memory.allocate(4096, 4096, True).handle == 8


def test_an_image_is_a_png_file() -> None:
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 4), dtype=np.uint8)
    file = png(image)
    assert file[:8] == b"\x89PNG\r\n\x1a\n"
    assert file[16:24] == (7).to_bytes(4, "big") + (5).to_bytes(4, "big")
    at = file.index(b"IDAT")
    size = int.from_bytes(file[at - 4 : at], "big")
    rows = np.frombuffer(zlib.decompress(file[at + 4 : at + 4 + size]), np.uint8).reshape(5, 29)
    assert (rows[:, 1:].reshape(5, 7, 4) == image).all()


@pytest.mark.ci
def test_what_was_drawn_last_outlives_its_buffer() -> None:
    """Programs free their targets before they end."""
    replay = Replay(next(path for path in RECORDINGS if path.stem == "large_triangles"))
    replay.run()
    device = replay.device
    assert device is not None
    assert device.three_d.last_target is not None
    before = last_image(device)
    buffer = device.memory.find(device.three_d.last_target.surface.layer(0)[0].address)
    assert buffer is not None
    device.free(buffer)
    assert device.three_d.last_target is None
    np.testing.assert_array_equal(last_image(device), before)
