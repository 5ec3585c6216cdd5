"""The package's order: chips <- isa <- engine <- timing <- system <- graphics <- driver, tools, studies, cli; nothing imports from its right."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ORDER: list[set[str]] = [
    {"errors", "version", "html_tables", "messages", "quantity_text"},
    {"environment"},
    {"chips", "toolchain"},
    {"isa", "native"},
    {"engine"},
    {"faults"},
    {"timing"},
    {"system"},
    {"graphics"},
    {"arrays", "library_times", "ranges", "session", "source_place", "tracebacks"},
    {"images", "engines"},
    {"gpu_options", "repeatable_launch"},
    {"run"},
    {"launch_context", "launch_job"},
    {"run_launch"},
    {"launch_groups", "device_launches"},
    {"resident_launches", "frame_launches"},
    {"early_programs", "kernel"},
    {"api"},
    {"multi_gpu", "mig", "sharing", "checkpoint"},
    {"vgpu"},
    {"driver", "tools"},
    {"libraries"},
    {"sparsity", "refinement"},
    {"programs"},
    {"sweeps"},
    {"campaigns"},
    {"studies"},
    {"commands"},
    {"cli", "__main__", "__init__", "pytest_plugin"},
]
"""Top-level modules and packages, lowest first; a set's members may import each other only where ALLOWED says so."""

LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}

ALLOWED = {
    # Imported when a terminal shows progress of a long launch, not when the module is.
    ("run", "tools"),
    # A launcher hands itself to launch(); the name is needed for typing alone.
    ("run", "api"),
    ("kernel", "api"),
    ("kernel", "tools"),
    ("repeatable_launch", "kernel"),
    ("launch_context", "kernel"),
    ("launch_job", "kernel"),
    ("run_launch", "kernel"),
    ("launch_groups", "kernel"),
    ("resident_launches", "kernel"),
    ("frame_launches", "kernel"),
    ("device_launches", "kernel"),
    ("session", "run"),
    ("session", "tools"),
    # Findings of child processes pass through the driver's records: for typing alone.
    ("driver", "tools"),
    ("__main__", "cli"),
    # Checks are asked for by an argument of GPU; they are imported then.
    ("api", "tools"),
}


@dataclass(frozen=True)
class _Source:
    """What the tests of this module ask of a file, so that each file is parsed once."""

    imports: list[tuple[ast.Import | ast.ImportFrom, bool]]
    """Import statements, and whether each is there for annotations alone."""
    functions: list[tuple[str, int, int]]
    """Name with its classes, lines, parameters."""


@functools.cache
def _source(path: Path) -> _Source:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports: list[tuple[ast.Import | ast.ImportFrom, bool]] = []
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, typing = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append((node, typing))
        elif not isinstance(node, ast.expr):  # an expression holds no statements
            typing = typing or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
            waiting += [(child, typing) for child in ast.iter_child_nodes(node)]
    functions = [
        (name, (one.end_lineno or one.lineno) - one.lineno + 1, parameters(one)) for name, one in _functions(tree)
    ]
    return _Source(imports, functions)


def _imports(path: Path) -> Iterator[str]:
    for node, _ in _source(path).imports:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module == "warpwright")


def _home(path: Path, package: Path) -> str:
    relative = path.relative_to(package)
    return relative.parts[0].removesuffix(".py")


def _crossings(package: Path) -> Iterator[tuple[Path, str, str]]:
    for path in sorted(package.rglob("*.py")):
        home = _home(path, package)
        for name in _imports(path):
            parts = name.split(".")
            if parts[0] == "warpwright" and len(parts) > 1 and parts[1] != home and parts[1] in LEVEL:
                yield path, home, parts[1]


def test_every_module_has_a_level(repository: Path) -> None:
    package = repository / "warpwright"
    homes = {_home(p, package) for p in package.rglob("*.py")}
    assert homes <= set(LEVEL), f"give these a place in ORDER: {sorted(homes - set(LEVEL))}"


def test_nothing_imports_from_its_right(repository: Path) -> None:
    to_the_right = [
        (path, home, target)
        for path, home, target in _crossings(repository / "warpwright")
        if home != "__init__" and LEVEL[target] >= LEVEL[home]
    ]
    wrong = [
        f"{path.relative_to(repository)} ({home}) imports {target}"
        for path, home, target in to_the_right
        if (home, target) not in ALLOWED
    ]
    assert not wrong, "\n".join(wrong)
    unused = ALLOWED - {(home, target) for _, home, target in to_the_right}
    assert not unused, f"take these off the list: {unused}"


