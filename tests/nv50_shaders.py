"""Vertex, geometry and pixel programs as TGSI, the text form of Mesa's shaders.

``python -m tests.nv50_shaders`` writes ``data/nv50_shaders.json``: the words that Mesa's compiler for NV50 makes of each, and envydis'
text of every word.  It wants both programs: WARPWRIGHT_NOUVEAU_COMPILER and WARPWRIGHT_ENVYDIS.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "data" / "nv50_shaders.json"
STAGES = {"FRAG": "pixel", "VERT": "vertex", "GEOM": "geometry"}
TARGETS = (
    *("1D", "2D", "3D", "CUBE", "RECT", "1D_ARRAY", "2D_ARRAY"),
    *("SHADOW1D", "SHADOW2D", "SHADOWRECT", "SHADOW1D_ARRAY", "SHADOW2D_ARRAY", "SHADOWCUBE"),
)


def pixel(body: str, declarations: str = "", kind: str = "PERSPECTIVE") -> str:
    return f"FRAG\nDCL IN[0], GENERIC[0], {kind}\nDCL IN[1], GENERIC[1], {kind}\nDCL OUT[0], COLOR\nDCL TEMP[0..7]\n{declarations}\n{body}\nEND\n"


def sampled(target: str, opcode: str, more: str = "") -> str:
    """A texture instruction, whose last sources are those that the target wants."""
    declared = f"DCL SAMP[0]\nDCL SVIEW[0], {target}, FLOAT"
    return pixel(f"{opcode} OUT[0], IN[0]{more}, SAMP[0], {target}", declared)


CONSTANTS = "DCL CONST[0][0..7]\nDCL CONST[1][0..3]"
SHADERS: dict[str, str] = {
    "pixel_perspective": pixel("MUL OUT[0], IN[0], CONST[0][0]", CONSTANTS),
    "pixel_linear": pixel("ADD OUT[0], IN[0], IN[1]", kind="LINEAR"),
    "pixel_flat": pixel("UADD OUT[0], IN[0], IN[1]", kind="CONSTANT"),
    "pixel_centroid": pixel("MUL OUT[0], IN[0], IN[1]").replace("PERSPECTIVE", "PERSPECTIVE, CENTROID", 1),
    "pixel_derivatives": pixel("DDX TEMP[0], IN[0]\nDDY TEMP[1], IN[0]\nMAD OUT[0], TEMP[0], IN[1], TEMP[1]"),
    "pixel_derivatives_negated": pixel("DDX TEMP[0], -IN[0]\nDDY TEMP[1], -IN[1]\nADD OUT[0], TEMP[0], TEMP[1]"),
    "pixel_discard": pixel("KILL_IF IN[0]\nMOV OUT[0], IN[1]"),
    "pixel_discard_in_branch": pixel(
        "FSLT TEMP[0].x, IN[0].xxxx, IN[1].xxxx\nUIF TEMP[0].xxxx\nKILL\nENDIF\nDDX TEMP[1], IN[0]\nMOV OUT[0], TEMP[1]"
    ),
    "pixel_facing": "FRAG\nDCL IN[0], FACE, CONSTANT\nDCL IN[1], GENERIC[0], PERSPECTIVE\nDCL OUT[0], COLOR\nMUL OUT[0], IN[1], IN[0].xxxx\nEND\n",
    "pixel_position": "FRAG\nDCL IN[0], POSITION, LINEAR\nDCL OUT[0], COLOR\nDCL OUT[1], POSITION\nMOV OUT[0], IN[0]\nMUL OUT[1].z, IN[0].zzzz, IN[0].wwww\nEND\n",
    "pixel_targets": "FRAG\nDCL IN[0], GENERIC[0], PERSPECTIVE\nDCL OUT[0], COLOR[0]\nDCL OUT[1], COLOR[1]\nMOV OUT[0], IN[0]\nADD OUT[1], IN[0], IN[0].wzyx\nEND\n",
    "pixel_loop": pixel(
        "MOV TEMP[0], IN[0]\nMOV TEMP[1].x, IMM[0].xxxx\nBGNLOOP\nUSGE TEMP[2].x, TEMP[1].xxxx, IMM[0].yyyy\nUIF TEMP[2].xxxx\nBRK\nENDIF\n"
        "FSLT TEMP[3].x, IN[1].xxxx, TEMP[0].xxxx\nUIF TEMP[3].xxxx\nMUL TEMP[0], TEMP[0], IN[1]\nELSE\nADD TEMP[0], TEMP[0], IN[1]\nENDIF\n"
        "UADD TEMP[1].x, TEMP[1].xxxx, IMM[0].zzzz\nENDLOOP\nMOV OUT[0], TEMP[0]",
        "IMM[0] UINT32 {0, 5, 1, 0}",
    ),
    "pixel_functions": pixel(
        "RCP TEMP[0].x, IN[0].xxxx\nRSQ TEMP[0].y, |IN[0].yyyy|\nEX2 TEMP[0].z, IN[0].zzzz\nLG2 TEMP[0].w, |IN[0].wwww|\n"
        "SIN TEMP[1].x, IN[1].xxxx\nCOS TEMP[1].y, IN[1].yyyy\nPOW TEMP[1].z, |IN[1].zzzz|, IN[0].xxxx\nSQRT TEMP[1].w, |IN[1].wwww|\nADD OUT[0], TEMP[0], TEMP[1]"
    ),
    "pixel_arithmetic": pixel(
        "FRC TEMP[0], IN[0]\nFLR TEMP[1], IN[0]\nMIN TEMP[2], TEMP[0], IN[1]\nMAX TEMP[3], TEMP[1], IN[1]\nLRP TEMP[4], TEMP[0], TEMP[2], TEMP[3]\n"
        "DP4 TEMP[5], TEMP[4], IN[0]\nCMP TEMP[6], TEMP[5], IN[0], IN[1]\nSSG TEMP[7], TEMP[6]\nROUND TEMP[0], TEMP[6]\nMAD_SAT OUT[0], TEMP[7], TEMP[0], IN[1]"
    ),
    "pixel_integers": pixel(
        "F2I TEMP[0], IN[0]\nF2U TEMP[1], |IN[1]|\nUMUL TEMP[2], TEMP[0], TEMP[1]\nIDIV TEMP[3], TEMP[0], TEMP[1]\nUMOD TEMP[4], TEMP[1], TEMP[0]\n"
        "SHL TEMP[5], TEMP[2], TEMP[1]\nISHR TEMP[6], TEMP[0], TEMP[1]\nXOR TEMP[7], TEMP[5], TEMP[6]\nIMAX TEMP[7], TEMP[7], TEMP[3]\nUADD TEMP[7], TEMP[7], TEMP[4]\nI2F OUT[0], TEMP[7]"
    ),
    "pixel_array": pixel(
        "F2I TEMP[0].x, IN[1].xxxx\nUARL ADDR[0].x, TEMP[0].xxxx\nMOV TEMP[4], IN[0]\nMOV TEMP[5], IN[1]\nMOV TEMP[6], IN[0].wzyx\nMOV TEMP[7], IN[1].wzyx\n"
        "MOV OUT[0], TEMP[ADDR[0].x+4](1)",
        "DCL ADDR[0]",
    ).replace("DCL TEMP[0..7]", "DCL TEMP[0..3], LOCAL\nDCL TEMP[4..7], ARRAY(1), LOCAL"),
    "pixel_indexed_constant": pixel(
        "F2I TEMP[0].x, IN[0].xxxx\nUARL ADDR[0].x, TEMP[0].xxxx\nADD OUT[0], CONST[0][ADDR[0].x], CONST[1][2]",
        CONSTANTS + "\nDCL ADDR[0]",
    ),
    "pixel_gradients": pixel(
        "TXD OUT[0], IN[0], IN[1], IN[1].yxwz, SAMP[0], 2D", "DCL SAMP[0]\nDCL SVIEW[0], 2D, FLOAT"
    ),
    "pixel_fetch": pixel(
        "F2I TEMP[0], IN[0]\nTXF OUT[0], TEMP[0], SAMP[0], 2D", "DCL SAMP[0]\nDCL SVIEW[0], 2D, FLOAT"
    ),
    "pixel_fetch_offset": pixel(
        "F2I TEMP[0], IN[0]\nTXF OUT[0], TEMP[0], SAMP[0], 2D_ARRAY, IMM[0].xyz",
        "DCL SAMP[0]\nDCL SVIEW[0], 2D_ARRAY, FLOAT\nIMM[0] INT32 {1, -2, 0, 0}",
    ),
    "pixel_offset": pixel(
        "TEX OUT[0], IN[0], SAMP[0], 2D, IMM[0].xyz", "DCL SAMP[0]\nDCL SVIEW[0], 2D, FLOAT\nIMM[0] INT32 {7, -8, 0, 0}"
    ),
    "pixel_size": pixel(
        "F2I TEMP[0], IN[0]\nTXQ TEMP[1], TEMP[0], SAMP[0], 3D\nI2F OUT[0], TEMP[1]",
        "DCL SAMP[0]\nDCL SVIEW[0], 3D, FLOAT",
    ),
    "pixel_two_textures": pixel(
        "TEX TEMP[0], IN[0], SAMP[0], 2D\nTEX TEMP[1], IN[1], SAMP[3], CUBE\nMUL OUT[0], TEMP[0], TEMP[1]",
        "DCL SAMP[0]\nDCL SAMP[3]\nDCL SVIEW[0], 2D, FLOAT\nDCL SVIEW[3], CUBE, FLOAT",
    ),
    "pixel_masked_texture": pixel(
        "TEX TEMP[0].xw, IN[0], SAMP[0], 2D\nMUL OUT[0], TEMP[0].xwxw, IN[1]", "DCL SAMP[0]\nDCL SVIEW[0], 2D, FLOAT"
    ),
    **{f"pixel_tex_{t.lower()}": sampled(t, "TEX") for t in TARGETS},
    **{f"pixel_bias_{t.lower()}": sampled(t, "TXB") for t in ("1D", "2D", "3D", "CUBE", "SHADOW2D", "2D_ARRAY")},
    **{f"pixel_lod_{t.lower()}": sampled(t, "TXL") for t in ("1D", "2D", "3D", "CUBE", "SHADOW2D", "2D_ARRAY")},
    "vertex_transform": "VERT\nDCL IN[0]\nDCL IN[1]\nDCL OUT[0], POSITION\nDCL OUT[1], GENERIC[0]\nDCL CONST[0][0..3]\nDCL TEMP[0]\n"
    "MUL TEMP[0], IN[0].xxxx, CONST[0][0]\nMAD TEMP[0], IN[0].yyyy, CONST[0][1], TEMP[0]\nMAD TEMP[0], IN[0].zzzz, CONST[0][2], TEMP[0]\n"
    "MAD OUT[0], IN[0].wwww, CONST[0][3], TEMP[0]\nMOV OUT[1], IN[1]\nEND\n",
    "vertex_numbers": "VERT\nDCL IN[0]\nDCL SV[0], VERTEXID\nDCL SV[1], INSTANCEID\nDCL OUT[0], POSITION\nDCL TEMP[0]\nI2F TEMP[0].x, SV[0].xxxx\nI2F TEMP[0].y, SV[1].xxxx\nMOV TEMP[0].zw, IN[0]\nMOV OUT[0], TEMP[0]\nEND\n",
    "vertex_indexed": "VERT\nDCL IN[0]\nDCL OUT[0], POSITION\nDCL CONST[0][0..15]\nDCL ADDR[0]\nDCL TEMP[0]\nF2I TEMP[0].x, IN[0].xxxx\nUARL ADDR[0].x, TEMP[0].xxxx\nADD OUT[0], IN[0], CONST[0][ADDR[0].x+3]\nEND\n",
    "vertex_texture": "VERT\nDCL IN[0]\nDCL OUT[0], POSITION\nDCL SAMP[0]\nDCL SVIEW[0], 2D, FLOAT\nDCL TEMP[0]\nTXL TEMP[0], IN[0], SAMP[0], 2D\nADD OUT[0], IN[0], TEMP[0]\nEND\n",
    "vertex_clip": "VERT\nDCL IN[0]\nDCL OUT[0], POSITION\nDCL OUT[1], CLIPDIST[0]\nDCL OUT[2], PSIZE\nDCL OUT[3], COLOR\nMOV OUT[0], IN[0]\nDP4 OUT[1].x, IN[0], IN[0]\nMOV OUT[2].x, IN[0].wwww\nMOV OUT[3], IN[0].wzyx\nEND\n",
    "geometry_pass": "GEOM\nPROPERTY GS_INPUT_PRIMITIVE TRIANGLES\nPROPERTY GS_OUTPUT_PRIMITIVE TRIANGLE_STRIP\nPROPERTY GS_MAX_OUTPUT_VERTICES 3\nPROPERTY GS_INVOCATIONS 1\n"
    "DCL IN[][0], POSITION\nDCL IN[][1], GENERIC[0]\nDCL OUT[0], POSITION\nDCL OUT[1], GENERIC[0]\nIMM[0] INT32 {0, 0, 0, 0}\n"
    + "".join(f"MOV OUT[0], IN[{v}][0]\nMOV OUT[1], IN[{v}][1]\nEMIT IMM[0].xxxx\n" for v in range(3))
    + "ENDPRIM IMM[0].xxxx\nEND\n",
    "geometry_loop": "GEOM\nPROPERTY GS_INPUT_PRIMITIVE LINES\nPROPERTY GS_OUTPUT_PRIMITIVE POINTS\nPROPERTY GS_MAX_OUTPUT_VERTICES 10\nPROPERTY GS_INVOCATIONS 1\n"
    "DCL IN[][0], POSITION\nDCL OUT[0], POSITION\nDCL TEMP[0..3]\nIMM[0] INT32 {0, 1, 2, 0}\n"
    "F2I TEMP[1].x, IN[0][0].xxxx\nMOV TEMP[0].x, IMM[0].xxxx\nBGNLOOP\nISGE TEMP[2].x, TEMP[0].xxxx, TEMP[1].xxxx\nUIF TEMP[2].xxxx\nBRK\nENDIF\n"
    "I2F TEMP[3].x, TEMP[0].xxxx\nADD OUT[0], IN[1][0], TEMP[3].xxxx\nEMIT IMM[0].xxxx\nUADD TEMP[0].x, TEMP[0].xxxx, IMM[0].yyyy\nENDLOOP\nEND\n",
    "geometry_indexed": "GEOM\nPROPERTY GS_INPUT_PRIMITIVE TRIANGLES\nPROPERTY GS_OUTPUT_PRIMITIVE TRIANGLE_STRIP\nPROPERTY GS_MAX_OUTPUT_VERTICES 4\nPROPERTY GS_INVOCATIONS 1\n"
    "DCL IN[][0], POSITION\nDCL OUT[0], POSITION\nDCL TEMP[0..3]\nDCL ADDR[0]\nIMM[0] INT32 {0, 1, 3, 0}\n"
    "MOV TEMP[0].x, IMM[0].xxxx\nBGNLOOP\nISGE TEMP[2].x, TEMP[0].xxxx, IMM[0].zzzz\nUIF TEMP[2].xxxx\nBRK\nENDIF\nUARL ADDR[0].x, TEMP[0].xxxx\n"
    "I2F TEMP[3].x, TEMP[0].xxxx\nADD OUT[0], IN[ADDR[0].x][0], TEMP[3].xxxx\nEMIT IMM[0].xxxx\nENDPRIM IMM[0].xxxx\nUADD TEMP[0].x, TEMP[0].xxxx, IMM[0].yyyy\nENDLOOP\nEND\n",
}


def stage_of(text: str) -> str:
    return STAGES[text.split("\n", 1)[0]]


@cache
def recorded() -> dict[str, Any]:
    """By shader: ``stage``, ``words`` (32 bits each), and ``text`` by address."""
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    return found


def code_of(name: str) -> bytes:
    """The machine code that Mesa made of a shader."""
    return b"".join(int(w, 16).to_bytes(4, "little") for w in recorded()[name]["words"])


def compile_shader(tool: str, text: str) -> list[int]:
    """What Mesa's compiler makes of a shader, in words of 32 bits."""
    with tempfile.NamedTemporaryFile("w", suffix=".tgsi") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([tool, "-a", "50", file.name], capture_output=True, text=True, check=False)
    words = [
        int(w, 16)
        for line in done.stdout.splitlines()
        if re.fullmatch(r"([0-9a-f]{8} ?)+", line.strip())
        for w in line.split()
    ]
    if done.returncode or not words:
        raise SystemExit(f"{text}\n{done.stdout}{done.stderr}")
    return words


