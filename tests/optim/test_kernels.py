"""Each kernel is compiled once: whoever calls it gives it the same types, and no constants.

A user waits for whatever is compiled beyond that, half a minute for some.
"""

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

import slotwise
from slotwise.model.cluster import Cluster, Machine
from slotwise.model.job import Job
from slotwise.model.speed import AllReduceSpeed, FittedSpeed, PaperSpeed
from slotwise.model.utility import Sigmoid
from slotwise.optim.bound import upper_bound
from slotwise.policies import catalogue
from slotwise.quotation import quote

SOURCES = sorted(path for path in Path(slotwise.__file__).parent.rglob("*.py") if "numba" in path.read_text("utf-8"))


def signatures() -> dict[str, list[str]]:
    """Of each kernel, those with which Python called it."""
    modules = [module for name, module in sys.modules.items() if name.startswith("slotwise")]
    return {
        f"{module.__name__}.{kernel.py_func.__name__}": [str(one) for one in kernel.signatures]
        for module in modules
        for kernel in vars(module).values()
        if isinstance(kernel, Dispatcher) and kernel.py_func.__module__ == module.__name__
    }


def decide() -> None:
    """Decide about jobs of all kinds, by all policies, on clusters of all kinds."""
    jobs = []
    worker, server = {"gpu": 1.0, "cpu": 1.0}, {"cpu": 1.0}
    fitted = FittedSpeed(0.3873, 0.004518, 0.4326, 0.0, 0.009747, bandwidth=625.0)
    for i in range(6):
        utility = Sigmoid(10.0, 0.1, 2.0)
        jobs += [
            Job(f"paper-{i}", i // 2, 20.0 + 30.0 * i, 8, worker, PaperSpeed(1.0, 1.0, 1.0), utility, server),
            Job(f"all-reduce-{i}", i // 2, 40.0, 1 + i, worker, AllReduceSpeed(1.0, 1.0), utility),
            Job(f"fitted-{i}", i // 2, 300.0, 8, worker, fitted, utility, server, max_servers=4),
        ]
    machines = [Machine(f"m{i}", {"gpu": 1.0 + i % 2, "cpu": 4.0}, {"rack": f"r{i // 30}"}) for i in range(90)]
    racks = Cluster.of(machines, (100.0, 50.0, 10.0), ("machine", "rack", "cluster"))
    flat = Cluster.of([Machine(m.name, m.resources) for m in machines[:7]], (100.0, 10.0))
    for cluster in (flat, racks, racks.share(0.5), Cluster.uniform(1, gpu=1, cpu=2), Cluster.uniform(3, gpu=2, cpu=8)):
        for policy in catalogue.NAMES:
            slotwise.simulate(policy, cluster, jobs, horizon=6, slot_seconds=10.0)
        upper_bound(jobs, cluster, horizon=6, slot_seconds=10.0)
        quote(jobs[2], cluster, slot_seconds=10.0)
    long = replace(jobs[0], workload=4000.0, utility=Sigmoid(10.0, 0.01, 300.0))
    slotwise.simulate("pdors", racks, [long], horizon=400, slot_seconds=10.0)
    workload = slotwise.paper(jobs=12, machines=10, horizon=10, seed=0)
    assert workload.cluster is not None
    slotwise.simulate("pdors", workload.cluster, workload.jobs, horizon=10, slot_seconds=workload.slot_seconds)


def test_python_gives_a_kernel_the_same_types_whatever_is_decided() -> None:
    # Other tests of this process give kernels what no decision does.
    run = subprocess.run([sys.executable, __file__], check=True, capture_output=True, text=True)
    found = json.loads(run.stdout)
    called = {name for name, given in found.items() if given}
    assert {"slotwise.optim.slot._curves", "slotwise.optim.slot._places", "slotwise.policies._filling._fill"} <= called
    assert len(called) > 15
    assert {name: given for name, given in found.items() if len(given) > 1} == {}


def constants(source: str) -> list[str]:
    """Calls of a module's kernels by its kernels that give a constant: numba compiles the kernel for its value."""
    kernels = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    names = {kernel.name for kernel in kernels}
    found = []
    for kernel in kernels:
        # What a name is first, it is to numba until it has seen the rest.
        first: dict[str, bool] = dict.fromkeys((given.arg for given in kernel.args.args), False)
        for node in ast.walk(kernel):
            if isinstance(node, ast.Assign):
                for name, value in _pairs(node.targets[0], node.value):
                    first.setdefault(name, _constant(value))
        for call in (node for node in ast.walk(kernel) if isinstance(node, ast.Call)):
            given = (first.get(at.id, False) if isinstance(at, ast.Name) else _constant(at) for at in call.args)
            if ast.unparse(call.func) in names and any(given):
                found.append(f"{kernel.name}: {ast.unparse(call)}")
    return found


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr]]:
    """Names and what they are assigned."""
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return [pair for one, other in zip(target.elts, value.elts, strict=True) for pair in _pairs(one, other)]
    return []


def _constant(value: ast.expr) -> bool:
    """Whether it is a whole number or a truth that is written out: of other constants numba makes no types."""
    if isinstance(value, ast.BinOp):
        return _constant(value.left) and _constant(value.right)
    if isinstance(value, ast.UnaryOp):
        return _constant(value.operand)
    return isinstance(value, ast.Constant) and isinstance(value.value, int)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_kernels_give_each_other_no_constants(path: Path) -> None:
    assert constants(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ("0", True),
        ("-1", True),
        ("1 << 40", True),
        ("True", True),
        ("n", False),
        ("np.int64(0)", False),
        ("0.5", False),
    ],
)
def test_a_constant_would_be_seen(given: str, refused: bool) -> None:
    kernels = f"@_compiled\ndef f(x):\n    return x\n\n@_compiled\ndef g(n):\n    return f({given})\n"
    through = (
        f"@_compiled\ndef f(x):\n    return x\n\n@_compiled\ndef g(n):\n    m, at = n, {given}\n    return f(at)\n"
    )
    assert bool(constants(kernels)) == bool(constants(through)) == refused


if __name__ == "__main__":
    decide()
    print(json.dumps(signatures()))
