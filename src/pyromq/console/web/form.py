"""Form: the fields of a request that changes something, checked as they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from pyromq.console.web.failures import FormError, WebError

MOST_BYTES: Final = 8 * 1024 * 1024
_MOST_FIELDS: Final = 2000
_MOST_FILES: Final = 4


class Form:
    """Fields and files; what is missing or wrong raises FormError, which is shown beside the form."""

    def __init__(self, fields: Mapping[str, list[str]] | None = None, files: Mapping[str, bytes] | None = None) -> None:
        self._fields = fields or {}
        self._files = files or {}

    @classmethod
    async def read(cls, request: Request) -> Form:
        """Read the form of a request; raise WebError if it is too large."""
        await _limit(request)
        data: FormData = await request.form(max_files=_MOST_FILES, max_fields=_MOST_FIELDS, max_part_size=MOST_BYTES)
        fields: dict[str, list[str]] = {}
        files: dict[str, bytes] = {}
        for name, value in data.multi_items():
            if isinstance(value, UploadFile):
                files[name] = await value.read()
            else:
                fields.setdefault(name, []).append(value)
        await data.close()
        return cls(fields, files)

    @property
    def all(self) -> dict[str, str]:
        """All fields as text, for the audit log."""
        return {name: ", ".join(values) for name, values in self._fields.items()}

    def text(self, name: str, default: str = "") -> str:
        """Return a field without blanks around it."""
        return self.raw(name, default).strip()

    def raw(self, name: str, default: str = "") -> str:
        """Return a field as it was typed, for bodies and passwords."""
        values = self._fields.get(name)
        return values[-1] if values else default

    def required(self, name: str, label: str) -> str:
        """Return a field that must not be empty."""
        value = self.text(name)
        if not value:
            raise FormError(f"{label} is missing")
        return value

    def texts(self, name: str) -> list[str]:
        """Return all values of a field, such as those of ticked boxes."""
        return [value.strip() for value in self._fields.get(name, ()) if value.strip()]

    def flag(self, name: str) -> bool:
        """Return True if a box is ticked."""
        return self.text(name).lower() in ("1", "on", "true", "yes")

    def number(
        self, name: str, default: int | None = None, *, least: int | None = None, most: int | None = None
    ) -> int:
        """Return a whole number; without a default the field must be there."""
        text = self.text(name)
        if not text and default is not None:
            return default
        try:
            value = int(text)
        except ValueError:
            raise FormError(f"{name.replace('_', ' ')} must be a whole number, not {text!r}") from None
        if (least is not None and value < least) or (most is not None and value > most):
            bounds = f"from {least} to {most}" if least is not None and most is not None else f"at least {least}"
            raise FormError(f"{name.replace('_', ' ')} must be {bounds}, not {value}")
        return value

    def file(self, name: str) -> bytes | None:
        """Return an uploaded file; None if none was chosen."""
        return self._files.get(name) or None


async def _limit(request: Request) -> None:
    """Read the body, whatever its header says about its length, and no more of it than we take."""
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MOST_BYTES:
            raise WebError("the form is too large")
        chunks.append(chunk)
    request._body = b"".join(chunks)
