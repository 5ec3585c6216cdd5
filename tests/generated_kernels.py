"""Random kernels without data races, for comparing the ways in which a launch can run.

A kernel is a tree of statements over four words of each thread.  It may use barriers of the block, of a part of it and of the grid,
shuffles and votes over masks, atomics, locks, flags that one block or warp hands to the next, sleeps, clocks, calls, jump tables,
local arrays, and threads that end early.  Whatever the order in which warps and blocks run, each thread computes the same: atomics only commute, what a
critical section does commutes, and plain accesses of different threads are parted by barriers or flags.

``kernels`` is the strategy; ``Kernel.source`` the CUDA C++, ``Kernel.launch`` runs it and gives what it left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import warpwright as ww

WORDS = "abcd"
SITES = 48
"""Places of statements with memory of their own (locks, flags, counters)."""
SITE_WORDS = 64
STEPS = 24
"""Statements of a kernel, at most."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which threads execute a statement together."""

    mask: bool = True
    """The variable ``m`` holds exactly the lanes of the warp that do."""
    warp: bool = True
    """All live threads of a warp do."""
    block: bool = True
    """All live threads of the block do."""
    grid: bool = True
    """All blocks do."""
    depth: int = 0
    looped: bool = False
    """Inside a loop of the warp's own: it may be left or gone on with."""

    def divided(self) -> Place:
        return replace(self, warp=False, block=False, grid=False, depth=self.depth + 1)


@dataclass(frozen=True)
class Kernel:
    """A generated kernel and its launch."""

    source: str
    arch: int
    threads: int
    blocks: int
    sites: int
    exchanged: tuple[int, ...] = ()
    """Sites at which words change hands: only their sum is determined."""

    def launch(self, module: ww.Module, blocks: int = 0, shared_bytes: int = 0) -> dict[str, npt.NDArray[np.uint32]]:
        """Run it on a module of its source; what every array holds behind it."""
        blocks = blocks or self.blocks
        total = blocks * self.threads
        out = np.zeros(4 * total, np.uint32)
        mem = np.arange(total, dtype=np.uint32) * np.uint32(7)
        flags = np.zeros(SITES * blocks, np.uint32)
        sites = np.zeros(SITES * SITE_WORDS, np.uint32)
        module["generated"][blocks, self.threads, shared_bytes](out, mem, flags, sites, np.uint32(blocks))
        for site in self.exchanged:
            cells = sites[site * SITE_WORDS : (site + 1) * SITE_WORDS]
            cells[0], cells[1] = cells[0] + cells[1], 0
        return {"out": out, "mem": mem, "flags": flags, "sites": sites}


