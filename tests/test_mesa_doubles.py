"""Double precision of a GLSL compute shader on the simulated Cayman: operations that Mesa's compiler placed in slots."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.mesa_drivers import needs_mesa, saved_by

pytestmark = needs_mesa("r600")


def test_doubles_are_those_of_numpy() -> None:
    kept, _ = saved_by(Path(__file__).with_name("glsl_doubles.py"), "hd6970", "off")
    q = kept["given"]
    single = q.astype(np.float32).astype(np.float64)
    wanted = [q + 1, q * q, q * q + q, np.floor(q), np.fmax(q, 2), np.where(q < 3, q, 2), np.sqrt(q), 1 / q, single]
    np.testing.assert_allclose(kept["found"], np.stack(wanted, 1), rtol=3e-16, atol=0)
