# SPDX-License-Identifier: Apache-2.0
"""Runs experiments: puts kernel, scheduler and script into a guest, boots it, and caches its report."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab import board, coefficients, initramfs, kernels, python, qemu, schedulers
from lab.board import Board
from lab.kernels import TOP, Kernel, digest
from lab.model import Experiment, Figure, LabError, Output
from lab.schedulers import Scheduler

__all__ = ["TOP", "Job", "Lab", "LabError", "Result", "run", "run_all"]

_PRESET = re.compile(r"\bpreset=([\w-]*)")


@dataclass(frozen=True)
class Lab:
    """Folders and options of a run.

    - `workdir`: gets the logs. `cache`: has the reports of finished guests.
    - `loads`, `recorder`: have the programs of this project that guests run.
    - `extra`: further schedulers by name.
    - `fresh`: ignore cached reports and replace them.
    - `variant`: the kernel variant that guests boot.
    - `seed`: the source of all randomness of guests on the virtual clock.
    - `modules`: files that take the place of kernel modules, by module name.
    """

    workdir: Path = TOP / "build/lab"
    cache: Path = Path(os.environ.get("EVENKEEL_CACHE") or TOP / "build/cache") / "lab"
    loads: Path = TOP / "build/loads"
    recorder: Path = TOP / "build/recorder"
    extra: Mapping[str, Scheduler] = field(default_factory=dict)
    fresh: bool = False
    variant: str = "board"
    seed: int = 1
    modules: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """One experiment on one kernel and one scheduler. `seed`, unless it is None, replaces the lab's seed."""

    experiment: Experiment
    kernel: str
    scheduler: str
    seed: int | None = None

    @property
    def name(self) -> str:
        seed = "" if self.seed is None else f"-seed{self.seed}"
        return f"{self.experiment.name}-{self.kernel}-{self.scheduler}{seed}"

    def seeded(self, lab: Lab) -> int:
        """The seed of the job's guest."""
        return lab.seed if self.seed is None else self.seed


@dataclass(frozen=True)
class Result:
    """A job's report.

    The guest ran at `measured` (UTC) and took `seconds` of host time. With `cached`
    the report comes from the cache.
    """

    job: Job
    output: Output
    seconds: float
    cached: bool
    measured: str | None = None

    def figures(self) -> list[Figure]:
        """The figures. Raises LabError when the experiment cannot read the report."""
        try:
            return self.job.experiment.figures(self.output)
        except LabError as error:
            raise LabError(f"{self.job.name}: {error}") from error
        except Exception as error:
            raise LabError(f"{self.job.name}: the guest's report cannot be read: {error!r}") from error


def _program(lab: Lab, name: str) -> str:
    if not name.startswith("ek-"):
        return name
    folder = lab.recorder if name == "ek-recorder" else lab.loads
    if not (folder / name).is_file():
        raise LabError(f"no program {name} in {folder}; 'make loads' builds it")
    return str(folder / name)


def known_presets(source: Path = TOP / "tests/flashsim/src/flashsim_presets.c") -> list[str]:
    """The names of the flash model's presets, from the module's source."""
    return re.findall(r'\.name\s*=\s*"([\w-]+)"', source.read_text())


def _check_preset(experiment: Experiment) -> None:
    device = experiment.device
    if device and device.name.startswith("flashsim") and (found := _PRESET.search(device.setup)):
        presets = known_presets()
        # without a preset, all parameters are the experiment's own, as of a fitted device
        if found.group(1) and found.group(1) not in presets:
            raise LabError(f"no flash preset {found.group(1)!r}; there are {', '.join(presets)}")


def _wanted(experiment: Experiment) -> list[str]:
    """The kernel modules that the experiment needs with any scheduler, by name."""
    return [*(experiment.device.modules if experiment.device else ()), *experiment.modules]


