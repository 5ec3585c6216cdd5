"""Measures the cost of reading rows at a given distance: ``python -m bench.pitch``.

A warp that reads one column of blocks in a matrix touches two cache lines in each row.  Rows a power of two apart
fall into few sets of the first- and second-level caches.  This loop does nothing but load such lines repeatedly, from as many rows as a matrix of
``bench/engine.py`` has, and gives a bound for any code that reads them.  In pages of 4 KiB, whose places in
physical memory are anybody's guess, some sets of the second level get more lines than others; in huge pages all get as many.
"""

from __future__ import annotations

import ctypes
import mmap
import time

import numpy as np

from warpwright.engine.jit.object_code import load_object, make_target, to_object

ROWS, LINES, REPEATS = 512, 2, 2000
UNROLLED = 16
PITCHES = (1024, 1920, 2048, 2176, 4096)


def text() -> str:
    """A function that adds up two lines of each row."""
    body, total = [], "%sum"
    for row in range(UNROLLED):
        body.append(f"  %o{row} = mul i64 %pitch, {row}\n  %p{row} = getelementptr i8, ptr %at, i64 %o{row}")
        for line in range(LINES):
            body.append(f"  %q{row}_{line} = getelementptr i8, ptr %p{row}, i64 {64 * line}")
            body.append(f"  %l{row}_{line} = load <16 x i32>, ptr %q{row}_{line}, align 64")
            body.append(f"  %s{row}_{line} = add <16 x i32> {total}, %l{row}_{line}")
            total = f"%s{row}_{line}"
    lines = "\n".join(body)
    return f"""
define i32 @read(ptr %base, i64 %pitch) {{
entry:
  %step = mul i64 %pitch, {UNROLLED}
  br label %again
again:
  %n = phi i64 [ 0, %entry ], [ %n1, %read ]
  %kept = phi <16 x i32> [ zeroinitializer, %entry ], [ {total}, %read ]
  br label %loop
loop:
  %row = phi i64 [ 0, %again ], [ %row1, %loop ]
  %at = phi ptr [ %base, %again ], [ %at1, %loop ]
  %sum = phi <16 x i32> [ %kept, %again ], [ {total}, %loop ]
{lines}
  %at1 = getelementptr i8, ptr %at, i64 %step
  %row1 = add i64 %row, {UNROLLED}
  %more = icmp ult i64 %row1, {ROWS}
  br i1 %more, label %loop, label %read
read:
  %n1 = add i64 %n, 1
  %on = icmp ult i64 %n1, {REPEATS}
  br i1 %on, label %again, label %done
done:
  %result = extractelement <16 x i32> {total}, i64 0
  ret i32 %result
}}
"""


def room(huge: bool) -> tuple[mmap.mmap, int]:
    """Memory for the rows and the address of its first huge page, filled by huge pages or by small ones."""
    huge_bytes = 1 << 21
    memory = mmap.mmap(-1, (ROWS * max(PITCHES) // huge_bytes + 3) * huge_bytes)
    memory.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    filled = np.frombuffer(memory, dtype=np.uint8)
    filled[:] = 1
    return memory, -(-filled.ctypes.data // huge_bytes) * huge_bytes


def main() -> None:
    target = make_target()
    address = load_object(to_object(text(), target), target).get_function_address("read")
    read = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)(address)
    rooms = [room(huge) for huge in (False, True)]
    print(f"ns a line, {ROWS} rows apart by   pages of 4 KiB   of 2 MiB")
    for pitch in PITCHES:
        times: list[list[float]] = [[], []]
        for _ in range(9):
            for taken, (_, base) in zip(times, rooms, strict=True):
                begin = time.process_time()
                read(base, pitch)
                taken.append(time.process_time() - begin)
        small, huge = (min(taken) * 1e9 / (REPEATS * ROWS * LINES) for taken in times)
        print(f"{pitch:27} bytes {small:16.2f} {huge:10.2f}")


if __name__ == "__main__":
    main()