MUTUAL: tuple[frozenset[str], ...] = tuple(
    frozenset(f"warpwright.{home}{name}" for name in names.split())
    for home, names in (
        ("driver.", "copies copy_order"),
        ("engine.jit.", "function_writer rowwise shape_inference"),
        ("driver.", "capture_rules graphs kernel_groups pending queued_work driver_state work_order"),
        ("tools.checks.", "checked_launch checker known_launches noted_findings stream_races uninitialized_use watch"),
        (
            "",
            "engine.interpreter.cluster engine.interpreter.code engine.interpreter.convergence engine.interpreter.gather_scatter engine.interpreter.special_registers engine.interpreter.warp engine.textures.launch_textures",
        ),
        (
            "",
            "api gpu_options kernel launch_context launch_job repeatable_launch run run_launch session tools.export tools.progress tools.report.attribution tools.report.caches tools.report.comparison tools.report.evidence tools.report.figures tools.report.instruction_mix tools.report.listing tools.report.model_panel tools.report.occupancy_curves tools.report.origins tools.report.overview tools.report.page tools.report.relieved tools.report.schedulers tools.report.launch_sections tools.report.side_by_side tools.launch_tables",
        ),
    )
)
"""Groups of modules that name each other's types in annotations; none imports another in a circle when it runs."""


def _module_imports(path: Path, modules: set[str], typing: bool) -> Iterator[str]:
    """Modules of the package that a module imports when it is loaded or later; with ``typing`` those for annotations too."""
    for node, for_annotations in _source(path).imports:
        if for_annotations and not typing:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module