def _kernel(lab: Lab, job: Job, scheduler: Scheduler) -> Kernel:
    """The kernel that the job's guest boots. Raises LabError.

    If the experiment or the scheduler's controller needs a kernel variant, it is a kernel of this variant.
    """
    variant = lab.variant
    controller = scheduler.controller.variant if scheduler.controller else None
    for name, needed in ((job.experiment.name, job.experiment.variant), (scheduler.name, controller)):
        if needed is not None:
            if variant not in (Lab.variant, needed):
                raise LabError(f"{name} runs on the kernel variant {needed!r} only, not on {variant!r}")
            variant = needed
    return kernels.find(job.kernel, variant)


def _coefficients(lab: Lab, job: Job, kernel: Kernel) -> Mapping[str, int]:
    """The figures of the job's device that set up a controller (lab.coefficients). Raises LabError.

    A device is measured only once, with the default seed, because a user calibrates a device only once. All jobs on
    the device share the report. So the report may come from the cache, even if the lab is `fresh`.
    """
    e = job.experiment
    if e.device is None or e.clock != "virtual":
        raise LabError(
            f"{job.scheduler} needs a device on the virtual clock: it is set up by what the device does"
        )
    once = replace(lab, variant=kernel.variant, fresh=False, seed=Lab.seed)
    return coefficients.variables(
        run(once, Job(coefficients.experiment(e.device), job.kernel, "none")).output
    )


def _board(job: Job, kernel: Kernel) -> Board | None:
    """The board's image, if the job's guest is a board. Raises LabError."""
    e = job.experiment
    if e.device is None or not e.device.board:
        return None
    if job.scheduler != e.subject:
        raise LabError(
            f"the guest is a board, which sets its own scheduler; it cannot run with {job.scheduler}"
        )
    return board.find(kernel)


def _archive(
    lab: Lab, job: Job, kernel: Kernel, scheduler: Scheduler, image: Path, more: Mapping[str, str]
) -> None:
    """Write the guest's initramfs. MORE: files in addition to those of the experiment."""
    e = job.experiment
    _check_preset(e)
    needs = kernel.with_needs(_wanted(e))
    files = {
        "/init": (Path(__file__).parent / "guest.sh").read_text(),
        "/experiment.sh": e.script,
        **e.files,
        **more,
    }
    paths = {name: path for name, (path, _) in needs.items()}
    if scheduler.source:
        module = schedulers.build(scheduler.source, kernel)
        paths[module.stem] = module
    elif scheduler.module:
        for name, (path, requires) in kernel.with_needs([scheduler.module]).items():
            paths[name], needs[name] = path, (path, requires)
    for name, (_, requires) in needs.items():
        if requires:
            files[f"/modules/{name}.needs"] = " ".join(requires) + "\n"
    paths |= {name: path for name, path in lab.modules.items() if name in paths}
    settings = " ".join(f"{k}={v}" for k, v in scheduler.settings.items())
    files["/settings.sh"] = (
        f"SEED={job.seeded(lab)} LIMIT={e.limit:.0f} SCHEDULER={scheduler.elevator} SCHEDULER_MODULE={scheduler.module or ''}\n"
        f"SCHEDULER_SETTINGS='{settings}' DEV={e.device.name if e.device else ''}\n"
        f"device() {{\n{e.device.setup if e.device else ':'}\n"
        f'[ -z "$DEV" ] || [ -b /dev/$DEV ] || fail "no device $DEV"\n}}\n'
    )
    if scheduler.controller:
        files["/controller.sh"] = scheduler.controller.file.read_text()
        values = {**_coefficients(lab, job, kernel), **scheduler.controller.variables}
        files["/settings.sh"] += "".join(f"{k}='{v}'\n" for k, v in values.items())
    # An archive has up to 64 MB. pack() first collects its files in a temporary folder, which may be on the same disk.
    qemu.need_space(lab.workdir, job.name, 2 * 64 + qemu.OUTPUT_MB)
    programs = [_program(lab, p) for p in e.programs]
    copies = python.files(e.python) if e.python else {}
    try:
        with image.open("wb") as stream:
            initramfs.pack(stream, programs=programs, modules=paths.values(), files=files, copies=copies)
    except OSError as error:
        raise LabError(f"{job.name}: cannot write its archive to {lab.workdir}: {error.strerror}") from error


