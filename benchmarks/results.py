"""Results files: what one run measured, as JSON, with one file for each day.

`version` is that of the schema. It changes if a field changes its meaning or disappears; README.md describes the fields.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from benchmarks.figures import ThemeResults  # noqa: TC001 - pydantic reads the annotation

if TYPE_CHECKING:
    from collections.abc import Mapping


FOLDER = Path(__file__).with_name("results")
SCALE = FOLDER / "scale.json"
_ROOT = Path(__file__).parents[1]


class Machine(BaseModel):
    """The computer that everything ran on, clients and API server included."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    processor: str
    cores: int
    memory_gib: int
    system: str

    @classmethod
    def read(cls) -> Machine:
        """This computer."""
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return cls(
            processor=_processor(),
            cores=os.cpu_count() or 1,
            memory_gib=round(pages / 2**30),
            system=f"{platform.system()} {platform.machine()}",
        )


class ClusterSize(BaseModel):
    """One replica in a cluster of some size, as `benchmarks/scale.py` measures it.

    Seconds and milliseconds are of the processor.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    nodes: int
    gpus: int
    pods: int
    ready_cpu_s: float
    ready_mib: float
    most_mib: float
    """After explanations, charges and an audit."""
    converted_p50_ms: float
    converted_p99_ms: float
    claim_p50_ms: float
    claim_p99_ms: float
    changes_per_second: float
    """Pods with GPUs that came or went in the steady state."""
    steady_percent: float
    """The share of one core in the steady state, with 40 reviews a second."""
    explain_cpu_s: float
    audit_cpu_s: float
    """Without reading the pods."""


class ScaleResults(BaseModel):
    """The newest run of each size of a cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    date: str
    commit: str
    machine: Machine
    sizes: tuple[ClusterSize, ...]


class Results(BaseModel):
    """One run of all themes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    date: str
    commit: str
    """The first 12 digits; followed by `with changes` if files differed from it."""
    machine: Machine
    python: str
    kubernetes: str
    """The API server of the themes that need one."""
    seconds: float
    themes: tuple[ThemeResults, ...]


def newest_file() -> Path:
    """The results file with the latest date."""
    return max(FOLDER.glob("[0-9]*.json"))


def read_results(file: Path) -> Results:
    """The results in a file.

    Raises:
        pydantic.ValidationError: The file has another version of the schema.
    """
    return Results.model_validate_json(file.read_text(encoding="utf-8"))


def write_results(results: Results) -> Path:
    """Write the file of the run's date, which replaces an earlier one of that day."""
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{results.date}.json"
    file.write_text(json.dumps(results.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


def write_size(size: ClusterSize) -> None:
    """Write the results of one size in place of its earlier ones."""
    size = ClusterSize(**{name: round(value, 3) for name, value in size.model_dump().items()})
    others = read_scale().sizes if SCALE.exists() else ()
    sizes = sorted([size, *(each for each in others if each.nodes != size.nodes)], key=lambda each: each.nodes)
    written = ScaleResults(
        date=f"{datetime.now(UTC):%Y-%m-%d}", commit=commit(), machine=Machine.read(), sizes=tuple(sizes)
    )
    SCALE.write_text(json.dumps(written.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")


def read_scale() -> ScaleResults:
    """The results of all sizes."""
    return ScaleResults.model_validate_json(SCALE.read_text(encoding="utf-8"))


def commit() -> str:
    """The commit that is measured."""
    head, changes = (_git(*words) for words in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "-uno")))
    return f"{head} with changes" if changes else head


def kubernetes(environ: Mapping[str, str]) -> str:
    """The API server that the environment names, as `testbed` chooses it."""
    if environ.get("KUBECONFIG"):
        return "cluster of KUBECONFIG"
    if not (folder := environ.get("KUBEBUILDER_ASSETS")):
        return "sandbox"
    done = subprocess.run([Path(folder, "kube-apiserver"), "--version"], capture_output=True, text=True, check=True)
    return f"kube-apiserver {done.stdout.split()[-1]}"


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=_ROOT, capture_output=True, text=True, check=False)  # noqa: S607 - whichever git is there
    return done.stdout.strip() or "unknown"


def _processor() -> str:
    """The model that Linux names, else what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor())
