"""Request frame -> engine call -> response frame, the same for function URLs and TCP. See dispatcher.py."""

from odradek.dispatcher.arrival import Arrival
from odradek.dispatcher.context import BadFrame, RequestContext
from odradek.dispatcher.dispatcher import Dispatcher

__all__ = ["Arrival", "BadFrame", "Dispatcher", "RequestContext"]
