"""The CDK app of a deployment: `python -m infra.app` writes the templates, `cdk deploy` applies them.

    app.py           composition root: stage and artifacts in, cloud assembly out
    stages.py        the differences between dev and prod
    artifacts.py     the output of `make package`, or a stand-in that can be synthesized but not deployed
    permissions.py   the permissions of each function and job: one table
    stacks/          wiring only: storage, api, maintenance, pipeline
    constructs/      one capability per file

aws_cdk starts a Node process when it is imported, so Node is chosen here, before any module of this package imports it.
"""

from __future__ import annotations

from infra.node import choose_node

choose_node()
