"""rich's console, on which text from elsewhere is shown and never obeyed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from producer_tools.terminal import for_stream


class SafeConsole(Console):
    """Without rich's markup and emoji names either: `[link=...]` in an id is text.

    Styles are segments' own; what is in their text came from somewhere.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=not stream.isatty())

    def render_str(self, text: str, **options: Any) -> Any:
        """Escaped before its width is measured."""
        return super().render_str(for_stream(text, self.file), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Whatever it was made of."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(for_stream(segment.text, self.file), segment.style)
