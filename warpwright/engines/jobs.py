"""Jobs of an engine: when they began and ended on the clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from warpwright.engines.timeline import Task, Timeline
from warpwright.errors import UNTIMED, UnsupportedError


@dataclass(eq=False, slots=True)
class EngineJob:
    """Tasks of one unit, which follow each other."""

    tasks: list[Task] = field(default_factory=list)
    timeline: Timeline | None = None
    """None if the GPU keeps no time."""

    def pass_time(self) -> None:
        """Let simulated time pass until the last task has ended."""
        if self.timeline is not None:
            self.timeline.wait(self.tasks)

    @property
    def begin_seconds(self) -> float:
        """When the first task began, on the clock ``gpu.timeline``; waits for the job.

        Raises:
            UnsupportedError: the GPU keeps no time.
        """
        return self._span()[0]

    @property
    def end_seconds(self) -> float:
        """When the last task ended; waits for the job.

        Raises:
            UnsupportedError: the GPU keeps no time.
        """
        return self._span()[1]

    @property
    def seconds(self) -> float:
        """From the beginning of the first task to the end of the last; waits for the job.

        Raises:
            UnsupportedError: the GPU keeps no time.
        """
        begin, end = self._span()
        return end - begin

    def _span(self) -> tuple[float, float]:
        if self.timeline is None:
            raise UnsupportedError(f"the job has no times: {UNTIMED}")
        self.pass_time()
        if not self.tasks:
            return 0.0, 0.0
        return self.tasks[0].begin_seconds or 0.0, self.tasks[-1].end_seconds or 0.0
