"""One ``wgmma`` a kernel, of every kind: PTX, operands and descriptors, for a card and for the model alike.

Shared memory is filled with random elements of the operands' types; where descriptors lead, whatever stands there is read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.silicon.wgmma import FLOATS, K, descriptor

MEMORY_BYTES = 32768
MEMORY_A, MEMORY_B = 0, 12288
WORDS_OF_LANE = 144
WIDTH = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}


@dataclass(frozen=True)
class Case:
    """One product."""

    first: str
    second: str
    sum_type: str
    n: int
    registers: bool = False
    """A from registers."""
    transposed: tuple[int, int] = (0, 0)
    signs: tuple[int, int] = (1, 1)
    selector: int = -1
    """Sparsity selector of a sparse product; negative for a dense one."""
    mode: int = 1
    offset: int = 0
    """Offset of both operands' start, in bytes."""
    keeps: bool = True
    """Adds to what D held."""
    saturates: bool = False

    @property
    def words(self) -> int:
        return self.n // 4 if self.sum_type == "f16" else self.n // 2

    @property
    def sparse(self) -> bool:
        return self.selector >= 0

    def descriptors(self) -> tuple[int, int]:
        found = []
        for place, across in ((MEMORY_A, self.transposed[0]), (MEMORY_B, self.transposed[1])):
            leading, stride = {0: (128, 512), 1: (2048, 1024), 2: (1024, 512), 3: (512, 256)}[self.mode]
            if across and self.mode == 0:
                leading, stride = 1024, 128
            found.append(descriptor(place + self.offset, leading, stride, self.mode))
        return found[0], found[1]

    def ptx(self, name: str) -> str:
        k = K[self.first] * (2 if self.sparse else 1)
        text = f"wgmma.mma_async{'.sp' if self.sparse else ''}.sync.aligned.m64n{self.n}k{k}"
        text += f".{self.sum_type}.{self.first}.{self.second}"
        text += ".and.popc" if self.first == "b1" else ".satfinite" if self.saturates else ""
        d = ", ".join(f"%r{n}" for n in range(self.words))
        a = "{%a0, %a1, %a2, %a3}" if self.registers else "%da"
        text += f" {{{d}}}, {a}, %db" + (f", %meta, {self.selector}" if self.sparse else "") + ", %keep"
        if self.first in FLOATS:
            text += f", {self.signs[0]}, {self.signs[1]}"
        if self.first in ("f16", "bf16"):
            text += f", {self.transposed[1]}" if self.registers else f", {self.transposed[0]}, {self.transposed[1]}"
        loads = [f"ld.global.b32 %r{n}, [%lane + {4 * n}];" for n in range(self.words)]
        loads += [f"ld.global.b32 %a{n}, [%lane + {4 * (128 + n)}];" for n in range(4)]
        stores = [f"st.global.b32 [%lane + {4 * n}], %r{n};" for n in range(self.words)]
        return f"""
.visible .entry {name}(.param .u64 memory, .param .u64 lanes, .param .u64 da, .param .u64 db, .param .u32 keep) {{
  .reg .b32 %r<{self.words}>, %a<4>, %meta, %t, %at, %n, %x<4>; .reg .b64 %memory, %lane, %da, %db, %base; .reg .pred %keep, %more;
  .shared .align 1024 .b8 raw[{MEMORY_BYTES}];
  ld.param.u64 %memory, [memory]; cvta.to.global.u64 %memory, %memory;
  ld.param.u64 %lane, [lanes]; cvta.to.global.u64 %lane, %lane;
  mov.u32 %t, %tid.x; mad.wide.u32 %lane, %t, {4 * WORDS_OF_LANE}, %lane;
  mad.wide.u32 %memory, %t, 16, %memory; mov.u32 %at, raw; cvt.u64.u32 %base, %at; shr.u64 %base, %base, 4;
  mad.lo.u32 %at, %t, 16, %at; mov.u32 %n, 0;
LOOP:
  ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%memory]; st.shared.v4.b32 [%at], {{%x0, %x1, %x2, %x3}};
  add.u64 %memory, %memory, 2048; add.u32 %at, %at, 2048; add.u32 %n, %n, 2048;
  setp.lt.u32 %more, %n, {MEMORY_BYTES}; @%more bra LOOP;
  {" ".join(loads)}
  ld.global.b32 %meta, [%lane + {4 * 132}];
  ld.param.u64 %da, [da]; ld.param.u64 %db, [db]; add.u64 %da, %da, %base; add.u64 %db, %db, %base;
  ld.param.u32 %n, [keep]; setp.ne.u32 %keep, %n, 0;
  fence.proxy.async; bar.sync 0;
  wgmma.fence.sync.aligned;
  {text};
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
  {" ".join(stores)}
  ret;
}}
"""

    def elements(self, rng: np.random.Generator, element: str, count: int) -> np.ndarray:
        """``count`` bytes of random elements."""
        if element in ("s8", "u8", "b1"):
            return rng.integers(0, 256, count).astype(np.uint8)
        if element in ("e4m3", "e5m2"):
            made = rng.integers(0, 256, count).astype(np.uint8)
            size = made & 0x7F
            return np.where(size >= (0x7F if element == "e4m3" else 0x7C), made & 0xBF, made).astype(np.uint8)
        values = rng.standard_normal(count * 8 // WIDTH[element]) * 2.0 ** rng.integers(
            -6, 7, count * 8 // WIDTH[element]
        )
        if element == "f16":
            return values.astype(np.float16).view(np.uint8)
        words = values.astype(np.float32).view(np.uint32)
        return (words >> 16).astype(np.uint16).view(np.uint8) if element == "bf16" else words.view(np.uint8)

    def inputs(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Shared memory, and the words of 128 lanes [lane, word]: D at 0, A at 128, metadata at 132."""
        rng = np.random.Generator(np.random.PCG64([seed, self.n, *self.first.encode()]))
        parts = [
            self.elements(rng, self.first, MEMORY_B),
            self.elements(rng, self.second, MEMORY_BYTES - MEMORY_B),
            self.elements(rng, self.first, 128 * 16),
        ]
        memory = np.concatenate(parts[:2]).view(np.uint32)
        lanes = np.zeros((128, WORDS_OF_LANE), np.uint32)
        sums = rng.standard_normal((128, 256))
        if self.sum_type == "s32":
            big = 1 << 31 if self.saturates else 1 << 20
            lanes[:, :128] = rng.integers(-big, big, (128, 128)).astype(np.int32).view(np.uint32)
        elif self.sum_type == "f32":
            lanes[:, :128] = sums[:, :128].astype(np.float32).view(np.uint32)
        else:
            lanes[:, :128] = sums.astype(np.float16).view(np.uint32)
        lanes[:, 128:132] = parts[2].view(np.uint32).reshape(128, 4)
        choices = np.array([0x4, 0xE] if self.first == "tf32" else [0x4, 0x8, 0x9, 0xC, 0xD, 0xE], np.uint64)
        nibbles = choices[rng.integers(0, len(choices), (128, 8))]
        lanes[:, 132] = (nibbles << np.arange(0, 32, 4, dtype=np.uint64)).sum(axis=1).astype(np.uint32)
        return memory, lanes


def cases() -> list[Case]:
    found = []
    floats = [("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32")]
    floats += [(a, b, d) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for d in ("f32", "f16")]
    integers = [(a, b, "s32") for a in ("s8", "u8") for b in ("s8", "u8")]
    for types in (*floats, *integers, ("b1", "b1", "s32")):
        for registers in (False, True):
            found.append(Case(*types, 16, registers))
            if types[0] != "b1":
                found.append(Case(*types, 8, registers, selector=0))
        if types[0] in ("f16", "bf16", "tf32"):
            found.append(Case(*types, 8, True, selector=1))
    for mode in (0, 1, 2, 3):
        found.append(Case("f16", "f16", "f32", 64, mode=mode))
        found.append(Case("f16", "f16", "f32", 64, mode=mode, transposed=(1, 1)))
        found.append(Case("f16", "f16", "f32", 64, True, mode=mode, transposed=(0, 1)))
        found.append(Case("f16", "f16", "f32", 32, mode=mode, selector=0))
        found.append(Case("f16", "f16", "f32", 32, mode=mode, selector=1, transposed=(1, 1)))
        found.append(Case("s8", "u8", "s32", 24, mode=mode))
        found.append(Case("e4m3", "e5m2", "f32", 40, mode=mode, selector=0))
        found.append(Case("tf32", "tf32", "f32", 40, mode=mode, selector=0))
    for signs in ((-1, 1), (1, -1), (-1, -1)):
        found.append(Case("f16", "f16", "f32", 8, signs=signs))
        found.append(Case("tf32", "tf32", "f32", 8, True, signs=signs))
        found.append(Case("e5m2", "e4m3", "f16", 8, True, signs=signs))
    found += [Case("bf16", "bf16", "f32", n, offset=32) for n in (104, 128)]
    found += [Case("f16", "f16", "f32", 8, keeps=False), Case("s8", "s8", "s32", 8, keeps=False)]
    found += [Case("u8", "u8", "s32", n, registers=r, saturates=True) for n in (8, 48) for r in (False, True)]
    found += [Case("s8", "u8", "s32", 8, saturates=True, selector=0)]
    return found


def module(chosen: list[Case]) -> str:
    head = ".version 8.5\n.target sm_90a\n.address_size 64\n"
    return head + "".join(case.ptx(f"c{n}") for n, case in enumerate(chosen))
