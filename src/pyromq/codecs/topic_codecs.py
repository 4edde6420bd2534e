"""TopicCodecs: which codec each topic has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pyromq.codecs.codec import Codec
from pyromq.codecs.json_codec import Json
from pyromq.errors import ClientError

CodecChoice: TypeAlias = Codec | Mapping[str, Codec] | None
"""A codec for all topics, or one for each topic by name; JSON for all others."""


class TopicCodecs:
    """The codecs of one producer or App."""

    def __init__(self, choice: CodecChoice = None) -> None:
        self.choice = choice
        by_topic = choice if isinstance(choice, Mapping) else {}
        self._default = _checked(Json() if choice is None or isinstance(choice, Mapping) else choice)
        self._by_topic = {topic: _checked(codec) for topic, codec in by_topic.items()}

    def of(self, topic: str) -> Codec:
        """Return the codec of a topic."""
        return self._by_topic.get(topic, self._default)


def _checked(codec: object) -> Codec:
    if isinstance(codec, Codec):
        return codec
    name = codec.__name__ if isinstance(codec, type) else type(codec).__name__
    is_class = isinstance(codec, type) and issubclass(codec, Codec)
    form = f"{name}()" if is_class else 'Json(), or {"orders": Avro(schema)}'
    raise ClientError(f"codec= takes a codec such as {form}, not {name}")