@dataclass
class Writer:
    """Writes a kernel, drawing what it needs."""

    draw: Callable[..., object]
    arch: int
    threads: int
    lines: list[str] = field(default_factory=list)
    sites: int = 0
    exchanged: list[int] = field(default_factory=list)
    left: int = STEPS
    waits: bool = True
    fresh: int = 0
    ends_early: bool = False

    # --- drawing ----------------------------------------------------------------------------------
    def number(self, low: int, high: int) -> int:
        value = self.draw(st.integers(low, high))
        assert isinstance(value, int)
        return value

    def one_of(self, choices: Sequence[str]) -> str:
        value = self.draw(st.sampled_from(choices))
        assert isinstance(value, str)
        return value

    def word(self) -> str:
        return self.one_of(WORDS)

    def name(self) -> str:
        self.fresh += 1
        return f"v{self.fresh}"

    def site(self) -> str:
        """Memory of a statement's own: the expression of its first word."""
        self.sites += 1
        return f"sites[{SITE_WORDS * (self.sites - 1)}]"

    def emit(self, text: str) -> None:
        self.lines.append(text)

    def condition(self) -> str:
        """A predicate that differs between threads."""
        k = self.number(1, 7)
        x, y = self.word(), self.word()
        some = [f"({x} & {k}) == 0", f"lane < {4 * k}", f"(t + {k}) % 3 == 0", f"{x} > {y}", f"lane == {k}"]
        return self.one_of([*some, f"(lane & 1) == {k & 1}"])

    # --- statements -------------------------------------------------------------------------------
    def arithmetic(self, _: Place) -> None:
        x, y, z, k = self.word(), self.word(), self.word(), self.number(1, 1 << 31)
        self.emit(
            self.one_of(
                [
                    f"{x} = {x} * {k | 1}u + {y};",
                    f"{x} ^= {y} >> {k & 31};",
                    f"{x} = {y} < {z} ? {x} - {k}u : {y} ^ {z};",
                    f"{x} += __popc({y}) * {k & 255};",
                    f"{x} = __funnelshift_l({x}, {y}, {z} & 31);",
                    f"{x} = {y} / (({z} & 15) + 1) + {x};",
                ]
            )
        )

    def branch(self, place: Place) -> None:
        inner, condition = place.divided(), self.condition()
        if place.mask and self.number(0, 2):
            p, q = self.name(), self.name()
            self.emit(f"{{ bool {p} = {condition}; unsigned {q} = __ballot_sync(m, {p});")
            self.emit(f"if ({p}) {{ unsigned m = {q}; (void)m;")
            self.body(inner)
            self.emit(f"}} else {{ unsigned m0 = m & ~{q}; unsigned m = m0; (void)m;")
            self.body(inner, 0)
            self.emit("} }")
            return
        inner = replace(inner, mask=False)
        self.emit(f"if ({condition}) {{")
        self.body(inner)
        self.emit("} else {")
        self.body(inner, 0)
        self.emit("}")

    def switch(self, place: Place) -> None:
        inner = replace(place.divided(), mask=False, looped=False)
        cases = self.number(4, 6)
        self.emit(f"switch ({self.word()} % {cases + 1}) {{")
        for case in range(cases):
            self.emit(f"case {case}: {{")
            self.body(inner, 0 if case else 1)
            self.emit("}" + ("" if case == 1 else " break;"))
        self.emit("}")

    def loop(self, place: Place) -> None:
        """A loop whose number of turns differs between lanes."""
        i, n, inner = self.name(), self.name(), replace(place.divided(), looped=True)
        self.emit(f"{{ unsigned {n} = {self.word()} & {self.number(1, 7)};")
        if place.mask and self.number(0, 1):
            self.emit(f"unsigned m0 = m; unsigned m = m0; for (unsigned {i} = 0;; {i}++) {{")
            self.emit(f"bool go = {i} < {n}; m = __ballot_sync(m, go); if (!go) break;")
            self.body(replace(inner, looped=False))
        else:
            self.emit(f"for (unsigned {i} = 0; {i} < {n}; {i}++) {{")
            self.body(replace(inner, mask=False))
        self.emit(f"{WORDS[self.number(0, 3)]} += {i}; }} }}")

    def leave(self, _: Place) -> None:
        self.emit(f"if ({self.condition()}) {self.one_of(['break', 'continue'])};")

    def repeat(self, place: Place) -> None:
        """A loop of all alike."""
        i = self.name()
        self.emit("#pragma unroll 1")
        self.emit(f"for (int {i} = 0; {i} < {self.number(2, 3)}; {i}++) {{")
        self.body(replace(place, depth=place.depth + 1, looped=False))
        self.emit("}")

    def warps_part(self, place: Place) -> None:
        self.emit(f"if ((w + {self.number(0, 1)}) & 1) {{")
        self.body(replace(place, block=False, grid=False, depth=place.depth + 1))
        self.emit("}")

    def blocks_part(self, place: Place) -> None:
        x = self.word()
        asked = [f"(blockIdx.x + {self.number(0, 1)}) & 1", f"__syncthreads_or({x} % 61 == 0)"]
        self.emit(f"if ({self.one_of(asked)}) {{")
        self.body(replace(place, grid=False, depth=place.depth + 1))
        self.emit("}")

    def shuffle(self, _: Place) -> None:
        x, y, p = self.word(), self.word(), self.name()
        options = [
            f"{x} += __shfl_sync(m, {y}, __ffs(m) - 1);",
            f"{x} ^= __shfl_sync(m, {y}, lane & 1 ? 31 - __clz(m) : __ffs(m) - 1);",
            f"{x} += __popc(__ballot_sync(m, {y} & 1));",
            f"{{ int {p}; {x} += __match_all_sync(m, {y} & 1, &{p}) + {p}; }}",
            f"{x} += __match_any_sync(m, {y} & 3);",
            f"{x} += __all_sync(m, {y} > 9u) * 3 + __any_sync(m, {x} == 0);",
            "__syncwarp(m);",
        ]
        reduces = [f"{x} += __reduce_add_sync(m, {y});", f"{x} ^= __reduce_max_sync(m, {y});"]
        self.emit(
            self.one_of([o for o in options if self.arch >= 70 or "match" not in o] + reduces * (self.arch >= 80))
        )

    def shuffle_all(self, _: Place) -> None:
        """Over a whole warp: lanes that are not there keep their own."""
        x, k = self.word(), self.number(1, 31)
        self.emit(
            f"if (m == ~0u) {x} += "
            + self.one_of(
                [
                    f"__shfl_xor_sync(~0u, {x}, {k});",
                    f"__shfl_up_sync(~0u, {x}, {k & 15});",
                    f"__shfl_down_sync(~0u, {x}, {k & 15}, 16);",
                    f"__shfl_sync(~0u, {x}, {x} & 31);",
                ]
            )
        )

    def exchange(self, _: Place) -> None:
        """Words of the block's threads change places."""
        x, k = self.word(), self.number(1, 9)
        at = f"(t * {2 * k + 1} + {k}) % T"
        self.emit(
            self.one_of(
                [
                    f"s[t] = {x}; __syncthreads(); {x} += s[{at}]; __syncthreads();",
                    f"mem[g] = {x}; __syncthreads(); {x} += mem[g - t + {at}]; __syncthreads();",
                    f"((volatile unsigned *)mem)[g] = {x}; __syncthreads();"
                    f" {x} += ((volatile unsigned *)mem)[g - t + {at}]; __syncthreads();",
                    f"((volatile unsigned *)s)[t] = {x}; __syncthreads(); {x} ^= s[{at}]; __syncthreads();",
                ]
            )
        )

    def count(self, _: Place) -> None:
        x, y = self.word(), self.word()
        kind = self.one_of(["__syncthreads_count", "__syncthreads_or", "__syncthreads_and"])
        self.emit(f"{x} += {kind}({y} & {self.number(1, 3)});")

    def add(self, _: Place) -> None:
        """Atomics of which nobody asks what was there before."""
        site, x, k = self.site(), self.word(), self.number(0, 31)
        kind = self.one_of(["Add", "Max", "Min", "Xor", "Or"])
        target = self.one_of([site, f"(&{site})[{self.word()} & {k}]", f"(&{site})[lane & {k}]"])
        self.emit(f"atomic{kind}(&{target}, {x} & 0xffffff);")

    def add_shared(self, place: Place) -> None:
        x, y = self.word(), self.word()
        kind = self.one_of(["Add", "Max", "Xor"])
        if place.block:
            self.emit(
                f"s[t] = 0; __syncthreads(); atomic{kind}(&s[{x} % T], {y}); __syncthreads(); {x} += s[t]; __syncthreads();"
            )
        else:
            self.emit(f"atomicAdd(&counted[{x} & 7], {y});")

    def ticket(self, _: Place) -> None:
        site, p = self.site(), self.name()
        self.emit(f"{{ unsigned {p} = atomicAdd(&{site}, 1u); atomicAdd(&(&{site})[1 + {p} % 63], {p} + 5); }}")

    def swap(self, _: Place) -> None:
        site = self.site()
        self.exchanged.append(self.sites - 1)
        self.emit(f"atomicAdd(&(&{site})[1], atomicExch(&{site}, {self.word()} & 0xffff));")

    def compare_and_swap(self, _: Place) -> None:
        site, x, seen, old = self.site(), self.word(), self.name(), self.name()
        change = self.one_of([f"{seen} + {x}", f"{seen} ^ {x}", f"max({seen}, {x})"])
        self.emit(f"{{ unsigned {seen}, {old} = *(volatile unsigned *)&{site}; do {{ {seen} = {old};")
        self.emit(f"{old} = atomicCAS(&{site}, {seen}, {change}); }} while ({old} != {seen}); }}")

    def lock(self, place: Place) -> None:
        """A spin lock taken by each thread; what it guards commutes."""
        x, shared = self.word(), self.number(0, 2) == 0
        lock = f"locks[{self.number(0, 3)}]" if shared else self.site()
        cell = f"kept[{lock[6:-1]}]" if shared else f"(&{lock})[1]"
        fence = "__threadfence_block();" if shared else "__threadfence();"
        inside = f"{fence} *(volatile unsigned *)&{cell} = *(volatile unsigned *)&{cell} + {x}; {fence}"
        sleep = f"__nanosleep({self.number(0, 99)});" if self.arch >= 70 and self.number(0, 1) else ""
        done = self.name()
        forms = [
            f"{{ bool {done} = false; while (!{done}) {{ if (atomicCAS(&{lock}, 0u, 1u) == 0) {{ {inside}"
            f" atomicExch(&{lock}, 0u); {done} = true; }} {sleep} }} }}",
            f"while (atomicCAS(&{lock}, 0u, 1u) != 0) {{ {sleep} }} {inside} atomicExch(&{lock}, 0u);",
            f"while (atomicCAS(&{lock}, 0u, 2u) != 0) {{ {sleep} }} {inside} atomicExch(&{lock}, 0u);",
        ]
        self.emit(forms[self.number(0, 2 if self.arch >= 70 else 0)])

    def hand_on(self, _: Place) -> None:
        """Each block waits for the one before it, as look-back scans do."""
        flag, x, value, turn = f"flags[{self.sites} * n + ", self.word(), self.name(), f"turns[{self.sites}]"
        data = f"(&{self.site()})[blockIdx.x % 31 + "
        look = self.one_of(
            ["*(volatile unsigned *)&{}", "atomicAdd(&{}, 0u)", *(["acquire(&{})"] if self.arch >= 70 else [])]
        )
        tell = self.one_of(
            [
                "__threadfence(); *(volatile unsigned *)&{} = {};",
                "__threadfence(); atomicExch(&{}, {});",
                *(["release(&{}, {});"] if self.arch >= 70 else []),
            ]
        )
        before, own = f"{flag}blockIdx.x - 1]", f"{flag}blockIdx.x]"
        self.emit(f"__syncthreads(); if (t == 0) {{ unsigned {value} = {x} & 255; {turn}++;")
        self.emit(f"if (blockIdx.x) {{ while ({look.format(before)} < {turn}) {self.pause()} __threadfence(); }}")
        self.emit(f"atomicAdd(&{data}1], {value});")
        self.emit(tell.format(own, turn))
        self.emit(f"s[0] = {value}; }} __syncthreads(); {x} += s[0]; __syncthreads();")

    def pause(self) -> str:
        return f"__nanosleep({self.number(0, 200)});" if self.arch >= 70 and self.number(0, 1) else ";"

    def grid_barrier(self, _: Place) -> None:
        """All blocks meet; then words go from block to block."""
        turn, site, x = f"turns[{self.sites}]", self.site(), self.word()
        self.emit(f"mem[g] = {x}; __threadfence(); __syncthreads(); if (t == 0) {{ {turn}++; atomicAdd(&{site}, 1u);")
        self.emit(
            f"while (*(volatile unsigned *)&{site} < n * {turn}) {self.pause()} __threadfence(); }} __syncthreads();"
        )
        self.emit(f"{x} += __ldcg(&mem[(g + T) % (n * T)]); __syncthreads();")
        self.emit(f"if (t == 0) {{ {turn}++; __threadfence(); atomicAdd(&{site}, 1u);")
        self.emit(f"while (*(volatile unsigned *)&{site} < n * {turn}) {self.pause()} }} __syncthreads();")

    def last_block(self, _: Place) -> None:
        """The block that comes last sums up what all have left."""
        site, x = self.site(), self.word()
        self.emit(f"atomicAdd(&(&{site})[1], {x} & 1023); __threadfence(); __syncthreads();")
        self.emit(f"if (t == 0) s[0] = atomicAdd(&{site}, 1u) % n == n - 1; __syncthreads();")
        self.emit(f"if (s[0] && t == 0) atomicAdd(&(&{site})[2], 1u); __syncthreads();")

    def warp_to_warp(self, _: Place) -> None:
        """Warp 0 hands words to warp 1 by a flag in shared or global memory."""
        x, turn = self.word(), "signals"
        flag = "signal" if self.number(0, 1) else f"flags[{self.sites} * n + blockIdx.x]"
        self.site()
        fence = "__threadfence_block();"
        self.emit(f"{turn}++; __syncthreads(); if (w == 0) {{ s[lane] = {x}; {fence} __syncwarp(m);")
        self.emit(f"if (lane == 0) *(volatile unsigned *)&{flag} = {turn}; }} else if (w == 1) {{")
        self.emit(f"if (lane == 0) while (*(volatile unsigned *)&{flag} < {turn}) {self.pause()}")
        self.emit(f"__syncwarp(m); {fence} {x} += ((volatile unsigned *)s)[lane]; }} __syncthreads();")

    def named_barrier(self, _: Place) -> None:
        """Half of the warps meet, or one half waits for the other."""
        x, half = self.word(), self.threads // 64 * 32
        if self.number(0, 1):
            self.emit(
                f's[t] = {x}; __syncwarp(m); if (t < {half}) {{ asm volatile("bar.sync 3, {half};" ::: "memory");'
            )
            self.emit(f"{x} += s[{half - 1} - t]; }} __syncthreads();")
            return
        self.emit(f'if (t < {half}) {{ s[t] = {x}; asm volatile("bar.arrive 4, {2 * half};" ::: "memory"); }}')
        self.emit(f'else if (t < {2 * half}) {{ asm volatile("bar.sync 4, {2 * half};" ::: "memory");')
        self.emit(f"{x} ^= s[t - {half}]; }} __syncthreads();")

    def copy(self, _: Place) -> None:
        x = self.word()
        self.emit(f"mem[g] = {x}; __syncthreads(); copy(&s[t], &mem[g - t + (t + 5) % T]);")
        self.emit(f"__syncthreads(); {x} += s[(t + 1) % T]; __syncthreads();")

    def phase(self, _: Place) -> None:
        """A barrier in shared memory, which its threads poll."""
        x = self.word()
        self.emit(f"s[t] = {x}; meet(&phases, turn++ & 1); {x} += s[(t + 3) % T]; __syncthreads();")

    def clock(self, _: Place) -> None:
        self.emit("if (clock64() == -1) a = 1;")

    def sleep(self, _: Place) -> None:
        self.emit(f"__nanosleep({self.one_of([str(self.number(0, 900)), f'{self.word()} & 255'])});")

    def local_array(self, _: Place) -> None:
        x, y, p = self.word(), self.word(), self.name()
        self.emit(f"{{ unsigned {p}[8]; for (int i = 0; i < 8; i++) {p}[i] = {x} + i; {p}[{y} & 7] ^= {x};")
        self.emit(f"{y} += {p}[{x} & 7]; }}")

    def call(self, _: Place) -> None:
        x, y = self.word(), self.word()
        self.emit(f"{x} = {self.one_of(['turned', 'nested', 'chosen'])}({x}, {y});")

    def own_word(self, _: Place) -> None:
        """A word of the thread's own in global memory."""
        x, y = self.word(), self.word()
        form = self.one_of(["mem[g]", "((volatile unsigned *)mem)[g]"])
        self.emit(f"{form} = {x}; {y} += {form} * 3;")

    def fence(self, _: Place) -> None:
        self.emit(self.one_of(["__threadfence();", "__threadfence_block();", "__threadfence_system();"]))

    def end_early(self, _: Place) -> None:
        """Some lanes, or the last warp, are done."""
        self.ends_early = True
        k = self.number(2, 7)
        who = self.one_of([f"lane && t % {k} == 1", f"lane > {4 * k}", "w > 1 && w == (T - 1) / 32"])
        p = self.name()
        self.emit(f"{{ bool {p} = {who}; m &= ~__ballot_sync(m, {p}); if ({p}) {{ {LEAVE} return; }} }}")

    # --- trees ------------------------------------------------------------------------------------
    def choices(self, place: Place) -> list[str]:
        """Statements that may come here."""
        found = ["arithmetic", "own_word", "add", "ticket", "swap", "compare_and_swap", "lock", "clock", "local_array"]
        found += ["call", "fence", "add_shared", "lock"]
        if self.arch >= 70:
            found.append("sleep")
        if place.depth < 4:
            found += ["branch", "branch", "switch", "loop", "loop"]
        if place.looped:
            found.append("leave")
        if place.mask:
            found += ["shuffle", "shuffle", "shuffle_all"]
        if place.warp and place.depth < 4:
            found += ["warps_part", "repeat"]
        if place.block:
            found += ["exchange", "exchange", "count", "count", "blocks_part"]
            if self.threads >= 64:
                found.append("warp_to_warp")
            if self.arch >= 80:
                found.append("copy")
            if not self.ends_early:
                found += ["named_barrier"] * (self.threads % 64 == 0) + ["phase"] * (self.arch >= 80)
        if place.grid:
            found += ["last_block"] + ["hand_on", "grid_barrier"] * self.waits
            if place.depth == 0 and not self.ends_early:
                found.append("end_early")
        return found

    def body(self, place: Place, least: int = 1) -> None:
        for _ in range(self.number(least, 4 if place.depth else 8)):
            if self.left <= 0 or self.sites >= SITES - 1:
                return
            self.left -= 1
            getattr(self, self.one_of(self.choices(place)))(place)


