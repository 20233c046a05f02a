"""Request frame -> engine call -> response frame, the same for function URLs and TCP.

dispatcher.py     parses a frame, authorizes it, calls the handler, encodes the response
handlers.py       the handler of each API
authorization.py  the rights that each API requires; access.py has those of one caller
cluster/  topics/  records/  groups/  share/  transactions/  security/     the handlers by family of APIs
"""

from odradek.protocol import kio_alone  # noqa: F401  # before kio

# isort: split
from odradek.dispatcher.arrival import Arrival
from odradek.dispatcher.context import BadFrame, RequestContext
from odradek.dispatcher.dispatcher import Dispatcher

__all__ = ["Arrival", "BadFrame", "Dispatcher", "RequestContext"]
