"""The cache on disk: damage, bounds, several processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from warpwright.toolchain import DiskCache, cache_key, compile_source, nvrtc
from warpwright.toolchain.cache import default_cache, default_folder

SOURCE = "__global__ void f(int* p) { *p = 5; }"


def entries(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


def test_a_value_comes_back(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    key = cache_key(["a", b"b"])
    assert cache.get("object", key) is None
    cache.put("object", key, b"value")
    assert cache.get("object", key) == b"value"
    assert cache.get("other", key) is None
    cache.put("object", key, b"")
    assert cache.get("object", key) == b""
    cache.clear()
    assert cache.get("object", key) is None


def test_keys_do_not_run_together() -> None:
    assert len({cache_key(p) for p in (["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], [])}) == 5
    assert cache_key(["x"]) == cache_key([b"x"])


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "garbage"])
def test_a_damaged_entry_is_compiled_again(tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path)
    good = compile_source(SOURCE, 80, cache=cache)
    (path,) = entries(tmp_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes({"flip": bytes(data), "cut": bytes(data[:100]), "empty": b"", "garbage": b"x" * 99}[damage])
    calls = []
    compiler = nvrtc.compile_cuda
    monkeypatch.setattr(nvrtc, "compile_cuda", lambda *a, **k: (calls.append(1), compiler(*a, **k))[1])
    assert compile_source(SOURCE, 80, cache=cache).cubin == good.cubin
    assert compile_source(SOURCE, 80, cache=cache).cubin == good.cubin
    assert len(calls) == 1


def test_the_oldest_entries_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit_bytes=5000)
    keys = [cache_key([str(i)]) for i in range(6)]
    for i, key in enumerate(keys):
        cache.put("object", key, bytes(1000))
        os.utime(cache.path("object", key), (i + 1, i + 1))
        if i == 3:
            # Use makes the first entry the youngest.
            assert cache.get("object", keys[0]) is not None
    cache.prune()
    kept = [cache.get("object", key) is not None for key in keys]
    assert kept == [True, False, False, True, True, True]
    assert sum(p.stat().st_size for p in entries(tmp_path)) <= 5000


def test_puts_keep_the_bound(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit_bytes=20_000)
    for i in range(100):
        cache.put("object", cache_key([str(i)]), bytes(1000))
    assert sum(p.stat().st_size for p in entries(tmp_path)) <= 20_000


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cache = DiskCache(blocked)
    cache.put("object", cache_key(["a"]), b"value")
    assert cache.get("object", cache_key(["a"])) is None
    assert compile_source(SOURCE, 80, cache=cache).find("f")


def test_the_folder_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WARPWRIGHT_CACHE", str(tmp_path / "here"))
    monkeypatch.setenv("WARPWRIGHT_CACHE_MIB", "3")
    assert default_cache() is default_cache()
    cache = default_cache()
    assert (cache.folder, cache.limit_bytes) == (tmp_path / "here", 3 << 20)
    monkeypatch.delenv("WARPWRIGHT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform != "darwin":
        assert default_folder() == tmp_path / "warpwright"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert default_folder() == Path.home() / ".cache" / "warpwright"


def test_everything_that_matters_is_in_the_key(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    compile_source(SOURCE, 80, cache=cache)
    compile_source(SOURCE, 80, cache=cache)
    assert len(entries(tmp_path)) == 1
    compile_source(SOURCE, 90, cache=cache)
    compile_source(SOURCE + " ", 80, cache=cache)
    compile_source(SOURCE, 80, name="other.cu", cache=cache)
    compile_source(SOURCE, 80, options=["-DX=1"], cache=cache)
    compile_source(SOURCE, 80, defines={"X": 1}, cache=cache)
    compile_source(SOURCE, 80, include_folders=[tmp_path], cache=cache)
    compile_source(SOURCE, 80, name_expressions=["f"], cache=cache)
    assert len(entries(tmp_path)) == 8


def test_two_processes_and_threads_compile_at_once(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom warpwright.toolchain import DiskCache, compile_source\n"
        f"m = compile_source({SOURCE!r}, 80, cache=DiskCache(Path(sys.argv[1])))\nprint(m.cubin.hex())\n"
    )
    root = str(Path(__file__).resolve().parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", program, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    made: list[bytes] = []
    cache = DiskCache(tmp_path)
    threads = [
        threading.Thread(target=lambda: made.append(compile_source(SOURCE, 80, cache=cache).cubin)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    others = [bytes.fromhex(process.communicate()[0]) for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert len(set(made + others)) == 1
    assert len(entries(tmp_path)) == 1


MAKER = """
import sys, time
from pathlib import Path
from warpwright.toolchain import DiskCache

folder = Path(sys.argv[1])

def make():
    with open(folder / "made", "a") as file:
        file.write("x")
    time.sleep(1)
    return b"value"

print(DiskCache(folder / "cache").made("object", "0" * 64, make).decode())
"""


def test_processes_that_need_an_entry_at_once_make_it_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKER, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=60)[0] for process in running] == ["value\n"] * 3
    assert (tmp_path / "made").read_text() == "x"
    assert list((tmp_path / "cache" / "locks").iterdir()) == []


def test_an_entry_whose_maker_failed_or_ended_is_made_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = DiskCache(tmp_path)

    def fails() -> bytes:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.made("object", "0" * 64, fails)
    ended = "import os, sys; from pathlib import Path; from warpwright.toolchain import DiskCache; "
    ended += "DiskCache(Path(sys.argv[1])).made('object', '0' * 64, lambda: os._exit(3))"
    assert subprocess.run([sys.executable, "-c", ended, str(tmp_path)], check=False).returncode == 3
    assert cache.made("object", "0" * 64, lambda: b"value") == b"value"
    assert cache.made("object", "0" * 64, fails) == b"value"

    # A maker that takes too long is not waited for, and neither is a folder that cannot be written.
    monkeypatch.setattr("warpwright.toolchain.cache._MOST_WAIT_SECONDS", 0.1)
    assert cache.made("object", "1" * 64, lambda: cache.made("object", "1" * 64, lambda: b"inner")) == b"inner"
    (tmp_path / "file").write_text("")
    assert DiskCache(tmp_path / "file").made("object", "0" * 64, lambda: b"value") == b"value"