LEAVE = "out[4 * g] = a; out[4 * g + 1] = b; out[4 * g + 2] = c; out[4 * g + 3] = d;"

CALLS = """
__device__ __noinline__ unsigned turned(unsigned x, unsigned y) {
    for (unsigned i = 0; i < (y & 7); i++) x = x * 5 + (y >> i);
    return x;
}
__device__ __noinline__ unsigned nested(unsigned x, unsigned y) {
    if ((x & 7) == 0) return y + 1;
    return nested((x & 7) - 1, y * 3 + x) ^ x;
}
__device__ __noinline__ unsigned shifted(unsigned x, unsigned y) { return (x >> 3) + y; }
__device__ __noinline__ unsigned chosen(unsigned x, unsigned y) {
    unsigned (*const table[3])(unsigned, unsigned) = {turned, nested, shifted};
    return table[y % 3](x, y);
}
"""
"""Functions that turn, call themselves and are called through a table."""

HEAD = (
    CALLS
    + """
#if __CUDA_ARCH__ >= 700
__device__ unsigned acquire(const unsigned *p) {
    unsigned v;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ void release(unsigned *p, unsigned v) { asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
#endif
#if __CUDA_ARCH__ >= 800
__device__ void copy(unsigned *to, const unsigned *from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.wait_all;" ::"r"(at), "l"(from) : "memory");
}
__device__ void meet(unsigned long long *barrier, unsigned phase) {
    unsigned at = (unsigned)__cvta_generic_to_shared(barrier), over = 0;
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(at) : "memory");
    while (!over)
#if __CUDA_ARCH__ >= 900
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
#else
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
#endif
                     : "=r"(over) : "r"(at), "r"(phase) : "memory");
}
#endif
extern "C" __global__ void generated(unsigned *out, unsigned *mem, unsigned *flags, unsigned *sites, unsigned n) {
    __shared__ unsigned s[T], locks[4], kept[4], counted[8], turns[SITES], signal;
    __shared__ unsigned long long phases;
    unsigned t = threadIdx.x, g = blockIdx.x * T + t, w = t / 32, lane = t % 32, turn = 0, signals = 0;
    unsigned m = T - w * 32 >= 32 ? ~0u : (1u << (T & 31)) - 1;
    unsigned a = g * 2654435761u + n, b = t, c = a >> 13, d = blockIdx.x;
    for (unsigned i = t; i < SITES; i += T) turns[i] = 0;
    if (t < 8) counted[t] = 0;
    if (t < 4) locks[t] = kept[t] = 0;
    if (t == 0) {
        signal = 0;
#if __CUDA_ARCH__ >= 800
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"((unsigned)__cvta_generic_to_shared(&phases)), "r"(T));
#else
        phases = 0;
#endif
    }
    __syncthreads();
"""
)
TAIL = """
    __syncthreads();
    if (lane == 0) for (int i = 0; i < 8; i++) a += counted[i] + (i < 4 ? kept[i] : 0);
    LEAVE
}
"""


@st.composite
def kernels(draw: Callable[..., object], arch: int, steps: int = STEPS, waits: bool = True) -> Kernel:
    """Kernels of so many statements for an architecture; ``waits``: whether blocks may wait for each other."""
    threads, blocks = draw(st.sampled_from([32, 64, 96, 128, 48, 33])), draw(st.integers(1, 5))
    assert isinstance(threads, int)
    assert isinstance(blocks, int)
    writer = Writer(draw, arch, threads, left=steps, waits=waits)
    writer.body(Place())
    head = f"#define T {threads}u\n#define SITES {SITES}\n#define LEAVE {LEAVE}\n{HEAD}"
    source = head + "\n".join("    " + line for line in writer.lines) + TAIL
    return Kernel(source, arch, threads, blocks, writer.sites, tuple(writer.exchanged))
