"""Double precision of a GLSL compute shader on the simulated Cayman: operations that Mesa's compiler placed in slots."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.mesa_drivers import needs_mesa

pytestmark = needs_mesa("r600")


def test_doubles_are_those_of_numpy(tmp_path: Path) -> None:
    place = tmp_path / "doubles.npz"
    program = Path(__file__).with_name("glsl_doubles.py")
    done = subprocess.run(
        [sys.executable, "-m", "warpwright", "run", "--gpu", "hd6970", "--timing", "off", str(program), str(place)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    kept = np.load(place)
    q = kept["given"]
    single = q.astype(np.float32).astype(np.float64)
    wanted = [q + 1, q * q, q * q + q, np.floor(q), np.fmax(q, 2), np.where(q < 3, q, 2), np.sqrt(q), 1 / q, single]
    np.testing.assert_allclose(kept["found"], np.stack(wanted, 1), rtol=3e-16, atol=0)
