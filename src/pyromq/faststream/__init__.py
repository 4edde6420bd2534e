"""FastStream on PyroMQ: `pip install 'pyromq[faststream]'`.

>>> from faststream import FastStream
>>> from pyromq.faststream import PyroMQBroker
>>> broker = PyroMQBroker("127.0.0.1:9876")
>>> app = FastStream(broker)
>>> @broker.subscriber("orders", "billing", tags="created")
... async def bill(order: Order) -> None: ...

`broker` is the entrance, `registrator` what broker and router both have. `subscriber` runs a PushConsumer for each
handler, `publisher` sends by the broker's one Producer, with the commands of `response`. `message` turns a MessageExt
into FastStream's message and its acknowledgement into our outcome. `testing` is the broker without a network.
"""

from pyromq.faststream.broker import PyroMQBroker
from pyromq.faststream.message import PyroMQMessage
from pyromq.faststream.response import PyroMQResponse
from pyromq.faststream.router import PyroMQPublisher, PyroMQRoute, PyroMQRouter
from pyromq.faststream.testing import TestPyroMQBroker

__all__ = [
    "PyroMQBroker",
    "PyroMQMessage",
    "PyroMQPublisher",
    "PyroMQResponse",
    "PyroMQRoute",
    "PyroMQRouter",
    "TestPyroMQBroker",
]