def main() -> None:
    from tests.nv50_oracle import disassemble, find_envydis
    from warpwright.isa.nv50.stage_words import STAGES as ENCODINGS

    compiler, tool = os.environ.get("WARPWRIGHT_NOUVEAU_COMPILER"), find_envydis()
    if compiler is None or tool is None:
        raise SystemExit("set WARPWRIGHT_NOUVEAU_COMPILER and WARPWRIGHT_ENVYDIS")
    entries = []
    for name, text in SHADERS.items():
        words = compile_shader(compiler, text)
        long, at = {}, 0
        while at < len(words):
            long[4 * at] = words[at] | (words[at + 1] << 32 if words[at] & 1 else 0)
            at += 1 + (words[at] & 1)
        stage = stage_of(text)
        texts = disassemble(tool, 10, list(long.values()), ENCODINGS[stage])
        if None in texts:
            raise SystemExit(f"envydis does not know a word of {name}: {texts}")
        entry = {
            "stage": stage,
            "words": [f"{w:08x}" for w in words],
            "text": dict(zip(map(str, long), texts, strict=True)),
        }
        entries.append(f"{json.dumps(name)}: {json.dumps(entry)}")
    RECORDED.write_text("{\n" + ",\n".join(entries) + "\n}\n")
    print(f"{len(entries)} shaders")


if __name__ == "__main__":
    main()
