"""An execution environment: import the handler, then answer JSON lines until the input ends.

What the function prints goes to standard error (the log); answers have the standard output for themselves.
"""

import importlib
import json
import os
import sys
import time

_answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.path.remove(os.path.dirname(os.path.abspath(__file__)))


class Context:
    """The part of Lambda's context object that functions read."""

    def __init__(self, request):
        self.aws_request_id = request["request_id"]
        self.invoked_function_arn = request["arn"]
        self.function_name = os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "")
        self.memory_limit_in_mb = os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
        self._deadline = time.monotonic() + request["timeout_s"]

    def get_remaining_time_in_millis(self):
        return max(0, int((self._deadline - time.monotonic()) * 1000))


def _say(response):
    _answers.write(json.dumps(response) + "\n")
    _answers.flush()


def _failure(error):
    return {"error": {"errorType": type(error).__name__, "errorMessage": str(error)}}


def main():
    module, _, name = sys.argv[1].rpartition(".")
    try:
        handler = getattr(importlib.import_module(module.replace("/", ".")), name)
    except BaseException as error:
        _say(_failure(error))
        raise
    _say({})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            _say({"result": handler(request["event"], Context(request))})
        except Exception as error:
            _say(_failure(error))


if __name__ == "__main__":
    main()