# running guests, by the cache file that their report will have
_running: dict[Path, Future[Result]] = {}
_guard = threading.Lock()


def _shared(job: Job, kept: Path, produce: Callable[[], Result]) -> Result:
    """The result of `produce`. If another thread is producing the same report, wait for its result. Raises LabError."""
    with _guard:
        other = _running.get(kept)
        own: Future[Result] = Future()
        if other is None:
            _running[kept] = own
    if other is not None:
        try:
            first = other.result()
        except LabError as error:
            raise LabError(f"{job.name}, the same guest as {error}") from error
        return replace(first, job=job, cached=True)
    try:
        result = produce()
    except BaseException as error:
        own.set_exception(error)
        raise
    else:
        own.set_result(result)
        return result
    finally:
        with _guard:
            del _running[kept]


def utc(seconds: float) -> str:
    """A time in the format of results.json."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _kept(job: Job, kept: Path) -> Result | None:
    """The cached result; None if there is none, or if its file is damaged. The next run replaces a damaged file."""
    if not kept.is_file():
        return None
    try:
        known = json.loads(kept.read_text())
        output, seconds = Output(known["results"]), float(known["seconds"])
        # older reports lack this field
        measured = str(known.get("measured") or utc(kept.stat().st_mtime))
        result = Result(job, output, seconds, True, measured)
        result.figures()
    except (LookupError, ValueError, TypeError, RecursionError, OSError, LabError):
        return None
    return result


def _keep(result: Result, kept: Path) -> None:
    report = {
        "name": result.job.name, "seconds": round(result.seconds, 1), "measured": result.measured,
        "results": dict(result.output.results),
    }  # fmt: skip
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        try:
            part.write_text(json.dumps(report))
            part.replace(kept)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise LabError(
            f"{result.job.name}: cannot write the report to {kept.parent}: {error.strerror}"
        ) from error


def run(lab: Lab, job: Job) -> Result:
    """Run one job, or take its report from the cache if all inputs of the guest are the same. Raises LabError.

    If several threads ask for the same guest at the same time, one runs it and all get its report.
    """
    try:
        return _run(lab, job)
    except LabError as error:
        if job.name in str(error):
            raise
        raise LabError(f"{job.name}: {error}") from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise LabError(f"{job.name}: {where}{error.strerror or error}") from error


def _host() -> str:
    """An identity of the host, for figures on the host's clock: its name and CPU model."""
    cpus = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else ""
    model = re.search(r"^model name\s*:\s*(.*)$", cpus, re.M)
    return f"{platform.node()} {model.group(1) if model else platform.machine()}"


def _key(machine: qemu.Machine, image: Path, append: str, disk: str = "") -> str:
    """The hash of all inputs of a guest: archive, kernel, emulator, firmware, arguments, and the DISK's digest."""
    nowhere = Path("-")
    inputs = [
        hashlib.sha256(image.read_bytes()).hexdigest(), digest(machine.kernel), qemu.version(), qemu.firmware(),
        *replace(machine, kernel=nowhere, disk=machine.disk and nowhere).command(
            nowhere, nowhere, nowhere, nowhere, append
        ),
        str(machine.drive_mb), _host() if machine.icount_shift is None else "", *([disk] if disk else []),
    ]  # fmt: skip
    return hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:32]