def cycles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or through others."""

    def reached(module: str) -> set[str]:
        found: set[str] = set()
        waiting = [*imports[module]]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += imports[one]
        return found

    beyond = {module: reached(module) for module in imports}
    groups = {frozenset(b for b in beyond[a] if a in beyond[b]) for a in imports if a in beyond[a]}
    return sorted(sorted(group) for group in groups)


def test_cycles_are_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def _graph(repository: Path, typing: bool) -> dict[str, set[str]]:
    package = repository / "warpwright"
    names = {
        ".".join(path.relative_to(repository).with_suffix("").parts).removesuffix(".__init__"): path
        for path in package.rglob("*.py")
    }
    return {
        name: {
            imported for imported in _module_imports(path, set(names), typing) if imported in names and imported != name
        }
        for name, path in names.items()
    }


def test_modules_import_each_other_in_no_cycle(repository: Path) -> None:
    assert cycles(_graph(repository, typing=False)) == []


def test_no_further_modules_name_each_others_types(repository: Path) -> None:
    found = cycles(_graph(repository, typing=True))
    new = [group for group in found if not any(set(group) <= old for old in MUTUAL)]
    assert not new, "\n".join(map(str, new))
    unused = set().union(*MUTUAL) - {name for group in found for name in group}
    assert not unused, f"take these off the list: {unused}"


MOST_LINES, MOST_PARAMETERS = 60, 8


def _functions(tree: ast.AST, where: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):  # an expression holds no statements
            continue
        name = f"{where}.{node.name}" if isinstance(node, ast.FunctionDef | ast.ClassDef) else where
        if isinstance(node, ast.FunctionDef):
            yield name.lstrip("."), node
        yield from _functions(node, name)


def parameters(function: ast.FunctionDef) -> int:
    """How many parameters a function names, ``self`` among them."""
    return len([*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs])


def test_parameters_are_counted() -> None:
    (name, function), *_ = _functions(ast.parse("class A:\n    def f(self, a, /, b, *rest, c=0, **more): ..."))
    assert (name, parameters(function)) == ("A.f", 4)


def test_no_function_is_long_or_has_many_parameters(repository: Path) -> None:
    package = repository / "warpwright"
    long, wide = [], []
    for path in sorted(package.rglob("*.py")):
        for name, lines, count in _source(path).functions:
            where = f"{path.relative_to(package).as_posix()}: {name}"
            if lines > MOST_LINES:
                long.append(f"{where} has {lines} lines")
            if count > MOST_PARAMETERS:
                wide.append(f"{where} has {count} parameters")
    assert not long, "split by meaning:\n" + "\n".join(long)
    assert not wide, "group them in a record:\n" + "\n".join(wide)


PARALLEL = (
    # Each instruction set's front end has the same parts: decode, lower, schedule, text and so on.
    "isa(/.*)?",
    # The compiled engine and the interpreter implement the same machine.
    "engine/(jit|interpreter)",
    # Functions of the driver, and the runtime's functions, which call them.
    "driver(/runtime)?",
    # A command is named after what it runs; sweeps and campaigns both have a specification and a store of results.
    "commands|campaigns|studies|sweeps",
    # The state of a unit, and what the unit does.
    "timing(/state(/header)?)?",
)
"""Folders whose modules of one base name are the same thing in each of them."""

SAME_THING = {
    "access_policy": "the policy by which L2 keeps lines: as machine code names it, as programs set it, in time",
    "atomics": "atomic instructions: their results, and their time at L2",
    "attach": "places the drop-in libraries of CUDA, or of libdrm, on disk",
    "bulk": "bulk copies: the operation, its effect, its time",
    "calls": "calls of a library's entry points from C",
    "checkpoint": "saved machines: their words, and the file",
    "clusters": "thread block clusters: in time, and under the checks",
    "handles": "the handles of a math library",
    "identity": "what Mesa is told of a device",
    "intrinsics": "LLVM intrinsics of one package's native functions",
    "livelock": "detects endless loops: in both engines, and in time",
    "mig": "multi-instance GPU: profiles, the driver's rules, instances that run, the command",
    "multi_grid": "barriers of the grids of several devices: workspaces, and the study of them",
    "occupancy": "blocks that an SM holds: the rule, and the driver's functions that return it",
    "page": "the HTML page of what the package makes",
    "rounding": "operations in rounding directions that have no instruction",
    "scoreboard": "a warp's outstanding writes: in the schedule, and in time",
    "services": "printf, malloc and others that the driver provides to kernels: how they are called, and what they do",
    "special_registers": "special registers: their names in PTX, and their values",
    "stores": "store instructions: their effect, and their time",
    "texture_unit": "the texture unit of graphics programs: its results, and its time",
    "warp": "one warp: in the interpreter, and in time",
}
"""Base names of several modules that are one thing at several levels, and what it is."""


def _are_parallel(folders: set[str]) -> bool:
    """Whether all folders are of one row of ``PARALLEL``."""
    return any(all(re.fullmatch(row, one) for one in folders) for row in PARALLEL)


def test_parallel_folders_are_found() -> None:
    assert _are_parallel({"isa/ptx", "isa/r600/compiler", "isa"})
    assert _are_parallel({"commands", "sweeps"})
    assert not _are_parallel({"driver", "driver/drm"})
    assert not _are_parallel({"isa/ptx", "driver/drm"})


def test_a_base_name_means_one_thing(repository: Path) -> None:
    package = repository / "warpwright"
    folders: dict[str, set[str]] = {}
    for path in package.rglob("*.py"):
        folders.setdefault(path.stem, set()).add(path.parent.relative_to(package).as_posix())
    several = {name: found for name, found in folders.items() if len(found) > 1 and name != "__init__"}
    wrong = {name: found for name, found in several.items() if name not in SAME_THING and not _are_parallel(found)}
    assert not wrong, f"rename all but one of these, or say what one thing they are: {wrong}"
    assert not set(SAME_THING) - set(several), f"take these off the list: {set(SAME_THING) - set(several)}"
    assert not [name for name in SAME_THING if _are_parallel(several[name])], "PARALLEL has these"


def test_errors_import_nothing_of_the_package(repository: Path) -> None:
    found = list(_imports(repository / "warpwright" / "errors.py"))
    assert not [name for name in found if name.startswith("warpwright")]


def test_flags_of_one_field_do_not_overlap(repository: Path) -> None:
    """Constants of the cycle model's state whose text begins with "Flag of ``FIELD``"."""
    timing = repository / "warpwright" / "timing"
    flags: dict[str, dict[str, int]] = {}
    for path in [*timing.glob("state.py"), *timing.glob("state/**/*.py")]:
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for one, text in pairwise(body):
            if isinstance(one, ast.Assign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                told = re.match(r"Flag of ``([\w.]+)``", str(text.value.value))
                if told:
                    name = ast.unparse(one.targets[0])
                    flags.setdefault(told[1], {})[name] = int(eval(ast.unparse(one.value)))
    assert "COUNTS_LANES" in flags["Instruction.extra"]
    for field, known in flags.items():
        assert sum(known.values()) == functools.reduce(int.__or__, known.values()), (field, known)
