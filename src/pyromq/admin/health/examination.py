"""What an examination finds: steps, each with what was seen and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct


class StepStatus(StrEnum):
    """How a step ended."""

    OK = "ok"
    WARNING = "warning"
    """It works, but not as well as it could."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """It could not be tried, or need not be."""


class DoctorStep(Struct, frozen=True):
    """One step."""

    name: str
    status: StepStatus
    seen: str
    """What was found."""
    advice: str = ""
    """What to do, if it is not well."""


def graded(name: str, value: float, warning: float, failed: float, seen: str, advice: str) -> DoctorStep:
    """Return a step about a value that should be low."""
    status = StepStatus.FAILED if value >= failed else StepStatus.WARNING if value >= warning else StepStatus.OK
    return DoctorStep(name, status, seen, "" if status is StepStatus.OK else advice)


class Examination(Struct, frozen=True):
    """All steps, in the order of the walk."""

    steps: tuple[DoctorStep, ...]

    @property
    def failed(self) -> list[DoctorStep]:
        """The steps that failed."""
        return [step for step in self.steps if step.status is StepStatus.FAILED]

    @property
    def warnings(self) -> list[DoctorStep]:
        """The steps that work, but not as well as they could."""
        return [step for step in self.steps if step.status is StepStatus.WARNING]

    def joined(self, more: Iterable[DoctorStep]) -> Examination:
        """Return this examination with further steps."""
        return Examination((*self.steps, *more))