def _run(lab: Lab, job: Job) -> Result:
    e = job.experiment
    scheduler = schedulers.find(job.scheduler, lab.extra)
    kernel = _kernel(lab, job, scheduler)
    found = _board(job, kernel)
    lab.workdir.mkdir(parents=True, exist_ok=True)
    # An unnamed file disappears even if the lab is killed, and two labs do not share it.
    with tempfile.TemporaryFile(dir=lab.workdir) as archive:
        image = Path(f"/proc/self/fd/{archive.fileno()}")
        _archive(lab, job, kernel, scheduler, image, found.files() if found else {})
        machine = qemu.Machine(
            kernel.image, e.memory, e.cpus, e.icount_shift if e.clock == "virtual" else None, e.timeout,
            e.device.drive_mb if e.device else 0, e.device.throttle if e.device else {}, job.seeded(lab),
            found.image if found else None,
        )  # fmt: skip
        kept = lab.cache / f"{_key(machine, image, e.append, found.digest if found else '')}.json"

        def produce() -> Result:
            if not lab.fresh and (known := _kept(job, kept)):
                return known
            begin, measured = time.monotonic(), utc(time.time())
            output = qemu.run(machine, image, lab.workdir, job.name, e.append)
            result = Result(job, output, time.monotonic() - begin, False, measured)
            # an unreadable report must not get into the cache
            try:
                result.figures()
            except LabError as error:
                raise LabError(f"{error}; see {qemu.serial_log(lab.workdir, job.name)}") from error
            _keep(result, kept)
            return result

        return _shared(job, kept, produce)


def check(lab: Lab, jobs: Iterable[Job]) -> None:
    """Raises LabError if a job lacks its emulator, kernel, module, scheduler or preset; it names the first such job."""
    qemu.version()
    seen: set[tuple[Kernel, str]] = set()
    for job in jobs:
        try:
            _check_preset(job.experiment)
            scheduler = schedulers.find(job.scheduler, lab.extra)
            kernel = _kernel(lab, job, scheduler)
            _board(job, kernel)
            own = [scheduler.module] if scheduler.module and not scheduler.source else []
            for module in [*_wanted(job.experiment), *own]:
                if (kernel, module) not in seen:
                    kernel.with_needs([module])
                    seen.add((kernel, module))
            if scheduler.source and (kernel, scheduler.source.name) not in seen:
                schedulers.build(scheduler.source, kernel)
                seen.add((kernel, scheduler.source.name))
        except LabError as error:
            raise LabError(f"{job.name}: {error}") from error


def run_all(
    lab: Lab, jobs: Sequence[Job], done: Callable[[Job, Result | LabError], None], parallel: int | None = None
) -> list[Result]:
    """Run all jobs; return the results in the order of `jobs`, without those that failed.

    Jobs on the virtual clock run `parallel` at a time (default: one per CPU), the
    longest first, so that no long guest runs alone at the end. Jobs on the host's clock follow,
    one at a time. `done` is called in the caller's thread with each outcome: a result
    or an error. Raises LabError before the first guest if one of the jobs cannot run.
    """
    check(lab, jobs)
    results: dict[str, Result] = {}

    def attempt(job: Job) -> Result | LabError:
        try:
            return run(lab, job)
        except LabError as error:
            return error

    def take(job: Job, outcome: Result | LabError) -> None:
        if isinstance(outcome, Result):
            results[job.name] = outcome
        done(job, outcome)

    def timed(wanted: Iterable[Job]) -> list[Job]:
        return [j for j in wanted if j.experiment.clock == "host"]

    long_first = sorted(jobs, key=lambda job: -job.experiment.timeout)
    with ThreadPoolExecutor(parallel or len(os.sched_getaffinity(0))) as pool:
        futures = {pool.submit(attempt, j): j for j in long_first if j.experiment.clock == "virtual"}
        try:
            for future in as_completed(futures):
                take(futures[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # Kill the guests: otherwise shutdown() would wait until each of them ends by itself.
            with qemu.ending():
                pool.shutdown()
            raise
    for job in timed(jobs):
        take(job, attempt(job))
    return [results[j.name] for j in jobs if j.name in results]
